"""A cancel after each number of event-loop steps, over a tree of children, tools and questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.loop.support import everything, paired
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    MemoryStore,
    Message,
    ModelRequest,
    Request,
    RunContext,
    RunResult,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.runtime.deadline import Deadline
from toolnexus.runtime.run import Run
from toolnexus.testing import call

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]


@dataclass
class World:
    """One client over one store, and what its tools did."""

    store: MemoryStore = field(default_factory=MemoryStore)
    begun: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    ended: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])
    limited: str = ""
    run: Run | None = None
    requests: int = 0
    deadline: Deadline | None = None

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        @tool
        async def work(ctx: ToolContext, steps: int = 2) -> str:
            """Work."""
            self.run = ctx.context.run
            self.begun.append(ctx.path)
            for _ in range(steps):
                await asyncio.sleep(0)
            self.ended.append((ctx.path, ctx.call_id))
            return "worked"

        @tool
        async def confirm(ctx: ToolContext) -> ToolResult:
            """Confirm."""
            if ctx.answer is None:
                return pending(kind="approval", prompt="sure?")
            return ToolResult(output="confirmed")

        hour = Budget(seconds=3600) if self.limited == "mid" else None
        agents = [Agent(name="mid", budget=hour), Agent(name="leaf", agents=[])]
        async with Client(
            model=FunctionModel(self.model),
            builtins=False,
            tools=[work, confirm],
            agents=agents,
            store=self.store,
            on_request=self.answer,
            hooks=[self],
            budget=Budget(concurrency=1, seconds=3600 if self.limited == "main" else None),
        ) as client:
            yield client

    def before_model(self, ctx: RunContext, request: ModelRequest) -> None:
        if ctx.agent == self.limited:
            self.deadline = ctx.frame.deadline

    def expire(self) -> None:
        """The time of the limited run is up now, if it runs."""
        timeout = self.deadline._timeout if self.deadline is not None else None
        if timeout is not None and not timeout.expired():
            timeout.reschedule(0)

    async def model(self, request: ModelRequest) -> Message | str:
        self.requests += 1
        for _ in range(3):
            await asyncio.sleep(0)
        if request.turn > 1 or request.messages[-1].text == "go on":
            return "went on" if request.messages[-1].text == "go on" else f"end of {request.agent}"
        match request.agent:
            case "main":
                tasks = [call("task", agent=name, prompt="p") for name in ("mid", "leaf")]
                return assistant("planning", call("work"), *tasks, call("work", steps=9))
            case "mid":
                return assistant("mid", call("confirm"), call("task", agent="leaf", prompt="p"))
            case _:
                return assistant("leaf", call("work"), call("nothing"))

    async def answer(self, request: Request) -> Answer:
        await asyncio.sleep(0)
        return Answer(id=request.id)


async def one(world: World, after: int, times: int) -> bool:
    """Cancel an ask after so many steps and look at everything. Whether it had ended before."""
    before = asyncio.all_tasks()
    async with world.client() as client:
        asking = asyncio.create_task(client.ask("go", conversation="t"))
        for _ in range(after):
            await asyncio.sleep(0)
        ended = asking.done()
        for _ in range(times):
            asking.cancel()
            await asyncio.sleep(0)
        result: RunResult | None = None
        try:
            async with asyncio.timeout(5):
                result = await asking
        except asyncio.CancelledError as cancel:
            result = getattr(cancel, "result", None)
        requests = world.requests
        check(world, result)
        if times == 1:
            assert asyncio.all_tasks() == before
        assert (await client.ask("go on", conversation="t")).text == "went on"
        assert world.requests == requests + 1
    assert asyncio.all_tasks() == before
    messages, _ = await world.store.load("t")
    assert paired(messages)
    assert messages[-1].text == "went on" and messages[-2].text == "go on"
    if result is not None:
        assert messages[:-2] == result.messages
    return ended


def check(world: World, result: RunResult | None) -> None:
    """No slot is held, and each result that a tool had given is in the transcript of its run."""
    if world.run is not None:
        assert world.run.slots.free == world.run.slots.width
    runs = {run.path: run for run in everything(result)} if result is not None else {}
    for run in runs.values():
        assert paired(run.messages)
    for path, id in world.ended:
        kept = [r.output for m in runs[path].messages for r in m.tool_results if r.call_id == id]
        assert kept == ["worked"]
    for path in world.begun:
        assert path in runs
    if result is not None:
        assert result.usage.requests == world.requests
        assert result.status in ("done", "incomplete")


@pytest.mark.parametrize("times", [1, 2, 10], ids=["once", "twice", "again and again"])
async def test_a_cancel_at_any_step_leaves_everything_whole(times: int) -> None:
    """[RUN-66] Step by step until the run ends before the cancel: every transcript is complete, no finished
    result is lost, all slots are free, no task is left, usage counts every request, and the conversation goes
    on."""
    after = 0
    async with asyncio.timeout(60):
        while not await one(World(), after, times):
            after += 1
    assert after > 30


async def test_leaving_a_stream_at_any_event_leaves_everything_whole() -> None:
    """[RUN-67] The same for a reader who goes: nothing is raised, and the result says what was done."""
    async with asyncio.timeout(30):
        total = 1
        left = 0
        while left < total:
            world = World()
            before = asyncio.all_tasks()
            async with world.client() as client:
                seen = 0
                async with client.stream("go", conversation="t") as stream:
                    async for _ in stream:
                        seen += 1
                        if seen > left:
                            break
                check(world, stream.result)
                total = max(total, seen + 1) if seen > left else seen
                assert (await client.ask("go on", conversation="t")).text == "went on"
            assert asyncio.all_tasks() == before
            left += 1
    assert total > 30


@pytest.mark.parametrize("whose", ["main", "mid"])
async def test_a_time_limit_at_any_step_leaves_everything_whole(whose: str) -> None:
    """[RUN-68] The same when the time of the client, or of one agent, is up: the run is `incomplete` with
    limit `seconds`; the agent is an error result for its caller, who goes on; nothing is raised."""
    expired, after, ended = 0, 0, False
    async with asyncio.timeout(60):
        while not ended:
            world = World(limited=whose)
            before = asyncio.all_tasks()
            async with world.client() as client:
                asking = asyncio.create_task(client.ask("go", conversation="t"))
                for _ in range(after):
                    await asyncio.sleep(0)
                ended = asking.done()
                world.expire()
                result = await asking
                check(world, result)
                assert asyncio.all_tasks() == before
                assert (await client.ask("go on", conversation="t")).text == "went on"
            if any(hit.limit == "seconds" for hit in result.limits_hit):
                expired += 1
                check_expired(whose, result)
            after += 1
    assert expired > 15


def check_expired(whose: str, result: RunResult) -> None:
    (hit,) = [hit for hit in result.limits_hit if hit.limit == "seconds"]
    assert hit.scope[-1].split(".")[0] == whose
    if whose == "main":
        assert (result.status, result.limit) == ("incomplete", "seconds")
        return
    assert (result.status, result.text) == ("done", "end of main")
    answer = result.messages[2].tool_results[1]
    assert answer.is_error and "agent 'mid' passed its deadline (seconds 3600)" in answer.output
    assert result.messages[2].tool_results[2].output == "end of leaf"
