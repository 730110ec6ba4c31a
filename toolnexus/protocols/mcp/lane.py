"""Calls of tools and listings over a pipe of our own, past the SDK's session.

In the handshake era such a request is a line out and a line in, and the session takes most of the processor
time of one: three validations, a stream and a cancel scope for each. It keeps all the rest: opening,
questions, notices, output schemas, and the requests of a host that traces, for which it makes spans.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.shared.dispatcher import coerce_request_id
from opentelemetry.context import get_current
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider
from pydantic_core import to_json

from toolnexus.protocols.mcp.call import Call
from toolnexus.protocols.mcp.process import ServerProcess

logger = logging.getLogger("toolnexus.mcp")

_FIRST_ID = 1 << 24
"""The session counts its own requests from 1."""


class Lane:
    """The requests that are on their way to one process."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._ids = count(_FIRST_ID)
        self._waiting: dict[int | str, tuple[asyncio.Future[dict[str, Any] | MCPError], Call | None]] = {}
        self._closed = False

    async def call(self, call: Call) -> types.CallToolResult:
        """What the server answers a call with. Raises `MCPError`, and `ValidationError` for no result."""
        params = {"name": call.tool, "arguments": call.arguments}
        raw = await self.request("tools/call", params, call)
        return types.CallToolResult.model_validate(raw, by_name=False)

    async def request(self, method: str, params: dict[str, Any], call: Call | None = None) -> dict[str, Any]:
        """The result of a request; `call` hears of its progress. Raises `MCPError`.

        Cancelled, it tells the server.
        """
        if self._closed:
            raise _gone()
        id = next(self._ids)
        if call is not None:
            params = {**params, "_meta": {"progressToken": id}}
        answer: asyncio.Future[dict[str, Any] | MCPError] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer, call
        try:
            message = {"jsonrpc": "2.0", "id": id, "method": method}
            await self._process.send(_line({**message, "params": params} if params else message))
            said = await answer
        except BrokenPipeError:
            raise _gone() from None
        except asyncio.CancelledError:
            self._withdraw(id)
            raise
        finally:
            self._waiting.pop(id, None)
        if isinstance(said, MCPError):
            raise said
        return said

    def takes(self, message: types.JSONRPCMessage) -> bool:
        """Whether `message` is for one of these requests; then nobody else needs it."""
        if isinstance(message, types.JSONRPCNotification):
            return message.method == "notifications/progress" and self._progress(message.params or {})
        if isinstance(message, types.JSONRPCRequest) or message.id is None:
            return False
        answer, _ = self._waiting.get(coerce_request_id(message.id), (None, None))
        if answer is None:
            return False
        if not answer.done():
            if isinstance(message, types.JSONRPCError):
                error = message.error
                answer.set_result(MCPError(error.code, error.message, error.data))
            else:
                answer.set_result(message.result)
        return True

    def close(self) -> None:
        """Nothing more comes: whoever waits hears that the connection is closed. Idempotent."""
        self._closed = True
        for answer, _ in self._waiting.values():
            if not (answer.done() or answer.get_loop().is_closed()):
                answer.set_result(_gone())

    def _progress(self, params: dict[str, Any]) -> bool:
        token, done, total, message = [
            params.get(k) for k in ("progressToken", "progress", "total", "message")
        ]
        if isinstance(token, bool) or not isinstance(token, int | str):
            return False
        _, call = self._waiting.get(coerce_request_id(token), (None, None))
        if call is None:
            return False
        if isinstance(done, int | float):
            try:
                known = float(total) if isinstance(total, int | float) else None
                call.reported(float(done), known, message if isinstance(message, str) else None)
            except Exception:  # a host's reader must not end the connection
                logger.debug("progress of a call could not be reported", exc_info=True)
        return True

    def _withdraw(self, id: int) -> None:
        params = {"requestId": id, "reason": "caller cancelled"}
        try:
            line = _line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            self._process.write(line)
        except BrokenPipeError:
            pass


def traced() -> bool:
    """Whether somebody follows what happens here: a tracer is set, or there is context to hand on."""
    return bool(get_current()) or not isinstance(get_tracer_provider(), ProxyTracerProvider)


def _line(message: dict[str, Any]) -> bytes:
    return to_json(message, inf_nan_mode="null") + b"\n"


def _gone() -> MCPError:
    return MCPError(types.CONNECTION_CLOSED, "Connection closed")
