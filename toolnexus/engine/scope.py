"""What an agent may use of its client's toolkit, and what it brings itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolnexus.core.names import MAX_NAME, did_you_mean
from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.source import ToolSource
from toolnexus.tools.toolkit import check_unique

ToolSpec = Tool | ToolSource | Callable[..., Any]
"""What may stand in a list of tools besides names: a tool, a source, a function."""

_KINDS = {"mcp": "mcp", "skill": "skills", "builtin": "builtins"}
_KEYS = ("mcp", "skills", "builtins", "native")
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A parsed `tools=` of an agent.

    `names` is the list form: final names and globs over all sources, and nothing else. Otherwise
    `by_kind` is the mapping form: a filter per kind of source, the kinds not named stay whole.
    """

    names: NameFilter | None = None
    by_kind: Mapping[str, NameFilter]
    own: tuple[Tool | ToolSource, ...] = ()

    @classmethod
    def of(cls, spec: Any, where: str) -> Scope:
        """The scope that `spec` writes down: None (all), a list, or a mapping of filters.

        Raises `ConfigError` that names `where` and the wrong entry.
        """
        if spec is None:
            return cls(by_kind={})
        if isinstance(spec, Mapping):
            filters = cast("Mapping[str, Any]", spec)
            for key in filters:
                if key not in _KEYS:
                    near = did_you_mean(key, _KEYS)
                    raise ConfigError(f"{where}: {key!r} is no kind of tools; allowed: {list(_KEYS)}{near}")
            return cls(by_kind={k: NameFilter.of(v, f"{where}: {k}") for k, v in filters.items()})
        if isinstance(spec, str) or not isinstance(spec, Sequence):
            raise ConfigError(f"{where}: {spec!r}; give a list of names and tools, or a mapping of filters")
        entries = tuple(cast("Sequence[Any]", spec))
        names = tuple(e for e in entries if isinstance(e, str))
        own = tuple(as_tool(e, where) for e in entries if not isinstance(e, str))
        check_unique([e for e in own if isinstance(e, Tool)], where)
        return cls(names=NameFilter(allow=names), by_kind={}, own=own)

    def admits(self, tool: Tool) -> bool:
        """Whether the agent sees this tool of its client."""
        if self.names is not None:
            return self.names.admits(tool.name)
        kind = self._filter(tool)
        return kind is None or kind.admits(*_aliases(tool))

    def denies(self, tool: Tool) -> bool:
        """Whether the tool is denied by name, for this agent and everything below it."""
        kind = self._filter(tool)
        return kind is not None and kind.denies(*_aliases(tool))

    @property
    def denies_anything(self) -> bool:
        """Whether anything is denied by name."""
        return any(names.deny for names in self.by_kind.values())

    def denies_skill(self, name: str) -> bool:
        """Whether the skill is denied by name, for this agent and everything below it."""
        kind = self.by_kind.get("skills")
        return kind is not None and kind.denies(name)

    def admits_skill(self, name: str) -> bool:
        """Whether the agent may load this skill."""
        kind = self.by_kind.get("skills")
        return kind is None or kind.admits(name)

    def offers_task(self, *, with_agents: bool) -> bool:
        """Whether `task` is there; `with_agents`: the agent says whom it may delegate to."""
        builtins = self.by_kind.get("builtins")
        if builtins is not None and builtins.denies("task"):
            return False
        if with_agents:
            return True
        if self.names is not None:
            return self.names.admits("task")
        return builtins is None or builtins.admits("task")

    def check(
        self, tools: Sequence[Tool], skills: Sequence[str] | None, where: str, *, incomplete: bool
    ) -> None:
        """Hold every name against what exists. Raises `ConfigError` for one that does not.

        `skills` None: which there are is not known yet. `incomplete`: some source is missing.
        """
        if self.names is not None:
            known = {"task", *(t.name for t in tools), *(("skill",) if skills is None else ())}
            self.names.check(known, where, incomplete=incomplete)
        for key, names in self.by_kind.items():
            if key == "skills":
                if skills is not None:
                    names.check(skills, f"{where}: skills")
                continue
            known = {a for t in tools if _kind(t) == key for a in _aliases(t)}
            if key == "builtins":
                known.add("task")
            names.check(known, f"{where}: {key}", incomplete=incomplete and key != "builtins")

    def _filter(self, tool: Tool) -> NameFilter | None:
        # the skill tool itself stays: which skills it loads is another question
        return None if tool.source == "skill" else self.by_kind.get(_kind(tool))


def as_tool(entry: Any, where: str) -> Tool | ToolSource:
    """A tool or source as it is, a function as a tool.

    Raises `ConfigError` for anything else, and for a tool whose name no model can call.
    """
    if isinstance(entry, Tool) and not _NAME.fullmatch(entry.name):
        raise ConfigError(
            f"{where}: tool name {entry.name!r} is not allowed; use 1 to {MAX_NAME} of A-Z a-z 0-9 _ -"
        )
    if isinstance(entry, (Tool, ToolSource)):
        return entry
    if callable(entry):
        from toolnexus.tools.function import tool

        return tool(entry)
    raise ConfigError(f"{where}: {entry!r} is no tool; give a function, a Tool or a ToolSource")


def _kind(tool: Tool) -> str:
    return _KINDS.get(tool.source, "native")


def _aliases(tool: Tool) -> tuple[str, ...]:
    """What a filter may call it: MCP tools also go by their server."""
    return (tool.name, tool.origin) if tool.source == "mcp" and tool.origin else (tool.name,)
