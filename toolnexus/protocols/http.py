"""What everything over plain HTTP shares: connections, the proxy, and what a header may be.

aiohttp is loaded by the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ContextKey

if TYPE_CHECKING:
    from aiohttp import ClientSession


class HttpPool:
    """One aiohttp session per event loop: keep-alive connections, as many as runs need at once."""

    def __init__(self) -> None:
        self._sessions: dict[asyncio.AbstractEventLoop, ClientSession] = {}
        self._users = 0

    def retain(self) -> None:
        """One more user."""
        self._users += 1

    async def release(self) -> None:
        """One user less; the last one closes the connections."""
        self._users -= 1
        if self._users <= 0:
            await self.aclose()

    def session(self) -> ClientSession:
        """The session of the running loop, made at first use and again after `aclose`."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            session = self._sessions[loop] = _new_session()
        return session

    async def aclose(self) -> None:
        """Close every connection. Those of another loop that still runs are closed there."""
        sessions, self._sessions = self._sessions, {}
        here = asyncio.get_running_loop()
        for loop, session in sessions.items():
            if loop is here:
                await session.close()
            elif loop.is_closed():
                await _abandon(session)
            else:
                asyncio.run_coroutine_threadsafe(session.close(), loop)

    @property
    def has_other_loops(self) -> bool:
        """Whether more than one loop has connections here."""
        return len(self._sessions) > 1

    async def forget_dead_loops(self) -> None:
        """Let go of the connections of loops that are gone."""
        for loop in [loop for loop in self._sessions if loop.is_closed()]:
            await _abandon(self._sessions.pop(loop))


async def _abandon(session: ClientSession) -> None:
    """A connector that is only dropped complains of its connections on the terminal."""
    connector = session.connector
    session.detach()
    if connector is not None:
        await connector.close()  # of a closed loop: waits for nothing


def _new_session() -> ClientSession:
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


KEEP_IDLE = 4.0
"""Seconds that connections to agents and tool servers stay open unused. Many servers close theirs after five,
and a request that meets the close on its way fails, without anybody knowing whether it was read."""
HTTP_POOL: ContextKey[HttpPool] = ContextKey("http_pool")
"""Host value: the connections of the client."""


def proxy_of(scheme: str, host: str) -> str | None:
    """The proxy that the environment names for a host. Raises `ConfigError` for one of another kind."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass  # 10 ms that only a request needs

    proxy = getproxies().get(scheme)
    if not proxy or proxy_bypass(host):
        return None
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in ("http", "https"):
        raise ConfigError(f"the proxy for {host} has scheme {parts.scheme!r}; use an http:// proxy")
    return parts.geturl()


_TOKEN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises `ConfigError` unless `headers` are texts of one line each; their values are never shown."""
    if not isinstance(headers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"headers must be a mapping from name to value, not {type(headers).__name__}")
    for name, value in headers.items():
        for what in (name, value):
            if not isinstance(what, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                kind = type(what).__name__
                raise ConfigError(f"header {name!r}: name and value must be texts, not {kind}")
        if any(ord(c) < 32 or ord(c) == 127 for c in name + value):
            raise ConfigError(f"header {name!r} holds a control character; headers are one line each")
        if not name or not _TOKEN.issuperset(name):
            raise ConfigError(f"header {name!r} is no name; use letters, digits and any of !#$%&'*+-.^_`|~")
