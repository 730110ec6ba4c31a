"""An A2A agent that ends and comes back, is overloaded, and whose store breaks."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import ListTasksRequest, Task, TaskState
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError

from tests.serving.callers import Caller, asked, calling, said, state, text
from tests.serving.kit import Kit, client
from tests.stores import servers
from toolnexus import ConfigError, SqliteStore, StoreError, serve
from toolnexus.protocols.a2a.parts import data_part
from toolnexus.serving.a2a import recent

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(kit: Kit, folder: Path | None, **options: Any) -> AsyncGenerator[Caller]:
    """A server whose tasks and conversations are in `folder`."""
    store = {"store": SqliteStore(folder / "chats.db")} if folder is not None else {}
    tasks = folder / "tasks.db" if folder is not None else None
    async with client(kit, **store) as owner, serve(owner, a2a={"tasks": tasks}, **options) as server:
        async with calling(server.url) as caller:
            yield caller


async def test_a_question_survives_a_restart(tmp_path: Path) -> None:
    """[A2A-70] The answer to a task of the server before goes on with its run, and nothing runs twice."""
    kit = Kit()
    async with running(kit, tmp_path) as caller:
        task = await caller.send("pay ann bob")
        assert state(task) == "input_required"
    async with running(kit, tmp_path) as caller:
        again = await caller.get(task.id)
        assert said(again) == "pay ann?" and asked(again) == asked(task)
        task = await caller.send("yes", task=task)
        assert said(task) == "pay bob?" and kit.paid == ["ann"]
    async with running(kit, tmp_path) as caller:
        task = await caller.send("yes", task=task)
        assert text(task) == "paid ann; paid bob" and kit.paid == ["ann", "bob"]
        assert text(await caller.send("recall", context=task.context_id)) == "pay ann bob / recall"


async def crash(kit: Kit, before: Path, after: Path) -> tuple[Task, Task]:
    """What is on the disk of a server that dies while it runs first answers: two tasks that wait, of two
    questions and of one."""
    async with running(kit, before) as caller:
        two, one = await caller.send("pay slow bob"), await caller.send("pay slow")
        _copy(before / "tasks.db", after / "tasks.db")
        for task in (two, one):
            kit.started.clear()
            await caller.send("yes", task=task, return_immediately=True)
            async with asyncio.timeout(10):
                await kit.started.wait()
        _copy(before / "chats.db", after / "chats.db")
    kit.again()
    return two, one


def _copy(database: Path, to: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("VACUUM INTO ?", (str(to),))


async def save(folder: Path, *stored: Task) -> None:
    """Put tasks into the file behind the server's back."""
    from a2a.server.context import ServerCallContext
    from a2a.server.tasks import DatabaseTaskStore
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'tasks.db'}")
    for task in stored:
        await DatabaseTaskStore(engine).save(task, ServerCallContext())
    await engine.dispose()


@pytest.mark.parametrize("torn", [False, True])
async def test_an_answer_after_a_crash_goes_on_with_the_run(tmp_path: Path, torn: bool) -> None:
    """[A2A-78] Of the next question, and the same again; also when a task was stored halfway."""
    kit = Kit()
    (before := tmp_path / "before").mkdir()
    (after := tmp_path / "after").mkdir()
    two, one = await crash(kit, before, after)
    bob = next(request for request in asked(two) if request["prompt"] == "pay bob?")
    if torn:
        for task in (two, one):
            task.history.append(task.status.message)
            task.status.ClearField("message")
        await save(after, two, one)
    async with running(kit, after) as caller:
        assert state(await caller.send("hello", context=two.context_id)) == "rejected"
        again = await caller.send("no clear answer", task=two)
        assert state(again) == "input_required" and [r["id"] for r in asked(again)] == [bob["id"]]
        two = await caller.send(data_part({"answers": [{"id": bob["id"], "ok": True}]}), task=two)
        assert state(two) == "completed" and kit.paid == ["bob"]
        assert text(two).startswith("outcome unknown") and text(two).endswith("; paid bob")
        one = await caller.send("yes", task=one)
        assert state(one) == "completed" and text(one).startswith("outcome unknown")
        assert kit.paid == ["bob"]
        assert text(await caller.send("recall", context=one.context_id)) == "pay slow / recall"


async def test_a_question_whose_task_is_lost_does_not_block_its_context(tmp_path: Path) -> None:
    """[A2A-71] Cancelled behind a restart, or of a store that forgot it: it is given up."""
    kit = Kit()
    async with running(kit, tmp_path) as caller:
        cancelled, forgotten = await caller.send("pay ann"), await caller.send("pay bob")
    async with running(kit, tmp_path) as caller:
        assert state(await caller.cancel(cancelled.id)) == "canceled"
        assert text(await caller.send("hello", context=cancelled.context_id)) == "helped with 'hello'"
    (tmp_path / "tasks.db").unlink()
    async with running(kit, tmp_path) as caller:
        assert text(await caller.send("hello", context=forgotten.context_id)) == "helped with 'hello'"
    assert kit.paid == []


async def test_the_end_of_a_server_is_the_end_of_its_runs(tmp_path: Path) -> None:
    """[A2A-72] They are cancelled, and both stores know it; one that a crash left under way has failed."""
    kit = Kit()
    async with running(kit, tmp_path) as caller:
        task = await caller.send("call hang", return_immediately=True)
        async with asyncio.timeout(10):
            await kit.started.wait()
    assert kit.cancelled.is_set()
    async with running(kit, tmp_path) as caller:
        task = await caller.get(task.id)
        assert state(task) == "canceled" and said(task) == "The server was stopped before this was done."
        assert text(await caller.send("recall", context=task.context_id)) == "call hang / recall"
    crashed = Task(id="crashed", context_id="c")
    crashed.status.state = TaskState.TASK_STATE_WORKING
    await save(tmp_path, crashed)
    async with running(kit, tmp_path) as caller:
        lost = await caller.get("crashed")
        assert state(lost) == "failed" and said(lost).startswith("The server ended before this was done")


def _aged(database: Path, *tasks: Task, days: int) -> None:
    """Let tasks have changed so many days earlier than they did."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for task in tasks:
            connection.execute(
                "UPDATE tasks SET last_updated = datetime(last_updated, ?) WHERE id = ?",
                (f"-{days} days", task.id),
            )


async def test_a_database_forgets_what_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[A2A-79] Over or waiting, at the start and now and then; what is under way, and the context, stay."""
    kit, database = Kit(), tmp_path / "tasks.db"
    async with running(kit, tmp_path) as caller:
        waits = await caller.send("pay ann")
        old, new = await caller.send("one"), await caller.send("two")
    _aged(database, old, waits, days=31)
    _aged(database, new, days=29)
    async with running(kit, tmp_path) as caller:
        for gone in (old, waits):
            with pytest.raises(TaskNotFoundError):
                await caller.get(gone.id)
        assert state(await caller.get(new.id)) == "completed"
        assert text(await caller.send("recall", context=old.context_id)) == "one / recall"
        assert text(await caller.send("hello", context=waits.context_id)) == "helped with 'hello'"
    monkeypatch.setattr("toolnexus.serving.a2a.tasks.PRUNING_SECONDS", 0.01)
    async with asyncio.timeout(20), running(kit, tmp_path) as caller:
        busy = await caller.send("call hang", return_immediately=True)
        await kit.started.wait()
        await asyncio.to_thread(_aged, database, new, busy, days=31)
        with pytest.raises(TaskNotFoundError):
            while await caller.get(new.id):
                pass
        assert state(await caller.get(busy.id)) == "working"


async def test_another_database_keeps_and_forgets(
    postgres_server: tuple[servers.Server, str], tmp_path: Path
) -> None:
    """[A2A-83] PostgreSQL; a context that is too long for it is refused, not lost."""
    place = postgres_server[1].replace("postgresql:", "postgresql+psycopg:")

    @asynccontextmanager
    async def on(days: float) -> AsyncGenerator[Caller]:
        given = {"tasks": place, "retention_days": days}
        async with client(Kit(), store=SqliteStore(tmp_path / "chats.db")) as owner:
            async with serve(owner, a2a=given) as server, calling(server.url) as caller:
                yield caller

    async with on(30) as caller:
        task = await caller.send("pay ann", context="c" * 36)
        with pytest.raises(InvalidParamsError, match="contextId: at most 36 printable characters"):
            await caller.send("hello", context="c" * 37)
    async with on(30) as caller:
        assert text(await caller.send("yes", task=task)) == "paid ann"
    async with on(1e-9) as caller:
        with pytest.raises(TaskNotFoundError):
            await caller.get(task.id)


async def test_memory_has_the_latest_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """[A2A-80] Of those that are over, and of those that wait; by number and by size."""
    monkeypatch.setattr(recent, "MOST_TASKS", 2)
    async with client(Kit()) as owner, serve(owner, a2a=True, max_concurrent=2) as server:
        async with calling(server.url) as caller:

            async def known(*tasks: Task) -> list[bool]:
                listed = {task.id for task in (await caller.client.list_tasks(ListTasksRequest())).tasks}
                return [task.id in listed for task in tasks]

            first = await caller.send("pay ann")
            second = await caller.send("one")
            again = await caller.send("recall", context=second.context_id)
            assert await known(first, second, again) == [True, True, True]
            other = await caller.send("two")
            assert await known(first, second, again, other) == [True, False, True, True]
            kept = owner.conversation(f"a2a:{second.context_id}")
            assert await kept.messages()
            await caller.send("three")
            assert not await kept.messages()
            for name in ("bob", "cid"):
                await caller.send(f"pay {name}")
            assert await known(first) == [False]
            assert not await owner.conversation(f"a2a:{first.context_id}").pending()
            monkeypatch.setattr(recent, "MOST_BYTES", 1000)
            large = await caller.send("four " * 300)
            assert await known(other, large) == [False, True]


async def test_a_run_without_its_caller_still_counts() -> None:
    """[A2A-73] Beyond the most a message is 503; asking, cancelling and the card work, and free the place."""
    kit = Kit()
    async with running(kit, None, max_concurrent=1) as caller:
        task = await caller.send("call hang", return_immediately=True)
        await kit.started.wait()
        url = caller.client._transport.url  # type: ignore[attr-defined]
        async with httpx.AsyncClient(timeout=20, headers={"a2a-version": "1.0"}) as http:
            body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
            full = await http.post(f"{url}v1/message:send", json=body)
            assert full.status_code == 503 and full.headers["retry-after"] == "1"
            assert (await http.get(f"{url}.well-known/agent-card.json")).status_code == 200
        assert state(await caller.get(task.id)) == "working"
        assert state(await caller.cancel(task.id)) == "canceled"
        assert text(await caller.send("hello")) == "helped with 'hello'"


async def test_many_at_once_stay_apart() -> None:
    """[A2A-74] Parallel tasks in contexts of their own, and one after the other in one."""
    async with running(Kit(), None) as caller:
        apart = await asyncio.gather(*(caller.send(f"recall {i}", context=f"c{i}") for i in range(20)))
        assert [text(task) for task in apart] == [f"recall {i}" for i in range(20)]
        together = await asyncio.gather(*(caller.send("recall", context="one") for _ in range(5)))
        assert sorted(len(text(task).split(" / ")) for task in together) == [1, 2, 3, 4, 5]


async def test_a_broken_store_of_tasks_says_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    """[A2A-75] An error of the protocol; the log names it."""
    from a2a.server.context import ServerCallContext
    from a2a.server.tasks import InMemoryTaskStore

    class Broken(InMemoryTaskStore):
        async def save(self, task: Task, context: ServerCallContext) -> None:
            raise OSError("disk at /srv/secret/tasks is full")

    logging.getLogger("a2a").setLevel(logging.CRITICAL)
    async with client(Kit()) as owner, serve(owner, a2a={"tasks": Broken()}) as server:
        async with calling(server.url) as caller, httpx.AsyncClient(timeout=20) as http:
            body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
            response = await http.post(
                f"{server.url}/v1/message:send", json=body, headers={"a2a-version": "1.0"}
            )
            assert response.status_code == 500 and "the task store failed" in response.text
            assert "/srv/secret" not in response.text
            assert caller


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ("", ConfigError, "a2a.tasks=''"),
        ("nosuch://user:hunter2@host/x", ConfigError, "'nosuch' is no database that can be used"),
        ("sqlite:///x", ConfigError, "with a driver for asyncio"),
        (5, ConfigError, r"a2a.tasks=5 \(int\): give the path of a file"),
        (b"tasks.db", ConfigError, r"a2a.tasks=b'tasks.db' \(bytes\): give the path of a file"),
        ("n" * 5_000, ConfigError, "File name too long; give the path of a file"),
        ("sqlite+aiosqlite://user:hunter2@host:port/x", ConfigError, "is no database that can be used"),
        ("{folder}", ConfigError, "is a folder; give the path of a file"),
        ("{folder}/none/tasks.db", ConfigError, "is in a folder that does not exist"),
        ("{folder}/text", StoreError, "it cannot be used as a database"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"mcp": True}], ids=["alone", "beside MCP"])
async def test_what_is_no_database_is_told(
    tmp_path: Path, given: Any, error: Any, why: str, more: dict[str, Any]
) -> None:
    """[A2A-76] Before anything is served, without its password, and in one error whatever else is served."""
    (tmp_path / "text").write_text("not a database, and long enough to be none " * 50)
    if isinstance(given, str):
        given = given.format(folder=tmp_path)
    async with client(Kit()) as owner:
        with pytest.raises(error, match=why) as told:
            async with serve(owner, a2a={"tasks": given}, **more):
                pass
    assert "hunter2" not in str(told.value)
