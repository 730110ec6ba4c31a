"""The default wire, on aiohttp.

Above: `hosted`, the models over HTTP. Below: one `HttpPool`, shared by all wires of a client.
aiohttp is loaded by the first request, not by making a model.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from toolnexus.errors import ModelConnectionError, ModelError, ModelResponseError
from toolnexus.models.keys import check_url, place
from toolnexus.models.wire import CONNECT, SILENCE, http_error, parse_reply
from toolnexus.protocols.http import HttpPool, check_headers, proxy_of
from toolnexus.runtime.redact import Redactor

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from aiohttp import ClientResponse, FormData, StreamReader

T = TypeVar("T")

_DRAIN = 0.5
_UNREACHED = ("ClientConnectorError", "ClientConnectorDNSError")
_ERROR_BODY = 64 << 10
_DOCUMENT = (b"{", b"[", b"<")
"""How JSON and a page begin, whatever a server calls them, and no event does."""


class HttpWire:
    """Requests to one endpoint.

    `headers` go with every request, the key among them, and their values in `secrets` are masked in
    every error. `connect` and `silence` are seconds: to connect, and without a single byte. There is
    no limit on the whole request. Proxies come from the environment; redirects are never followed.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        *,
        secrets: tuple[str, ...] | None = None,
        pool: HttpPool | None = None,
        connect: float = CONNECT,
        silence: float = SILENCE,
    ) -> None:
        check_url(base_url)
        self._base_url = base_url
        self._host, query = place(base_url)
        check_headers(headers or {})
        given = {name.lower(): value for name, value in (headers or {}).items()}
        self._headers = {"content-type": "application/json", "user-agent": "toolnexus", **given}
        known = header_secrets(given) if secrets is None else secrets
        self._secrets = (*known, *query_secrets(query))
        self._redact = Redactor(self._secrets)
        self._pool = pool or HttpPool()
        self._holds = False
        self._leaving = False
        self._in_flight = 0
        self._limits = (connect, silence)
        self._options: dict[tuple[str, bool], dict[str, Any]] = {}

    @property
    def host(self) -> str:
        return self._host

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._secrets

    def post(self, path: str, body: bytes) -> CoroutineType[Any, Any, dict[str, Any]]:
        return self._exchange(path, body, HttpWire._parsed)

    def upload(
        self, path: str, fields: Sequence[tuple[str, str]], file: tuple[str, str, bytes]
    ) -> CoroutineType[Any, Any, dict[str, Any]]:
        from aiohttp import FormData

        form = FormData(fields)
        name, kind, content = file
        form.add_field("file", content, filename=name, content_type=kind)
        return self._exchange(path, form, HttpWire._parsed)

    def fetch(self, path: str, body: bytes) -> CoroutineType[Any, Any, tuple[bytes, str]]:
        return self._exchange(path, body, HttpWire._as_it_is)

    async def _exchange(
        self, path: str, body: bytes | FormData, read: Callable[[HttpWire, bytes, str], T]
    ) -> T:
        """What `read` makes of the content that the endpoint answers with, and of its kind."""
        self._in_flight += 1
        try:
            sent = self._request(path, body, streamed=False)
            del body
            async with await sent as response:
                await self._accept(response)
                data, kind = await response.read(), response.content_type
        except (TimeoutError, OSError, _client_error()) as error:
            raise self._broken(error) from self._redact.cause(error)
        finally:
            self._in_flight -= 1
            if self._leaving:
                await self._leave_when_idle()
        return read(self, data, kind)

    async def stream(self, path: str, body: bytes) -> AsyncGenerator[dict[str, Any]]:
        from toolnexus.models.sse import DONE, EventSplitter, parse_event

        host = self._host
        self._in_flight += 1
        try:
            sent = self._request(path, body, streamed=True)
            del body
            async with await sent as response:
                await self._accept(response)
                content, kind = response.content, response.content_type
                chunk = await _first(content) if kind != "text/event-stream" else await content.readany()
                if kind.endswith("json") or (kind != "text/event-stream" and chunk.lstrip()[:1] in _DOCUMENT):
                    yield parse_reply(host, chunk + await content.read(), self._redact)
                    return
                splitter = EventSplitter()
                while chunk:
                    for data in splitter.feed(chunk):
                        if data == DONE:
                            await _drain(response)
                            return
                        if (event := parse_event(data, host)) is not None:
                            yield event
                    chunk = await content.readany()
                for data in splitter.end():
                    with suppress(ModelResponseError):  # a torn event: the model sees that no end came
                        if data != DONE and (event := parse_event(data, host)) is not None:
                            yield event
        except (TimeoutError, OSError, _client_error()) as error:
            raise self._broken(error) from self._redact.cause(error)
        finally:
            self._in_flight -= 1
            if self._leaving:
                await self._leave_when_idle()

    async def aclose(self) -> None:
        """Close the connections; requests in flight, perhaps of another client, end first."""
        self._leaving = True
        await self._leave_when_idle()

    async def _leave_when_idle(self) -> None:
        if not self._leaving or self._in_flight:
            return
        self._leaving = False
        if self._holds:
            self._holds = False
            self._options.clear()
            await self._pool.release()

    def _parsed(self, data: bytes, kind: str) -> dict[str, Any]:
        return parse_reply(self._host, data, self._redact)

    def _as_it_is(self, data: bytes, kind: str) -> tuple[bytes, str]:
        return data, kind

    def _request(self, path: str, body: bytes | FormData, *, streamed: bool) -> Awaitable[ClientResponse]:
        if not self._holds:
            self._holds = True
            self._pool.retain()
        options = self._options.get((path, streamed))
        if options is None:
            options = self._options[path, streamed] = self._request_options(path, streamed)
        session = self._pool.session()
        if isinstance(body, bytes):
            from toolnexus.models.body import Body

            return session.post(data=Body(body), **options)
        headers = options["headers"].copy()
        headers.popall("content-type")  # a form says itself what it is
        return session.post(data=body, **{**options, "headers": headers})

    async def _accept(self, response: ClientResponse) -> None:
        """Raises `ModelHTTPError` for an answer that is an error."""
        if self._pool.has_other_loops:
            await self._pool.forget_dead_loops()
        if response.status >= 300:
            text = await _beginning(response)
            raise http_error(self._host, response.status, response.headers, text, self._redact)

    def _request_options(self, path: str, streamed: bool) -> dict[str, Any]:
        """What is the same in every request on `path`, in the types that aiohttp wants."""
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        base = self._base
        if base.path.endswith("/v1") and path.startswith("/v1/"):
            path = path.removeprefix("/v1")
        headers = CIMultiDict(self._headers)
        if streamed:
            headers.setdefault("accept", "text/event-stream")
            headers.setdefault("accept-encoding", "identity")  # a compressor would hold deltas back
        connect, silence = self._limits
        return {
            "url": URL(base._replace(path=base.path + path).geturl(), encoded=True),
            "headers": headers,
            "timeout": aiohttp.ClientTimeout(total=None, connect=connect, sock_read=silence),
            "allow_redirects": False,
            **self._proxy(),
        }

    @cached_property
    def _base(self) -> SplitResult:
        from urllib.parse import urlsplit

        parts = urlsplit(self._base_url)
        return parts._replace(path=parts.path.rstrip("/"))

    def _proxy(self) -> dict[str, Any]:
        proxy = proxy_of(self._base.scheme, self._base.hostname or "")
        if proxy is None:
            return {}
        from urllib.parse import unquote, urlsplit

        password = urlsplit(proxy).password or ""
        for secret in (password, unquote(password)):
            self._redact.add(secret)
        return {"proxy": proxy}

    def _broken(self, error: BaseException) -> ModelError:
        connect, silence = self._limits
        name = type(error).__name__
        if name == "ConnectionTimeoutError":
            what = f"no connection within {connect:g} s"
        elif isinstance(error, asyncio.TimeoutError):
            what = f"not a byte for {silence:g} s"
        elif name in _UNREACHED:  # their own text repeats the host
            what = f"cannot connect: {self._redact(_cause(error))[:500]}"
        else:
            what = self._redact(str(error))[:500] or name
        return ModelConnectionError(f"{self._host}: {what}")


def _cause(error: Any) -> str:
    inner: OSError = error.os_error
    code = inner.errno or 0
    return os.strerror(code) if code > 0 else inner.strerror or str(inner) or type(inner).__name__


_HARMLESS = frozenset(
    "accept accept-encoding anthropic-beta anthropic-version content-type http-referer openai-beta"
    " openai-organization openai-project referer user-agent x-title".split()
)
"""Headers whose values are ordinary words, which would be missed in a text."""


def header_secrets(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The values of `headers`, and of each what stands behind its scheme (`Bearer …`)."""
    if not headers:
        return ()
    from toolnexus.runtime.secrets import secret_value

    values = [v for name, v in headers.items() if name.lower() not in _HARMLESS or secret_value(v)]
    return tuple(values + [v.partition(" ")[2] for v in values if " " in v])


def query_secrets(query: str) -> tuple[str, ...]:
    """The values in the query of an address that are secrets by their name, such as `api_key=`."""
    if not query:
        return ()
    from urllib.parse import parse_qsl

    from toolnexus.runtime.secrets import secret_name

    pairs = parse_qsl(query)
    return tuple([value for name, value in pairs if secret_name(name)])


async def _drain(response: ClientResponse) -> None:
    """Read past the last event so that the connection can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN):
            while await response.content.readany():
                pass


async def _first(content: StreamReader) -> bytes:
    """The first bytes that are more than blanks."""
    data = b""
    while not data.strip() and (chunk := await content.readany()):
        data += chunk
    return data


async def _beginning(response: ClientResponse) -> bytes:
    """As much of a body as an error text can need."""
    out = bytearray()
    while len(out) < _ERROR_BODY and (chunk := await response.content.readany()):
        out += chunk
    return bytes(out)


def _client_error() -> type[Exception]:
    import aiohttp

    return aiohttp.ClientError
