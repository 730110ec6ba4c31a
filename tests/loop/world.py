"""A client before an endpoint that knows what to say, and what a cancelled run of it must leave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.loop.bodies import Sent
from tests.loop.points import Points
from tests.loop.support import ANTHROPIC, Way, everything, paired
from tests.models.test_types import accepted
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    ModelRequest,
    Request,
    RunContext,
    RunError,
    RunResult,
    ToolContext,
    ToolResult,
    pending,
    tool,
)
from toolnexus.core.events import (
    Event,
    RunFinished,
    RunStarted,
    SubAgentFinished,
    SubAgentStarted,
    ToolFinished,
    ToolStarted,
)
from toolnexus.engine.stream import Stream
from toolnexus.testing.endpoint import ScriptedEndpoint
from toolnexus.testing.turns import Turn

LONG = "a long result " * 120
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ENDS = {ToolStarted: ToolFinished, SubAgentStarted: SubAgentFinished, RunStarted: RunFinished}


@dataclass
class Told:
    """What is known of one run from outside."""

    top: RunContext | None = None
    turns: Counter[str] = field(default_factory=Counter[str])
    ended: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])
    """Whose calls of `work` gave their result, and the calls."""
    events: list[Event] = field(default_factory=list[Event])
    stream: Stream | None = None
    result: RunResult | None = None

    async def read_to_the_end(self) -> None:
        """Read what nobody has read yet. The run is over, so that there is an end."""
        if self.stream is not None:
            with suppress(RunError):  # it never began
                self.result = self.stream.result
            self.events += [event async for event in self.stream]


class World:
    """Runs of `main`, which delegates to `mid` and that to `leaf`; `script` is what each model says."""

    def __init__(self, way: Way, script: Mapping[str, Sequence[Turn]]) -> None:
        self.way = way
        self.told = Told()
        self.endpoint = ScriptedEndpoint(self._reply)
        self.client: Client
        self._script = script

    @asynccontextmanager
    async def opened(self, points: Points, **options: Any) -> AsyncGenerator[Client]:
        """The client is open inside; `points` looks at all that runs for it."""
        async with self.endpoint:
            models = {name: self.way.model(self.endpoint, name) for name in ("main", "mid", "leaf")}
            given: dict[str, Any] = {
                "model": models["main"],
                "builtins": False,
                "agents": [
                    Agent(name="mid", model=models["mid"], agents=["leaf"]),
                    Agent(name="leaf", model=models["leaf"], agents=[]),
                ],
                "on_request": self.answer,
                "budget": Budget(concurrency=1, requests=100, tool_calls=100),
                **options,
            }
            given["tools"] = [*self._tools(), *options.get("tools", ())]
            given["hooks"] = [*options.get("hooks", ()), self]
            with points.counting():
                async with Client(**given) as self.client:
                    yield self.client

    async def ask(self, conversation: str) -> None:
        """One run; what it gave and told is in `told`, also when it is cancelled."""
        options: dict[str, Any] = {"conversation": conversation, "output_type": FORM}
        if not self.way.streamed:
            await self.giving(self.client.ask("go", **options))
            return
        async with self.client.stream("go", **options) as self.told.stream:
            async for event in self.told.stream:
                self.told.events.append(event)

    async def giving(self, run: Any) -> None:
        try:
            self.told.result = await run
        except asyncio.CancelledError as cancel:
            self.told.result = getattr(cancel, "result", None)
            raise

    def before_model(self, ctx: RunContext, request: ModelRequest) -> None:
        self.told.top = self.told.top or ctx

    async def answer(self, request: Request) -> Answer:
        await asyncio.sleep(0)
        return Answer(id=request.id)

    def _reply(self, body: dict[str, Any]) -> Turn:
        seen = Sent(body, anthropic=self.way.style == ANTHROPIC)
        if seen.system.startswith("You keep the notes"):
            return Turn(text="notes")
        if seen.users[-1].endswith("go on"):
            return Turn(text="went on")
        self.told.turns[seen.model] += 1
        return self._script[seen.model][self.told.turns[seen.model] - 1]

    def _tools(self) -> list[Any]:
        @tool
        async def work(ctx: ToolContext, n: int = 0) -> str:
            """Work."""
            await asyncio.sleep(0)
            self.told.ended.append((ctx.path, ctx.call_id))
            return LONG

        @tool
        def plain() -> str:
            """Work in a thread."""
            return "plain"

        @tool
        async def confirm(ctx: ToolContext) -> ToolResult:
            """Confirm."""
            if ctx.answer is None:
                return pending(kind="approval", prompt="sure?")
            return ToolResult(output="confirmed")

        return [work, plain, confirm]


async def whole(world: World, conversation: str) -> None:
    """What a run leaves that was cancelled somewhere."""
    told, client, endpoint = world.told, world.client, world.endpoint
    await told.read_to_the_end()
    stored = await client.conversation(conversation).messages()
    await endpoint.until(lambda: endpoint._in_flight == 0)
    if told.top is not None:
        nothing_is_held(told.top)
    runs = {run.path: run for run in everything(told.result)} if told.result is not None else {}
    for run in runs.values():
        assert paired(run.messages)
        assert run.status in ("done", "incomplete")
    for path, id in told.ended:
        kept = [r.output for m in runs[path].messages for r in m.tool_results if r.call_id == id]
        assert kept == [LONG], "a result that was there is lost"
    if told.result is not None:
        assert stored == told.result.messages
    assert paired(stored)
    ended_once(told.events)
    assert (await client.ask("go on", conversation=conversation)).text == "went on"
    seen = endpoint.requests[-1]
    accepted(world.way.style, False, seen.body)
    Sent(seen.body, anthropic=world.way.style == ANTHROPIC).check()


def nothing_is_held(top: RunContext) -> None:
    """All that was claimed of the budget was used, and every slot is free."""
    slots, ledger = top.run.slots, top.frame.ledger
    (meter,) = ledger.meters
    assert slots.free == slots.width
    assert meter.requests == ledger.usage.requests
    assert meter.tokens == ledger.usage.total_tokens
    assert meter.tool_calls == ledger.tool_calls + ledger.tool_calls_below


def ended_once(events: Sequence[Event]) -> None:
    """What began has one end, and the end of the run is the last word."""
    for begin, end in ENDS.items():
        begun = [_whose(event) for event in events if isinstance(event, begin)]
        assert sorted(begun) == sorted([_whose(event) for event in events if isinstance(event, end)])
    if events:
        assert isinstance(events[-1], RunFinished) and len(events[-1].path) == 1


def _whose(event: Any) -> tuple[str, ...]:
    return getattr(event, "child", None) or (*event.path, getattr(event, "call_id", ""))
