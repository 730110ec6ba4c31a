"""One request and its answer, bounded in time and size. Keys go to the host of the tool and to no other.

A redirect to another origin is followed with GET and HEAD only, without keys and arguments, and to
public addresses only: the answer of a server must not reach what the server itself cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from toolnexus.errors import ConfigError, ToolError
from toolnexus.protocols.http import HttpPool, proxy_of
from toolnexus.tools.builtin.addresses import addresses_for, system_lookup
from toolnexus.tools.builtin.fetch import pinned_session, reason_of, redirect_of
from toolnexus.tools.http.answers import Answer
from toolnexus.tools.http.keys import Keys
from toolnexus.tools.http.request import HttpRequest

MAX_BODY = 10 << 20
"""Bytes of a body; the rest is not read."""
MAX_ERROR_BODY = 64 << 10
MAX_REDIRECTS = 5
_NO_BODY = ("GET", "HEAD")
_TIMES = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


async def exchange(
    request: HttpRequest, keys: Keys, pool: HttpPool, seconds: float, mask: Callable[[str], None]
) -> Answer:
    """The answer to `request`, whatever its status. `mask` gets each secret before it is used.

    Raises `ToolError` when there is none, or none that may be taken. Cancelled, it closes its socket.
    """
    sent = keys.sent(mask)
    headers = CIMultiDict({"User-Agent": "toolnexus", "Accept": "*/*"})
    headers.update(sent.headers)
    for name, value in request.headers.items():
        own = headers.get(name) if name == "Cookie" else None
        headers[name] = value if own is None else f"{own}; {value}"
    url = request.url
    if sent.query:
        url += ("&" if "?" in url else "?") + sent.query
    hops = _Hops(replace(request, url=url), headers, pool, mask)
    host = urlsplit(request.url).hostname
    try:
        async with asyncio.timeout(seconds):
            return await hops.follow()
    except TimeoutError:
        raise ToolError(f"no whole answer from {host!r} within {seconds:g} s") from None
    except (aiohttp.ClientError, OSError, ConfigError) as error:
        raise ToolError(f"no answer from {host!r}: {reason_of(error)}") from None


class _Hops:
    """A chain of requests."""

    def __init__(
        self,
        request: HttpRequest,
        headers: CIMultiDict[str],
        pool: HttpPool,
        mask: Callable[[str], None],
    ) -> None:
        self._url = _url(request.url)
        self._origin = self._url.origin()
        self._method = request.method
        self._body = request.body
        self._headers = headers
        self._pool = pool
        self._mask = mask
        self._left = False
        """Whether the chain has been elsewhere: it gets no keys any more, wherever it goes."""

    async def follow(self) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            async with self._response() as response:
                target = redirect_of(self._url, response)
                if target is None:
                    return await _read(response)
                self._go(target, response.status)
        raise ToolError(f"more than {MAX_REDIRECTS} redirects, the last one to {self._url.host!r}")

    def _go(self, target: URL, status: int) -> None:
        if (status == 303 and self._method != "HEAD") or (status in (301, 302) and self._method == "POST"):
            self._method, self._body = "GET", None
            self._headers.pop("Content-Type", None)
        self._left = self._left or target.origin() != self._origin
        if self._left and self._method not in _NO_BODY:
            raise ToolError(f"HTTP {status}: a redirect to {target.host!r}, which only GET and HEAD follow")
        self._url = target

    @asynccontextmanager
    async def _response(self) -> AsyncGenerator[aiohttp.ClientResponse]:
        options: dict[str, Any] = {"allow_redirects": False, "timeout": _TIMES}
        if not self._left:
            session = self._pool.session()
            if self._pool.has_other_loops:
                await self._pool.forget_dead_loops()
            options |= {"headers": self._headers, "data": self._body, "proxy": self._proxy()}
            options["skip_auto_headers"] = ("Content-Type",)
            async with session.request(self._method, self._url, **options) as response:
                yield response
            return
        addresses = await addresses_for(self._url, (self._origin.host or "",), system_lookup)
        headers = {"User-Agent": "toolnexus", "Accept": "*/*", "Accept-Encoding": "identity"}
        async with (
            pinned_session(addresses) as session,
            session.request(self._method, self._url, headers=headers, **options) as response,
        ):
            yield response

    def _proxy(self) -> str | None:
        proxy = proxy_of(self._url.scheme, self._url.host or "")
        password = urlsplit(proxy or "").password or ""
        for secret in (password, unquote(password)):
            self._mask(secret)
        return proxy


def _url(text: str) -> URL:
    """`text`, its host in ASCII and everything behind it as it is."""
    parts = urlsplit(text)
    origin = str(URL(f"{parts.scheme}://{parts.netloc}").origin())
    query = f"?{parts.query}" if parts.query else ""
    return URL(f"{origin}{parts.path or '/'}{query}", encoded=True)


async def _read(response: aiohttp.ClientResponse) -> Answer:
    """The body up to its bound."""
    good = 200 <= response.status < 300
    most = MAX_BODY if good else MAX_ERROR_BODY
    body = bytearray()
    while len(body) <= most and (chunk := await response.content.readany()):
        body += chunk
    return Answer(
        status=response.status,
        reason=response.reason or "",
        content_type=response.headers.get("Content-Type", ""),
        body=bytes(body[:most]),
        cut=len(body) > most,
    )
