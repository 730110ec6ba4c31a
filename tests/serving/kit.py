"""A client worth serving, and what its tools saw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolnexus import (
    Agent,
    Client,
    MediaPart,
    ModelError,
    Tool,
    ToolContext,
    ToolResult,
    pending,
    relay_tool,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="


class Kit:
    """Tools, and what became of them."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()
        self.paid: list[str] = []
        self.source = Changing()
        self.tools: list[Any] = [*self._plain(), *self._asking()]

    def _plain(self) -> list[Any]:
        @tool
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @tool
        async def hang() -> str:
            """Wait for nothing."""
            self.started.set()
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "released"

        @tool
        async def steps(ctx: ToolContext) -> str:
            """Work, step by step."""
            for i in (1, 2):
                ctx.emit(f"step {i}", progress=i, total=2)
            return "worked"

        @tool
        async def picture() -> list[str | MediaPart]:
            """Draw."""
            return ["a dot", MediaPart("image/png", data=PNG), MediaPart(url="https://example.com/a.pdf")]

        @tool
        async def fail() -> str:
            """Fail."""
            raise ValueError("no luck")

        @tool
        async def long() -> str:
            """Say much."""
            return "much " * 20_000

        @tool
        async def secret() -> str:
            """Never to be called."""
            return "top secret"

        return [add, hang, steps, picture, fail, long, secret]

    def _asking(self) -> list[Any]:
        @tool
        async def pay(to: str, ctx: ToolContext) -> str | ToolResult:
            """Pay somebody."""
            if ctx.answer is None:
                return pending(kind="approval", prompt=f"pay {to}?", data={"to": to})
            self.paid.append(to)
            if to == "slow":
                self.started.set()
                await self.release.wait()
            return f"paid {to}"

        @tool
        async def city(ctx: ToolContext) -> str | ToolResult:
            """Ask for a city."""
            if ctx.answer is None:
                schema = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
                return pending(kind="input", prompt="which city?", data={"schema": schema})
            return f"off to {ctx.answer.data['city']}"

        return [pay, city, relay_tool("browse", "Look at a page of the caller's.")]

    def again(self) -> None:
        """Forget what was seen."""
        for event in (self.started, self.cancelled, self.release):
            event.clear()
        self.paid.clear()


class Changing:
    """A source whose tools come and go."""

    name = "changing"

    def __init__(self) -> None:
        self.tools: Sequence[Tool] = ()
        self._on_change: Callable[[], None] = lambda: None

    async def open(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    async def aclose(self) -> None:
        return None

    def offer(self, *names: str) -> None:
        async def execute(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
            return "there"

        self.tools = [Tool(name, "Comes and goes.", {"type": "object"}, execute) for name in names]
        self._on_change()


def agents() -> list[Agent]:
    return [
        Agent(name="helper", description="Helps with anything.", system_prompt="Help.", agents=[]),
        Agent(name="hidden", description="Nobody's business.", agents=[]),
    ]


def _helper(request: Any) -> Any:
    """What the helper does: what it was asked to."""
    last = request.messages[-1]
    if last.role == "tool":
        return "; ".join(r.output for r in last.tool_results)
    word, _, rest = last.text.partition(" ")
    match word:
        case "call":
            return reply(call(rest))
        case "pay":
            return reply(*[call("pay", to=name) for name in rest.split()])
        case "say":
            return reply(f"first {rest}, then a call", call("add", a=1, b=1))
        case "delegate":
            return reply(call("task", agent="helper", prompt=rest))
        case "recall":
            return " / ".join(m.text for m in request.messages if m.role == "user")
        case "break":
            raise ModelError(f"the endpoint at {rest} is broken")
        case _:
            return f"helped with {last.text!r}"


def client(kit: Kit, **options: Any) -> Client:
    """A client whose agents answer as `_helper` does, in up to four turns."""
    given: dict[str, Any] = {
        "model": ScriptedModel(by_path={"*": [_helper] * 4}),
        "builtins": ["question"],
        "tools": [*kit.tools, kit.source],
        "agents": agents(),
        "permissions": {"secret": "deny", "pay(mallory)": "deny"},
    }
    return Client(**{**given, **options})
