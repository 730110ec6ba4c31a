"""SqliteStore: the contract of every store, and what belongs to a file."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections import UserDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from toolnexus.core.messages import Message, TextPart, user
from toolnexus.errors import ConfigError, StoreError
from toolnexus.stores.base import Store
from toolnexus.stores.sqlite import SCHEMA_VERSION, SqliteStore
from toolnexus.testing.contracts import StoreSuite

pytestmark = pytest.mark.anyio


class TestSqliteStore(StoreSuite):
    folder: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_store(self) -> Store:
        return SqliteStore(self.folder / "store.db")


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


async def test_conversations_outlive_the_store_object(tmp_path: Path) -> None:
    """[ST-20] Another object on the same file finds the messages and the version."""
    first = SqliteStore(tmp_path / "s.db")
    version = await first.append("c", [user("one")], 0)
    await first.aclose()
    second = SqliteStore(str(tmp_path / "s.db"))
    assert await second.load("c") == ((user("one"),), version)
    await second.aclose()


async def test_a_file_of_the_first_format_is_brought_up_to_date(tmp_path: Path) -> None:
    """[ST-16] Its conversations stay, and runs that wait can be kept in it."""
    store = SqliteStore(tmp_path / "s.db")
    version = await store.append("c", [user("one")], 0)
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        db.execute("DROP TABLE states")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    assert await store.load("c") == ((user("one"),), version)
    await store.append("c", [], version, {"n": 1})
    assert await store.load_state("c") == {"n": 1}
    await store.aclose()


async def test_a_torn_state_is_none_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[ST-24] The messages load all the same."""
    store = SqliteStore(tmp_path / "s.db")
    version = await store.append("c", [user("one")], 0, {"n": 1})
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        db.execute("UPDATE states SET state = '{\"n\": '")
        db.commit()
    assert await store.load_state("c") is None and "is torn" in caplog.text
    assert await store.load("c") == ((user("one"),), version)
    await store.aclose()


async def test_a_closed_store_opens_again_at_the_next_use(tmp_path: Path) -> None:
    """[ST-11] A store that was closed works again at the next use, with everything in it."""
    store = SqliteStore(tmp_path / "s.db")
    version = await store.append("c", [user("one")], 0)
    await store.aclose()
    assert await store.append("c", [user("two")], version) == version + 1
    await store.aclose()


async def test_making_a_store_touches_no_disk(tmp_path: Path) -> None:
    """[ST-21] The file is made at the first use, not before, and closing an unused store is free."""
    store = SqliteStore(tmp_path / "s.db")
    await store.aclose()
    assert files(tmp_path) == []


async def test_a_closed_store_leaves_one_file_and_no_thread(tmp_path: Path) -> None:
    """[ST-21] After `aclose` the log is merged into the one file and the store's thread has ended."""
    store = SqliteStore(tmp_path / "s.db")
    await store.append("c", [user("one")], 0)
    mine = [t for t in threading.enumerate() if t.name == "toolnexus-sqlite"]
    assert [t.daemon for t in mine] == [True]
    await store.aclose()
    mine[0].join(timeout=10)
    assert not mine[0].is_alive()
    assert files(tmp_path) == ["s.db"]


def test_one_store_serves_several_event_loops_one_after_the_other(tmp_path: Path) -> None:
    """[ST-22] A store bound to no loop: `asyncio.run` may be called again and again."""
    store = SqliteStore(tmp_path / "s.db")
    version = 0
    for n in range(3):
        version = asyncio.run(store.append("c", [user(str(n))], version))
    messages, _ = asyncio.run(store.load("c"))
    asyncio.run(store.aclose())
    assert [m.text for m in messages] == ["0", "1", "2"]


async def test_the_file_is_in_wal_mode_and_readable_with_plain_sql(tmp_path: Path) -> None:
    """[ST-23] One row per message, ids and records as text, write-ahead log on."""
    store = SqliteStore(tmp_path / "s.db")
    await store.append("thread-1", [user("héllo"), user("b")], 0)
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        rows = db.execute("SELECT record FROM messages WHERE id = 'thread-1' ORDER BY seq").fetchall()
    assert len(rows) == 2
    assert '"text":"héllo"' in rows[0][0]


async def test_a_torn_or_foreign_record_is_set_aside_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[ST-24] Records that cannot be read move to `set_aside`, byte for byte; the rest still loads."""
    store = SqliteStore(tmp_path / "s.db")
    version = await store.append("c", [user("one")], 0)
    await store.append("other", [user("untouched")], 0)
    torn = [
        b'{"v":1,"role":"us',
        b'{"v":99,"role":"user","parts":[]}',
        b"\xff\xfe\x00rest",
        b"[" * 100_000,
        b'{"v":1,"role":"\\ud800","parts":[]}',
        b'{"v":1,"role":"user","parts":[{"type":"hologram"}]}',
        b"5",
    ]
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.executemany(
            "INSERT INTO messages (id, record) VALUES ('c', CAST(? AS TEXT))", [(record,) for record in torn]
        )
    with caplog.at_level(logging.WARNING, logger="toolnexus.stores"):
        assert await store.load("c") == ((user("one"),), version)
    assert [p.id for p in store.problems] == ["c"] * 7
    assert "version 99" in store.problems[1].reason
    assert len(caplog.records) == 7
    assert await store.load("c") == ((user("one"),), version)
    assert len(store.problems) == 7, "reported once"
    next_version = await store.append("c", [user("two")], version)
    assert await store.load("c") == ((user("one"), user("two")), next_version)
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        kept = db.execute("SELECT CAST(record AS BLOB) FROM set_aside ORDER BY rowid").fetchall()
    assert [record for (record,) in kept] == torn


async def test_deleting_a_conversation_also_deletes_what_was_set_aside_of_it(tmp_path: Path) -> None:
    """[ST-06] Nothing of a deleted conversation stays behind in any table."""
    store = SqliteStore(tmp_path / "s.db")
    version = await store.append("c", [user("one")], 0)
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("INSERT INTO messages (id, record) VALUES ('c', 'torn')")
    await store.load("c")
    await store.replace("c", [], version)
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        for table in ("messages", "conversations", "set_aside"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def a_text(path: Path) -> None:
    path.write_text("dear diary\n" * 1000)


def a_few_bytes(path: Path) -> None:
    path.write_bytes(b"short")


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE customers (name TEXT)")


def later_release(path: Path) -> None:
    asyncio.run(_one_use(path))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


async def _one_use(path: Path) -> None:
    store = SqliteStore(path)
    try:
        await store.append("c", [user("one")], 0)
    finally:
        await store.aclose()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (a_text, "no SQLite database"),
        (a_few_bytes, "no SQLite database"),
        (foreign_database, "of another program"),
        (later_release, f"format {SCHEMA_VERSION + 1}"),
    ],
    ids=["text", "short", "another program", "later release"],
)
async def test_a_file_that_is_no_store_is_refused_and_stays_as_it_is(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    """[ST-25] `StoreError` names the file and says what it is; not one byte of it changes."""
    path = tmp_path / "notes.txt"
    await asyncio.to_thread(make, path)
    before = path.read_bytes()
    store = SqliteStore(path)
    attempts: list[Awaitable[object]] = [store.load("c"), store.append("c", [user("x")], 0)]
    for attempt in attempts:
        with pytest.raises(StoreError, match=says) as caught:
            await attempt
        assert repr(str(path)) in str(caught.value)
    await store.aclose()
    assert path.read_bytes() == before
    assert files(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("place", ["missing/s.db", ".", "file/s.db", "/proc/toolnexus.db"])
async def test_a_place_that_takes_no_file_is_a_store_error_that_names_it(tmp_path: Path, place: str) -> None:
    """[ST-26] No folder, a folder in place of the file, a place that cannot be written."""
    a_text(tmp_path / "file")
    store = SqliteStore(tmp_path / place)
    with pytest.raises(StoreError) as caught:
        await store.append("c", [user("one")], 0)
    assert repr(str(store.path)) in str(caught.value)
    await store.aclose()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_a_store_error(tmp_path: Path) -> None:
    """[ST-26] A folder that may not be written is reported, not fatal to the process."""
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StoreError, match=r"s\.db"):
            asyncio.run(_one_use(tmp_path / "s.db"))
    finally:
        tmp_path.chmod(0o755)


async def test_a_store_that_could_not_open_tries_again(tmp_path: Path) -> None:
    """[ST-26] Once the folder is there, the same object works."""
    store = SqliteStore(tmp_path / "later" / "s.db")
    with pytest.raises(StoreError, match="make it first"):
        await store.load("c")
    (tmp_path / "later").mkdir()
    assert await store.load("c") == ((), 0)
    await store.aclose()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_store_without_a_file_is_a_config_error(path: str) -> None:
    """[ST-27] What is no file path is refused at once, with the alternative."""
    with pytest.raises(ConfigError, match="MemoryStore"):
        SqliteStore(path)


async def test_a_message_that_is_no_json_is_refused_whole(tmp_path: Path) -> None:
    """[ST-28] `StoreError` says so and nothing of the batch is written."""
    store = SqliteStore(tmp_path / "s.db")
    with pytest.raises(StoreError, match="object is no JSON value"):
        await store.append("c", [user("one"), user([TextPart("two", {"when": object()})])], 0)
    assert await store.load("c") == ((), 0)
    await store.aclose()


async def test_opaque_data_may_be_any_mapping(tmp_path: Path) -> None:
    """[ST-28] A read-only mapping of a provider is stored like a dict."""
    store = SqliteStore(tmp_path / "s.db")
    inner = MappingProxyType({"b": 1})
    message = user([TextPart("x", MappingProxyType({"a": inner}))])
    await store.append("c", [message], 0)
    assert (await store.load("c"))[0] == (user([TextPart("x", {"a": {"b": 1}})]),)
    await store.aclose()


async def test_a_locked_file_is_waited_for_without_blocking_the_event_loop(tmp_path: Path) -> None:
    """[ST-29] While another process holds the write lock, a write waits in the store's thread."""
    store = SqliteStore(tmp_path / "s.db")
    version = await store.append("c", [user("one")], 0)
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        write = asyncio.create_task(store.append("c", [user("two")], version))
        async with asyncio.timeout(20):
            for _ in range(100):  # the loop goes on turning meanwhile
                await asyncio.sleep(0)
            assert not write.done()
            other.execute("COMMIT")
            assert await write == version + 1
    await store.aclose()


class ReadSignal(UserDict[str, Any]):
    """Tells when the store's thread has begun to encode it."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.was_read = threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.was_read.set()
        return super().__iter__()


async def test_a_write_that_is_cancelled_before_it_began_never_happens(tmp_path: Path) -> None:
    """[ST-30] Cancelling a queued write withdraws it; one that has begun is written whole."""
    store = SqliteStore(tmp_path / "s.db")
    version = await store.append("c", [user("one")], 0)
    extra = ReadSignal({"k": "v"})
    two = Message("user", (TextPart("two"),), extra=extra)
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = asyncio.create_task(store.append("c", [two, user("three")], version))
        queued = asyncio.create_task(store.append("d", [user("never")], 0))
        assert await asyncio.to_thread(extra.was_read.wait, 20)
        queued.cancel()
        begun.cancel()
        for task in (begun, queued):
            with pytest.raises(asyncio.CancelledError):
                await task
        other.execute("COMMIT")
    async with asyncio.timeout(20):
        assert [m.text for m in (await store.load("c"))[0]] == ["one", "two", "three"]
        assert await store.load("d") == ((), 0)
        await store.aclose()


async def test_closing_finishes_the_writes_that_were_asked_for(tmp_path: Path) -> None:
    """[ST-21] `aclose` comes after every write that was called before it."""
    store = SqliteStore(tmp_path / "s.db")
    writes = [asyncio.create_task(store.append(str(n), [user("x")], 0)) for n in range(50)]
    await asyncio.sleep(0)
    await store.aclose()
    assert sorted(await asyncio.gather(*writes)) == list(range(1, 51))


async def test_a_store_that_is_dropped_unclosed_warns_and_ends_its_thread(tmp_path: Path) -> None:
    """[ST-31] Forgetting `aclose` is a `ResourceWarning`, not a leaked thread."""
    before = set(threading.enumerate())
    store = SqliteStore(tmp_path / "s.db")
    await store.append("c", [user("one")], 0)
    (mine,) = [t for t in set(threading.enumerate()) - before if t.name == "toolnexus-sqlite"]
    with warnings.catch_warnings(record=True) as caught:  # also what other tests dropped
        warnings.simplefilter("always")
        del store
        gc.collect()
    words = [str(w.message) for w in caught if w.category is ResourceWarning]
    assert [w for w in words if str(tmp_path) in w and "never closed" in w]
    mine.join(timeout=10)
    assert not mine.is_alive()


def test_importing_the_store_loads_no_third_party() -> None:
    """[ST-32] The standard library is all that a store needs."""
    code = (
        "import sys; before = set(sys.modules); import toolnexus.stores.sqlite; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'toolnexus'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"
