"""What agents are resolved against: the client's toolkit, models and registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from toolnexus.core.tools import Tool
from toolnexus.engine.scope import Scope
from toolnexus.engine.view import View
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ContextKey, RunContext, Runnable
from toolnexus.tools.gather import Sources, skill_sources
from toolnexus.tools.source import safely_named
from toolnexus.tools.toolkit import Toolkit, assemble

if TYPE_CHECKING:
    from toolnexus.engine.delegate import Delegation
    from toolnexus.engine.models import Models
    from toolnexus.models.base import Model
    from toolnexus.runtime.rights import Denial
    from toolnexus.tools.skills import SkillSet, SkillSource

MODEL: ContextKey[Model] = ContextKey("model")
"""The model of the run above: what an agent without one inherits."""

NO_MODEL = """no model is set. Three ways to go on:
  Client(model="openai:gpt-5-mini")                    # with OPENAI_API_KEY in the environment
  Client(model="openai:NAME", base_url="http://localhost:11434/v1")   # a local server
  export TOOLNEXUS_MODEL=anthropic:claude-haiku-4-5    # for every client of this shell"""


MOST_VIEWS = 256


async def _nobody_brings_anything(agent: Definition) -> None:
    """Before a roster is made."""


class Definition(Protocol):
    """What is needed of an agent to tell its tools, its model and its targets."""

    @property
    def name(self) -> str: ...
    @property
    def system_prompt(self) -> str: ...
    @property
    def model(self) -> str | Model | None: ...
    @property
    def scope(self) -> Scope: ...


class Environment:
    """The client's side of every run: which tools exist, who is registered, which models there are.

    Views are derived from the agent, never handed down by its caller: forwarding a parent's tools
    would offer a child the wrong ones.
    """

    edits: ClassVar[int] = 0
    """How often agents were edited in place, in any client: views are derived anew after that."""

    def __init__(
        self,
        *,
        models: Models,
        sources: Sources,
        registry: Mapping[str, Runnable],
    ) -> None:
        self.models = models
        self.sources = sources
        self.registry = registry
        self.welcome: Callable[[Definition], Awaitable[None]] = _nobody_brings_anything
        """Checks and opens what an agent brings along, before it runs."""
        self.allowed_models: Mapping[str, Model] = {}
        """Names that the `model` of `task` may take."""
        self.max_declared_tools: int | None = None
        """With more tools than this, most are found with `tool_search` instead of being declared."""
        self.task_options: tuple[str, ...] = ()
        """What `task` can besides, `task_continue`: builtin options that the host set."""
        self.changed: list[Callable[[], None]] = []
        """Called whenever the toolkit may be another one."""
        self._toolkit = Toolkit()
        self._views: dict[tuple[Any, ...], tuple[Definition, tuple[Denial, ...], View]] = {}
        self._edits = Environment.edits

    @property
    def toolkit(self) -> Toolkit:
        """All tools of the client but `task`, which differs from agent to agent."""
        return self._toolkit

    def refresh(self) -> None:
        """Take what the sources offer now."""
        self._toolkit = Toolkit(self.sources.tools())
        self._views.clear()
        for tell in self.changed:
            tell()

    def model(self, agent: Definition, ctx: RunContext) -> Model:
        """The model that runs `agent`: its own, or its caller's. Raises `ConfigError` without any."""
        if agent.model is not None:
            return self.models.resolve(agent.model)
        model = ctx.get(MODEL) or self.models.default
        if model is None:
            raise ConfigError(NO_MODEL)
        return model

    def view(self, agent: Definition, ctx: RunContext) -> View:
        """What `agent` is offered in this run."""
        if self._edits != Environment.edits:
            self._edits = Environment.edits
            self._views.clear()
        deepest = ctx.frame.depth >= ctx.run.max_depth
        denied = ctx.frame.denied
        key = (id(agent), deepest, *map(id, denied))
        known = self._views.get(key)
        if known is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            offer = self.offer(agent, denied, deepest=deepest).deferring(self.max_declared_tools)
            known = self._views[key] = (agent, denied, offer)
        return known[2].of_run(ctx.frame)

    def own(self, scope: Scope) -> list[Tool]:
        """What an agent brings itself, the first of a name."""
        tools = [entry for entry in scope.own if isinstance(entry, Tool)]
        sources = [entry for entry in scope.own if not isinstance(entry, Tool)]
        return assemble([("tools", tools), *((s.name, safely_named(s)) for s in sources)])

    def targets(self, agent: Definition, denied: Sequence[Denial] = ()) -> dict[str, Runnable]:
        """Whom `agent` may delegate to, by name, sorted; `denied` is what holds for it already."""
        chosen = agent.scope.targets
        found = [target for name, target in self.registry.items() if chosen.names.admits(name)]
        return {
            target.name: target
            for target in sorted([*found, *chosen.own], key=lambda t: t.name)
            if not any(d.denies_agent(target.name) for d in (agent.scope, *denied))
        }

    def task(self, agent: Definition, denied: Sequence[Denial] = ()) -> Tool | None:
        """The `task` tool of `agent`, or None when it has nobody to delegate to or may not."""
        may = agent.scope.offers_task and "task" not in self.sources.denied
        if not may or not self.targets(agent, denied):
            return None
        from toolnexus.engine.delegate import task_tool

        delegation = self.delegation(agent, denied)
        catalog = [self._line(target, (agent.scope, *denied)) for target in delegation.targets.values()]
        return task_tool(delegation, catalog)

    def delegation(self, agent: Definition, denied: Sequence[Denial] = ()) -> Delegation:
        """Whom `agent` may start, and how."""
        from toolnexus.engine.delegate import Delegation

        return Delegation(self.targets(agent, denied), self.allowed_models, self.task_options)

    @property
    def delegation_names(self) -> tuple[str, ...]:
        """`task`, and the names of what comes with it."""
        return ("task", "task_wait", "task_stop") if "task_background" in self.task_options else ("task",)

    def beside_task(self, agent: Definition, denied: Sequence[Denial] = ()) -> list[Tool]:
        """What comes with `task`: the tools for runs in the background, where the host turned them on."""
        if "task_background" not in self.task_options:
            return []
        from toolnexus.engine.background import stop_tool, wait_tool

        tools = [tool for tool in (wait_tool(), stop_tool()) if tool.name not in self.sources.denied]
        return [tool for tool in tools if not any(d.denies(tool) for d in (agent.scope, *denied))]

    def offer(self, agent: Definition, denied: Sequence[Denial], *, deepest: bool) -> View:
        """What `agent` would be offered with these denials above it; `deepest`: nobody may be below it."""
        tools, skills = self._offered(agent.scope, denied)
        texts = (agent.system_prompt, *(s.catalog() for s in skills))
        system = "\n\n".join([text for text in texts if text])
        task = self.task(agent, denied)
        taken = {t.name for t in tools}
        unoffered: dict[str, Tool] = {}
        if task is None or task.name in taken or any(d.denies(task) for d in denied):
            pass  # nobody to delegate to, a tool of the host has the name, or it is denied
        elif deepest:
            unoffered[task.name] = task
        else:
            tools += [task, *(t for t in self.beside_task(agent, denied) if t.name not in taken)]
        roots = tuple([root for s in skills for root in s.roots])
        closed = tuple(
            [path for s in self._skill_sources(agent.scope) for path in s.found if path not in roots]
        )
        return View(tools=tuple(tools), system=system, roots=roots, closed=closed, unoffered=unoffered)

    def _offered(self, scope: Scope, denied: Sequence[Denial]) -> tuple[list[Tool], list[SkillSet]]:
        """The tools of a scope but `task`, and the skills that it may load.

        What is denied stays away also when the agent brings it itself.
        """
        own = self.own(scope)
        taken = {t.name for t in own}
        admitted = [t for t in self._toolkit if t.name not in taken and scope.admits(t)]
        tools: list[Tool] = []
        loadable: list[SkillSet] = []
        for tool in [*admitted, *own]:
            if any(d.denies(tool) for d in (scope, *denied)):
                continue
            skills = self._skills(tool, scope)
            if skills is None:
                tools.append(tool)
                continue
            mine = skills.view(
                lambda name: scope.admits_skill(name) and not any(d.denies_skill(name) for d in denied)
            )
            tools += mine.tools
            loadable.append(mine)
        return tools, loadable

    def _skills(self, tool: Tool, scope: Scope) -> SkillSource | None:
        """The source that `tool` loads skills from, if it is such a tool."""
        if tool.source != "skill":
            return None
        return next((s for s in self._skill_sources(scope) if any(tool is t for t in s.tools)), None)

    def _skill_sources(self, scope: Scope) -> list[SkillSource]:
        return skill_sources((self.sources.skills, *scope.own))

    def _line(self, target: Runnable, denied: Sequence[Denial]) -> str:
        about = f": {target.description}" if target.description else ""
        return f"- {target.name}{about} (tools: {self._tool_words(target, denied)})"

    def _tool_words(self, target: Runnable, denied: Sequence[Denial]) -> str:
        scope = getattr(target, "scope", None)
        if not isinstance(scope, Scope):
            return "its own"
        names = [tool.name for tool in self._offered(scope, denied)[0]]
        if not names:
            return "none"
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


ENVIRONMENT: ContextKey[Environment] = ContextKey("environment")
"""Where an agent finds its tools and models."""
