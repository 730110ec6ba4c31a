"""The MCP server over a client: both eras of the protocol, over HTTP and over pipes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakSet

import mcp_types as types
from mcp import MCPError
from mcp.server import NotificationOptions, Server
from mcp.server.connection import Connection
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from toolnexus.client import Client
from toolnexus.core.tools import Tool
from toolnexus.core.unicode import encodable, encodable_json
from toolnexus.serving.load import Load
from toolnexus.serving.mcp.call import Calls, Context, Result
from toolnexus.serving.mcp.offer import Offer
from toolnexus.serving.options import Limits, McpOptions
from toolnexus.tools.toolkit import unknown_tool

logger = logging.getLogger("toolnexus.serving")

PAGE = 100


class _Server(Server[Any]):
    """Says in both eras, over every transport, that it tells when its tools change."""

    def create_initialization_options(self, *_: Any, **__: Any) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(tools_changed=True))


class ClientServer:
    """A client's tools and agents, served. Raises `ConfigError` for an agent that does not exist."""

    def __init__(self, client: Client, options: McpOptions, load: Load, limits: Limits) -> None:
        self._client = client
        self._offer = Offer(client, options)
        self._calls = Calls(client, load, limits.deadline)
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._sessions: WeakSet[Connection] = WeakSet()
        self._known: Mapping[str, Tool] = {}
        self._telling: asyncio.Task[None] | None = None
        self.server = _Server(
            options.name,
            version=_version(),
            instructions=options.instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=self._listen,
            get_tool_input_schema=self._schema,
        )
        self.server.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._initialized
        )

    @property
    def tools(self) -> list[str]:
        """The names of what is offered."""
        return list(self._offer.tools)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve as long as the block lasts; what runs is stopped behind it. The client is open.

        Raises `ConfigError` for a tool that is named and does not exist.
        """
        self._offer.check()
        self._known = self._offer.tools
        changed = self._client._environment.changed
        changed.append(self._changed)
        try:
            yield
        finally:
            changed.remove(self._changed)
            self._listen.close()
            if self._telling is not None:
                self._telling.cancel()
            await self._calls.aclose()

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = list(self._offer.tools.values())
        start = _start(params.cursor, len(tools)) if params is not None and params.cursor else 0
        end = start + PAGE
        return types.ListToolsResult(
            tools=[_declared(tool) for tool in tools[start:end]],
            next_cursor=str(end) if end < len(tools) else None,
        )

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        tool = self._offer.tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, unknown_tool(params.name, self._offer.tools))
        return await self._calls.run(tool, ctx, params)

    def _schema(self, name: str) -> dict[str, Any] | None:
        tool = self._offer.tools.get(name)
        return None if tool is None else _schema_of(tool)

    async def _initialized(self, ctx: Context, params: types.NotificationParams) -> None:
        self._sessions.add(ctx.session._connection)  # which lives as long as the session does

    def _changed(self) -> None:
        """The client's tools may be others: tell everybody, once for a burst."""
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        while self._known is not (tools := self._offer.tools):
            same = [*tools.values()] == [*self._known.values()]
            self._known = tools
            if same:
                continue
            await self._bus.publish(ToolsListChanged())
            for connection in list(self._sessions):
                try:
                    await connection.send_tool_list_changed()
                except Exception as error:  # a session that is gone; the others want to know
                    self._sessions.discard(connection)
                    logger.debug("a session could not be told of changed tools: %s", type(error).__name__)


def _declared(tool: Tool) -> types.Tool:
    description, schema = encodable(tool.description) or None, _schema_of(tool)
    with suppress(TypeError, ValueError):  # the SDK writes more than JSON has, such as infinite numbers
        schema = encodable_json(schema)
    return types.Tool(name=tool.name, description=description, input_schema=schema)


def _schema_of(tool: Tool) -> dict[str, Any]:
    return {"type": "object", **tool.input_schema}


def _start(cursor: str, count: int) -> int:
    if not cursor.isdecimal() or int(cursor) > count:
        raise MCPError(types.INVALID_PARAMS, "this cursor is none of this list; begin again without one")
    return int(cursor)


def _version() -> str:
    import toolnexus

    return toolnexus.__version__
