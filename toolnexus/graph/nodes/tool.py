"""`tool`: runs the tool calls at the end of a channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from toolnexus.core.content import result_to_wire
from toolnexus.core.messages import Message, ToolCallPart, ToolResultPart
from toolnexus.graph.board import MAIN_CHANNEL, Board
from toolnexus.graph.context import NodeContext
from toolnexus.graph.errors import BudgetExceeded, GraphRunError
from toolnexus.graph.registry import NodeType, Role
from toolnexus.graph.tooling import offered, run_recorded
from toolnexus.runtime.context import Frame

logger = logging.getLogger("toolnexus.graph")

CANCELLED = "cancelled: the run was stopped while this call ran"


class ToolConfig(BaseModel):
    """The config of a `tool` node."""

    model_config = ConfigDict(extra="forbid")

    messages_channel: str = ""
    results_key: str | None = None


async def run(ctx: NodeContext, board: Board, config: ToolConfig) -> None:
    """Run the calls of the last message and append their results as one message.

    A failing or unknown tool is a result with `is_error`. What a call gave in this wave before, when the run
    was stopped in it, is not asked again. Raises `GraphRunError`: without calls (validation), without tools
    (not_available), at a limit of calls (budget_exceeded); and `Interrupted` when a call asks somebody.
    """
    channel = config.messages_channel or MAIN_CHANNEL
    tail = board.tail(channel)
    calls = tail[0].tool_calls if tail and tail[0].role == "assistant" else ()
    if not calls:
        found = f"ends with a message of role {tail[0].role!r}" if tail else "is empty"
        raise GraphRunError(
            f"node {ctx.node_id!r} needs an assistant message with tool calls at the end of {channel!r}, "
            f"which {found}",
            kind="validation",
        )
    frame = ctx.rail.frame
    view = offered(ctx.services, frame)
    try:
        batch = await run_recorded(ctx, view, [(call.id, call) for call in calls])
    except asyncio.CancelledError:
        board.append(channel, Message("tool", tuple([_known(frame, call) for call in calls])))
        raise
    board.append(channel, Message("tool", batch.results))
    results = [result_to_wire(result) for result in batch.results]
    if config.results_key:
        board[config.results_key] = results
    if ctx.listening:
        await _tell(ctx, results)
    if batch.stop is not None:
        raise BudgetExceeded(f"node {ctx.node_id!r}: limit {batch.stop}", limit=batch.stop)


def _known(frame: Frame, call: ToolCallPart) -> ToolResultPart:
    return frame.results.get(call.id) or ToolResultPart(call.id, CANCELLED, is_error=True)


async def _tell(ctx: NodeContext, results: Sequence[Mapping[str, Any]]) -> None:
    """Each result as a delta. A failure is logged: to fail would be to run the calls again."""
    for result in results:
        try:
            await ctx.emit({"type": "part", "part": {"type": "tool_result", "result": result}})
        except Exception as error:
            logger.warning(
                "node %r: the result of %s was not published: %s", ctx.node_id, result["call_id"], error
            )


TOOL = NodeType(
    name="tool",
    handler=run,
    config=ToolConfig,
    reads=(Role.messages(config_key="messages_channel"),),
    writes=(Role.messages(config_key="messages_channel"), Role.var(config_key="results_key")),
    description="Runs the tool calls at the end of a channel and appends their results as one message.",
    needs=lambda config: ("tools",),
)
