"""Bodies are what the official SDKs accept, for conversations that crossed styles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from tests.models.support import ANTHROPIC, OPENAI, Bench, Case, a_tool, bench
from toolnexus.core.messages import MediaPart, Message, TextPart, ToolCallPart, ToolResultPart, user
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

PIXEL = MediaPart("image/png", data="iVBORw0KGgo=")
TOOLS = (a_tool("look", q={"type": "string"}), a_tool("now"))
TURNS = {
    OPENAI: Turn(
        text="let me see",
        reasoning="hm",
        extra={"reasoning_details": [{"index": 0}]},
        calls=[
            {"id": "call_0", "name": "look", "args": {"q": "ä"}, "extra": {"extra_content": {"a": 1}}},
            {"id": "call_1", "name": "look", "args": '{"q": '},
        ],
    ),
    ANTHROPIC: Turn(
        thinking=("hm", "sig+/="),
        redacted="x",
        text="let me see",
        calls=[
            {"id": "toolu_1", "name": "look", "args": {"q": "ä"}},
            {"id": "toolu_2", "name": "now", "args": {}},
        ],
    ),
}


@cache
def official(style: str, streamed: bool) -> TypeAdapter[Any]:
    """The type of the bodies. Only the process that asks for it loads the SDK, which takes seconds."""
    if style == OPENAI:
        from openai.types.chat import completion_create_params as openai

        plain, stream = openai.CompletionCreateParamsNonStreaming, openai.CompletionCreateParamsStreaming
    else:
        from anthropic.types import message_create_params as anthropic

        plain, stream = anthropic.MessageCreateParamsNonStreaming, anthropic.MessageCreateParamsStreaming
    return TypeAdapter(stream if streamed else plain)


def look_at_all(value: Any) -> None:
    """pydantic checks the members of an iterable when it is read."""
    if isinstance(value, dict):
        for member in cast(dict[str, Any], value).values():
            look_at_all(member)
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for member in cast(Iterable[Any], value):
            look_at_all(member)


def accepted(style: str, streamed: bool, body: dict[str, Any]) -> None:
    look_at_all(official(style, streamed).validate_python(body))


async def conversation(style: str) -> list[Message]:
    """A conversation with an endpoint of `style`: media, parallel and malformed calls, errors."""
    async with bench(Case(style), [TURNS[style], Turn(text="done")]) as b:
        history = [user("hi"), user([TextPart("see"), PIXEL, MediaPart("audio/wav", data="AAAA")])]
        message = (await b.ask(*history, tools=TOOLS)).message
        first, second = message.tool_calls
        results = (
            ToolResultPart(first.id, "found", media=(PIXEL, MediaPart("application/pdf", data="JVBE"))),
            ToolResultPart(second.id, "", is_error=True),
        )
        history += [message, Message("tool", results)]
        return [*history, (await b.ask(*history, tools=TOOLS)).message]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("target", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("source", [OPENAI, ANTHROPIC])
async def test_a_conversation_goes_on_at_an_endpoint_of_either_style(
    source: str, target: str, streamed: bool
) -> None:
    """[WIRE-17] Whatever style a conversation began with, each style's bodies are of the official types."""
    history = [*await conversation(source), user("and now?")]
    odd = ToolCallPart("call_0~2", "look", '{"q": "again"}')
    history += [Message("assistant", (odd,), f"{source}:x"), Message("tool", (ToolResultPart(odd.id, "r"),))]
    async with ScriptedEndpoint([TURNS[target], Turn(text="ok")]) as endpoint:
        model = Case(target).model(endpoint.url)
        b = Bench(endpoint, model, streamed)
        message = (await b.ask(*history, tools=TOOLS, system="Be brief.")).message
        results = Message("tool", tuple([ToolResultPart(c.id, "r") for c in message.tool_calls]))
        await b.ask(*history, message, results, tools=TOOLS, system="Be brief.")
        await model.aclose()
        for body in b.bodies:
            accepted(target, streamed, body)


def test_the_check_itself_refuses_a_wrong_body() -> None:
    """[WIRE-17] The official types do refuse a tool message without its id, and an input that is text."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        (OPENAI, {"model": "m", "messages": [{"role": "tool", "content": "x"}]}),
        (
            ANTHROPIC,
            {
                "model": "m",
                "max_tokens": 1,
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "a", "name": "b", "input": "c"}],
                    }
                ],
            },
        ),
    ]
    for style, body in wrong:
        with pytest.raises(ValueError):
            accepted(style, False, body)
