"""What a case declares, come to life: scripted models, tools, gates; and what they saw."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from conformance import describe
from conformance.compare import fits
from conformance.fixture import Data
from toolnexus import (
    Answer,
    FunctionModel,
    Hooks,
    Message,
    ModelConnectionError,
    ModelHTTPError,
    ModelRequest,
    ModelResponse,
    Request,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    Usage,
    assistant,
    pending,
)
from toolnexus.testing import call

SETTLING = 50
"""Turns of the event loop after which everything that can go on has gone on."""


@dataclass(slots=True)
class Span:
    """A request or a call: what it was, its start and its end on a clock that counts both."""

    data: Data
    start: int
    end: float = float("inf")


def summary(spans: list[Span]) -> Data:
    """How many, of which runs in order of their start, how many at once at most."""
    at_once = [sum(other.start <= span.start < other.end for other in spans) for span in spans]
    paths = [span.data["path"] for span in spans]
    return {"count": len(spans), "paths": paths, "mostAtOnce": max(at_once, default=0)}


@dataclass(slots=True)
class Gate:
    """Holds back whoever comes until all parties have come."""

    parties: int | None
    came: int = 0
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    async def passed(self) -> None:
        self.came += 1
        if self.came == self.parties:
            for _ in range(SETTLING):  # one too many is seen before the others leave
                await asyncio.sleep(0)
            self._open.set()
        await self._open.wait()


class World(Hooks):
    """The outside of one case. Records every request and every call of a declared tool."""

    def __init__(self, case: Data) -> None:
        self._replies: list[Data] = case.get("replies", [])
        self._answers = iter(case.get("client", {}).get("answers", ()))
        self._clock = itertools.count()
        self._models: dict[str, FunctionModel] = {}
        self.gates = {name: Gate(parties) for name, parties in case.get("gates", {}).items()}
        self.tools = [self._tool(spec) for spec in case.get("tools", ())]
        self.requests: list[Span] = []
        self.calls: dict[str, list[Span]] = {tool.name: [] for tool in self.tools}
        self.metadata: dict[tuple[tuple[str, ...], str], Data] = {}
        self.unanswered: list[str] = []
        """Requests that no reply fits."""
        self.results: list[Data] = []
        """What the asks gave."""
        self.files: dict[str, str] = {}
        """What is in the working folder at the end."""
        self.build_error: str | None = None
        self.broken: str | None = None
        """Why it came to no end that a host may see."""

    def model(self, name: str) -> FunctionModel:
        """The scripted model of that name."""

        async def generate(asked: ModelRequest) -> ModelResponse:
            data = describe.request(asked, name)
            with self._span(self.requests, data):
                return await self._reply(data)

        return self._models.setdefault(name, FunctionModel(generate, name=name))

    async def answer(self, question: Request) -> Answer:
        """The host's next answer; without one left it declines."""
        given: Data = next(self._answers, {"ok": False})
        return Answer(id=question.id, **given)

    def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
        self.metadata[ctx.path, ctx.call_id] = dict(result.metadata)

    async def _reply(self, asked: Data) -> ModelResponse:
        reply = next((r for r in self._replies if fits(r.get("when", {}), asked)), None)
        if reply is None:
            self.unanswered.append(f"{asked['path']}, turn {asked['turn']}")
            raise ModelConnectionError("the fixture has no reply for this request")
        if "gate" in reply:
            await self.gates[reply["gate"]].passed()
        if "fails" in reply:
            message, status = reply["fails"]["message"], reply["fails"].get("status")
            raise ModelHTTPError(message, status=status) if status else ModelConnectionError(message)
        message = _replied(reply, asked["last"])
        counted = reply.get("usage", {"promptTokens": 10, "completionTokens": 5})
        return ModelResponse(
            message=message,
            usage=None if counted is None else Usage(**in_python(counted)),
            stop=reply.get("stop") or ("tool_calls" if message.tool_calls else "stop"),
        )

    def _tool(self, spec: Data) -> Tool:
        name, does = spec["name"], spec.get("does", {})

        async def execute(arguments: Data, ctx: ToolContext) -> ToolResult | str:
            with self._span(self.calls[name], {"path": "/".join(ctx.path)}):
                if "gate" in does:
                    await self.gates[does["gate"]].passed()
                if "raise" in does:
                    raise ToolError(does["raise"])
                if "ask" in does and ctx.answer is None:
                    return pending(**does["ask"])
                value = arguments.get(does["echo"]) if "echo" in does else does.get("return", "ok")
                value = value if ctx.answer is None else ctx.answer.data
                return value if isinstance(value, str) else json.dumps(value)

        schema = spec.get("inputSchema", {"type": "object"})
        return Tool(name, spec.get("description", f"The tool {name}."), schema, execute)

    @contextmanager
    def _span(self, spans: list[Span], data: Data) -> Generator[None]:
        span = Span(data, next(self._clock))
        spans.append(span)
        try:
            yield
        finally:
            span.end = next(self._clock)


def in_python(options: Data) -> Data:
    """The same options under their Python names: `maxTurns` is `max_turns`."""
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in k): v for k, v in options.items()}


def _replied(reply: Data, last: str) -> Message:
    specs = [spec for spec in reply.get("calls", ()) for _ in range(spec.get("repeat", 1))]
    calls = [
        replace(call(spec["name"], id=spec.get("id", f"call_{place}")), arguments=_written(spec))
        for place, spec in enumerate(specs, 1)
    ]
    return assistant(reply.get("text", "").replace("{last}", last), *calls)


def _written(spec: Data) -> str:
    """Arguments as a model writes them: a text stays as it is, well-formed or not."""
    arguments = spec.get("arguments", {})
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
