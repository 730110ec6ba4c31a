"""The matrix of faults, and the cells that nobody else shows."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.architecture.test_requirements import stated
from tests.faults.matrix import HOW, WHERE
from tests.loop.support import paired
from toolnexus import Budget, Client, MemoryStore, RunContext, Stream, tool
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

POINTS = ("before_model", "after_model")


class Hook:
    """One that does something else instead of its work, from the second turn on."""

    def __init__(self, point: str, act: Any) -> None:
        self.met = asyncio.Event()

        async def method(ctx: RunContext, value: Any) -> Any:
            if ctx.frame.turns < 2:
                return None
            self.met.set()
            return await act()

        setattr(self, point, method)


@tool
async def work() -> str:
    """Work."""
    return "worked"


def client(hook: Hook, store: MemoryStore, seconds: float | None = None) -> Client:
    model = ScriptedModel([reply(call("work")), "end", "went on", "went on"])
    budget = Budget(seconds=seconds)
    return Client(model=model, tools=[work], builtins=False, hooks=[hook], store=store, budget=budget)


async def whole(store: MemoryStore) -> bool:
    """Whether what was done is stored, every call with its answer."""
    messages, _ = await store.load("t")
    return paired(messages) and messages[2].tool_results[0].output == "worked"


def test_every_cell_names_requirements_that_exist() -> None:
    """[ROB-08] Each cell of the page says what a user gets and who shows it."""
    ids = stated()
    for cells in WHERE.values():
        assert len(cells) == len(HOW)
        for cell in cells:
            named = re.findall(r"[A-Z][A-Z0-9]*-\d+", cell)
            assert cell == "-" or (named and not set(named) - ids.keys()), cell


@pytest.mark.parametrize("point", POINTS)
async def test_a_hook_around_a_model_that_fails_is_the_error_of_the_run(point: str) -> None:
    """[ROB-08] Its own error is raised; nonsense is an error that names the point; what was done is kept."""

    async def fail() -> Any:
        raise KeyError("mine")

    async def nonsense() -> Any:
        return 7

    for act, says in ((fail, "mine"), (nonsense, point)):
        store = MemoryStore()
        async with asyncio.timeout(5), client(Hook(point, act), store) as one:
            with pytest.raises(Exception, match=says) as caught:
                await one.ask("go", conversation="t")
        result: Any = getattr(caught.value, "result", None)
        assert result.status == "error"
        assert await whole(store)


@pytest.mark.parametrize("point", POINTS)
async def test_a_hook_around_a_model_that_never_ends_is_given_up(point: str) -> None:
    """[ROB-08] At the deadline the run is `incomplete`, at a cancel it ends; what was done is stored."""
    store = MemoryStore()
    async with asyncio.timeout(5), client(Hook(point, asyncio.Event().wait), store, seconds=0.1) as one:
        result = await one.ask("go", conversation="t")
    assert (result.status, result.limit) == ("incomplete", "seconds")
    assert await whole(store)
    store, hook = MemoryStore(), Hook(point, asyncio.Event().wait)
    async with asyncio.timeout(5), client(hook, store) as one:
        asking = asyncio.create_task(one.ask("go", conversation="t"))
        await hook.met.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert await whole(store)


async def test_a_reader_that_fails_ends_the_run_and_keeps_its_own_error() -> None:
    """[ROB-08] Its error is raised, not the cancel; the result says what was done, which is kept."""
    store, before = MemoryStore(), asyncio.all_tasks()
    hook = Hook("after_model", asyncio.Event().wait)
    async with asyncio.timeout(5), client(hook, store) as one:
        stream = one.stream("go", conversation="t")
        left: list[Stream] = []
        with pytest.raises(ZeroDivisionError):
            async with stream as events:
                left.append(events)
                async for event in events:
                    if getattr(event, "turn", 0) == 2:
                        raise ZeroDivisionError
        assert left[0].result.status == "incomplete"
        assert paired(left[0].result.messages)
        assert await whole(store)
    assert asyncio.all_tasks() == before
