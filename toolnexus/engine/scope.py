"""What an agent may use of its client's toolkit, what it brings itself, and whom it may call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from toolnexus.core.names import MAX_NAME, did_you_mean, is_name, sanitize
from toolnexus.core.options import unknown_key
from toolnexus.core.tools import Tool
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError, UnknownNames
from toolnexus.runtime.context import Runnable
from toolnexus.tools.builtin.catalog import BOUND_ELSEWHERE
from toolnexus.tools.builtin.catalog import NAMES as BUILTINS
from toolnexus.tools.filters import Expected, NameFilter
from toolnexus.tools.source import ToolSource
from toolnexus.tools.toolkit import check_unique

logger = logging.getLogger("toolnexus.tools")

ToolSpec = Tool | ToolSource | Callable[..., Any]
"""What may stand in a list of tools besides names: a tool, a source, a function."""

_KINDS = {"mcp": "mcp", "skill": "skills", "builtin": "builtins"}
_KEYS = ("mcp", "skills", "builtins", "native")


@frozen(kw_only=True)
class Known:
    """What there is to be named by a filter."""

    tools: Sequence[Tool]
    skills: Sequence[str] | None = None
    """None: which skills there are is not known yet."""
    brought: Sequence[Tool] = ()
    """What agents have of their own: it can be denied, and listed by nobody else."""
    brought_skills: Sequence[str] = ()
    delegation: Sequence[str] = ("task",)
    """What follows from the agents that there are."""
    servers: Sequence[str] = ()
    """Every configured MCP server, also one that is not there."""
    awaited: Sequence[str] = ()
    """Patterns of names that may yet come: those of servers that are not there."""
    skills_lost: bool = False
    """Whether some skill could not be loaded."""


@frozen()
class Targets:
    """A parsed `agents=`: names and globs of registered agents, and Runnables of its own."""

    names: NameFilter = field(default=NameFilter())
    own: tuple[Runnable, ...] = ()
    chosen: bool = False
    """Whether it says whom; otherwise everybody who is registered is meant."""

    @classmethod
    def of(cls, spec: Any, where: str) -> Targets:
        """The targets that `spec` writes down. Raises `ConfigError` that names the wrong entry."""
        if isinstance(spec, str) or not isinstance(spec, Sequence):
            names = NameFilter.of(spec, where)
            return cls(names, chosen=spec is True or names != NameFilter())
        entries = tuple(cast("Sequence[Any]", spec))
        for entry in entries:
            if isinstance(entry, type) or not isinstance(entry, (str, Runnable)):
                raise ConfigError(f"{where} holds {entry!r}; give names, globs or agents")
        allow = tuple(e for e in entries if isinstance(e, str))
        own = tuple(e for e in entries if not isinstance(e, str))
        return cls(NameFilter(allow=allow), own, bool(entries))


@frozen(kw_only=True)
class Scope:
    """A parsed `tools=` and `agents=` of an agent.

    `names` is the list form: final names and globs over all sources, and nothing else. Otherwise
    `by_kind` is the mapping form: a filter per kind of source, the kinds not named stay whole.
    """

    names: NameFilter | None = None
    by_kind: Mapping[str, NameFilter]
    own: tuple[Tool | ToolSource, ...] = ()
    targets: Targets = field(default=Targets())

    @classmethod
    def of(cls, tools: Any, agents: Any, where: str) -> Scope:
        """The scope that an agent's options write down.

        `tools`: None (all), a list, or a mapping of filters; `agents`: None (all), a list or a filter.
        Raises `ConfigError` that names `where` and the wrong entry.
        """
        targets = Targets.of(agents, f"{where}: agents")
        where = f"{where}: tools"
        if tools is None:
            return cls(by_kind={}, targets=targets)
        if isinstance(tools, Mapping):
            filters = cast("Mapping[str, Any]", tools)
            for key in filters:
                if key not in _KEYS:
                    raise unknown_key(where, key, _KEYS)
            by_kind = {k: NameFilter.of(v, f"{where}: {k}") for k, v in filters.items()}
            return cls(by_kind=by_kind, targets=targets)
        if isinstance(tools, str) or not isinstance(tools, Sequence):
            raise ConfigError(f"{where}: {tools!r}; give a list of names and tools, or a mapping of filters")
        entries = tuple(cast("Sequence[Any]", tools))
        names = tuple(e for e in entries if isinstance(e, str))
        own = tuple(as_tool(e, where) for e in entries if not isinstance(e, str))
        check_unique([e for e in own if isinstance(e, Tool)], where)
        return cls(names=NameFilter(allow=names), by_kind={}, own=own, targets=targets)

    def admits(self, tool: Tool) -> bool:
        """Whether the agent sees this tool of its client."""
        if self.names is not None:
            return self.names.admits(tool.name)
        kind = self._filter(tool)
        return kind is None or kind.admits(*_aliases(tool))

    def denies(self, tool: Tool) -> bool:
        """Whether the tool is denied, for this agent and everything below it.

        All builtins denied at once leave `task` and what comes with it: that follows from `agents`.
        """
        kind = self._filter(tool)
        if kind is None:
            return False
        if kind.off:
            return tool.source != "builtin" or tool.name not in BOUND_ELSEWHERE
        return bool(kind.deny) and kind.denies(*_aliases(tool), _wish(tool))

    @property
    def denies_anything(self) -> bool:
        """Whether anything is denied."""
        return any(names.off or names.deny for names in (*self.by_kind.values(), self.targets.names))

    def denies_skill(self, name: str) -> bool:
        """Whether the skill is denied, for this agent and everything below it."""
        kind = self.by_kind.get("skills")
        return kind is not None and (kind.off or kind.denies(name))

    def denies_agent(self, name: str) -> bool:
        """Whether nobody from this agent on may delegate to the agent of that name."""
        return self.targets.names.off or self.targets.names.denies(name)

    def admits_skill(self, name: str) -> bool:
        """Whether the agent may load this skill."""
        kind = self.by_kind.get("skills")
        return kind is None or kind.admits(name)

    @property
    def offers_task(self) -> bool:
        """Whether `task` is there, given somebody to delegate to."""
        builtins = self.by_kind.get("builtins")
        if builtins is not None and builtins.denies("task"):
            return False
        if self.targets.chosen:
            return True
        if self.names is not None:
            return self.names.admits("task")
        return builtins is None or builtins.admits("task")

    def check(self, known: Known, where: str) -> None:
        """Hold every name of a tool against what exists. Raises `UnknownNames` with all that do not."""
        wrong: list[UnknownNames] = []
        for filter, names, place, awaited in self._checks(known, where):
            try:
                filter.check(names, place, awaited=awaited)
            except UnknownNames as error:
                wrong.append(error)
        self._tell_absent(known, where)
        if wrong:
            raise UnknownNames(
                "\n".join(map(str, wrong)), tuple(name for error in wrong for name in error.names)
            )

    def _checks(self, known: Known, where: str) -> Iterator[tuple[NameFilter, set[str], str, Sequence[str]]]:
        """For each filter of tools: the names that there are, how errors call it, and what may yet come."""
        skills = known.skills
        if self.names is not None:
            names = {*known.delegation, *(t.name for t in known.tools)}
            if skills is None:
                names.add("skill")
            yield self.names, names, where, known.awaited
        for key, filter in self.by_kind.items():
            if key == "skills":
                if skills is not None:
                    names = {*skills, *known.brought_skills}
                    yield filter, names, f"{where}: skills", ("*",) if known.skills_lost else ()
                continue
            names = {a for t in (*known.tools, *known.brought) if _kind(t) == key for a in _aliases(t)}
            names.update(name for name in filter.deny if name in BUILTINS)  # maybe a tool of that name comes
            if key == "builtins":
                names.update(known.delegation)
            if key == "mcp":
                names.update(known.servers)
            yield filter, names, f"{where}: {key}", known.awaited if key == "mcp" else ()

    def _tell_absent(self, known: Known, where: str) -> None:
        """Warn of what is denied by name, should be there, and is not, whatever its kind."""
        there = {*BUILTINS, *known.servers, *(t.name for t in (*known.tools, *known.brought))}
        denied = (name for names in self.by_kind.values() for name in names.deny)
        for name in sorted({name for name in denied if isinstance(name, Expected)} - there):
            logger.warning("%s: there is no %r to deny%s", where, name, did_you_mean(name, there))

    def _filter(self, tool: Tool) -> NameFilter | None:
        # the skill tool itself stays: which skills it loads is another question
        return None if tool.source == "skill" else self.by_kind.get(_kind(tool))


def as_tool(entry: Any, where: str) -> Tool | ToolSource:
    """A tool or source as it is, a function as a tool.

    Raises `ConfigError` for anything else, and for a tool whose name no model can call.
    """
    if isinstance(entry, Tool) and not is_name(entry.name):
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


def _wish(tool: Tool) -> str:
    """Its name before a tool that came later took it away: a denial must hold for the new one, too."""
    own = sanitize(tool.original_name)
    return f"{sanitize(tool.origin)}_{own}" if tool.source == "mcp" and tool.origin else own
