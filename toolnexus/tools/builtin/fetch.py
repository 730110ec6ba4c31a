"""One GET request of `webfetch`, bounded in time, size and reach.

Above: `webfetch`. Below: `addresses` says where to connect, `content` what the body is. Every hop has
a session of its own, so nothing is kept: no cookie, no connection, no looked-up name. Proxies and
credentials of the environment are not used: the address that is checked is the one connected to.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Literal

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from toolnexus.core.values import mutable
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.addresses import Lookup, addresses_for, system_lookup
from toolnexus.tools.builtin.content import SNIFF_BYTES, Kind, kind_of
from toolnexus.tools.builtin.loader import definition

_LIMITS = definition("webfetch").limits
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_HEADER = 64 << 10
_SLICE = 256 << 10
_CHARSET = re.compile(r"""\bcharset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)

Ending = Literal["whole", "refused", "size", "time", "broken"]
"""How a body ended: read to its end, not read because it is binary, or cut, for which reason."""


@mutable(kw_only=True)
class Page:
    """What a request gave."""

    url: str
    """The address after all redirects."""
    status: int
    content_type: str
    """In lower case, without parameters; `""` when the server names none."""
    charset: str | None
    size: int | None
    """The length that the server names, in bytes."""
    body: bytearray = field(default_factory=bytearray)
    ending: Ending = "broken"

    @property
    def kind(self) -> Kind:
        """What the body is, as far as it came."""
        return kind_of(self.content_type, self.charset, bytes(self.body[:SNIFF_BYTES]))


async def fetch(
    url: str, *, accept: str, seconds: float, allow: Iterable[str], lookup: Lookup = system_lookup
) -> Page:
    """GET `url`, redirects followed, within `seconds` altogether.

    A body that is too long, too slow or that breaks off is cut, and `ending` says so. Raises
    `ToolError` when there is no answer at all, or when an address on the way may not be fetched.
    """
    hops = _Hops(_checked(url), accept, frozenset(allow), lookup)
    try:
        async with asyncio.timeout(seconds):
            return await hops.follow()
    except TimeoutError as error:
        if hops.page is None:
            raise ToolError(f"no answer from {hops.url.host!r} within {seconds:g} s") from error
        if hops.page.ending == "broken":  # or it was the close that took so long
            hops.page.ending = "time"
    except (aiohttp.ClientError, OSError) as error:
        if hops.page is None:
            raise ToolError(f"cannot fetch from {hops.url.host!r}: {reason_of(error)}") from error
    return hops.page


class _Hops:
    """A chain of requests; `page` is there as soon as the last answer has begun."""

    def __init__(self, url: URL, accept: str, allow: frozenset[str], lookup: Lookup) -> None:
        self.url = url
        """Where the chain is now."""
        self._headers = {"User-Agent": "toolnexus", "Accept": accept, "Accept-Encoding": "gzip"}
        self._allow = allow
        self._lookup = lookup
        self.page: Page | None = None

    async def follow(self) -> Page:
        most = _LIMITS["maxRedirects"]
        for _ in range(most + 1):
            addresses = await addresses_for(self.url, self._allow, self._lookup)
            async with (
                pinned_session(addresses) as session,
                session.get(self.url, headers=self._headers, allow_redirects=False) as response,
            ):
                target = redirect_of(self.url, response)
                if target is None:
                    self.page = _page(self.url, response)
                    await _read(response, self.page)
                    return self.page
            self.url = target
        raise ToolError(f"more than {most} redirects, the last one to {self.url.host!r}")


class _Fixed(AbstractResolver):
    """Knows the checked addresses and no other, so that a second look-up cannot lead elsewhere."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """There is nothing to close."""


def pinned_session(addresses: Sequence[str]) -> aiohttp.ClientSession:
    """A session that connects to `addresses` and nothing else, and unpacks nothing."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=_Fixed(addresses), use_dns_cache=False, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
        auto_decompress=False,
        max_line_size=_LONGEST_HEADER,
        max_field_size=_LONGEST_HEADER,
    )


def _checked(text: str) -> URL:
    """`text` as an address of the web. Raises `ToolError`, whose text never holds a password."""
    try:
        url = URL(text.strip())
    except ValueError as error:
        raise ToolError("the URL cannot be understood; write 'https://host/path'") from error
    if url.scheme not in ("http", "https"):
        raise ToolError(f"a URL must begin with http:// or https://, not with {url.scheme[:40]!r}")
    if url.raw_user is not None or url.raw_password is not None:
        raise ToolError("a URL with a user name or password is not fetched; leave out what is before the @")
    if not url.raw_host:
        raise ToolError("the URL names no host; write 'https://host/path'")
    return url


def redirect_of(url: URL, response: aiohttp.ClientResponse) -> URL | None:
    """Where `response` leads to, None when nowhere. Raises `ToolError` for what is not fetched."""
    location = response.headers.get("Location")
    if response.status not in _REDIRECTS or not location:
        return None
    told = location.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return _checked(str(url.join(URL(told))))
    except ValueError as error:
        raise ToolError(f"{url.host!r} redirects to something that is no URL") from error
    except ToolError as error:
        raise ToolError(f"{url.host!r} redirects to what is not fetched: {error}") from error


def _page(url: URL, response: aiohttp.ClientResponse) -> Page:
    mime, _, parameters = response.headers.get("Content-Type", "").partition(";")
    charset = _CHARSET.search(parameters)
    return Page(
        url=str(url),
        status=response.status,
        content_type=mime.strip().lower(),
        charset=charset[1] if charset else None,
        size=response.content_length,
    )


async def _read(response: aiohttp.ClientResponse, page: Page) -> None:
    """The body, unpacked, until it ends, is found to be binary, or is longer than allowed."""
    most = _LIMITS["maxBodyBytes"]
    unpack = _unpacker(response)
    while chunk := await response.content.readany():
        page.body += unpack.feed(chunk)
        while unpack.waiting and len(page.body) <= most:
            await asyncio.sleep(0)  # a small chunk can hold a lot: others get their turn
            page.body += unpack.feed(b"")
        if unpack.broken:
            return
        if len(page.body) >= SNIFF_BYTES and page.kind == "binary":
            page.ending = "refused"
            return
        if len(page.body) > most:
            del page.body[most:]
            page.ending = "size"
            return
    if unpack.finished:
        page.ending = "whole"


class _Plain:
    """A body that is not compressed."""

    finished = True
    waiting = broken = False

    def feed(self, data: bytes) -> bytes:
        return data


class _Gzip:
    """A gzip body, unpacked slice by slice."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._data = b""
        self._begun = False
        self.broken = False
        """Whether it goes on with something that is not gzip."""

    @property
    def waiting(self) -> bool:
        """Whether there is more in what was fed; feed nothing to get it."""
        return bool(self._data) and not self.broken

    @property
    def finished(self) -> bool:
        """Whether the end was seen; a body without a byte has none."""
        return self._member.eof or not self._begun

    def feed(self, data: bytes) -> bytes:
        """The next slice of the text."""
        self._begun = True
        data = self._data + data
        if self._member.eof:
            if not data.startswith(b"\x1f"):
                self._data = b""  # padding behind the last member
                return b""
            self._member = zlib.decompressobj(wbits=31)
        try:
            out = self._member.decompress(data, _SLICE)
        except zlib.error:
            self.broken = True
            return b""
        self._data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return out


def _unpacker(response: aiohttp.ClientResponse) -> _Plain | _Gzip:
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding in ("", "identity"):
        return _Plain()
    if coding in ("gzip", "x-gzip"):
        return _Gzip()
    raise ToolError(f"the server packed the page with {coding[:40]!r}; only gzip was asked for")


def reason_of(error: Exception) -> str:
    """Why there was no answer, in a few words."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"[:300]
    cause: BaseException = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    code = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
    return os.strerror(code) if code and code > 0 else str(cause)[:300] or type(cause).__name__
