"""`agent`: runs an agent, or anything else that can be run, below the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from toolnexus.core.messages import Message, TextPart
from toolnexus.core.names import did_you_mean
from toolnexus.core.result import RunResult
from toolnexus.graph.board import Board, copied
from toolnexus.graph.context import NodeContext
from toolnexus.graph.errors import BudgetExceeded, GraphRunError, Interrupted
from toolnexus.graph.registry import NodeType, Role
from toolnexus.runtime.context import Runnable
from toolnexus.runtime.snapshot import Waiting

DEEPEST = 32
"""How many runs may lie above one that an `agent` node starts."""


class AgentConfig(BaseModel):
    """The config of an `agent` node."""

    model_config = ConfigDict(extra="forbid")

    agent: str
    """Its name among the agents that are wired."""
    input: Any = None
    """What it is asked; absent: the text of the last message of the channel."""
    messages_channel: str = ""
    """Where its answer is appended, and what `input` is taken from when that is absent."""
    output_key: str | None = None
    """The variable that gets what it gave. Without, its answer is a message of the channel."""


async def run(ctx: NodeContext, board: Board, config: AgentConfig) -> None:
    """Run the agent; its usage, limits and events are those of this run.

    Raises `GraphRunError`: an unknown agent (not_found), one too deep below others or one that stopped at a
    limit (budget_exceeded), and with what it failed; `Interrupted` when it asks somebody.
    """
    if len(ctx.rail.path) > DEEPEST:
        raise BudgetExceeded(
            f"agent {config.agent!r} would be the run number {len(ctx.rail.path) + 1} below one another, of "
            f"{DEEPEST + 1} that may be; a graph that runs itself has no end",
            limit=("depth", DEEPEST),
        )
    agents = ctx.services.agents() if callable(ctx.services.agents) else ctx.services.agents
    target = _target(agents, config.agent)
    rail, stood, key = ctx.rail, ctx.rail.frame.stood, ctx.wave.partition("/")[2].replace("/", ".")
    waiting = stood.waiting.get(key) if stood is not None else None
    if waiting is not None and not waiting.answered(rail.run.answers) and rail.frame.asker is None:
        raise Interrupted("user_input", waiting={key: waiting})
    result = await rail.run.runner.run(
        target,
        "" if waiting is not None else _input(ctx, board, config),
        parent=rail,
        key=key,
        resumed=waiting.child if waiting is not None else None,
    )
    if result.status == "pending":
        asked = Waiting(requests=result.pending, child=result.snapshot)
        raise Interrupted("user_input", result.text, waiting={key: asked})
    output = _output(ctx, config, result)
    if config.output_key is not None:
        board[config.output_key] = output
    if config.output_key is None or config.messages_channel:
        board.append(config.messages_channel, Message("assistant", (TextPart(result.text),)))


def _target(agents: Mapping[str, Runnable], name: str) -> Runnable:
    if name not in agents:
        known = ", ".join(sorted(agents)) or "none"
        raise GraphRunError(
            f"there is no agent {name!r}{did_you_mean(name, agents)}; agents: {known}", kind="not_found"
        )
    return agents[name]


def _input(ctx: NodeContext, board: Board, config: AgentConfig) -> Any:
    if config.input is not None:
        return config.input
    tail = board.tail(config.messages_channel)
    if not tail or not tail[0].text:
        raise GraphRunError(
            f"node {ctx.node_id!r} has no input, and its channel ends with no text; write input:",
            kind="validation",
        )
    return tail[0].text


def _output(ctx: NodeContext, config: AgentConfig, result: RunResult) -> Any:
    if result.status == "error":
        if result.error is not None:
            raise result.error
        raise GraphRunError(f"agent {config.agent!r} failed")
    if result.status == "incomplete":
        hit = next((hit for hit in result.limits_hit if hit.path == result.path), None)
        raise BudgetExceeded(
            f"node {ctx.node_id!r}: agent {config.agent!r} stopped at the limit {hit or result.limit}",
            limit=hit or (result.limit or "budget", None),
        )
    output = result.output
    if hasattr(output, "model_dump"):
        output = cast("BaseModel", output).model_dump(mode="json")
    return copied(output, f"the output of agent {config.agent!r}")


AGENT = NodeType(
    name="agent",
    handler=run,
    config=AgentConfig,
    reads=(Role.messages(config_key="messages_channel"),),
    writes=(Role.messages(config_key="messages_channel"), Role.var(config_key="output_key")),
    description="Runs an agent and keeps what it gave in a variable, or as a message.",
    needs=lambda config: ("agents",),
)
