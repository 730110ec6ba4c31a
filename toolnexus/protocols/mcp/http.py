"""Streamable HTTP, with faults contained: one bad answer costs one call, never the connection.

The SDK's transport dies of an exception in any of its requests and drops the status of an error
answer. So our client never raises: it gives the SDK a JSON-RPC error that says what happened.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import reduce
from typing import Any
from weakref import WeakSet

import httpx2
from mcp.client.streamable_http import streamable_http_client

from toolnexus.protocols.http import KEEP_IDLE
from toolnexus.protocols.mcp.call import CAP
from toolnexus.protocols.mcp.endpoint import Endpoint
from toolnexus.protocols.mcp.lenient import MendedStream
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.threads import run_in_thread

FAULT_CODE = -32000
_SESSION = "mcp-session-id"
_EXCERPT = 300
_ERROR_BODY = 1 << 16
_MAX_EVENT = 64 << 20
_FAREWELL = 1.0
_RETRY_AFTER = 0.2


class _Addresses(logging.Filter):
    """The library tells every request at INFO, with its whole address: a key in it must not get there."""

    def __init__(self) -> None:
        super().__init__()
        self.redactors: WeakSet[Redactor] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        shown = reduce(lambda text, redact: redact(text), self.redactors, said)
        if shown is not said:
            record.msg, record.args = shown, ()
        return True


_addresses = _Addresses()
logging.getLogger(httpx2.__name__).addFilter(_addresses)


class ContainedClient(httpx2.AsyncClient):
    """Answers every POST with a response, whatever the network does."""

    def __init__(self, endpoint: Endpoint, redact: Redactor) -> None:
        patience = httpx2.Timeout(
            connect=min(10.0, endpoint.timeout),
            write=endpoint.timeout,
            read=endpoint.timeout * CAP + 5,
            pool=None,
        )
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEP_IDLE)
        super().__init__(headers=dict(endpoint.headers), timeout=patience, limits=limits)
        self._endpoint = endpoint
        self._redact = redact
        _addresses.redactors.add(redact)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":
            return await self._farewell(request, options)
        if request.method != "POST":  # the stream of notifications may be silent for ever
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": None}
            return await super().send(request, **options)
        try:
            response = await self._post(request, options)
            if response.status_code >= 400:
                return await self._explained(request, response)
            if response.headers.get("content-type", "").lower().startswith("application/json"):
                await response.aread()  # inside this try: a torn body must not reach the SDK
            return response
        except httpx2.HTTPError as error:
            what = str(error) or type(error).__name__
            if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                what = f"cannot connect to {self._endpoint.address}: {what}; check that it runs there"
            return self._fault(request, 502, what)

    async def _post(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        try:
            return await super().send(request, **options)
        except httpx2.ConnectError:  # nothing was sent, so nothing can happen twice
            await asyncio.sleep(_RETRY_AFTER)
            return await super().send(request, **options)

    async def _farewell(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """End a session. Nobody needs to hear that it is gone already, or that nobody listens."""
        try:
            async with asyncio.timeout(_FAREWELL):
                await (await super().send(request, **options)).aclose()
        except (httpx2.HTTPError, TimeoutError):
            pass
        return httpx2.Response(200, request=request)

    async def _explained(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        status = response.status_code
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _ERROR_BODY:
                break
        await response.aclose()
        if _SESSION in request.headers and (status == 404 or (status == 400 and b"session" in body.lower())):
            return self._fault(request, status, "the session is gone", sessionLost=True)
        if status != 401 and _is_error(body):
            return httpx2.Response(status, request=request, headers=_JSON, content=body)
        shown = self._redact(body.decode("utf-8", "replace"))  # before a cut could leave half a secret
        excerpt = " ".join(shown.split())[:_EXCERPT]
        return self._fault(request, status, f"HTTP {status}{': ' if excerpt else ''}{excerpt}")

    def _fault(self, request: httpx2.Request, status: int, text: str, **data: Any) -> httpx2.Response:
        error = {"code": FAULT_CODE, "message": self._redact(text), "data": {"httpStatus": status, **data}}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        return httpx2.Response(max(status, 400), request=request, headers=_JSON, content=body)


_JSON = {"content-type": "application/json"}


def _is_error(body: bytes) -> bool:
    try:
        value: Any = json.loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and "jsonrpc" in value and isinstance(value.get("error"), dict)  # pyright: ignore[reportUnknownMemberType]


@asynccontextmanager
async def http_streams(
    endpoint: Endpoint, redact: Redactor, on_end: Callable[[], None]
) -> AsyncGenerator[tuple[Any, Any]]:
    """The message streams of a streamable HTTP server.

    Headers go to its origin only: the SDK follows no redirect that leads away from it.
    """
    contained = await run_in_thread(ContainedClient, endpoint, redact)  # certificates take a while
    async with (
        contained as client,
        streamable_http_client(endpoint.url or "", http_client=client, max_sse_event_size=_MAX_EVENT) as (
            read,
            write,
        ),
    ):
        yield MendedStream(read, redact, on_end), write
