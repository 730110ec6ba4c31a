"""Something that is made of steps, behind every door: what those who call it see, whatever it is made of."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.types import Task
from mcp import Client as McpClient

from tests.serving.callers import asked as questions
from tests.serving.callers import calling, said, state
from toolnexus import Client, SqliteStore, Store, serve

both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


class TwoAtOnce(ABC):
    """Steps of which two, left and right, run at once and do what they are told, and what became of it.

    `ask x` asks a person, `hang x` waits for ever, others repeat it. Its name is `desk`.
    """

    target: Any
    """What is served."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.hanging = asyncio.Barrier(3)
        self.stopped: list[str] = []
        self.both_stopped = asyncio.Event()

    async def hang(self, name: str) -> None:
        """Wait for ever; with both, a third party knows that they do."""
        try:
            await self.hanging.wait()
            await asyncio.Event().wait()
        finally:
            self.stopped.append(name)
            if len(self.stopped) == 2:
                self.both_stopped.set()

    @abstractmethod
    def client(self, store: Store | None = None) -> AbstractAsyncContextManager[Client]:
        """One that knows it by its name; its model delegates every prompt to it."""


@asynccontextmanager
async def agent(
    desk: TwoAtOnce, target: Any, store: Store | None = None, **a2a: Any
) -> AsyncGenerator[tuple[str, Client]]:
    async with desk.client(store) as one, serve(one, a2a={"agent": target, **a2a}) as server:
        yield server.url, one


async def answered_one_by_one(desk: TwoAtOnce, streaming: bool) -> Task:
    """The end of a task that asked twice, and went on in the same task."""
    async with agent(desk, desk.target) as (url, _), calling(url, streaming=streaming) as caller:
        task = await caller.send("ask x")
        assert (state(task), said(task)) == ("input_required", "x left?")
        assert [q["prompt"] for q in questions(task)] == ["x left?", "x right?"]
        again = await caller.send("l", task=task)
        assert (again.id, state(again), said(again)) == (task.id, "input_required", "x right?")
        done = await caller.send("r", task=again)
    assert (done.id, state(done)) == (task.id, "completed")
    return done


async def answered_after_a_restart(desk: TwoAtOnce, folder: Path) -> Task:
    """The end of a task whose questions outlived the server that asked them."""
    tasks = str(folder / "tasks.db")
    async with agent(desk, "desk", SqliteStore(folder / "s.db"), tasks=tasks) as (url, _):
        async with calling(url) as caller:
            task = await caller.send("ask x")
    async with agent(desk, "desk", SqliteStore(folder / "s.db"), tasks=tasks) as (url, _):
        async with calling(url) as caller:
            task = await caller.send("r", task=await caller.send("l", task=task))
    assert state(task) == "completed"
    return task


async def cancelled_while_it_runs_and_waits(desk: TwoAtOnce) -> None:
    """Every branch stops, questions are given up, and its context can be used again."""
    async with agent(desk, desk.target) as (url, one), calling(url) as caller:
        task = await caller.send("hang x", return_immediately=True)
        await desk.hanging.wait()
        assert state(await caller.cancel(task.id)) == "canceled"
        assert desk.both_stopped.is_set() and "last" not in desk.ran
        waiting = await caller.send("ask x")
        assert state(await caller.cancel(waiting.id)) == "canceled"
        assert await one.conversation(f"a2a:{waiting.context_id}").pending() == ()
        assert state(await caller.send("hello", context=waiting.context_id)) == "completed"


async def cancelled_ask(desk: TwoAtOnce, one: Client) -> None:
    """An ask in conversation `c` is cancelled while both hang."""
    running = asyncio.create_task(one.ask("hang x", conversation="c"))
    await desk.hanging.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert desk.both_stopped.is_set()


async def cancelled_call(desk: TwoAtOnce, caller: McpClient, name: str) -> None:
    """A call over MCP is cancelled while both hang."""
    running = asyncio.create_task(caller.call_tool(name, {"prompt": "hang x"}))
    await desk.hanging.wait()
    running.cancel()
    await desk.both_stopped.wait()


@asynccontextmanager
async def mcp_caller(one: Client, mcp: dict[str, Any], era: str, **options: Any) -> AsyncGenerator[McpClient]:
    async with serve(one, mcp=mcp) as server, asyncio.timeout(20):
        async with McpClient(f"{server.url}/mcp", mode=era, **options) as caller:
            yield caller


def words(result: Any) -> str:
    return "\n".join(block.text for block in result.content)
