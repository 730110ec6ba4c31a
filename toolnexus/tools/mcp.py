"""MCP servers as tool sources.

What it is: one server's tools as `Tool`s, with its filter applied and its failures as results.
What it is not: a registry; the client opens and closes all sources, `name_tools` names them all.
Above: the client. Below: `protocols/mcp`, which is loaded when a source opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, cast

from toolnexus.core.names import model_names
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.errors import ConfigError, SourceError
from toolnexus.protocols.mcp.call import Call, Clock, Waiting
from toolnexus.protocols.mcp.endpoint import ListedTool
from toolnexus.protocols.mcp.faults import Fault
from toolnexus.protocols.mcp.server import McpServer
from toolnexus.runtime.concurrency import run_all
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.mcp_config import ServerConfig, load_mcp_config
from toolnexus.tools.mcp_questions import Questions

logger = logging.getLogger("toolnexus.mcp")


class McpTool(Tool):
    """A tool of an MCP server. It may be known under several names, all the same tool."""

    def __init__(self, name: str, listed: ListedTool, source: McpSource) -> None:
        super().__init__(
            name,
            listed.description,
            listed.input_schema,
            lambda arguments, ctx: source.call(listed.name, arguments, ctx),
            source="mcp",
            origin=source.name,
            original_name=listed.name,
        )
        self.listed = listed
        self._source = source
        self._renamed: dict[str, McpTool] = {}

    def named(self, name: str) -> McpTool:
        """This tool under another name; the same object every time."""
        if name == self.name:
            return self
        if name not in self._renamed:
            self._renamed[name] = McpTool(name, self.listed, self._source)
        return self._renamed[name]


class McpSource:
    """One MCP server as a `ToolSource`. It may be opened again after it was closed."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self._server: McpServer | None = None
        self._tools: tuple[McpTool, ...] = ()
        self._offered: frozenset[str] = frozenset()
        self._closed: dict[str, str | None] = {"status": "failed", "reason": "not connected yet"}
        if not config.enabled:
            self._closed = {"status": "disabled", "reason": None}
        elif config.problem is not None:
            self._closed = {"status": "failed", "reason": config.problem}

    def __repr__(self) -> str:
        return f"McpSource({self.name!r})"

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def secrets(self) -> Sequence[str]:
        """Values of its configuration that must never be shown."""
        return self.config.secrets

    @property
    def tools(self) -> Sequence[McpTool]:
        return self._tools

    @property
    def status(self) -> dict[str, str | None]:
        """`{"status": "connected" | "failed" | "disabled" | "needs_auth", "reason": str | None}`."""
        if self._server is None:
            return dict(self._closed)
        return {"status": self._server.status, "reason": self._server.reason}

    @property
    def instructions(self) -> str | None:
        """What the server wants a model to know of it."""
        return self._server.instructions if self._server is not None else None

    async def open(self, on_change: Callable[[], None]) -> None:
        """Connect within the configured time and list all tools. A disabled server has none.

        Raises `SourceError` when the server cannot be used, and `ConfigError` when the filter
        names a tool that it does not have.
        """
        if not self.config.enabled:
            return
        if self.config.problem is not None:
            raise SourceError(f"MCP server {self.name!r}: {self.config.problem}", source=self.name)
        await self.aclose()
        listening = False

        def changed() -> None:
            if listening and self._server is server and self._adopt(server.tools):
                on_change()

        self._server = server = McpServer(self.config, changed)
        try:
            await server.opened()
            self._adopt(server.tools)
            self.config.tools.check([t.name for t in server.tools], f"tools of MCP server {self.name!r}")
        except Fault as fault:
            raise SourceError(f"MCP server {self.name!r}: {fault.reason}", source=self.name) from None
        except (ConfigError, asyncio.CancelledError):
            await self.aclose()
            raise
        listening = True

    async def aclose(self) -> None:
        """End the connection and the server's processes. May be called from any task, twice."""
        server, self._tools = self._server, ()
        if server is None:
            return
        await server.aclose()
        if self._server is server:
            reason = "closed" if server.status == "connected" else server.reason
            self._closed = {"status": "failed" if reason == "closed" else server.status, "reason": reason}
            self._server = None

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        """Call a tool by its original name. Whatever goes wrong is an error result.

        A question of the server that nobody answers now is asked by the result.
        """
        server, round = self._server, None
        questions = Questions(ctx)
        try:
            if server is None:
                raise Fault("it is not connected")
            if tool not in self._offered:
                raise Fault("the server has no such tool any more")

            def progress(done: float, total: float | None, message: str | None) -> None:
                ctx.emit(message or "", progress=done, total=total)

            result = await server.call(
                Call(
                    tool=tool,
                    arguments=arguments,
                    clock=Clock(self.config.timeout),
                    answerer=questions,
                    on_progress=progress,
                    round=questions.round,
                )
            )
        except Waiting as waiting:
            result, round = ToolResult(), waiting.round
        except Fault as fault:
            text = f"tool {tool!r} of MCP server {self.name!r} failed: {fault.reason}"
            result = ToolResult(output=text, is_error=True, metadata={"server": self.name})
        return questions.waiting(round) or result

    def _adopt(self, listed: Iterable[ListedTool]) -> bool:
        """Make tools of what the server listed; those that did not change stay the same objects.

        Sorted: a server may list in another order every time, and the bytes sent to a model must not change.
        """
        known = {tool.original_name: tool for tool in self._tools}
        admitted = [entry for entry in listed if self.config.tools.admits(entry.name)]
        offered = sorted(admitted, key=lambda entry: entry.name)
        names = model_names([_wish(self.name, entry.name) for entry in offered])
        tools: list[McpTool] = []
        for name, entry in zip(names, offered, strict=True):
            old = known.get(entry.name)
            same = old is not None and old.listed == entry and old.name == name
            tools.append(old if old is not None and same else McpTool(name, entry, self))
        before, self._tools = self._tools, tuple(tools)
        self._offered = frozenset([tool.original_name for tool in tools])
        return before != self._tools


def _wish(server: str, tool: str) -> tuple[str, str]:
    return f"{server}_{tool}", f"{server}\0{tool}"


def name_tools(sources: Iterable[McpSource]) -> list[McpTool]:
    """The tools of all `sources` in their order, each under a name that is unique among them.

    A tool that needs no other name is the source's own object; a renamed one is the same object on
    every call. The names depend on servers and tools only, not on their order.
    """
    tools = [tool for source in sources for tool in source.tools]
    if len({tool.origin for tool in tools}) < 2:
        return tools  # a server's own tools have such names already
    names = model_names([_wish(tool.origin or "", tool.original_name) for tool in tools])
    return [tool.named(name) for tool, name in zip(tools, names, strict=True)]


def mcp_sources(config: str | PathLike[str] | Mapping[str, Any] | list[McpSource]) -> list[McpSource]:
    """The configured servers as sources, for `tools=` of a client or of one agent.

    `config` is what `Client(mcp=…)` takes; sources are given back. Raises `ConfigError`.
    """
    if isinstance(config, list) and config and all([isinstance(entry, McpSource) for entry in config]):
        return config
    return [McpSource(server) for server in load_mcp_config(cast("Any", config))]


async def list_mcp_tools(config: str | PathLike[str] | Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What every configured server offers, unfiltered, under original names. Leaves nothing running.

    Gives `{server: {"status", "reason", "tools": [{"name", "description", "input_schema"}]}}`;
    a server that cannot be reached has no tools and a reason. Raises `ConfigError`.
    """
    sources = [McpSource(replace(server, tools=NameFilter())) for server in load_mcp_config(config)]

    async def look(source: McpSource) -> dict[str, Any]:
        tools: list[dict[str, Any]] = []
        try:
            await source.open(lambda: None)
            tools = [
                {"name": t.original_name, "description": t.description, "input_schema": t.input_schema}
                for t in source.tools
            ]
        except SourceError:
            pass  # its status says why
        finally:
            seen = source.status
            await source.aclose()
        return {**seen, "tools": tools}

    found = await run_all([lambda source=source: look(source) for source in sources]) if sources else []
    return {source.name: entry for source, entry in zip(sources, found, strict=True)}
