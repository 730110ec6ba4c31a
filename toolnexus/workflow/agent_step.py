"""AgentStep: one agent as a node."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

from toolnexus.core.messages import MediaPart, Message, TextPart
from toolnexus.core.options import expect
from toolnexus.core.result import RunResult
from toolnexus.engine.agent import Agent
from toolnexus.engine.conversation_id import CONVERSATIONS, check_id
from toolnexus.engine.delegate import MODEL_OVERRIDE
from toolnexus.engine.environment import ENVIRONMENT
from toolnexus.engine.output import OUTPUT, output_type_of
from toolnexus.errors import ConfigError, RunError
from toolnexus.models.base import Model
from toolnexus.runtime.context import ContextKey, RunContext, Runnable
from toolnexus.runtime.snapshot import Waiting
from toolnexus.workflow.node import PLACE, Leaf, Stopped, Suspended, named
from toolnexus.workflow.runners import RUNNER, AgentRunner, Hosted, ModelRunner, checked_runner
from toolnexus.workflow.values import from_json, to_json

O = TypeVar("O", covariant=True)  # noqa: E741
T = TypeVar("T")

Prompting = str | Callable[[Any], Any]

_PARTS = (Message, TextPart, MediaPart, str)


class AgentStep(Leaf[Any, O]):
    """Runs one agent on the input; its text comes out, or a value of `output_type`.

    * `runner`, `model`: for this step only, each by itself. `runner` is a host's executor or
      `ModelRunner(model)`; None: that of the subtree.
    * `output_type`: a type that pydantic takes, or a JSON Schema; None: the agent's own, else text.
    * `prompt`: what the agent is asked: a text with `{input}` in it, or a function of the input. None: the
      input itself, as JSON when it is no prompt.
    * `conversation`: the id of a conversation that the step continues: what was said there comes before, and
      what the step adds is appended when it is over. A step that waits or is cancelled appends nothing.

    A step that a limit stops ends the workflow `incomplete`, with the text so far. An agent that fails
    raises its error.
    """

    @overload
    def __init__(
        self: AgentStep[T],
        agent: Agent,
        *,
        output_type: type[T],
        runner: AgentRunner | ModelRunner | None = None,
        model: str | Model | None = None,
        prompt: Prompting | None = None,
        conversation: str | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AgentStep[str],
        agent: Agent,
        *,
        output_type: None = None,
        runner: AgentRunner | ModelRunner | None = None,
        model: str | Model | None = None,
        prompt: Prompting | None = None,
        conversation: str | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AgentStep[Any],
        agent: Agent,
        *,
        output_type: Any,
        runner: AgentRunner | ModelRunner | None = None,
        model: str | Model | None = None,
        prompt: Prompting | None = None,
        conversation: str | None = None,
        name: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        agent: Agent,
        *,
        output_type: Any = None,
        runner: AgentRunner | ModelRunner | None = None,
        model: str | Model | None = None,
        prompt: Prompting | None = None,
        conversation: str | None = None,
        name: str | None = None,
    ) -> None:
        """Raises `ConfigError` for options that cannot work."""
        expect("AgentStep: agent", agent, Agent, "give an Agent")
        where = f"AgentStep({agent.name!r})"
        if model is not None:
            expect(f"{where}: model", model, (str, Model), "give 'provider:name' or a model")
        if isinstance(prompt, str) and "{input}" not in prompt:
            raise ConfigError(f"{where}: the prompt has no {{input}} in it")
        if prompt is not None and not isinstance(prompt, str) and not callable(prompt):
            raise ConfigError(f"{where}: prompt={prompt!r} must be a text with {{input}}, or a function")
        check_id(conversation)
        self.name = agent.name if name is None else named(name, where)
        self.description = agent.description
        self.agent = agent
        self._runner = None if runner is None else checked_runner(runner, where)
        self._model = model
        self._output_type: object = output_type if output_type is not None else agent.output_type
        self._output = output_type_of(self._output_type, f"{where}: ")
        self._prompt = prompt
        self._conversation = conversation

    @property
    def step_agents(self) -> Sequence[Agent]:
        return [self._as_of_now(), *super().step_agents]

    async def run(self, input: Any, ctx: RunContext) -> O:
        place = ctx.host[PLACE]
        if place.used:
            raise RunError(f"step {self.name!r} has the place of another; use visit(child, input, ctx, key)")
        place.used = True
        place.progress.taken.add(place.id)
        waiting = place.progress.waiting.get(place.id)
        if waiting is not None and not waiting.answered(ctx.run.answers):
            raise Suspended({place.id: waiting})
        runner = self._runner or ctx.get(RUNNER)
        values: dict[ContextKey[Any], Any] = {OUTPUT: self._output}
        if (model := self._chosen_model(ctx, runner)) is not None:
            values[MODEL_OVERRIDE] = model
        agent = self._as_of_now()
        target: Runnable = agent
        if runner is not None and not isinstance(runner, ModelRunner):
            target = Hosted(agent, runner, self._output_type)
        resumed = None if waiting is None else waiting.child
        asked = None if resumed is not None else await self._asked(input)

        def run(history: Sequence[Message] = ()) -> Awaitable[RunResult]:
            return ctx.run.runner.run(
                target, asked, parent=ctx.having(values), key=place.id, resumed=resumed, history=history
            )

        return self._given(await self._continued(ctx, run, resumed), place.id)

    async def _continued(
        self,
        ctx: RunContext,
        run: Callable[[Sequence[Message]], Awaitable[RunResult]],
        resumed: Mapping[str, Any] | None,
    ) -> RunResult:
        """What `run` gives, as the next part of the conversation when there is one."""
        if self._conversation is None:
            return await run(())
        conversations = ctx.get(CONVERSATIONS)
        if conversations is None:
            raise ConfigError(f"step {self.name!r} continues a conversation, which needs a client")
        return await conversations.follow(self._conversation, run, resumed)

    def _as_of_now(self) -> Agent:
        return self.agent

    def restored(self, data: Any) -> Any:
        hint = self._output_type
        return data if self._output is None or isinstance(hint, Mapping) else from_json(data, hint)

    def _chosen_model(self, ctx: RunContext, runner: AgentRunner | ModelRunner | None) -> Model | None:
        """The model of this step, when it is not the agent's own."""
        spec = self._model
        if spec is None and isinstance(runner, ModelRunner):
            spec = runner.model
        environment = ctx.get(ENVIRONMENT)
        return None if spec is None or environment is None else environment.models.resolve(spec)

    async def _asked(self, input: Any) -> Any:
        if callable(self._prompt):
            made = self._prompt(input)
            return await made if hasattr(made, "__await__") else made
        if self._prompt is not None:
            return self._prompt.replace("{input}", self._text(input))
        if isinstance(input, _PARTS):
            return input
        if isinstance(input, Sequence) and input:
            entries = cast("Sequence[Any]", input)
            if all(isinstance(one, Message) for one in entries) or any(
                isinstance(one, (TextPart, MediaPart)) for one in entries
            ):
                return entries
        return self._text(input)

    def _text(self, value: Any) -> str:
        """The input as a model reads it."""
        try:
            return value if isinstance(value, str) else json.dumps(to_json(value, ""), ensure_ascii=False)
        except RunError as error:
            kind = type(value).__name__
            raise RunError(
                f"step {self.name!r}: its input is a {kind} that is no JSON; give prompt=, a function that "
                "makes text of it"
            ) from error

    def _given(self, result: RunResult, id: str) -> Any:
        match result.status:
            case "done":
                return result.output
            case "pending":
                raise Suspended({id: Waiting(requests=result.pending, child=result.snapshot)})
            case "incomplete":
                hit = next((h for h in result.limits_hit if h.path == result.path), None)
                raise Stopped(hit, result.output, result.text)
            case "error":
                raise result.error or RunError(f"agent {self.agent.name!r} failed")
