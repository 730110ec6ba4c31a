"""All sources of one client, opened and closed together, gathered into one list of tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeGuard

from toolnexus.core.suspension import Request
from toolnexus.core.tools import Tool
from toolnexus.errors import SourceError
from toolnexus.runtime.concurrency import run_all
from toolnexus.tools.builtin.catalog import BOUND_ELSEWHERE, builtin_tools
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.source import ToolSource, safely_named, secrets_of
from toolnexus.tools.toolkit import assemble, check_unique

if TYPE_CHECKING:
    from toolnexus.tools.mcp import McpSource
    from toolnexus.tools.skills import SkillSource

logger = logging.getLogger("toolnexus.sources")


class Sources:
    """Where the tools of one client come from. Raises `ConfigError` for a source that is wrong."""

    def __init__(
        self,
        *,
        mcp: str | PathLike[str] | Mapping[str, Any] | list[McpSource] | None,
        skills: Any,
        builtins: NameFilter,
        host: Sequence[Tool | ToolSource],
    ) -> None:
        self._servers: list[McpSource] = []
        self.skills: SkillSource | None = None
        if mcp is not None:
            from toolnexus.tools.mcp import mcp_sources

            self._servers = mcp_sources(mcp)
        if skills is not None:
            from toolnexus.tools.skills import skill_source

            self.skills = skill_source(skills)
        every = builtin_tools()
        builtins.check([*(t.name for t in every), *BOUND_ELSEWHERE], "builtins")
        self.denied = frozenset(name for name in BOUND_ELSEWHERE if builtins.denies(name))
        """What nobody may do, whatever agents there are: `task`, and what comes with it."""
        self.failures: dict[str, str] = {}
        """Sources other than servers that could not be opened, with the reason: nobody knows their tools."""
        self._builtins = [t for t in every if builtins.admits(t.name)]
        self._host = [t for t in host if isinstance(t, Tool)]
        check_unique(self._host, "tools")
        self._custom = [t for t in host if not isinstance(t, Tool)]
        self._adopted: list[ToolSource] = []
        self._secret_names: frozenset[str] | None = None

    @property
    def fixed(self) -> bool:
        """Whether all tool names are known before anything is opened."""
        return not self._servers and not self._custom

    @property
    def complete(self) -> bool:
        """Whether every server that should be there is."""
        return all(s.status["status"] in ("connected", "disabled") for s in self.servers)

    @property
    def servers(self) -> list[McpSource]:
        """Every MCP server, those of single agents too."""
        return [s for s in self._every() if _is_server(s)]

    @property
    def skill_names(self) -> Sequence[str]:
        """The skills that are loaded."""
        return self.skills.skill_set.names if self.skills is not None else ()

    @property
    def secrets(self) -> list[str]:
        """Values that must never be shown: what the configuration of servers and HTTP tools holds."""
        return [secret for entry in (*self._every(), *self._host) for secret in secrets_of(entry)]

    @property
    def secret_names(self) -> frozenset[str]:
        """Environment variables that hold secrets of ours."""
        if self._secret_names is None:
            names = [name for s in self.servers for name in s.config.secret_names]
            more = [name for s in self._every() for name in getattr(s, "secret_names", ())]
            self._secret_names = frozenset((*names, *more))
        return self._secret_names

    def holds(self, source: ToolSource) -> bool:
        """Whether it is opened and closed here."""
        return any(source is s for s in (*self._custom, *self._adopted))

    def adopt(self, source: ToolSource) -> None:
        """Open and close this source with the client; its tools belong to one agent only."""
        self._adopted.append(source)
        self._secret_names = None

    async def admit(self, source: ToolSource, on_change: Callable[[], None]) -> None:
        """Open a source that comes late, and adopt it."""
        try:
            await self.open_one(source, on_change)
        except BaseException:  # not adopted, so nobody else will close it
            await source.aclose()
            raise
        self.adopt(source)

    def tools(self) -> list[Tool]:
        """What all of them offer now, in an order that is the same on every run."""
        hidden = {t.name for t in self._host}
        groups = [
            ("mcp", self._server_tools()),
            ("skills", self.skills.tools if self.skills is not None else ()),
            ("builtins", [t for t in self._builtins if t.name not in hidden]),
            ("tools", self._host),
            *((s.name, safely_named(s)) for s in self._custom),
        ]
        return assemble(groups)

    async def open(self, on_change: Callable[[], None]) -> None:
        """Open everything at once. A source that fails is left out with a warning."""

        if every := self._every():
            await run_all([partial(self.open_one, source, on_change) for source in every])

    async def open_one(self, source: ToolSource, on_change: Callable[[], None]) -> None:
        """Open one source; when it fails, warn and go on without it."""
        try:
            await source.open(on_change)
            self.failures.pop(source.name, None)
        except SourceError as error:
            logger.warning("source %r is not available: %s", source.name, error)
            if not _is_server(source):
                self.failures[source.name] = str(error)

    async def withdraw(self, requests: Sequence[Request]) -> None:
        """Tell those of elsewhere who asked that nobody answers any more. Raises nothing."""
        asking = [tell for s in self._every() if (tell := getattr(s, "withdraw", None)) is not None]
        if jobs := [partial(tell, request) for request in requests for tell in asking]:
            await run_all(jobs)

    async def aclose(self) -> None:
        """Close everything at once."""
        if every := self._every():
            await run_all([source.aclose for source in every])

    def _server_tools(self) -> Sequence[Tool]:
        if not self._servers:
            return ()
        from toolnexus.tools.mcp import name_tools

        return name_tools(self._servers)

    def _every(self) -> list[ToolSource]:
        skills = [self.skills] if self.skills is not None else []
        return [*self._servers, *skills, *self._custom, *self._adopted]


def skill_sources(entries: Iterable[object]) -> list[SkillSource]:
    """Those of `entries`, tools and sources, that are sources of skills."""
    sources = [entry for entry in entries if entry is not None and not isinstance(entry, Tool)]
    if not sources:
        return []
    from toolnexus.tools.skills import SkillSource

    return [source for source in sources if isinstance(source, SkillSource)]


def _is_server(source: ToolSource) -> TypeGuard[McpSource]:
    from toolnexus.tools.mcp import McpSource

    return isinstance(source, McpSource)
