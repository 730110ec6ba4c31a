"""Conversations in one SQLite file, shared by any number of processes.

One row per message, one transaction per write; the version is compared inside the transaction.
All SQL runs in a daemon thread of the store, so that no disk blocks an event loop or the exit of
the interpreter.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from toolnexus.core.messages import Message
from toolnexus.errors import ConfigError, StoreError
from toolnexus.stores.records import StoreProblem, conflict, read_records, records_of, state_text

logger = logging.getLogger("toolnexus.stores")

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
Job = tuple[Work | None, asyncio.AbstractEventLoop | None, "asyncio.Future[Any] | None"]

Row = tuple[str | bytes, str]
"""Conversation and record."""

BUSY_SECONDS = 30.0
SCHEMA_VERSION = 2
APPLICATION_ID = 0x746E7873
"""Written into the file's header: how a file of ours is known."""

_SCHEMA = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    "CREATE TABLE counter (writes INTEGER NOT NULL)",
    "INSERT INTO counter VALUES (0)",
    "CREATE TABLE conversations (id PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE messages (seq INTEGER PRIMARY KEY, id NOT NULL, record TEXT NOT NULL)",
    "CREATE INDEX messages_of ON messages (id)",
    "CREATE TABLE set_aside (id, record, reason TEXT, time REAL)",
    "CREATE TABLE states (id PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID",
)
_FROM_1 = (_SCHEMA[-1], f"PRAGMA user_version = {SCHEMA_VERSION}")


class SqliteStore:
    """Keeps conversations in the file `path`, which is made at first use.

    Safe for many tasks, event loops and processes. Closed, it opens again at the next use. A write
    whose caller is cancelled may still happen, whole. Raises `StoreError` from every method when
    the file cannot be used; a file that is no store of ours is never changed.
    """

    def __init__(self, path: str | Path) -> None:
        if str(path) in ("", ":memory:"):
            raise ConfigError(f"SqliteStore({str(path)!r}): a file path is needed; in memory: MemoryStore()")
        self.path = Path(os.path.abspath(Path(path).expanduser()))
        self.problems: list[StoreProblem] = []
        """Records that this object moved to the table `set_aside`, in the order they were met."""
        self._jobs: queue.SimpleQueue[Job] | None = None
        self._process = 0
        self._starting = threading.Lock()

    async def load(self, id: str) -> tuple[tuple[Message, ...], int]:
        """All messages and the version; `((), 0)` for a conversation that does not exist.

        A record that is torn or foreign is set aside and reported in `problems`, never raised.
        """
        key = _key(id)
        messages, version, problems = await self._do(lambda db: _load(db, key))
        for reason in problems:
            logger.warning("%s: a record of conversation %r was set aside: %s", self.path, id, reason)
            self.problems.append(StoreProblem(id, reason))
        return messages, version

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        """Add `messages` and put `state` in place of the old one, in one transaction.

        Returns the new version. Raises `StoreConflict`, writing nothing, when the version is no longer
        `expected`.
        """
        given, text = tuple(messages), state_text(id, state)

        def work(db: sqlite3.Connection) -> int:
            rows = [(_key(id), record) for record in records_of(id, given)]
            with _transaction(db):
                _expect(db, id, expected)
                changed = _keep(db, _key(id), text)
                return _write(db, _key(id), rows) if rows or changed else expected

        return await self._do(work)

    async def load_state(self, id: str) -> Mapping[str, Any] | None:
        """The state that the last write left; one that is torn is reported in the log, never raised."""
        text = await self._do(lambda db: _state(db, _key(id)))
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            logger.warning("%s: the state of conversation %r is torn: %s", self.path, id, error)
            return None

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Put `messages` in place of all, in one transaction, and return the new version.

        Raises `StoreConflict` like `append`. An empty sequence deletes the conversation and what
        was set aside of it; the version is then 0.
        """
        given = tuple(messages)

        def work(db: sqlite3.Connection) -> int:
            rows = [(_key(id), record) for record in records_of(id, given)]
            with _transaction(db):
                _expect(db, id, expected)
                db.execute("DELETE FROM messages WHERE id = ?", (_key(id),))
                _keep(db, _key(id), None)
                if rows:
                    return _write(db, _key(id), rows)
                db.execute("DELETE FROM conversations WHERE id = ?", (_key(id),))
                db.execute("DELETE FROM set_aside WHERE id = ?", (_key(id),))
                return 0

        return await self._do(work)

    async def aclose(self) -> None:
        """Finish the writes that were asked for and close the file. Idempotent."""
        with self._starting:
            jobs, self._jobs = self._jobs, None
        if jobs is not None and self._process == os.getpid():
            loop = asyncio.get_running_loop()
            closed = loop.create_future()
            jobs.put((None, loop, closed))
            await closed

    def __del__(self) -> None:
        jobs = getattr(self, "_jobs", None)
        if jobs is not None and self._process == os.getpid():
            jobs.put((None, None, None))
            text = f"store {str(self.path)!r} was never closed; await its aclose()"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in the store's thread. Withdrawn when cancelled before it began."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._starting:
            if self._jobs is None or self._process != os.getpid():  # a fork keeps no thread
                self._jobs, self._process = queue.SimpleQueue(), os.getpid()
                threading.Thread(
                    target=_serve, args=(self.path, self._jobs), name="toolnexus-sqlite", daemon=True
                ).start()
            self._jobs.put((work, loop, done))
        return await done


def _serve(path: Path, jobs: queue.SimpleQueue[Job]) -> None:
    """The life of a store's thread: it owns the connection and knows nothing of the store."""
    db: sqlite3.Connection | None = None
    while True:
        work, loop, done = jobs.get()
        result, failure = None, None
        if work is None:
            if db is not None:
                with suppress(sqlite3.Error):
                    db.close()
        elif done is None or done.cancelled():
            continue
        else:
            try:
                db = db or _open(path)
                result = work(db)
            except sqlite3.Error as error:
                failure = StoreError(f"store {str(path)!r}: {error}")
                failure.__cause__ = error
            except Exception as error:
                failure = error
        if loop is not None and done is not None:
            with suppress(RuntimeError):  # the loop that asked has ended
                loop.call_soon_threadsafe(_settle, done, result, failure)
        if work is None:
            return
        del work, loop, done, result, failure  # an idle thread keeps nothing alive


def _settle(done: asyncio.Future[Any], result: Any, failure: Exception | None) -> None:
    if done.done():
        return
    if failure is not None:
        done.set_exception(failure)
    else:
        done.set_result(result)


def _open(path: Path) -> sqlite3.Connection:
    """Connect, and make the tables in a new file. Touches nothing before it knows the file."""
    if not path.parent.is_dir():
        raise StoreError(
            f"store {str(path)!r}: the folder {str(path.parent)!r} does not exist; make it first"
        )
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        with _transaction(db, "DEFERRED"):  # one look: another process may be making it
            statements = _missing(db, path)
        if statements:
            with _transaction(db):
                for statement in _missing(db, path):
                    db.execute(statement)
        durable = _write_ahead(db)
        db.execute(f"PRAGMA synchronous = {'NORMAL' if durable else 'FULL'}")
        db.text_factory = bytes  # so that a record that is not UTF-8 can be met and set aside
        return db
    except BaseException:
        db.close()
        raise


def _missing(db: sqlite3.Connection, path: Path) -> Sequence[str]:
    """What makes the file one of this release. Raises `StoreError` when it is not ours, or of a later one."""
    try:
        (owner,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreError(f"store {str(path)!r} is no SQLite database; give another path") from error
    if owner == APPLICATION_ID:
        if version == 1:
            return _FROM_1
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"store {str(path)!r} has format {version}; this release reads {SCHEMA_VERSION}; "
                "use the release that wrote it, or another path"
            )
        return ()
    if owner or version or tables:
        raise StoreError(f"store {str(path)!r} is a database of another program; give another path")
    return _SCHEMA


def _write_ahead(db: sqlite3.Connection) -> bool:
    """Switch to the write-ahead log; False where the file system cannot."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            return mode == "wal"
        except sqlite3.OperationalError as error:  # SQLite itself does not wait for this lock
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def _transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Generator[None]:
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _key(id: str) -> str | bytes:
    """What stands for `id` in the tables: itself, or bytes where text cannot hold it."""
    try:
        id.encode()
        return id
    except UnicodeEncodeError:  # a lone surrogate
        return id.encode("utf-8", "surrogatepass")


def _expect(db: sqlite3.Connection, id: str, expected: int) -> None:
    found = _version(db, _key(id))
    if found != expected:
        raise conflict(id, expected, found)


def _version(db: sqlite3.Connection, key: str | bytes) -> int:
    row = db.execute("SELECT version FROM conversations WHERE id = ?", (key,)).fetchone()
    return row[0] if row else 0


def _state(db: sqlite3.Connection, key: str | bytes) -> str | None:
    row = db.execute("SELECT state FROM states WHERE id = ?", (key,)).fetchone()
    return row[0].decode("utf-8", "replace") if row else None


def _keep(db: sqlite3.Connection, key: str | bytes, text: str | None) -> bool:
    """Put `text` in place of the state; whether that changed anything."""
    if text == _state(db, key):
        return False
    db.execute("DELETE FROM states WHERE id = ?", (key,))
    if text is not None:
        db.execute("INSERT INTO states VALUES (?, ?)", (key, text))
    return True


def _write(db: sqlite3.Connection, key: str | bytes, rows: Sequence[Row]) -> int:
    """Add rows of one conversation. Versions come from one counter and are never given twice, so a
    conversation that was deleted and made anew is not mistaken for the old one."""
    db.execute("UPDATE counter SET writes = writes + 1")
    (version,) = db.execute("SELECT writes FROM counter").fetchone()
    db.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?)", (key, version))
    db.executemany("INSERT INTO messages (id, record) VALUES (?, ?)", rows)
    return version


def _load(db: sqlite3.Connection, key: str | bytes) -> tuple[tuple[Message, ...], int, list[str]]:
    with _transaction(db, "DEFERRED"):
        version = _version(db, key)
        rows = db.execute("SELECT seq, record FROM messages WHERE id = ? ORDER BY seq", (key,)).fetchall()
    messages, broken = read_records(rows)
    if broken:
        with suppress(sqlite3.Error):  # unread is what matters; moving it can wait
            _set_aside(db, broken)
    return messages, version, [reason for _, reason in broken]


def _set_aside(db: sqlite3.Connection, broken: Sequence[tuple[int, str]]) -> None:
    with _transaction(db):
        for seq, reason in broken:
            db.execute(
                "INSERT INTO set_aside SELECT id, record, ?, ? FROM messages WHERE seq = ?",
                (reason, time.time(), seq),
            )
            db.execute("DELETE FROM messages WHERE seq = ?", (seq,))
