"""Runs in the background, at random: whatever models do, nothing is lost and nothing is left."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    MemoryStore,
    Message,
    ModelRequest,
    RunContext,
    RunResult,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import call

pytestmark = pytest.mark.anyio

STARTED = "started in the background [task_id: "
OPEN = ("still running", "waits for an answer", "its result was given before")


@tool
async def ask(what: str, ctx: ToolContext) -> str | ToolResult:
    """Ask somebody."""
    return "answered" if ctx.answer is not None else pending(kind="question", prompt=what)


@tool
async def work(steps: int) -> str:
    """Work for some steps of the loop."""
    for _ in range(steps):
        await asyncio.sleep(0)
    return "worked"


def started(messages: Any) -> list[str]:
    outputs = [part.output for message in messages for part in message.tool_results]
    return [o.removeprefix(STARTED).partition("]")[0] for o in outputs if o.startswith(STARTED)]


class Anything:
    """The same run does the same for one seed, whatever happens beside it."""

    def __init__(self, seed: int) -> None:
        self.seed, self.requests, self.runs = seed, 0, set[Any]()

    def __call__(self, request: ModelRequest) -> Message | str:
        self.requests += 1
        chance = random.Random(f"{self.seed} {request.path} {request.turn}")
        known, nested = started(request.messages), len(request.path) < 4
        calls: list[Any] = []
        for place in range(0 if request.turn > 4 or chance.random() < 0.3 else chance.randint(1, 3)):
            id, lot = f"{request.turn}_{place}", chance.random()
            if lot < 0.4 and nested:
                calls.append(call("task", id, agent="a", prompt="x", background=True))
            elif lot < 0.5 and nested:
                calls.append(call("task", id, agent="a", prompt="x"))
            elif lot < 0.6:
                calls.append(call("work", id, steps=chance.randint(0, 6)))
            elif lot < 0.75:
                calls.append(call("ask", id, what=f"{request.path}{id}"))
            elif known and lot < 0.85:
                calls.append(call("task_stop", id, task_id=chance.choice(known)))
            else:
                calls.append(call("task_wait", id, **({"timeout": 0} if lot < 0.92 else {})))
        text = f"{'/'.join(request.path)} in turn {request.turn}"
        return assistant("", *calls) if calls else text

    def before_model(self, ctx: RunContext, request: ModelRequest) -> None:
        self.runs.add(ctx.run)


def tree(run: RunResult) -> Iterator[RunResult]:
    yield run
    for child in run.sub_agents:
        yield from tree(child)


def whole(run: RunResult) -> None:
    """Every call has its result, and the end of each run in the background was told once."""
    open: list[str] = []
    for message in run.messages:
        assert [part.call_id for part in message.tool_results] == open
        open = [part.id for part in message.tool_calls]
    assert not open and run.status != "pending"
    outputs = [part.output for message in run.messages for part in message.tool_results]
    told = "\n".join([*outputs, *(m.text for m in run.messages if m.role == "user")])
    for id in started(run.messages):
        ends = [said for said in told.split(f"[task_id: {id}]\n")[1:] if not said.startswith(OPEN)]
        assert len(ends) == 1, (run.path, id, ends)


async def _result(asking: asyncio.Task[RunResult], steps: int | None) -> RunResult | None:
    """What `asking` gave; cancelled after some steps of the loop."""
    for _ in range(steps or 0):
        await asyncio.sleep(0)
    if steps is not None:
        asking.cancel()
    try:
        return await asking
    except asyncio.CancelledError as cancel:
        return getattr(cancel, "result", None)


@pytest.mark.parametrize("seed", range(16))
async def test_nothing_is_lost_and_nothing_is_left(seed: int) -> None:
    """[SUB-33] Cancelled or not, over any number of questions and processes, in any number of slots."""
    chance, anything, before = random.Random(seed), Anything(seed), asyncio.all_tasks()
    store = MemoryStore() if seed % 2 else None

    def client() -> Client:
        return Client(
            model=FunctionModel(anything),
            builtins={"tools": ["task"], "task_background": True},
            tools=[ask, work],
            agents=[Agent(name="a")],
            hooks=[anything],
            budget=Budget(concurrency=1 + seed % 3),
            store=store,
        )

    waiting: RunResult | None = None
    async with asyncio.timeout(20):
        while True:
            async with client() as one:
                if waiting is None:
                    asking = one.ask("go", conversation="c" if store else None)
                else:
                    answers = [Answer(id=request.id) for request in waiting.pending]
                    given = chance.sample(answers, chance.randint(1, len(answers)))
                    snapshot = json.loads(json.dumps(waiting.snapshot))
                    asking = one.resume("c" if store else snapshot, given)
                steps = chance.randint(0, 90) if chance.random() < 0.25 else None
                result = await _result(asyncio.create_task(asking), steps)
                await asyncio.sleep(0)
                assert asyncio.all_tasks() == before
                assert all(run.slots.free == run.slots.width for run in anything.runs)
                if result is None or result.status != "pending":
                    break
                waiting = result
    if result is None:
        return
    runs = list(tree(result))
    for run in runs:
        whole(run)
    assert len({run.path for run in runs}) == len(runs)
    assert result.usage.requests == anything.requests == sum(run.own_usage.requests for run in runs)
    if store:
        async with client() as one:
            chat = one.conversation("c")
            assert await chat.messages() == result.messages
            assert {path for path in await chat.sub_agents()} == {run.path for run in runs[1:]}
