"""The agents of a document: tables in it and Markdown files that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolnexus.agents.remote import RemoteAgent
from toolnexus.config import shape
from toolnexus.config.endpoint import Endpoint, read_endpoint
from toolnexus.config.unasked import Unasked
from toolnexus.config.values import Filler
from toolnexus.core.names import did_you_mean
from toolnexus.core.plain import path_text
from toolnexus.core.usage import Budget
from toolnexus.engine.agent import Agent
from toolnexus.engine.asked import MAIN
from toolnexus.errors import ConfigError
from toolnexus.models.registry import split_spec
from toolnexus.runtime.context import Runnable
from toolnexus.tools.filters import is_glob
from toolnexus.tools.source import ToolSource

if TYPE_CHECKING:
    from toolnexus.agents.files import AgentFiles

_OPTION = "agents"
MODELS = "models of agents"
"""What a variable is needed for that only stands in their models: whoever asks none of them needs none."""
_MOST_NAMES = 20
_MOST_FINDINGS = 100
_MOST_COMPARED = 500


@dataclass(frozen=True, slots=True)
class _Role:
    """An agent of a table: a new one each time, since a model object belongs to its client."""

    place: str
    options: Mapping[str, Any]
    model: str | Endpoint | None

    def agent(self, *, asked: bool) -> Agent:
        model = self.model
        if isinstance(model, Endpoint):
            model = model.build(f"{self.place}.model") if asked else Unasked(str(model.model))
        return Agent(**deepcopy(dict(self.options)), model=model)

    def sources(self, agent: Runnable) -> list[ToolSource]:
        """What of `agent`, which was made of it, is a source of tools for everybody."""
        return []


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A remote agent of a table."""

    place: str
    options: Mapping[str, Any]
    offers_skills: bool

    def agent(self, *, asked: bool) -> Runnable:
        return RemoteAgent(**deepcopy(dict(self.options)))

    def sources(self, agent: Runnable) -> list[ToolSource]:
        return [agent] if self.offers_skills and isinstance(agent, RemoteAgent) else []


@dataclass(frozen=True, slots=True)
class Roles:
    """The agents of a document."""

    tables: Sequence[_Role | _Elsewhere]
    from_files: Sequence[Agent]

    def make(self, *, asked: bool = True) -> tuple[list[Runnable], list[ToolSource]]:
        """The agents, new ones each time, and what of them is a source of tools.

        `asked` False: their own models need no key.
        """
        made = [role.agent(asked=asked) for role in self.tables]
        sources = [s for role, agent in zip(self.tables, made, strict=True) for s in role.sources(agent)]
        return [*made, *self.from_files], sources


def read_roles(root: shape.Root, filler: Filler, report: list[str], *, whole: bool) -> Roles:
    """The agents that the document describes.

    A name that two of them have is a finding, and so is one that nobody has, if the agents are `whole`.
    """
    roles = [
        _elsewhere(name, place, table, filler)
        if isinstance(table, shape.RemoteAgent)
        else _role(name, place, table, filler, report)
        for name, place, table in _tables(root.agents)
    ]
    files = None if root.agent_files is None else _files(root.agent_files, filler, report)
    from_files = () if files is None else files.agents
    named = [(role.options["name"], role.place, role.options.get("agents")) for role in roles]
    if files is not None:
        named += [(agent.name, files.places[agent.name], agent.agents) for agent in from_files]
    _check_names([(name, place) for name, place, _ in named], filler)
    if whole and (files is not None or root.agent_files is None):
        _check_delegates(named, filler)
    return Roles(roles, from_files)


def _tables(
    agents: Mapping[str, shape.Agent | shape.RemoteAgent]
    | Sequence[shape.NamedAgent | shape.NamedRemoteAgent]
    | None,
) -> list[tuple[str, str, shape.Agent | shape.RemoteAgent]]:
    """Name, place and table of each."""
    if agents is None:
        return []
    if isinstance(agents, Mapping):
        return [(name, path_text(("agents", name)), table) for name, table in agents.items()]
    return [(table.name, f"agents[{i}]", table) for i, table in enumerate(agents)]


def _role(name: str, place: str, table: shape.Agent, filler: Filler, report: list[str]) -> _Role:
    options: dict[str, Any] = {
        "name": name,
        **table.given("description", "system_prompt", "tools", "agents", "max_turns"),
        **table.given("output_type", "permissions"),
    }
    if isinstance(table.tools, shape.Tools):
        options["tools"] = table.tools.given()
    if table.budget is not None:
        options["budget"] = Budget(**table.budget.given())
    if table.workdir is not None:
        options["workdir"] = filler.path(table.workdir, f"{place}.workdir", _OPTION)
    filler.attempt(place, Agent, **options)
    return _Role(place, options, _model(table.model, f"{place}.model", filler, report))


def _elsewhere(name: str, place: str, table: shape.RemoteAgent, filler: Filler) -> _Elsewhere:
    """Its variables are looked up here and filled in by `RemoteAgent`, which keeps them to itself."""
    options: dict[str, Any] = {
        "name": name,
        **table.given("url", "card", "description", "headers", "timeout"),
        **({"skills": table.skills} if table.skills else {}),
    }
    if table.budget is not None:
        options["budget"] = Budget(**table.budget.given())
    known: list[object] = []
    for key, text in (table.headers or {}).items():
        known.append(filler.secret(text, f"{place}.headers.{key}", _OPTION))
    if table.url is not None:
        known.append(filler.url(table.url, f"{place}.url", _OPTION))
    if isinstance(table.card, str) and "://" in table.card:
        known.append(filler.url(table.card, f"{place}.card", _OPTION))
    elif isinstance(table.card, str):
        options["card"] = path = filler.path(table.card, f"{place}.card", _OPTION)
        known.append(path if path is not None and _exists(path, f"{place}.card", filler) else None)
    if None not in known:
        filler.attempt(place, RemoteAgent, **options)
    return _Elsewhere(place, options, bool(table.skills))


def _model(
    model: str | shape.Model | None, place: str, filler: Filler, report: list[str]
) -> str | Endpoint | None:
    if isinstance(model, shape.Model):
        return read_endpoint(model, place, filler, report, option=MODELS)
    name = None if model is None else filler.text(model, place, MODELS)
    if name is not None and ":" in name:  # a bare name is one at the client's own endpoint
        filler.attempt(place, split_spec, name)
    return name


def _files(
    given: str | Sequence[str] | shape.AgentFiles, filler: Filler, report: list[str]
) -> AgentFiles | None:
    """What the Markdown files hold; None when some of it cannot be known."""
    models: Mapping[str, str] = {}
    if isinstance(given, shape.AgentFiles):
        place, listed, models = "agent_files.paths", given.paths, given.models or {}
    else:
        place, listed = "agent_files", given
    paths = filler.paths(listed, place, _OPTION)
    filled = {name: filler.text(text, f"agent_files.models.{name}", MODELS) for name, text in models.items()}
    there = [path for path in paths if path is not None and _exists(path, place, filler)]
    from toolnexus.agents.files import read_agents

    try:
        files = read_agents(there, models={name: model for name, model in filled.items() if model})
    except ConfigError as error:
        filler.findings += [f"agent_files: {line}" for line in str(error).splitlines()]
        return None
    report += [f"agent_files: {line}" for line in files.report]
    return files if len(there) == len(paths) else None


def _exists(path: Path, place: str, filler: Filler) -> bool:
    there = os.path.exists(path)
    if not there:
        filler.lacks(_OPTION, place, f"there is no file or folder {str(path)!r}")
    return there


def _check_names(named: Sequence[tuple[str, str]], filler: Filler) -> None:
    seen = {MAIN: "of the client itself"}
    for name, place in named:
        if name in seen:
            filler.findings.append(f"{place}: the name {name!r} is given twice; it is also that {seen[name]}")
        seen.setdefault(name, f"of {place}")


def _check_delegates(named: Sequence[tuple[str, str, Any]], filler: Filler) -> None:
    known = sorted({name for name, _, _ in named})
    there = f"{known[:_MOST_NAMES]}{' and more' if len(known) > _MOST_NAMES else ''}"
    exists = set(known)
    unknown = (
        (place, other)
        for _, place, agents in named
        for other in (() if agents is None or isinstance(agents, bool) else agents)
        if isinstance(other, str) and other not in exists and not is_glob(other)
    )
    for place, other in islice(unknown, _MOST_FINDINGS):  # looking for what is near takes its time
        near = did_you_mean(other, known[:_MOST_COMPARED])
        filler.findings.append(
            f"{place}: agents names {other!r}, which does not exist; there are {there}{near}"
        )
