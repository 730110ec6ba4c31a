"""One request to a model in somebody else's words: no loop, no tool runs."""

from __future__ import annotations

from toolnexus.core.names import did_you_mean, listed
from toolnexus.engine.agent import Agent
from toolnexus.engine.environment import Environment
from toolnexus.engine.turn import model_turn
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.models.chat.completion import completion
from toolnexus.models.chat.request import ChatRequest
from toolnexus.runtime.context import Outcome, RunContext


class Translation:
    """A Runnable that sends a `ChatRequest` once; its output is the completion.

    `agent` says the model and the system prompt of requests that name none.
    """

    name = "translate"
    description = "One request to a model, as a chat completion."

    def __init__(self, environment: Environment, agent: Agent) -> None:
        self._environment = environment
        self._agent = agent

    async def execute(self, input: ChatRequest, ctx: RunContext) -> Outcome:
        """Raises `ConfigError` for a model that the client does not know, and what the model raises."""
        model, frame = self._model(input.model, ctx), ctx.frame
        frame.transcript.extend(input.messages)
        frame.call_ids.update((call.id, 1) for m in input.messages for call in m.tool_calls)
        response = await model_turn(
            ctx,
            model,
            system=input.system or self._agent.system_prompt,
            tools=input.tools,
            output=input.output,
            options=input.options,
        )
        return Outcome(output=completion(response, model.name, frame.ledger.own_usage))

    def _model(self, name: str | None, ctx: RunContext) -> Model:
        known = self._environment.allowed_models
        if name is None:
            return self._environment.model(self._agent, ctx)
        if name not in known:
            raise ConfigError(
                f"model {name!r} is not one of this client's: {listed(known)}{did_you_mean(name, known)}"
            )
        return known[name]
