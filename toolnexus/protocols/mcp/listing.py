"""The whole tool list of a server, and the news that it has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.client.subscriptions import listen
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolnexus.protocols.mcp.endpoint import ListedTool
from toolnexus.protocols.mcp.lane import Lane

logger = logging.getLogger("toolnexus.mcp")

_MOST_PAGES = 1000
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


Page = Callable[[str | None], Awaitable[tuple[list[ListedTool], str | None]]]
"""Asks for the tools behind a cursor; gives them, and the cursor of the next page."""


class Unusual(Exception):
    """A page that is for the SDK's session to judge."""


def session_page(session: ClientSession) -> Page:
    """Pages as the session reads them. Tools that only run as background tasks are left out: nobody
    could call them."""

    async def page(cursor: str | None) -> tuple[list[ListedTool], str | None]:
        listed = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        return [
            ListedTool(tool.name, tool.description or "", tool.input_schema)
            for tool in listed.tools
            if tool.execution is None or tool.execution.task_support != "required"
        ], listed.next_cursor

    return page


def lane_page(lane: Lane) -> Page:
    """Pages past the session, which validates a long one for several milliseconds. Raises `Unusual` when
    there is more to a tool than name, description and arguments, or something is wrong with it."""

    async def page(cursor: str | None) -> tuple[list[ListedTool], str | None]:
        listed = await lane.request("tools/list", {} if cursor is None else {"cursor": cursor})
        tools, following = listed.get("tools"), listed.get("nextCursor")
        if not isinstance(tools, list) or not isinstance(following, str | None):
            raise Unusual
        return [_plain(tool) for tool in cast("list[dict[str, Any]]", tools)], following

    return page


def _plain(tool: dict[str, Any]) -> ListedTool:
    """One that `lenient.mend` has been through."""
    schema = tool["inputSchema"]
    properties, required = schema.get("properties", {}), schema.get("required", [])
    plain = (
        not ("outputSchema" in tool or "execution" in tool)
        and isinstance(properties, dict)
        and all([isinstance(value, dict) for value in cast("dict[str, Any]", properties).values()])
        and isinstance(required, list)
        and all([isinstance(name, str) for name in cast("list[Any]", required)])
        and isinstance(schema.get("$schema", ""), str)
    )
    if not plain:
        raise Unusual
    return ListedTool(tool["name"], tool.get("description", ""), schema)


async def list_tools(page: Page, server: str) -> tuple[ListedTool, ...]:
    """All tools of all pages, in the server's order, each name once.

    A cursor that comes back ends the listing with a warning. Raises what `page` raises.
    """
    found: dict[str, ListedTool] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MOST_PAGES):
        try:
            tools, following = await page(cursor)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND and cursor is None:
                return ()  # a server without tools
            raise
        for tool in tools:
            found.setdefault(tool.name, tool)
        cursor = following
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
