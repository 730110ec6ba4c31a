"""HTTP to one agent: bounded answers, faults in plain words, headers for one origin only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.client.errors import A2AClientTimeoutError
from a2a.utils.errors import A2AError

from toolnexus.protocols.http import KEEP_IDLE
from toolnexus.runtime.redact import Redactor

MOST_BYTES = 32 << 20
"""Of one answer, or of one stream."""
_CONNECT = 10.0
_RETRY_AFTER = 0.2
_EXCERPT, _LONGEST = 300, 800
"""Characters of what the agent said, and of all that is told of it."""
_PASSING = frozenset((408, 425, 429))


class Fault(Exception):
    """Why an agent gave no sound answer, in words for people. `passing`: it may be over in a moment."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…")
        self.passing = passing


class Wire(httpx.AsyncClient):
    """Follows no redirect, so `headers` stay with the origin they are for. `timeout`: seconds of silence."""

    def __init__(self, headers: Mapping[str, str], timeout: float) -> None:
        patience = httpx.Timeout(timeout, connect=min(_CONNECT, timeout))
        given = {"Accept-Encoding": "identity", **headers}
        super().__init__(
            headers=given,
            timeout=patience,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=KEEP_IDLE),
            verify=_certificates(),
            follow_redirects=False,
        )

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        try:
            response = await super().send(request, stream=True, **options)
        except httpx.ConnectError:  # nothing was sent: nothing can happen twice
            await asyncio.sleep(_RETRY_AFTER)
            response = await super().send(request, stream=True, **options)
        try:
            _check(response)
            response.stream = _Bounded(response.stream)
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._left = MOST_BYTES

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise Fault(f"its answer is larger than {MOST_BYTES >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _check(response: httpx.Response) -> None:
    """Raises `Fault` for an answer that no agent gives."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Fault("its answer is compressed, which was not asked for")  # a few bytes could become gigabytes
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if response.is_success and kind == "text/html":
        raise Fault("it answered with a web page (text/html) and no A2A; check the address")
    if response.has_redirect_location:
        host = urlsplit(response.headers["location"]).netloc or "another path"
        raise Fault(f"it redirects to {host}, which is not followed; name that address yourself")


@cache
def _certificates() -> Any:
    return httpx.create_ssl_context()


def explained(error: Exception, timeout: float, redact: Redactor) -> Fault:
    """`error` of the SDK, of HTTP or of parsing as a `Fault`."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, (A2AClientTimeoutError, httpx.TimeoutException)):
        return Fault(f"it said nothing for {timeout:g} s", passing=True)
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        status = cause.response.status_code
        passing = status >= 500 or status in _PASSING
        if type(error).__name__ in ("A2AClientError", "HTTPStatusError", "AgentCardResolutionError"):
            return Fault(f"HTTP {status} {cause.response.reason_phrase}".rstrip(), passing=passing)
        return Fault(_line(f"{_words(error)} (HTTP {status})", redact), passing=passing)
    if isinstance(cause, httpx.RequestError):
        what = str(cause) or type(cause).__name__
        if isinstance(cause, httpx.ConnectError):
            what = f"cannot connect: {what}"
        return Fault(_line(what, redact), passing=True)
    if isinstance(error, A2AError):
        return Fault(_line(_words(error), redact))
    return Fault(_line(f"its answer is malformed: {_words(error)}", redact))


def _words(error: Exception) -> str:
    text = str(error)
    return (
        text if isinstance(error, A2AError) and text else f"{type(error).__name__}: {text}".removesuffix(": ")
    )


def _line(text: str, redact: Redactor) -> str:
    line = " ".join(redact(text).split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"
