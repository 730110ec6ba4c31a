"""The whole tool list of a server, and the news that it has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.client.subscriptions import listen
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolnexus.protocols.mcp.endpoint import ListedTool

logger = logging.getLogger("toolnexus.mcp")

_MOST_PAGES = 1000
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


async def list_tools(session: ClientSession, server: str) -> tuple[ListedTool, ...]:
    """All tools of all pages, in the server's order, each name once.

    A cursor that comes back ends the listing with a warning. Tools that only run as background
    tasks are left out: nobody could call them. Raises what the SDK raises.
    """
    found: dict[str, ListedTool] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MOST_PAGES):
        try:
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND and cursor is None:
                return ()  # a server without tools
            raise
        for tool in page.tools:
            if tool.execution is None or tool.execution.task_support != "required":
                found.setdefault(tool.name, ListedTool(tool.name, tool.description or "", tool.input_schema))
        cursor = page.next_cursor
        if not cursor:
            break
        if cursor in seen:
            logger.warning("MCP server %r gave the same cursor twice; the listing ends there", server)
            break
        seen.add(cursor)
    else:
        logger.warning(
            "MCP server %r has more than %d pages of tools; the rest is left out", server, _MOST_PAGES
        )
    return tuple(found.values())


@asynccontextmanager
async def watch_tools(session: ClientSession, on_change: Callable[[], None]) -> AsyncGenerator[None]:
    """Call `on_change` inside whenever a server of the stateless era says that its tools changed.

    Servers of the handshake era say so by themselves.
    """
    tools = session.server_capabilities and session.server_capabilities.tools
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools and tools.list_changed):
        yield
        return
    watcher = asyncio.create_task(_watch(session, on_change))
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.wait({watcher})


async def _watch(session: ClientSession, on_change: Callable[[], None]) -> None:
    pause = 0.0
    while True:
        try:
            async with listen(session, tools_list_changed=True) as events:
                if pause:
                    on_change()  # something may have happened while nobody listened
                pause = _SHORTEST_PAUSE
                async for _ in events:
                    on_change()
        except MCPError as error:
            if error.code in (types.METHOD_NOT_FOUND, types.CONNECTION_CLOSED) and not pause:
                return
        except RuntimeError:
            pass  # the stream was cut
        await asyncio.sleep(pause or _SHORTEST_PAUSE)
        pause = min((pause or _SHORTEST_PAUSE) * 2, _LONGEST_PAUSE)
