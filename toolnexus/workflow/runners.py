"""Who runs an agent: the loop of this package, or an executor of the host.

An `AgentRunner` turns one agent and one message into one reply. The frame around it (child context, limits,
events, roll-up) is never replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from toolnexus.core.messages import assistant
from toolnexus.core.options import expect
from toolnexus.core.usage import Usage
from toolnexus.engine.agent import Agent, as_messages
from toolnexus.engine.costs import check_price, priced
from toolnexus.errors import ConfigError, RunError
from toolnexus.models.base import Model
from toolnexus.runtime.context import ContextKey, Outcome, RunContext, RunSettings
from toolnexus.workflow.node import Node, checked, visit
from toolnexus.workflow.values import as_text, fitting

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What an `AgentRunner` gives: the text, what it used, and the model that answered."""

    text: str
    usage: Usage | None = None
    model: str | None = None


@runtime_checkable
class AgentRunner(Protocol):
    """Runs one agent once. `ctx` is that run's own: its path, ledger and host values."""

    async def run(self, agent: Agent, message: Any, ctx: RunContext) -> AgentReply:
        """The reply of `agent` to `message`: what the step asks, or in a conversation all of its messages."""
        ...

    async def run_structured(self, agent: Agent, message: Any, output_type: Any, ctx: RunContext) -> Any:
        """The reply as a value of `output_type`."""
        ...


class ModelRunner:
    """The loop of this package with `model` in place of the agent's own. Not a foreign executor: tools,
    sub-agents, questions and typed answers are as ever.
    """

    def __init__(self, model: str | Model) -> None:
        expect("model", model, (str, Model), "give 'provider:name' or a model")
        self.model = model


RUNNER: ContextKey[AgentRunner | ModelRunner] = ContextKey("agent runner")
"""The runner of the subtree; None: the loop, with each agent's own model."""


class Hosted:
    """An agent that a host's `AgentRunner` runs, as something that can be run."""

    def __init__(self, agent: Agent, runner: AgentRunner, output_type: Any) -> None:
        self.name = agent.name
        self.description = agent.description
        self.settings: RunSettings = agent.settings
        self._agent = agent
        self._runner = runner
        self._output_type = output_type

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        """Claims one request. Raises `LimitReached`, and what the runner raises.

        Below a ceiling of cost it raises `ConfigError` when no price is known for the class of the runner.
        """
        frame, runner, called = ctx.frame, self._runner, type(self._runner).__name__
        check_price(ctx, called)  # which model answers is known only afterwards
        frame.ledger.reserve_request()
        frame.turns += 1
        frame.transcript += as_messages(input)
        message = list(frame.transcript) if frame.start else input
        if self._output_type is not None:
            value = await runner.run_structured(self._agent, message, self._output_type, ctx)
            value = fitting(value, self._output_type, f"runner {called}")
            frame.typed = True
            frame.transcript.append(assistant(as_text(value)))
            return Outcome(output=value)
        reply = _checked_reply(await runner.run(self._agent, message, ctx), f"runner {called}")
        if reply.usage is not None:
            model = reply.model or called
            frame.ledger.record(model, priced(ctx, reply.usage, model, called))
        frame.transcript.append(assistant(reply.text))
        return Outcome()


def _checked_reply(reply: Any, where: str) -> AgentReply:
    """`reply`, which must be one. Raises `RunError` that says what it is instead."""
    if not isinstance(reply, AgentReply):
        raise RunError(f"{where} gave {type(reply).__name__}; give an AgentReply(text)")
    usage: object = reply.usage
    for what, value, kind in (("text", reply.text, str), ("usage", usage or Usage(), Usage)):
        if not isinstance(value, kind):
            raise RunError(f"{where}: the {what} of its reply is {type(value).__name__}, no {kind.__name__}")
    return reply


class WithRunner(Node[In, Out]):
    """See `with_runner`."""

    def __init__(self, node: Node[In, Out], runner: AgentRunner | ModelRunner) -> None:
        self.name = checked(node, "with_runner").name
        self.description = node.description
        self._node = node
        self._runner = checked_runner(runner, "with_runner")

    async def run(self, input: In, ctx: RunContext) -> Out:
        return await visit(self._node, input, ctx.having({RUNNER: self._runner}), "0")

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        return (("", self._node),)


def with_runner(node: Node[In, Out], runner: AgentRunner | ModelRunner) -> Node[In, Out]:
    """`node` and everything below it, run by `runner`.

    `runner` is an executor of the host's, or `ModelRunner(model)`: the loop with another model. A step's own
    `runner` still comes first. It never leaves the subtree. Raises `ConfigError`.
    """
    return WithRunner(node, runner)


def checked_runner(runner: Any, where: str) -> AgentRunner | ModelRunner:
    """`runner`, which must be one. Raises `ConfigError`."""
    if isinstance(runner, type) or not isinstance(runner, (AgentRunner, ModelRunner)):
        raise ConfigError(
            f"{where}: runner={runner!r} must be ModelRunner(model), or an object with run and run_structured"
        )
    return runner
