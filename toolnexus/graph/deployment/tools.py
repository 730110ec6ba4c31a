"""`tool.Source` and `tool.Assembly`: where the tools of a deployment come from, gathered into one set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field

from toolnexus.core.tools import Tool
from toolnexus.errors import SourceError
from toolnexus.graph.deployment.resources import ResourceInput
from toolnexus.runtime.concurrency import run_all
from toolnexus.tools.builtin.catalog import builtin_tools
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.mcp import McpSource, mcp_sources, name_tools
from toolnexus.tools.source import ToolSource, secrets_of
from toolnexus.tools.toolkit import Toolkit, assemble

logger = logging.getLogger("toolnexus.graph")


class BuiltinSettings(BaseModel):
    """The settings of `tool.Source/builtins`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tools: list[str]
    """Which of them: names and globs."""


def make_builtins(given: ResourceInput) -> list[Tool]:
    """The builtins that the settings name. Raises `ConfigError` for an unknown name."""
    every = builtin_tools()
    wanted = NameFilter.of(given.settings.tools, "settings.tools")
    wanted.check([tool.name for tool in every], "settings.tools")
    return [tool for tool in every if wanted.admits(tool.name)]


class McpSettings(BaseModel):
    """The settings of `tool.Source/mcp`."""

    model_config = ConfigDict(extra="forbid")

    mcpServers: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    """Servers by name, as in the file of MCP servers."""


class McpServers:
    """MCP servers as one source. One that cannot be reached is left out, with a warning."""

    name = "mcp"

    def __init__(self, servers: Sequence[McpSource]) -> None:
        self._servers = servers

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that they offer now, under unique names."""
        return name_tools(self._servers)

    @property
    def secrets(self) -> list[str]:
        """What their configuration holds and must never be shown."""
        return [secret for server in self._servers for secret in server.secrets]

    @property
    def complete(self) -> bool:
        """Whether every server that should be there is."""
        return all(server.status["status"] in ("connected", "disabled") for server in self._servers)

    async def open(self, on_change: Callable[[], None]) -> None:
        """Connect to all of them at once."""
        await run_all([partial(self._open, server, on_change) for server in self._servers])

    async def _open(self, server: McpSource, on_change: Callable[[], None]) -> None:
        try:
            await server.open(on_change)
        except SourceError as error:
            logger.warning("deployment: MCP server %r is not available: %s", server.name, error)

    async def aclose(self) -> None:
        """Let go of all of them."""
        await run_all([server.aclose for server in self._servers])


def make_mcp(given: ResourceInput) -> McpServers:
    """The servers of the settings. Raises `ConfigError` for what is wrong in them."""
    return McpServers(mcp_sources({"mcpServers": given.settings.mcpServers}))


class ToolAssembly:
    """The tools of several sources. Called, it gives those of now: the same object until they change."""

    def __init__(self, sources: Iterable[Any], wanted: NameFilter | None = None) -> None:
        self._sources = tuple(sources)
        self._wanted = wanted
        self._known: tuple[Tool, ...] | None = None
        self._toolkit = Toolkit()

    def __call__(self) -> Toolkit:
        groups = [(_name(source), _tools(source)) for source in self._sources]
        tools = tuple([tool for _, group in groups for tool in group])
        if self._known is None or len(tools) != len(self._known) or any(map(_other, tools, self._known)):
            gathered = Toolkit(assemble(groups))
            wanted = self._wanted
            self._toolkit = gathered if wanted is None else gathered.filtered(lambda t: wanted.admits(t.name))
            self._known = tools
        return self._toolkit

    @property
    def fixed(self) -> bool:
        """Whether its tools are known before anything is opened."""
        return not any(isinstance(source, ToolSource) for source in self._sources)

    @property
    def secrets(self) -> list[str]:
        """What its tools hold and must never be shown."""
        return [secret for source in self._sources for tool in _tools(source) for secret in secrets_of(tool)]

    def only(self, names: Sequence[str]) -> ToolAssembly:
        """A view of the named tools; globs allowed. Raises `ConfigError` for an unknown name, as early as the
        tools are known."""
        view = ToolAssembly(self._sources, NameFilter.of(list(names), "tools"))
        if self.fixed:
            view.check()
        return view

    def check(self) -> None:
        """Raise `ConfigError` for a name that it should have and has not, unless a server is missing."""
        if self._wanted is not None and all(getattr(source, "complete", True) for source in self._sources):
            self._wanted.check([t.name for source in self._sources for t in _tools(source)], "tools")


def make_assembly(given: ResourceInput) -> ToolAssembly:
    """The tools of the wired sources, in the order of the document."""
    return ToolAssembly(given.deps["tool"].values())


def _other(a: Tool, b: Tool) -> bool:
    return a is not b


def _name(source: Any) -> str:
    return source.name if isinstance(source, ToolSource) else "tools"


def _tools(source: Any) -> Sequence[Tool]:
    return source.tools if isinstance(source, ToolSource) else cast("Sequence[Tool]", source)
