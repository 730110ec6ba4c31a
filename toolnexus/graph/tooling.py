"""The tools of a graph as what one run is offered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from toolnexus.core.content import result_from_wire, result_to_wire
from toolnexus.core.messages import ToolCallPart, ToolResultPart
from toolnexus.core.tools import Tool
from toolnexus.engine.dispatch import OUTCOME_UNKNOWN, Batch, run_tool_calls
from toolnexus.engine.view import View
from toolnexus.graph.context import NodeContext
from toolnexus.graph.errors import GraphRunError, Interrupted
from toolnexus.graph.services import Services
from toolnexus.runtime.context import Frame
from toolnexus.tools.toolkit import Toolkit


def toolkit_of(services: Services) -> Iterable[Tool] | None:
    """The tools of now, None where there are none wired."""
    toolkit: Any = services.toolkit
    if callable(toolkit) and not isinstance(toolkit, Tool):
        toolkit = toolkit()
    return cast("Iterable[Tool] | None", toolkit)


def offered(services: Services, frame: Frame) -> View:
    """The tools that may be called in this run: those that nobody above denied; the same until they change.

    Raises `GraphRunError` (not_available) when no tools are wired.
    """
    toolkit = toolkit_of(services)
    if toolkit is None:
        raise GraphRunError("no tools are wired: Services(toolkit=...)", kind="not_available")
    known = frame.memo.get(offered)
    if known is not None and known[0] is toolkit:
        return known[1]
    tools = toolkit if isinstance(toolkit, Toolkit) else Toolkit(toolkit)
    denied = frame.denied
    view = View(tools=tuple([t for t in tools if not any(d.denies(t) for d in denied)]))
    frame.memo[offered] = (toolkit, view)
    return view


Keyed = Sequence[tuple[str, ToolCallPart]]
"""Calls of a node, each with a key that it has again when the wave is run again."""


async def run_recorded(ctx: NodeContext, view: View, calls: Keyed) -> Batch:
    """Run calls of a node; results in call order.

    What a call gave in this wave before, when the run was stopped in it, is not asked again. Raises
    `Interrupted` when a call asks somebody and nobody answers.
    """
    frame = ctx.rail.frame
    await _recall(ctx, frame, view, calls)
    try:
        batch = await run_tool_calls(ctx.rail, view, [call for _, call in calls])
    finally:
        known = {key: frame.results.get(call.id) for key, call in calls}
        await ctx.record_calls({key: result_to_wire(r) for key, r in known.items() if r is not None})
    if batch.waiting:
        await ctx.record_calls({key: False for key, call in calls if call.id in batch.waiting})
        raise Interrupted("user_input", _asked(batch), waiting=batch.waiting)
    return batch


async def _recall(ctx: NodeContext, frame: Frame, view: View, calls: Keyed) -> None:
    """Take up what these calls did before the wave was begun again, and note that the others begin."""
    recorded = await ctx.recorded_calls()
    for key, call in calls:
        entry = recorded.get(key, False)
        if call.id in frame.results or entry is False:
            continue
        if entry is not None:
            frame.results[call.id] = result_from_wire(entry)
        elif (tool := view.get(call.name)) is not None and not tool.idempotent:
            frame.results[call.id] = ToolResultPart(call.id, OUTCOME_UNKNOWN, is_error=True)
    stood = frame.stood
    if stood is not None and any(call.id in stood.waiting for _, call in calls):
        frame.resumed = stood
    await ctx.record_calls({key: None for key, call in calls if call.id not in frame.results})


def _asked(batch: Batch) -> str:
    return "; ".join(request.prompt for waiting in batch.waiting.values() for request in waiting.requests)
