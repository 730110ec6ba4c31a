"""What a client has, for those who want to look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import toolnexus
from toolnexus.engine.agent import Agent
from toolnexus.engine.environment import Environment
from toolnexus.runtime.context import Runnable
from toolnexus.runtime.counts import Counts
from toolnexus.runtime.redact import Redactor
from toolnexus.tools.gather import Sources
from toolnexus.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from toolnexus.tools.instructions import Instructions


class Overview:
    """The part of a client that shows what it has and did, and changes nothing."""

    _main: Agent
    _environment: Environment
    _sources: Sources
    _may_nest: bool
    _counts: Counts
    _redact: Redactor
    _instructions: Instructions | None

    @property
    def instructions(self) -> Instructions | None:
        """The file of instructions that stands below the system prompt, with what of it was not taken."""
        return self._instructions

    @property
    def agents(self) -> tuple[Runnable, ...]:
        """Whom `task` may delegate to, sorted by name."""
        return tuple(self._environment.targets(self._main).values())

    def tools_of(self, agent: Agent) -> Toolkit:
        """What `agent` is offered when the client's own run delegates to it."""
        return Toolkit(self._environment.offer(agent, (), deepest=not self._may_nest).tools)

    def agents_of(self, agent: Agent) -> tuple[Runnable, ...]:
        """Whom `agent` may delegate to when the client's own run delegates to it, sorted by name."""
        may = "task" in self.tools_of(agent).names()
        return tuple(self._environment.targets(agent).values()) if may else ()

    @property
    def skills(self) -> list[toolnexus.SkillDef]:
        """The skills that are loaded, sorted by name."""
        return list(self._sources.skills.skill_set.skills) if self._sources.skills is not None else []

    def mcp_status(self) -> dict[str, dict[str, Any]]:
        """`{server: {"status", "reason"}}`: `connected`, `failed`, `disabled` or `needs_auth`."""
        return {s.name: dict(s.status) for s in self._sources.servers}

    @property
    def source_failures(self) -> dict[str, str]:
        """`{source: reason}` of sources other than MCP servers that could not be opened."""
        return dict(self._sources.failures)

    @property
    def mcp_report(self) -> tuple[str, ...]:
        """What MCP files say that changes nothing here, a line each: keys of other hosts, mostly."""
        from toolnexus.tools.mcp_config import mcp_report

        return mcp_report(s.config for s in self._sources.servers)

    @property
    def skill_report(self) -> list[toolnexus.SkillIssue]:
        """What was wrong with skill files: `{path, reason, detail}`, warnings too."""
        return self._sources.skills.report if self._sources.skills is not None else []

    def metrics(self) -> str:
        """What the client did so far, as Prometheus text for a `/metrics` page. From any thread.

        Requests, tokens, tool calls, failed runs and sub-agents; see docs/observability.md.
        """
        from toolnexus.telemetry.exposition import exposition

        return exposition(self._counts, self._redact)
