"""From a document to an order of work; every reference, kind and setting is checked before that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import BaseModel, ValidationError

from toolnexus.core.names import did_you_mean, listed
from toolnexus.core.plain import path_text
from toolnexus.errors import ErrorKind
from toolnexus.graph.deployment.document import Document, HookEntry, ResourceEntry, settings_issues
from toolnexus.graph.deployment.expand import Expander
from toolnexus.graph.deployment.resources import Dep, ResourceRegistry, ResourceType
from toolnexus.graph.durations import DOCUMENT
from toolnexus.graph.errors import Issue
from toolnexus.runtime.redact import Redactor

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """A resource, or one item of it."""

    resource: str
    item: str | None

    @classmethod
    def of(cls, text: str) -> Ref:
        """What `resource` or `resource/item` means."""
        resource, slash, item = text.partition("/")
        return cls(resource, item if slash else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to make."""

    name: str
    where: Where
    """Where it stands in the document."""
    type: ResourceType
    deps: Mapping[str, Ref]
    settings: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything to make, in an order in which what is needed comes first."""

    resources: tuple[Step, ...]
    engines: Mapping[str, Step]
    hooks: Mapping[str, Mapping[str, tuple[Step, ...]]]
    """By agent and slot."""
    redact: Redactor
    """Knows the values of the variables."""


SLOTS = {"prepare": "hook.prepare", "referees": "hook.referee", "commit": "hook.commit"}
"""The kinds of what stands in the lists of an agent."""


def plan(document: Document, registry: ResourceRegistry) -> Plan:
    """Check the whole document. Raises `DeployError` with everything that is wrong."""
    return _Planner(document, registry).plan()


class _Planner:
    def __init__(self, document: Document, registry: ResourceRegistry) -> None:
        self._document = document
        self._registry = registry
        self._expander = Expander(document.folder)
        self._issues = self._expander.issues
        shape = document.shape
        self._types = {
            name: self._find(entry.kind, entry.impl, ("resources", name))
            for name, entry in shape.resources.items()
        }

    def plan(self) -> Plan:
        shape = self._document.shape
        made = {
            name: self._step(name, ("resources", name), self._types[name], entry)
            for name, entry in shape.resources.items()
        }
        order = self._ordered()
        engines: dict[str, Step | None] = {}
        hooks: dict[str, dict[str, tuple[Step, ...]]] = {}
        for name, agent in shape.agents.items():
            where: Where = ("agents", name, "engine")
            if agent.engine.kind != "agent.Engine":
                self._wrong(
                    (*where, "kind"), f"an engine has the kind 'agent.Engine', not {agent.engine.kind!r}"
                )
                continue
            found = self._find("agent.Engine", agent.engine.impl, where)
            engines[name] = self._step(name, where, found, agent.engine)
            hooks[name] = {slot: tuple(self._hooks(name, slot, getattr(agent, slot))) for slot in SLOTS}
            if agent.policy.max_revise and not agent.referees:
                self._wrong(
                    ("agents", name, "policy", "max_revise"),
                    "nobody asks for a revision: it goes with `referees`",
                )
            if agent.tools is not None and "tools" not in agent.engine.deps:
                self._wrong(
                    ("agents", name, "tools"), "it chooses from the dep `tools` of the engine; wire one"
                )
        self._runtime()
        if self._issues:
            raise self._document.error([_masked(issue, self._expander.redact) for issue in self._issues])
        return Plan(
            resources=tuple([step for name in order if (step := made[name]) is not None]),
            engines={name: step for name, step in engines.items() if step is not None},
            hooks=hooks,
            redact=self._expander.redact,
        )

    def _hooks(self, agent: str, slot: str, entries: list[HookEntry]) -> Iterator[Step]:
        for n, entry in enumerate(entries):
            where: Where = ("agents", agent, slot, n)
            found = self._find(SLOTS[slot], entry.type, where, "type")
            made = ResourceEntry(kind=SLOTS[slot], impl=entry.type, deps=entry.deps, settings=entry.settings)
            step = self._step(f"{agent}.{slot}[{n}]", where, found, made)
            if step is not None:
                yield step

    def _runtime(self) -> None:
        runtime = self._document.shape.runtime
        if runtime is None:
            return
        self._ref(runtime.event_bus, Dep("event.Bus"), ("runtime", "event_bus"))
        if runtime.checkpoint_store is not None:
            self._ref(runtime.checkpoint_store, Dep("checkpoint.Store"), ("runtime", "checkpoint_store"))

    def _find(self, kind: str, impl: str, where: Where, key: str = "impl") -> ResourceType | None:
        found = self._registry.find(kind, impl)
        if isinstance(found, ResourceType):
            return found
        self._wrong((*where, "kind" if found.startswith("no kind") else key), found, ErrorKind.NOT_FOUND)
        return None

    def _step(self, name: str, where: Where, type: ResourceType | None, entry: ResourceEntry) -> Step | None:
        known = len(self._expander.issues)
        filled = self._expander.value(entry.settings, (*where, "settings"))
        whole = len(self._expander.issues) == known
        if type is None:
            return None
        deps = self._deps(type, entry, where)
        settings = self._settings(type, filled, (*where, "settings")) if whole else None
        return Step(name=name, where=where, type=type, deps=deps, settings=settings)

    def _deps(self, type: ResourceType, entry: ResourceEntry, where: Where) -> dict[str, Ref]:
        out: dict[str, Ref] = {}
        for key, target in entry.deps.items():
            at: Where = (*where, "deps", key)
            found = type.dep(key)
            if found is None:
                known = [f"{name}, {name}.<suffix>" if dep.many else name for name, dep in type.deps.items()]
                allowed = f"it takes: {', '.join(known)}" if known else "it takes none"
                near = did_you_mean(key, type.deps)
                self._wrong(at, f"{type.kind}/{type.impl} has no dep {key!r}{near}; {allowed}")
            else:
                ref = self._ref(target, found[1], at)
                if ref is not None:
                    out[key] = ref
        for name, dep in type.deps.items():
            if dep.required and not any(key.partition(".")[0] == name for key in entry.deps):
                self._wrong(
                    (*where, "deps"), f"the dep {name!r} is missing: a resource of kind {dep.kind}",
                    ErrorKind.NOT_FOUND,
                )  # fmt: skip
        return out

    def _ref(self, text: str, dep: Dep, where: Where) -> Ref | None:
        ref = Ref.of(text)
        resources = self._document.shape.resources
        if not ref.resource or ref.item == "" or (ref.item and "/" in ref.item):
            self._wrong(where, f"{text[:80]!r} is no reference; write resource, or resource/item")
            return None
        if ref.resource not in resources:
            near = did_you_mean(ref.resource, resources)
            known = listed(resources)
            self._wrong(
                where, f"there is no resource {ref.resource!r}{near}; resources: {known}", ErrorKind.NOT_FOUND
            )
            return None
        type = self._types[ref.resource]
        if type is None:  # told already
            return None
        if ref.item is not None and type.items is None:
            message = f"{ref.resource!r} is a {type.kind}, which has no items; write {ref.resource!r} alone"
            self._wrong(where, message)
            return None
        kind = type.kind if ref.item is None else type.items
        if kind != dep.kind:
            hint = ""
            if ref.item is None and type.items == dep.kind:
                hint = f"; write {ref.resource}/<item>"
            self._wrong(where, f"it needs a resource of kind {dep.kind}; {text!r} is {kind}{hint}")
            return None
        return ref

    def _settings(self, type: ResourceType, given: dict[str, Any], where: Where) -> Any:
        model = type.settings
        if model is None:
            if given:
                message = f"{type.kind}/{type.impl} has no settings; it was given {', '.join(given)}"
                self._wrong(where, message)
            return None
        if not issubclass(model, BaseModel):
            return given
        try:
            return model.model_validate(given, context={DOCUMENT: True})
        except ValidationError as error:
            self._issues += settings_issues(error, model, given, path_text(where))
            return None

    def _ordered(self) -> list[str]:
        resources = self._document.shape.resources
        needs = {
            name: [r for text in entry.deps.values() if (r := Ref.of(text).resource) in resources]
            for name, entry in resources.items()
        }
        try:
            return list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            cycle: list[str] = error.args[1]
            around = " → ".join(reversed(cycle))
            self._wrong(("resources", cycle[0], "deps"), f"resources need each other in a circle: {around}")
            return []

    def _wrong(self, where: Where, message: str, kind: ErrorKind = ErrorKind.VALIDATION) -> None:
        self._issues.append(Issue(message=message, path=path_text(where), kind=kind))


def _masked(issue: Issue, redact: Redactor) -> Issue:
    return Issue(message=redact(issue.message), path=issue.path, kind=issue.kind, line=issue.line)
