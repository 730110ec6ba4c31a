"""Makes what a plan says: resources first, then engines and hooks. Everything that fails is told at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from toolnexus.core.plain import path_text
from toolnexus.errors import ConfigError, ErrorKind
from toolnexus.graph.deployment.document import Document
from toolnexus.graph.deployment.kinds import checked
from toolnexus.graph.deployment.plan import Plan, Ref, Step, Where
from toolnexus.graph.deployment.resources import ResourceInput
from toolnexus.graph.errors import GraphError, Issue
from toolnexus.graph.graph import Graph
from toolnexus.runtime.context import Runnable


class _NotMade(Exception):
    """Something that is needed could not be made, which was told."""


class Maker:
    """The values of one deployment. `agents` gives its agents, once there are some."""

    def __init__(
        self, document: Document, embedded: Mapping[str, str], agents: Callable[[], Mapping[str, Runnable]]
    ) -> None:
        self._document = document
        self._embedded = embedded
        self._agents = agents
        self._issues: list[Issue] = []
        self._bug: Exception | None = None
        """What a factory raised that nobody expects."""
        self.resources: dict[str, Any] = {}
        """By name, in the order in which they were made."""
        self.engines: dict[str, Any] = {}
        """By agent."""
        self.hooks: dict[str, dict[str, list[Any]]] = {}
        """By agent and slot."""
        self.narrowed: list[Any] = []
        """Tools that an agent chose from an assembly."""

    def make(self, plan: Plan) -> None:
        """Make everything. Raises `DeployError`."""
        for step in plan.resources:
            self._make(step, lambda value, name=step.name: self.resources.update({name: value}))
        for name, step in plan.engines.items():
            tools = self._document.shape.agents[name].tools
            self._make(step, lambda value, name=name: self.engines.update({name: value}), tools)
            slots = self.hooks[name] = {slot: [] for slot in plan.hooks[name]}
            for slot, steps in plan.hooks[name].items():
                for hook in steps:
                    self._make(hook, slots[slot].append)
            self._check_hooks(name)
        for key, text in self._document.shape.runtime or ():
            if text is not None:
                with suppress(_NotMade):
                    self._wanted(Ref.of(text), ("runtime", key))
        if self._issues:
            told = [replace(issue, message=plan.redact(issue.message)) for issue in self._issues]
            cause = None if self._bug is None else plan.redact.cause(self._bug)
            raise self._document.error(told) from cause

    def value(self, ref: Ref) -> Any:
        """The resource, or its item. Raises `KeyError`."""
        value = self.resources[ref.resource]
        return value if ref.item is None else value[ref.item]

    def _make(self, step: Step, keep: Callable[[Any], object], tools: Sequence[str] | None = None) -> None:
        try:
            keep(checked(step.type, step.type.factory(self._input(step, tools))))
        except _NotMade:
            return
        except GraphError as error:
            for issue in error.issues:
                where = f"{path_text(step.where)}{'.' if issue.path else ''}{issue.path}"
                self._issues.append(replace(issue, path=where, line=None))
        except (ValueError, ConfigError) as error:
            self._wrong(step.where, str(error))
        except Exception as error:
            self._bug = self._bug or error
            self._wrong(step.where, f"its factory failed: {type(error).__name__}: {error}")

    def _check_hooks(self, name: str) -> None:
        used = [slot for slot, hooks in self.hooks[name].items() if hooks]
        if used and name in self.engines and not isinstance(self.engines[name], Graph):
            self._wrong(("agents", name, used[0]), f"{used[0]!r} goes with an engine that is a graph")

    def _input(self, step: Step, tools: Sequence[str] | None) -> ResourceInput:
        deps = self._deps(step)
        if tools is not None:
            try:
                deps["tools"] = deps["tools"].only(tools)
            except ConfigError as error:
                self._wrong((*step.where[:-1], "tools"), str(error).removeprefix("tools: "))
                raise _NotMade from None
            self.narrowed.append(deps["tools"])
        return ResourceInput(
            name=step.name,
            kind=step.type.kind,
            impl=step.type.impl,
            deps=deps,
            settings=step.settings,
            folder=self._document.folder,
            embedded=self._embedded,
            agents=self._agents,
        )

    def _deps(self, step: Step) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, ref in step.deps.items():
            found = step.type.dep(key)
            assert found is not None  # the plan has looked
            name, dep = found
            value = self._wanted(ref, (*step.where, "deps", key))
            if dep.many:
                out.setdefault(name, {})[key] = value
            else:
                out[name] = value
        return out

    def _wanted(self, ref: Ref, where: Where) -> Any:
        if ref.resource not in self.resources:
            raise _NotMade
        try:
            return self.value(ref)
        except KeyError:
            items = ", ".join(sorted(self.resources[ref.resource])) or "none"
            self._wrong(
                where, f"{ref.resource!r} has no item {ref.item!r}; items: {items}", ErrorKind.NOT_FOUND
            )
            raise _NotMade from None

    def _wrong(self, where: Where, message: str, kind: ErrorKind = ErrorKind.VALIDATION) -> None:
        self._issues.append(Issue(message=message, path=path_text(where), kind=kind))
