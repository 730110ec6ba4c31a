"""The MCP server over streamable HTTP, in both eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.routing import BaseRoute, Route

from toolnexus.client import Client
from toolnexus.serving.gate import Door
from toolnexus.serving.load import Load
from toolnexus.serving.mcp.server import ClientServer
from toolnexus.serving.options import Limits, McpOptions

PATH = "/mcp"
MOST_SESSIONS = 2_000
IDLE_SECONDS = 600.0
"""How long a session of the handshake era is kept without a request or an open stream: few end theirs."""


class McpHttp:
    """What `/mcp` answers with."""

    def __init__(self, client: Client, options: McpOptions, load: Load, limits: Limits) -> None:
        self.server = ClientServer(client, options, load, limits)
        # Host, Origin and size are the gate's business
        self._sessions = StreamableHTTPSessionManager(
            self.server.server,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MOST_SESSIONS,
            max_request_body_size=limits.max_body + 1,
        )
        self.routes: list[BaseRoute] = [Route(PATH, endpoint=StreamableHTTPASGIApp(self._sessions))]
        self.door = Door(PATH, options.token, _starts)

    @property
    def tools(self) -> list[str]:
        """The names of what is offered."""
        return self.server.tools

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self.server.running(), self._sessions.run():
            yield


def _starts(path: str, body: Any) -> bool:
    return isinstance(body, dict) and cast("dict[str, Any]", body).get("method") == "tools/call"
