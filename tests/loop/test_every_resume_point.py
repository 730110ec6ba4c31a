"""A run that goes on after it waited: cancelled at every point, ended by a crash at any write."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.loop.points import Points
from tests.loop.support import paired
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    MemoryStore,
    Message,
    ModelRequest,
    RunResult,
    SqliteStore,
    Store,
    ToolCallPart,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import call

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]

PATIENCE = 30


@dataclass
class Office:
    """Two levels of agents that ask for approvals, and a book of what was really done."""

    done: Counter[tuple[str, ...]] = field(default_factory=Counter[tuple[str, ...]])

    def client(self, store: Store) -> Client:
        @tool
        async def pay(to: str, ctx: ToolContext) -> str | ToolResult:
            """Pay somebody."""
            if ctx.answer is None:
                return pending(kind="approval", prompt=f"pay {to}?")
            await asyncio.sleep(0)
            self.done[(*ctx.path, f"paid {to}")] += 1
            return f"paid {to}"

        @tool
        async def look(ctx: ToolContext, what: str) -> str:
            """Look something up."""
            await asyncio.sleep(0)
            self.done[(*ctx.path, f"looked {what}")] += 1
            return f"{what} is fine"

        return Client(
            model=FunctionModel(self.model),
            builtins=False,
            tools=[pay, look],
            agents=[Agent(name="mid"), Agent(name="leaf", agents=[])],
            store=store,
            budget=Budget(concurrency=1),
        )

    async def model(self, request: ModelRequest) -> Message | str:
        await asyncio.sleep(0)
        if request.messages[-1].text == "go on":
            return "went on"
        match request.agent, request.turn:
            case "main", 1:
                return assistant(
                    "", call("look", what="rate"), call("pay", to="ann"), _task("mid"), _task("leaf")
                )
            case "main", 2:
                return assistant("", call("look", what="end"))
            case "mid", 1:
                return assistant("", call("pay", to="bob"), _task("leaf"))
            case "leaf", 1:
                return assistant("", call("look", what="door"), call("pay", to="eve"))
            case _:
                return f"end of {request.agent}"


def _task(agent: str) -> ToolCallPart:
    return call("task", agent=agent, prompt="p")


class Crashing(MemoryStore):
    """What a process leaves in a store that ends at its write number `last`, before or behind it."""

    def __init__(self, kept: MemoryStore, last: int, *, behind: bool) -> None:
        super().__init__()
        self.crashed, self.buried = asyncio.Event(), asyncio.Event()
        self._kept, self._left, self._behind = kept, last, behind

    async def load(self, id: str) -> Any:
        return await self._kept.load(id)

    async def load_state(self, id: str) -> Any:
        return await self._kept.load_state(id)

    async def append(self, id: str, messages: Sequence[Message], expected: int, state: Any = None) -> int:
        self._left -= 1
        if self._left > 0 or (self._left == 0 and self._behind):
            expected = await self._kept.append(id, messages, expected, state)
        if self._left <= 0:
            self.crashed.set()
            await self.buried.wait()
        return expected


async def finished(client: Client, result: RunResult) -> RunResult:
    """The end of a run whose questions are all answered."""
    while result.status == "pending":
        result = await client.resume("c", [Answer(id=request.id) for request in result.pending])
    return result


async def until_it_crashes(office: Office, store: Crashing) -> bool:
    """Ask, answer what is asked, and leave the process in the middle. False: it came to its end."""
    client = office.client(store)

    async def work() -> None:
        await finished(client, await client.ask("go", conversation="c"))

    working = asyncio.create_task(work())
    crash = asyncio.create_task(store.crashed.wait())
    await asyncio.wait([working, crash], return_when=asyncio.FIRST_COMPLETED)
    crashed, done = not working.done(), Counter(office.done)
    for task in (working, crash):
        task.cancel()
    store.buried.set()  # what is done from now on is not done
    await asyncio.gather(working, crash, return_exceptions=True)
    await client.aclose()
    office.done = done
    return crashed


@pytest.mark.parametrize("behind", [False, True], ids=["before a write", "behind a write"])
async def test_a_crash_at_any_write_repeats_nothing(behind: bool) -> None:
    """[RES-50] Whichever write of an ask or of a resume was the last: what is there goes on to its end in
    another client, nothing is done twice, and what was finished before the wait is still known."""
    last, crashed, waited = 0, True, 0
    async with asyncio.timeout(PATIENCE):
        while crashed:
            last += 1
            office, kept = Office(), MemoryStore()
            crashed = await until_it_crashes(office, Crashing(kept, last, behind=behind))
            async with office.client(kept) as client:
                chat = client.conversation("c")
                answers = [Answer(id=request.id) for request in await chat.pending()]
                waited += bool(answers)
                if "snapshot" in (await kept.load_state("c") or {}):
                    result = await finished(client, await client.resume("c", answers))
                    assert result.status == "done"
                    if waited:
                        assert result.messages[2].tool_results[0].output == "rate is fine"
                assert set(office.done.values()) <= {1}
                assert paired(await chat.messages())
                assert (await client.ask("go on", conversation="c")).text == "went on"
    assert last > 6 and waited == 1


async def test_a_cancel_at_any_point_of_a_resumed_run_repeats_nothing(tmp_path: Path) -> None:
    """[RES-51] Resumed again with the same answers, a run that was cancelled before it began goes on, and
    one that was cancelled later tells its end; no approved call and no finished one runs twice."""
    points, count, new = Points(times=8), 0, True
    office = Office()
    async with asyncio.timeout(PATIENCE):
        with points.counting():
            async with office.client(SqliteStore(tmp_path / "c.db")) as client:
                while new:
                    office.done.clear()
                    id = f"c{count}"
                    first = await client.ask("go", conversation=id)
                    answers = [Answer(id=request.id) for request in first.pending]
                    assert first.status == "pending" and len(answers) == 4
                    new, end = await points.cancelled(partial(client.resume, id, answers))
                    try:
                        assert end is None or isinstance(end, asyncio.CancelledError)
                        await the_same_again(client, id, answers)
                        assert set(office.done.values()) == {1}
                    except BaseException as error:
                        error.add_note(points.where)
                        raise
                    count += 1
    assert count > 20


async def the_same_again(client: Client, id: str, answers: Sequence[Answer]) -> None:
    again = await client.resume(id, answers)
    assert again.status in ("done", "incomplete")
    assert await client.resume(id, answers) is not None
    assert paired(await client.conversation(id).messages())
    assert (await client.ask("go on", conversation=id)).text == "went on"
