"""Whom a client knows: the registry of `task` and every agent that can be reached from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from toolnexus.core.names import did_you_mean
from toolnexus.engine.agent import Agent
from toolnexus.errors import ConfigError, NameConflict
from toolnexus.runtime.context import Runnable


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


def reachable(roots: Iterable[Runnable], known: dict[str, Runnable]) -> list[Agent]:
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
            todo += _below(agent, agent.agents or (), known)
    return [a for a in seen.values() if isinstance(a, Agent)]


def _below(agent: Agent, named: Sequence[str | Runnable], known: dict[str, Runnable]) -> list[Runnable]:
    out: list[Runnable] = []
    for target in named:
        if isinstance(target, str):
            if target not in known:
                raise ConfigError(
                    f"agent {agent.name!r}: agents names {target!r}, which is not registered; "
                    f"registered: {sorted(known)}{did_you_mean(target, known)}"
                )
            out.append(known[target])
        elif isinstance(target, Runnable):
            out.append(target)
        else:
            raise ConfigError(f"agent {agent.name!r}: agents holds {target!r}; give names or agents")
    return out
