"""Agent: an immutable definition. The loop that runs it is loaded by the first run."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from toolnexus.core.messages import MediaPart, Message, TextPart, user
from toolnexus.core.options import expect, items
from toolnexus.core.result import RunResult
from toolnexus.core.usage import Budget
from toolnexus.core.values import frozen
from toolnexus.engine.options import run_settings
from toolnexus.engine.output import OutputType, output_type_of
from toolnexus.engine.scope import Scope, ToolSpec
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.runtime.context import Outcome, RunContext, Runnable, RunSettings
from toolnexus.runtime.questions import OnRequest

if TYPE_CHECKING:
    from types import CoroutineType
else:  # before Python 3.13 it takes no types
    from collections.abc import Coroutine as CoroutineType

ShouldContinue = Callable[[RunResult], bool | Awaitable[bool]]


@frozen(kw_only=True)
class Agent:
    """A role that can be run, any number of times at once: it holds no history.

    Raises `ConfigError` at definition for anything that can be known to be wrong by then.
    """

    name: str
    description: str = ""
    """What it is good at: the caller's model chooses by it."""
    system_prompt: str = ""
    model: str | Model | None = None
    """`"provider:name"`, a name at the client's own endpoint, a `Model`, or None: the caller's."""
    tools: Sequence[str | ToolSpec] | Mapping[str, Any] | None = None
    """A list of names and globs over the client's toolkit and of tools of its own (`[]`: none at
    all), a mapping of filters `{"mcp", "skills", "builtins", "native"}`, or None: everything."""
    agents: bool | Sequence[str | Runnable] | Mapping[str, bool] | None = None
    """Whom it may delegate to: a list of names and globs of registered agents and of Runnables,
    `{name: bool}` over the registered ones, True or None: all of them, False: nobody."""
    max_turns: int | None = None
    """None: the caller's."""
    budget: Budget | None = None
    """Ceilings for each of its runs and everything below."""
    hooks: Sequence[object] = ()
    """Added to the caller's, for its runs and everything below."""
    on_request: OnRequest | None = None
    """Answers questions of its runs and everything below, before the caller is asked."""
    should_continue: ShouldContinue | None = None
    """Asked at a natural stop; true sends a nudge and goes on, within `max_turns`."""
    workdir: str | os.PathLike[str] | None = None
    """The root of its file tools. None: the caller's."""
    permissions: Mapping[str, str] | None = None
    """Rules about its calls and those below, `{"bash(git *)": "allow", "bash": "ask", "write": "deny"}`;
    they come on top of the caller's, and the strictest word holds."""
    output_type: Any = None
    """What its runs answer with: a type that pydantic takes (a model, a dataclass, `list[int]`, …) or
    a JSON Schema. `result.output` is the checked value then; a caller's model reads it as JSON."""
    origin: str | None = field(default=None, repr=False, compare=False)
    """Where it was written down, such as a file: errors name it."""
    scope: Scope = field(init=False, repr=False, compare=False)
    """The parsed `tools` and `agents`."""
    settings: RunSettings = field(init=False, repr=False, compare=False)
    """What the frame around its runs needs."""
    output: OutputType | None = field(init=False, repr=False, compare=False)
    """The parsed `output_type`."""

    def __post_init__(self) -> None:
        where = f"agent {self.name!r}"
        settings = run_settings(
            f"{where}: ",
            model=self.model,
            system_prompt=self.system_prompt,
            budget=self.budget,
            hooks=self.hooks,
            on_request=self.on_request,
            should_continue=self.should_continue,
            max_turns=self.max_turns,
            workdir=self.workdir,
            permissions=self.permissions,
        )
        if not isinstance(self.name, str) or not self.name.strip() or len(self.name) > 64:
            raise ConfigError(f"{where}: a name is 1 to 64 characters of text")
        expect(f"{where}: description", self.description, str, "give text")
        if self.agents is not None and not isinstance(self.agents, (bool, Mapping)):
            named = items(f"{where}: agents", self.agents, "give a list of names or agents, or {name: bool}")
            object.__setattr__(self, "agents", named)
        if self.budget is not None and self.budget.concurrency != Budget().concurrency:
            raise ConfigError(f"{where}: concurrency is set on the client's budget, for the whole tree")
        scope = Scope.of(self.tools, self.agents, where)
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "output", output_type_of(self.output_type, f"{where}: "))

    def execute(self, input: Any, ctx: RunContext) -> CoroutineType[Any, Any, Outcome]:
        """The loop: turn, batch, turn, until the model calls nothing or a limit stops it.

        Raises `LimitReached`, `ModelError` and `OutputError`; the frame around it turns them into a result.
        """
        from toolnexus.engine.loop import run_agent

        return run_agent(self, input, ctx)


def as_messages(input: Any) -> list[Message]:
    """What a caller may hand in as a prompt: text, parts, a message, or messages."""
    if isinstance(input, str):
        return [user(input)]
    if isinstance(input, Message):
        return [input]
    if isinstance(input, (TextPart, MediaPart)):
        return [user([input])]
    if isinstance(input, Sequence) and input:
        items = list(cast("Sequence[Any]", input))
        if all(isinstance(i, Message) for i in items):
            return items
        if all(isinstance(i, (str, TextPart, MediaPart)) for i in items):
            return [user([TextPart(i) if isinstance(i, str) else i for i in items])]
    kind = type(cast("object", input)).__name__
    raise ConfigError(f"{kind} is no prompt: give text, a list of text and media parts, or messages")
