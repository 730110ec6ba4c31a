"""A place on a server that a test has for itself, and what it may do there behind the store's back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tests.stores.servers import Server
from toolnexus import PostgresStore, RedisStore
from toolnexus.stores.server import ServerStore


class Place(Protocol):
    server: Server
    writes: bytes
    """What is in the last thing that a client sends for a write."""

    def make(self, port: int | None = None) -> ServerStore:
        """A store here; `port`: through another way to the server."""
        ...

    def wrong(self) -> ServerStore:
        """A store whose password is wrong."""
        ...

    def tear(self, id: str, records: Sequence[bytes]) -> None:
        """Put records among the messages of a conversation, and tear its state."""
        ...

    def set_aside(self, id: str) -> list[bytes]: ...

    def end_connections(self) -> None:
        """Cut every connection but our own."""
        ...

    def of_later_release(self) -> None: ...


class PostgresPlace:
    writes = b"COMMIT"

    def __init__(self, server: Server, address: str, name: str) -> None:
        self.server = server
        self.address = f"{address}?options=-csearch_path%3D{name}"
        self.execute(f"CREATE SCHEMA {name}")

    def execute(self, sql: Any, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as db:
            done = db.execute(sql, parameters)
            return done.fetchall() if done.description else []

    def make(self, port: int | None = None) -> PostgresStore:
        return PostgresStore(self.address.replace(f":{self.server.port}/", f":{port or self.server.port}/"))

    def wrong(self) -> PostgresStore:
        return PostgresStore(f"postgresql://ann:not-the-word@127.0.0.1:{self.server.port}/postgres")

    def tear(self, id: str, records: Sequence[bytes]) -> None:
        for record in records:
            sql = "INSERT INTO toolnexus_messages (id, record) VALUES (%s, %s)"
            self.execute(sql, (id, record.decode()))
        self.execute("UPDATE toolnexus_conversations SET state = %s WHERE id = %s", ('{"n": ', id))

    def set_aside(self, id: str) -> list[bytes]:
        rows = self.execute("SELECT record FROM toolnexus_set_aside WHERE id = %s", (id,))
        return [record.encode() for (record,) in rows]

    def end_connections(self) -> None:
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    def of_later_release(self) -> None:
        self.execute("UPDATE toolnexus_format SET version = 99")


class RedisPlace:
    writes = b"EVALSHA"

    def __init__(self, server: Server, address: str, name: str) -> None:
        self.server, self.address, self.prefix = server, address, f"{name}:"

    @property
    def db(self) -> Any:
        import redis

        return redis.Redis.from_url(self.address)  # type: ignore[no-untyped-call]

    def make(self, port: int | None = None) -> RedisStore:
        address = self.address.replace(f":{self.server.port}/", f":{port or self.server.port}/")
        return RedisStore(address, prefix=self.prefix)

    def wrong(self) -> RedisStore:
        return RedisStore(f"redis://ann:not-the-word@127.0.0.1:{self.server.port}/0")

    def tear(self, id: str, records: Sequence[bytes]) -> None:
        with self.db as db:
            for record in records:
                db.rpush(f"{self.prefix}messages:{id}", record)
            db.hset(f"{self.prefix}conversation:{id}", "state", '{"n": ')

    def set_aside(self, id: str) -> list[bytes]:
        with self.db as db:
            return db.lrange(f"{self.prefix}set_aside:{id}", 0, -1)[::2]

    def end_connections(self) -> None:
        with self.db as db:
            db.client_kill_filter(_type="normal", skipme=True)

    def of_later_release(self) -> None:
        with self.db as db:
            db.set(f"{self.prefix}format", "99")
