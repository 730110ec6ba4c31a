"""Conversations in Redis: a list of messages each, and one script per write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolnexus.core.options import install
from toolnexus.errors import ConfigError
from toolnexus.stores.records import conflict
from toolnexus.stores.server import CONNECT_SECONDS, CONNECTIONS, PATIENCE, ServerStore, Unusable

if TYPE_CHECKING:
    from redis.asyncio import Redis

FORMAT = b"1"

_WRITE = """
local kept = redis.call('HMGET', KEYS[1], 'version', 'state')
local found = kept[1] or '0'
local expected, version, how, has_state, state = unpack(ARGV, 1, 5)
if found == version then return {1, version} end
if found ~= expected then return {0, found} end
if how == 'replace' then
  redis.call('DEL', KEYS[2])
  if #ARGV == 5 then redis.call('DEL', KEYS[1], KEYS[3]) return {1, '0'} end
elseif #ARGV == 5 and ((has_state == '0' and not kept[2]) or (has_state == '1' and kept[2] == state)) then
  return {1, found}
end
redis.call('HSET', KEYS[1], 'version', version)
if has_state == '1' then redis.call('HSET', KEYS[1], 'state', state)
else redis.call('HDEL', KEYS[1], 'state') end
for i = 6, #ARGV do redis.call('RPUSH', KEYS[2], ARGV[i]) end
return {1, version}
"""

_SET_ASIDE = """
for i = 1, #ARGV, 2 do
  if redis.call('LREM', KEYS[1], 1, ARGV[i]) == 1 then redis.call('RPUSH', KEYS[2], ARGV[i], ARGV[i + 1]) end
end
"""


class RedisStore(ServerStore):
    """Keeps conversations in the Redis database `url`, under keys that begin with `prefix`.

    `url` is `redis://user:password@host:port/database`, `rediss://…` over TLS, or `unix:///path`. How much
    a crash of the server loses is the server's setting: turn on its append-only file, and no eviction.
    Raises `ConfigError` for what is no address, and when redis is not installed.
    """

    def __init__(self, url: str, *, prefix: str = "toolnexus:") -> None:
        if not isinstance(prefix, str) or not prefix:
            raise ConfigError(f"RedisStore: prefix={prefix!r}; give text, such as 'toolnexus:'")
        where, passwords = "", list[str]()
        try:
            options = _options(url)
            parts = urlsplit(url)
            if parts.scheme != "unix" and not parts.path.strip("/").isdecimal() and parts.path.strip("/"):
                raise ValueError  # a slash in a password that is no %2F ends the host, too
            port = "" if parts.port is None else f":{parts.port}"
            where = f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
            passwords = [str(value) for name, value in options.items() if "password" in name]
        except ImportError as error:
            raise ConfigError(f"RedisStore needs redis: {install('redis')} ({error})") from error
        except Exception:
            pass  # what the driver says of it may hold the password
        if not where:
            raise ConfigError(
                "RedisStore: give an address 'redis://user@host:port/0', 'rediss://…' or 'unix:///path', "
                "with %-escapes for what is special in a password"
            )
        super().__init__(where, passwords, partial(_Redis, url, prefix))


def _options(url: str) -> dict[str, Any]:
    """The options of a connection. Raises `ValueError` and `TypeError` for what is no address."""
    from redis.asyncio.connection import Connection, parse_url
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import ConnectionError

    options: dict[str, Any] = {
        "socket_timeout": PATIENCE,
        "socket_connect_timeout": CONNECT_SECONDS,
        **parse_url(url),
        "decode_responses": False,
        "retry": Retry(NoBackoff(), 1),
        "retry_on_error": [ConnectionError],
    }
    known = dict(options)
    known.pop("connection_class", Connection)(**known)  # opens nothing, and knows which options there are
    return options


class _Redis:
    """A database and the driver's pool of connections to it."""

    def __init__(self, url: str, prefix: str) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.exceptions import RedisError

        self.errors = (RedisError,)
        self._prefix = prefix.encode()
        pool = BlockingConnectionPool(max_connections=CONNECTIONS, timeout=PATIENCE, **_options(url))
        self._db: Redis = Redis(connection_pool=pool)
        self._write = self._db.register_script(_WRITE)
        self._aside = self._db.register_script(_SET_ASIDE)
        self._ready = False
        self._checking = asyncio.Lock()

    async def load(self, id: str) -> tuple[int, Sequence[tuple[bytes, bytes]]]:
        await self._check()
        async with self._db.pipeline(transaction=True) as both:
            both.hget(self._key("conversation", id), "version")
            both.lrange(self._key("messages", id), 0, -1)
            version, records = await both.execute()
        return int(version or 0), [(record, record) for record in records]

    async def load_state(self, id: str) -> bytes | None:
        await self._check()
        state: Any = await self._db.hget(self._key("conversation", id), "state")  # type: ignore[misc]
        return state

    async def append(
        self, id: str, records: Sequence[str], expected: int, version: int, state: str | None
    ) -> int:
        return await self._written(id, records, expected, version, "append", state)

    async def replace(self, id: str, records: Sequence[str], expected: int, version: int) -> int:
        return await self._written(id, records, expected, version, "replace", None)

    async def set_aside(self, id: str, broken: Sequence[tuple[bytes, str]]) -> None:
        given = [part for record, reason in broken for part in (record, reason)]
        await self._aside(keys=[self._key("messages", id), self._key("set_aside", id)], args=given)

    async def close(self) -> None:
        await self._db.aclose(close_connection_pool=True)

    async def _written(
        self, id: str, records: Sequence[str], expected: int, version: int, how: str, state: str | None
    ) -> int:
        await self._check()
        keys = [self._key(kind, id) for kind in ("conversation", "messages", "set_aside")]
        given = [expected, version, how, int(state is not None), state or "", *records]
        written, found = await self._write(keys=keys, args=given)
        if not written:
            raise conflict(id, expected, int(found))
        return int(found)

    async def _check(self) -> None:
        """Raises `Unusable` when a later release wrote under this prefix."""
        if self._ready:
            return
        async with self._checking:
            key = self._prefix + b"format"
            await self._db.set(key, FORMAT, nx=True)
            found: Any = await self._db.get(key)
        if found != FORMAT:
            raise Unusable(
                f"what is stored under the prefix {self._prefix.decode()!r} has format {found!r}; this "
                f"release reads {FORMAT!r}; use the release that wrote it, or another prefix"
            )
        self._ready = True

    def _key(self, kind: str, id: str) -> bytes:
        return self._prefix + kind.encode() + b":" + id.encode("utf-8", "surrogatepass")
