"""Conversations in PostgreSQL: one row per message, one transaction per write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from toolnexus.core.options import install
from toolnexus.errors import ConfigError, StoreConflict
from toolnexus.stores.records import conflict
from toolnexus.stores.server import CONNECT_SECONDS, ServerStore, Unusable

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")

FORMAT = 1
_LOCK = 0x746E7873
"""Held while the tables are made: several processes may meet an empty database."""
_PORTS = re.compile(r"[\d,]*")
_LONGEST_KEY = 200
_HASHED = "sha256:"

_TABLES = (
    "CREATE TABLE toolnexus_format (version integer NOT NULL)",
    "CREATE TABLE toolnexus_conversations (id text PRIMARY KEY, version bigint NOT NULL, state text)",
    "CREATE TABLE toolnexus_messages"
    " (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL, record text NOT NULL)",
    "CREATE INDEX toolnexus_messages_of ON toolnexus_messages (id, seq)",
    "CREATE TABLE toolnexus_set_aside"
    " (id text NOT NULL, record text NOT NULL, reason text, time timestamptz DEFAULT now())",
)


class PostgresStore(ServerStore):
    """Keeps conversations in the database `dsn`, in tables `toolnexus_…`, which are made at first use.

    `dsn` is `postgresql://user:password@host:port/database`, or what else libpq takes; what it leaves out
    comes from `PGPASSWORD` and its like. The tables go where the `search_path` of the user points.
    Raises `ConfigError` for what is no address, and when psycopg is not installed.
    """

    def __init__(self, dsn: str) -> None:
        try:
            from psycopg import ProgrammingError
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise ConfigError(f"PostgresStore needs psycopg: {install('postgres')} ({error})") from error
        known: dict[str, Any] = {}
        try:
            known = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
        except (ProgrammingError, TypeError, ValueError, AttributeError):
            pass  # what is said of it may hold the password
        # a slash in a password that is no %2F ends the host, and the rest of it would count as the database
        if not known or not _PORTS.fullmatch(known.get("port", "")) or "@" in known.get("dbname", ""):
            raise ConfigError(
                "PostgresStore: give an address 'postgresql://user@host:port/database', "
                "with %-escapes for what is special in a password"
            )
        host, port = known.get("host", ""), known.get("port", "")
        where = f"postgresql://{host}{port and ':'}{port}/{known.get('dbname', '')}"
        passwords = [known[key] for key in ("password", "sslpassword") if known.get(key)]
        super().__init__(where, passwords, partial(_Postgres, dsn))


class _Postgres:
    """A database and the connections to it that are not in use."""

    def __init__(self, dsn: str) -> None:
        from psycopg import Error

        self.errors = (Error,)
        self._dsn = dsn
        self._idle: list[AsyncConnection] = []
        self._ready = False
        self._making = asyncio.Lock()

    async def load(self, id: str) -> tuple[int, Sequence[tuple[Any, str]]]:
        sql = (
            "SELECT c.version, m.seq, m.record FROM toolnexus_conversations c"
            " LEFT JOIN toolnexus_messages m ON m.id = c.id WHERE c.id = %s ORDER BY m.seq"
        )

        async def work(db: AsyncConnection) -> list[tuple[Any, ...]]:
            return await (await db.execute(sql, (_key(id),))).fetchall()

        rows = await self._do(work)
        return rows[0][0] if rows else 0, [(seq, record) for _, seq, record in rows if seq is not None]

    async def load_state(self, id: str) -> str | None:
        async def work(db: AsyncConnection) -> str | None:
            _, state = await _standing(db, _key(id))
            return state

        return await self._do(work)

    async def append(
        self, id: str, records: Sequence[str], expected: int, version: int, state: str | None
    ) -> int:
        async def work(db: AsyncConnection) -> int:
            key = _key(id)
            async with db.transaction():
                found, kept = await _standing(db, key, lock=True)
                if found == version:  # it arrived, and its answer was lost
                    return version
                if found != expected:
                    raise conflict(id, expected, found)
                if not records and state == kept:
                    return expected
                await _write(db, id, records, expected, version, state)
            return version

        return await self._do(work)

    async def replace(self, id: str, records: Sequence[str], expected: int, version: int) -> int:
        async def work(db: AsyncConnection) -> int:
            key = (_key(id),)
            async with db.transaction():
                found, _ = await _standing(db, _key(id), lock=True)
                if found == version:
                    return version
                if found != expected:
                    raise conflict(id, expected, found)
                await db.execute("DELETE FROM toolnexus_messages WHERE id = %s", key)
                if records:
                    await _write(db, id, records, expected, version, None)
                    return version
                await db.execute("DELETE FROM toolnexus_conversations WHERE id = %s", key)
                await db.execute("DELETE FROM toolnexus_set_aside WHERE id = %s", key)
            return 0

        return await self._do(work)

    async def set_aside(self, id: str, broken: Sequence[tuple[Any, str]]) -> None:
        async def work(db: AsyncConnection) -> None:
            async with db.transaction():
                for seq, reason in broken:
                    await db.execute(
                        "WITH moved AS (DELETE FROM toolnexus_messages WHERE seq = %s RETURNING id, record)"
                        " INSERT INTO toolnexus_set_aside (id, record, reason)"
                        " SELECT id, record, %s FROM moved",
                        (seq, reason.replace("\0", "")),
                    )

        await self._do(work)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _do(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do `work` on a connection, once more on a new one when that is lost meanwhile."""
        again = True
        while True:
            db = self._idle.pop() if self._idle else await self._connect()
            try:
                result = await work(db)
            except StoreConflict:
                self._idle.append(db)
                raise
            except BaseException as error:
                lost = isinstance(error, self.errors) and db.broken
                await db.close()
                if not (lost and again):
                    raise
                again = False
                await self.close()  # the others were lost with it
            else:
                self._idle.append(db)
                return result

    async def _connect(self) -> AsyncConnection:
        from psycopg import AsyncConnection
        from psycopg.conninfo import conninfo_to_dict

        given: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **conninfo_to_dict(self._dsn)}
        given["client_encoding"] = "UTF8"
        # no prepared statements: a pooler in front of the server may not know them
        db = await AsyncConnection.connect(**given, autocommit=True, prepare_threshold=None)
        try:
            async with self._making:
                if not self._ready:
                    await _make(db)
                    self._ready = True
        except BaseException:
            await db.close()
            raise
        return db


async def _make(db: AsyncConnection) -> None:
    """Make the tables when there are none. Raises `Unusable`."""
    (encoding,) = await _row(db, "SHOW server_encoding")
    if encoding != "UTF8":
        raise Unusable(f"the database has encoding {encoding}; a store needs one with UTF8")
    found = "SELECT to_regclass('toolnexus_format') IS NOT NULL"
    (made,) = await _row(db, found)
    if not made:
        async with db.transaction():
            await db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            (made,) = await _row(db, found)
            for statement in () if made else _TABLES:
                await db.execute(statement)
            if not made:
                await db.execute("INSERT INTO toolnexus_format VALUES (%s)", (FORMAT,))
    (version,) = await _row(db, "SELECT max(version) FROM toolnexus_format")
    if version != FORMAT:
        raise Unusable(
            f"the tables toolnexus_… have format {version}; this release reads {FORMAT}; "
            "use the release that made them, or another database or schema"
        )


async def _row(db: AsyncConnection, sql: Any, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    row = await (await db.execute(sql, parameters)).fetchone()
    assert row is not None
    return row


async def _standing(db: AsyncConnection, key: str, *, lock: bool = False) -> tuple[int, str | None]:
    """The version and the state of a conversation."""
    sql = "SELECT version, state FROM toolnexus_conversations WHERE id = %s"
    row = await (await db.execute(sql + " FOR UPDATE" if lock else sql, (key,))).fetchone()
    return (0, None) if row is None else (row[0], row[1])


async def _write(
    db: AsyncConnection, id: str, records: Sequence[str], expected: int, version: int, state: str | None
) -> None:
    key = _key(id)
    if expected:
        sql = "UPDATE toolnexus_conversations SET version = %s, state = %s WHERE id = %s"
    else:
        sql = (
            "INSERT INTO toolnexus_conversations (version, state, id) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING"
        )
    done = await db.execute(sql, (version, state, key))
    if not done.rowcount:  # nobody can lock a row that is not there
        found, _ = await _standing(db, key)
        raise conflict(id, expected, found)
    if records:
        rows = [(key, record) for record in records]
        await db.cursor().executemany("INSERT INTO toolnexus_messages (id, record) VALUES (%s, %s)", rows)


def _key(id: str) -> str:
    """What stands for `id` in the tables: itself, or its digest where text or an index cannot hold it."""
    data = id.encode("utf-8", "surrogatepass")
    try:
        plain = data.decode("utf-8") == id and "\0" not in id
    except UnicodeDecodeError:
        plain = False
    if plain and len(data) <= _LONGEST_KEY and not id.startswith(_HASHED):
        return id
    return _HASHED + sha256(data).hexdigest()
