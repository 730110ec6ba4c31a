"""A model before a real scripted endpoint, for each style, wire and way of answering."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from toolnexus.core.messages import Message, user
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.tools import Tool
from toolnexus.models.anthropic import AnthropicModel
from toolnexus.models.hosted import HostedModel
from toolnexus.models.openai import OpenAIModel
from toolnexus.models.retry import RetryPolicy
from toolnexus.testing.endpoint import Script, ScriptedEndpoint

KEY = "sk-very-secret-0123456789"
QUICK = RetryPolicy(retries=2, base=0.001, cap=1.0)
PATIENCE = 20
"""Seconds after which a test that hangs fails."""

OPENAI = "openai"
ANTHROPIC = "anthropic"


@dataclass(frozen=True)
class Case:
    """One way to reach an endpoint."""

    style: str
    wire: str = "http"
    streamed: bool = False

    def __str__(self) -> str:
        return f"{self.style}-{self.wire}-{'stream' if self.streamed else 'whole'}"

    def model(self, url: str, name: str = "m", **options: Any) -> HostedModel:
        """A model at `url` with a key and quick retries."""
        cls: Callable[..., HostedModel] = OpenAIModel if self.style == OPENAI else AnthropicModel
        if "wire" not in options:
            options = {"base_url": url, "api_key": KEY, **options}
            if self.wire == "sdk":
                options["wire"] = "sdk"
        options.setdefault("retries", QUICK)
        return cls(name, **options)


ALL = [
    Case(style, wire, streamed)
    for style in (OPENAI, ANTHROPIC)
    for wire in ("http", "sdk")
    for streamed in (False, True)
]
STREAMS = [case for case in ALL if case.streamed]


@dataclass
class Sink:
    """Keeps what a model hands on."""

    texts: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    retries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def said(self) -> str:
        return "".join(self.texts)

    def text(self, delta: str) -> None:
        self.texts.append(delta)

    def reasoning(self, delta: str) -> None:
        self.thoughts.append(delta)

    def retrying(self, *, attempt: int, delay: float, reason: str, restarted: bool) -> None:
        self.retries.append({"attempt": attempt, "delay": delay, "reason": reason, "restarted": restarted})


@dataclass
class Bench:
    """A model and the endpoint behind it."""

    endpoint: ScriptedEndpoint
    model: HostedModel
    streamed: bool
    memo: dict[Any, Any] = field(default_factory=dict[Any, Any])
    sink: Sink = field(default_factory=Sink)

    def request(self, *messages: Message, tools: Sequence[Tool] = (), system: str = "") -> ModelRequest:
        return ModelRequest(
            messages=messages or (user("hello"),),
            tools=tools,
            system=system,
            sink=self.sink if self.streamed else None,
            memo=self.memo,
        )

    async def ask(self, *messages: Message, tools: Sequence[Tool] = (), system: str = "") -> ModelResponse:
        return await self.model.generate(self.request(*messages, tools=tools, system=system))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [seen.body for seen in self.endpoint.requests]


@asynccontextmanager
async def bench(case: Case, script: Script, **options: Any) -> AsyncGenerator[Bench]:
    """An endpoint with `script`, a model before it, and a time limit on all of it."""
    async with asyncio.timeout(PATIENCE), ScriptedEndpoint(script) as endpoint:
        model = case.model(endpoint.url, **options)
        try:
            yield Bench(endpoint, model, case.streamed)
        finally:
            await model.aclose()


async def _execute(arguments: dict[str, Any], ctx: Any) -> str:
    return json.dumps(arguments)


def a_tool(name: str = "look", **properties: Mapping[str, Any]) -> Tool:
    return Tool(name, f"The tool {name}.", {"type": "object", "properties": properties}, _execute)
