"""Whom a client knows: the registry of `task` and every agent that can be reached from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from toolnexus.core.names import did_you_mean, sanitize
from toolnexus.core.tools import Tool
from toolnexus.engine.agent import Agent
from toolnexus.engine.scope import Known, Scope
from toolnexus.engine.view import TOOL_SEARCH
from toolnexus.errors import ConfigError, NameConflict, UnknownNames
from toolnexus.runtime.context import Runnable, RunSettings
from toolnexus.tools.builtin.catalog import NAMES as BUILTINS
from toolnexus.tools.gather import skill_sources
from toolnexus.tools.source import ToolSource, secrets_of

if TYPE_CHECKING:
    from toolnexus.core.usage import Budget
    from toolnexus.engine.environment import Environment
    from toolnexus.models.base import Model
    from toolnexus.runtime.redact import Redactor
    from toolnexus.runtime.rights import Permissions

logger = logging.getLogger("toolnexus.tools")


def registry(agents: Iterable[Runnable]) -> dict[str, Runnable]:
    """The agents by name. Raises `NameConflict` for a name given twice."""
    out: dict[str, Runnable] = {}
    for agent in agents:
        if not isinstance(agent, Runnable):
            raise ConfigError(f"agents: {agent!r} cannot be run; give an Agent or another Runnable")
        if agent.name in out:
            raise NameConflict(f"two agents are named {agent.name!r}; rename one")
        out[agent.name] = agent
    return out


class Roster:
    """Every agent of one client: checked, and with what it brings along adopted by the client.

    Raises `NameConflict` and `ConfigError` for what can be known to be wrong at this point.
    """

    def __init__(self, main: Agent, environment: Environment, redact: Redactor) -> None:
        self._environment = environment
        self._redact = redact
        self._door = asyncio.Lock()
        self._agents = [main, *reachable(environment.registry.values(), environment.registry)]
        self._checked: dict[int, Scope] = {}
        """The scopes of registered agents that were checked, by identity: an edited agent has a new one."""
        brought = self._brought(self._agents)
        for source in (*brought, *self._elsewhere(self._agents)):
            environment.sources.adopt(source)
        environment.welcome = self.welcome
        environment.refresh()
        if environment.sources.fixed and not brought:
            self._check(self._agents, None)

    @property
    def models(self) -> list[str | Model]:
        """The models that the agents name."""
        return [a.model for a in self._agents if a.model is not None]

    def target(self, target: Runnable | str) -> Runnable:
        """What a name in the registry means. Raises `ConfigError` that lists the names."""
        if not isinstance(target, str):
            return target
        known = self._environment.registry
        if target not in known:
            near = did_you_mean(target, known)
            raise ConfigError(f"there is no agent {target!r}; registered: {sorted(known)}{near}")
        return known[target]

    def opened(self, permissions: Permissions | None) -> None:
        """Hold every name against the tools that are there now, and read every schema.

        `permissions` are those of the client. Raises `ConfigError`.
        """
        self._door = asyncio.Lock()
        self._check(self._agents, self._environment.sources.skill_names)
        self._tell_absent([permissions, *(agent.settings.permissions for agent in self._agents)])
        self._checked = {id(a.scope): a.scope for a in self._agents}
        _read_schemas([*self._environment.toolkit, *(s for a in self._agents for s in a.scope.own)])

    async def welcome(self, agent: object) -> None:
        """Check and open what an agent that is not registered, or was edited since, brings along."""
        if not isinstance(agent, Agent) or id(agent.scope) in self._checked:
            return
        environment = self._environment
        found = reachable([agent], environment.registry)
        agents = [a for a in found if id(a.scope) not in self._checked]
        async with self._door:  # the runs of one agent may come at once
            for source in (*self._brought(agents), *self._elsewhere(agents)):
                await environment.sources.admit(source, environment.refresh)
                environment.refresh()
        self._check(agents, environment.sources.skill_names)
        _read_schemas([s for a in agents for s in a.scope.own])
        if any(a is k for a in agents for k in self._agents):
            checked = {**self._checked, **{id(a.scope): a.scope for a in agents}}
            self._checked = {id(k.scope): k.scope for k in self._agents if id(k.scope) in checked}

    def _tell_absent(self, layers: Iterable[Permissions | None]) -> None:
        """Warn of rules about a tool that is nowhere: whoever misspelt one would feel safe."""
        given = [layer for layer in layers if layer is not None]
        if not given:
            return
        from toolnexus.tools.permissions import Rules

        rules = [layer for layer in given if isinstance(layer, Rules)]
        known = self._known(self._agents, None)
        steps = self._in_steps()
        brought = [tool for agent in steps for tool in self._environment.own(agent.scope)]
        unopened = any(not isinstance(entry, Tool) for agent in steps for entry in agent.scope.own)
        awaited = ["*"] if unopened else known.awaited
        there = {*BUILTINS, "skill", TOOL_SEARCH, *(t.name for t in (*known.tools, *known.brought, *brought))}
        for layer in rules:
            for rule in layer.absent(there):
                if not any(fnmatchcase(rule.tool.removeprefix("mcp_"), name) for name in awaited):
                    near = did_you_mean(rule.tool, there)
                    logger.warning("%s: %r is about no tool that is there%s", layer.where, rule.text, near)

    def _in_steps(self) -> list[Agent]:
        """The agents that run in workflows only: a source of theirs opens when they do."""
        environment = self._environment
        found = everybody(
            [*self._agents, *environment.registry.values(), *environment.toolkit], environment.registry
        )
        others = {id(agent) for agent in self._agents}
        return [one for one in found if isinstance(one, Agent) and id(one) not in others]

    def _brought(self, agents: Sequence[Agent]) -> list[ToolSource]:
        """What `agents` have of their own and is new here, each source once."""
        own = {id(s): s for a in agents for s in a.scope.own if not isinstance(s, Tool)}
        return [source for source in own.values() if not self._environment.sources.holds(source)]

    def _elsewhere(self, agents: Sequence[Agent]) -> list[ToolSource]:
        """Whom `agents` may delegate to and who has something to open: agents elsewhere."""
        known = self._environment.registry
        found = {id(t): t for a in agents for t in _below(a, known) if isinstance(t, ToolSource)}
        return [target for target in found.values() if not self._environment.sources.holds(target)]

    def _check(self, agents: Sequence[Agent], skills: Sequence[str] | None) -> None:
        environment = self._environment
        known = self._known(agents, skills)
        wrong: list[UnknownNames] = []
        for agent in agents:
            try:
                agent.scope.check(known, f"{_called(agent)}: tools")
            except UnknownNames as error:
                wrong.append(error)
        if wrong:
            raise _unknown(wrong)
        for agent in agents:
            if agent.model is not None:
                environment.models.resolve(agent.model)
        brought = [secret for agent in agents for own in agent.scope.own for secret in secrets_of(own)]
        for secret in (*environment.models.secrets, *environment.sources.secrets, *brought):
            self._redact.add(secret)

    def _known(self, agents: Sequence[Agent], skills: Sequence[str] | None) -> Known:
        environment, sources = self._environment, self._environment.sources
        scopes = [a.scope for a in {id(a): a for a in (*self._agents, *agents)}.values()]
        brought = [entry for scope in scopes for entry in scope.own]
        absent = [s.name for s in sources.servers if s.status["status"] != "connected"]
        return Known(
            tools=list(environment.toolkit),
            skills=skills,
            brought=[tool for scope in scopes for tool in environment.own(scope)],
            delegation=environment.delegation_names,
            brought_skills=[name for source in skill_sources(brought) for name in source.skill_set.names],
            servers=[s.name for s in sources.servers],
            awaited=["*"] if sources.failures else [f"{sanitize(name)}_*" for name in absent],
            skills_lost=sources.skills is not None and sources.skills.lost,
        )


def _called(agent: Agent) -> str:
    return f"agent {agent.name!r}{f' ({agent.origin})' if agent.origin else ''}"


def _unknown(wrong: Sequence[UnknownNames]) -> UnknownNames:
    """One error of several, with what to do about builtins that the client could have."""
    lines = [str(error) for error in wrong]
    names = tuple(dict.fromkeys(name for error in wrong for name in error.names))
    if builtins := sorted({*names} & {*BUILTINS}):
        lines.append(f"add to builtins what agents need of them: {', '.join(map(repr, builtins))}")
    return UnknownNames("\n".join(lines), names)


def _read_schemas(tools: Iterable[object]) -> None:
    """A function whose types say no schema is wrong now, not in the middle of a run."""
    for tool in tools:
        if isinstance(tool, Tool):
            _ = tool.input_schema


def reachable(roots: Iterable[Runnable], known: Mapping[str, Runnable]) -> list[Agent]:
    """Every `Agent` among `roots` and below them, each once.

    Raises `NameConflict` when two different ones have one name, and `ConfigError` when an agent
    names another that is not in `known`.
    """
    seen: dict[str, Runnable] = {}
    todo: list[Any] = list(roots)
    while todo:
        agent = todo.pop(0)
        if agent.name in seen:
            if seen[agent.name] is not agent:
                raise NameConflict(f"two agents are named {agent.name!r}; rename one")
            continue
        seen[agent.name] = agent
        if isinstance(agent, Agent):
            todo += _below(agent, known)
    return [a for a in seen.values() if isinstance(a, Agent)]


def everybody(roots: Iterable[object], known: Mapping[str, Runnable]) -> list[Any]:
    """All `roots` and what can run below them, each once: agents elsewhere and those of workflows, too."""
    seen: dict[int, object] = {}
    todo = list(roots)
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            todo += (*_targets(one, known), *one.scope.own) if isinstance(one, Agent) else _steps(one)
    return list(seen.values())


def budgets(roots: Iterable[object], known: Mapping[str, Runnable]) -> list[Budget]:
    """The budgets of `roots`, and of what can run below them."""
    settings = [getattr(one, "settings", None) for one in everybody(roots, known)]
    return [s.budget for s in settings if isinstance(s, RunSettings) and s.budget is not None]


def _steps(target: object) -> Sequence[Agent]:
    """The agents that a workflow runs, which nobody can delegate to."""
    return getattr(target, "step_agents", ())


def _below(agent: Agent, known: Mapping[str, Runnable]) -> list[Runnable]:
    names = agent.scope.targets.names
    if agent.scope.targets.chosen:
        names.check(known, f"{_called(agent)}: agents", there="registered")
    return _targets(agent, known)


def _targets(agent: Agent, known: Mapping[str, Runnable]) -> list[Runnable]:
    targets = agent.scope.targets
    if not targets.chosen:
        return []
    return [*(target for name, target in known.items() if targets.names.admits(name)), *targets.own]
