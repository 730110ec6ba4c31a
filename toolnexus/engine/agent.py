"""Agent: an immutable definition, and the loop that runs it."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from toolnexus.core.messages import MediaPart, Message, TextPart, ToolCallPart, close_transcript, user
from toolnexus.core.model import ModelResponse
from toolnexus.core.options import expect, items
from toolnexus.core.result import RunResult
from toolnexus.core.usage import Budget
from toolnexus.core.values import frozen
from toolnexus.engine.background import hand_over, restore
from toolnexus.engine.delegate import MODEL_OVERRIDE
from toolnexus.engine.dispatch import run_tool_calls
from toolnexus.engine.environment import ENVIRONMENT, MODEL, Environment
from toolnexus.engine.options import run_settings
from toolnexus.engine.output import OUTPUT, Answering, OutputType, output_type_of
from toolnexus.engine.runner import result_of
from toolnexus.engine.scope import Scope, ToolSpec
from toolnexus.engine.turn import model_turn
from toolnexus.engine.view import View
from toolnexus.errors import ConfigError, RunError
from toolnexus.models.base import Model
from toolnexus.runtime.context import Outcome, RunContext, Runnable, RunSettings
from toolnexus.runtime.hooks import settled
from toolnexus.runtime.questions import OnRequest
from toolnexus.runtime.snapshot import open_requests
from toolnexus.tools.builtin.host import CLOSED_ROOTS, READ_ROOTS

logger = logging.getLogger("toolnexus.agents")

ShouldContinue = Callable[[RunResult], bool | Awaitable[bool]]

NUDGE = "Go on with the task. If all of it is done, give the final answer."
CUT = "not run: the reply that asked for it was cut short"

_LIMITS = {"length": "length", "refusal": "refusal", "cut": "connection"}


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
    workdir: str | Path | None = None
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

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        """The loop: turn, batch, turn, until the model calls nothing or a limit stops it.

        Raises `LimitReached`, `ModelError` and `OutputError`; the frame around it turns them into a result.
        """
        ctx, environment, answering = await self._begin(input, ctx)
        frame = ctx.frame
        calls = frame.transcript[-1].tool_calls if frame.resumed is not None and frame.transcript else ()
        if not calls:
            frame.resumed = None  # nothing was open: what is called from now on is new
            if (end := await self._rest(ctx)) is not None:
                return end
        while True:
            frame.check_cancelled()
            if frame.slot is not None and frame.slot.lost:
                await frame.slot.regain()
            view = environment.view(self, ctx)
            if not calls:
                said = await self._turn(ctx, view, answering)
                if isinstance(said, Outcome):
                    return said
                calls = said
            if calls:
                end = await self._batch(ctx, view, calls)
                if end is not None:
                    return end
                calls = ()

    async def _begin(self, input: Any, ctx: RunContext) -> tuple[RunContext, Environment, Answering | None]:
        """What is the same in every turn, and the input, or the point where the run stood."""
        environment = ctx.get(ENVIRONMENT)
        if environment is None:
            raise ConfigError(f"agent {self.name!r} runs under a client: use client.run(agent, …)")
        await environment.welcome(self)
        frame = ctx.frame
        model = ctx.get(MODEL_OVERRIDE) or environment.model(self, ctx)
        if self.scope.denies_anything:
            frame.denied = (*frame.denied, self.scope)
        if frame.resumed is None:
            frame.transcript += as_messages(input)
        elif frame.resumed.state is not None:
            raise RunError(f"what waits is no agent {self.name!r}; go on with the target that asked")
        elif frame.resumed.definition not in ("", self._digest):
            logger.warning("agent %r was changed while its run waited; it goes on as it is now", self.name)
        view = environment.view(self, ctx)
        answering = Answering.of(ctx.get(OUTPUT) or self.output, frame)
        values = {MODEL: model, MODEL_OVERRIDE: None, OUTPUT: None}
        reach = {READ_ROOTS: view.roots, CLOSED_ROOTS: view.closed}
        ctx = ctx.having({**values, **reach})
        if frame.resumed is not None and frame.resumed.background:
            restore(ctx, environment.delegation(self, frame.denied).going_on(ctx))
        return ctx, environment, answering

    async def _turn(
        self, ctx: RunContext, view: View, answering: Answering | None
    ) -> Outcome | Sequence[ToolCallPart]:
        """One request: the calls of its reply (none: go on), or how the run ends."""
        frame, model = ctx.frame, ctx.get(MODEL)
        assert model is not None
        if frame.turns >= frame.max_turns:
            return Outcome(status="incomplete", limit=frame.hit(ctx.run, "max_turns", frame.max_turns))
        if frame.inbox:
            frame.transcript += frame.inbox
            frame.inbox.clear()
        spec = answering.spec if answering is not None else None
        response = await model_turn(ctx, model, system=view.system, tools=view.tools, output=spec)
        frame.check_cancelled()
        if response.stop in _LIMITS:
            frame.transcript[:] = close_transcript(frame.transcript, CUT)
            return Outcome(status="incomplete", limit=frame.hit(ctx.run, _LIMITS[response.stop], None))
        calls = response.message.tool_calls
        if not calls and (outcome := await self._ended(ctx, response, answering)) is not None:
            return outcome
        return calls

    async def _batch(self, ctx: RunContext, view: View, calls: Sequence[ToolCallPart]) -> Outcome | None:
        """Run the calls of one reply; how the run ends when it does not go on."""
        frame = ctx.frame
        if frame.journal is not None and frame.resumed is None:  # what is taken up is stored as it stood
            await frame.journal(frame)
        batch = await run_tool_calls(ctx, view, calls)
        frame.transcript.append(Message("tool", batch.results))
        frame.results.clear()
        frame.check_cancelled()
        if batch.stop is not None:
            return Outcome(status="incomplete", limit=batch.stop)
        if batch.waiting:
            asked = open_requests(batch.waiting)
            return Outcome(status="pending", requests=asked, waiting=batch.waiting, definition=self._digest)
        if frame.journal is not None:
            await frame.journal(frame)
        return None

    @property
    def _digest(self) -> str:
        """Of what the model is told of itself and may use, as far as it is written down."""
        from hashlib import sha256

        own = [getattr(entry, "name", "") for entry in self.scope.own]
        said = [self.name, self.system_prompt, str(self.model), repr(self.scope.names), own]
        return sha256(json.dumps(said).encode()).hexdigest()

    async def _ended(
        self, ctx: RunContext, response: ModelResponse, answering: Answering | None
    ) -> Outcome | None:
        """The end of the run at a reply without calls; None when it goes on."""
        if response.stop == "paused" or ctx.frame.inbox:
            return None
        if ctx.frame.background is not None and ctx.frame.background.open:
            return await self._rest(ctx)
        outcome = Outcome() if answering is None else answering.outcome(response.message)
        return None if outcome is None or await self._goes_on(ctx, outcome) else outcome

    async def _rest(self, ctx: RunContext) -> Outcome | None:
        """Nothing is left to do but what runs in the background: the end of the run when that asks, or
        None, with its results before the model."""
        background = ctx.frame.background
        if background is None or not background.open or await hand_over(ctx):
            return None
        return Outcome(status="pending", definition=self._digest)

    async def _goes_on(self, ctx: RunContext, outcome: Outcome) -> bool:
        """Whether `should_continue` wants more; then the nudge is in the transcript."""
        if self.should_continue is None:
            return False
        if not await settled(self.should_continue(result_of(ctx, outcome))):
            return False
        ctx.frame.transcript.append(user(NUDGE))
        return True


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
