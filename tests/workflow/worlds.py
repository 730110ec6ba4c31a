"""Clients whose models say what a function says: in process, and over real HTTP in either style."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from toolnexus import Client, FunctionModel, ModelRequest, ModelResponse, ToolCallPart, assistant
from toolnexus.testing import ScriptedEndpoint, Turn, call

STYLES = ["function", "openai", "anthropic"]
EVERY_STYLE = pytest.mark.parametrize("style", STYLES)


@dataclass(frozen=True)
class Asked:
    """One model request, whatever way it came."""

    system: str
    last: str
    """The text of the last message, results of tools joined by a line end."""
    tools: Sequence[str]
    model: str
    turn: int
    """From 1: one more than the assistant's messages so far."""


Said = str | ToolCallPart | Sequence[ToolCallPart]
Brain = Callable[[Asked], Said | Awaitable[Said]]


@asynccontextmanager
async def client(style: str, brain: Brain, **options: Any) -> AsyncGenerator[tuple[Client, list[Asked]]]:
    """A client whose model `main` answers as `brain` says, and all that it was asked."""
    seen: list[Asked] = []
    options = {"builtins": False, **options}

    async def said(asked: Asked) -> tuple[str, list[ToolCallPart]]:
        seen.append(asked)
        answer = brain(asked)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, str):
            return answer, []
        return "", [answer] if isinstance(answer, ToolCallPart) else list(answer)

    if style == "function":
        async with Client(model=function_model(said), **options) as one:
            yield one, seen
        return

    async def turn(body: dict[str, Any]) -> Turn:
        text, calls = await said(_asked(body))
        return Turn(text=text or None, calls=calls)

    async with (
        ScriptedEndpoint(turn) as endpoint,
        Client(model=f"{style}:main", base_url=endpoint.url, api_key="k", **options) as one,
    ):
        yield one, seen


def function_model(
    said: Callable[[Asked], Awaitable[tuple[str, list[ToolCallPart]]]], name: str = "main"
) -> FunctionModel:
    async def generate(request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        text = last.text or "\n".join([result.output for result in last.tool_results])
        turn = 1 + sum(message.role == "assistant" for message in request.messages)
        asked = Asked(request.system, text, [tool.name for tool in request.tools], name, turn)
        text, calls = await said(asked)
        return ModelResponse(message=assistant(text, *calls), stop="tool_calls" if calls else "stop")

    return FunctionModel(generate, name=name)


def _asked(body: dict[str, Any]) -> Asked:
    messages = body["messages"]
    system = body.get("system", "")
    if not isinstance(system, str):
        system = _text(system)
    if messages[0]["role"] == "system":
        system = messages[0]["content"]
    last: list[str] = []
    for message in reversed(messages):
        if message["role"] not in ("user", "tool"):
            break
        last.append(_text(message["content"]))
        if message["role"] == "user":
            break
    tools = [tool.get("name") or tool["function"]["name"] for tool in body.get("tools", ())]
    turn = 1 + sum(message["role"] == "assistant" for message in messages)
    return Asked(system, "\n".join(reversed(last)), tools, body["model"], turn)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join([block.get("text") or _text(block.get("content") or "") for block in content])


def task(name: str, prompt: str = "go") -> ToolCallPart:
    """A call of a team's member."""
    return call(name, prompt=prompt)


def as_json(value: Any) -> Any:
    """What comes through JSON."""
    return json.loads(json.dumps(value))
