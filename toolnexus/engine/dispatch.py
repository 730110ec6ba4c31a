"""One batch of tool calls. The loop and every other engine call tools through `run_tool_calls` only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial

from toolnexus.core.messages import ToolCallPart, ToolResultPart
from toolnexus.core.result import Limit
from toolnexus.core.tools import ToolResult
from toolnexus.core.values import value
from toolnexus.engine.view import View
from toolnexus.errors import LimitReached
from toolnexus.runtime.concurrency import run_all
from toolnexus.runtime.context import Frame, RunContext
from toolnexus.runtime.relays import Relays
from toolnexus.runtime.snapshot import FramePoint, Waiting
from toolnexus.tools.invoke import failed, invoke

REPEATS = 3
"""In how many turns one call may give one result before the model is told."""

OUTCOME_UNKNOWN = (
    "outcome unknown: the process ended while this call ran, and it was not repeated; "
    "find out what it did before you call it again"
)

_FRESH = FramePoint(path=(), messages=())


@value(kw_only=True)
class Batch:
    """How a batch ended: every call answered, in call order."""

    results: tuple[ToolResultPart, ...]
    waiting: Mapping[str, Waiting] = field(default_factory=dict[str, Waiting])
    """The calls that wait, by id and in call order; their results are placeholders."""
    stop: Limit | None = None
    """The budget that refused a call."""


async def run_tool_calls(ctx: RunContext, view: View, calls: Sequence[ToolCallPart]) -> Batch:
    """Run `calls` at once; results in call order.

    A call of a tool that was not offered is answered with an error that names what is. When a
    budget refuses a call, what is in flight still finishes. Finished results are kept in
    `frame.results` meanwhile, so that a cancel loses none. Of a resumed run only calls that wait and
    can be answered run; the others stand as they stood. Raises nothing but `CancelledError`.
    """
    frame, run = ctx.frame, ctx.run
    point = frame.resumed or _FRESH
    waiting: dict[str, Waiting] = {}
    stop: Limit | None = None
    frame.relays = _relays(frame, view, calls) if len(calls) > 1 else None

    async def one(call: ToolCallPart) -> ToolResultPart:
        nonlocal stop
        if (known := frame.results.get(call.id)) is not None:
            return known
        tool, waited = view.get(call.name), point.waiting.get(call.id)
        try:
            if tool is None:
                if ctx.run.counts is not None:
                    ctx.run.counts.unknown_tool()
                result = failed(view.refusal(call.name, frame))
            elif point.interrupted and not tool.idempotent and _may_have_run(point, waited):
                result = failed(OUTCOME_UNKNOWN)
            elif waited is None:
                frame.ledger.reserve_tool_call()
                result = await invoke(tool, call, ctx)
            elif waited.answered(run.answers) or frame.asker is not None:
                result = await invoke(tool, call, ctx, waited)
            else:
                result = ToolResult(requests=waited.requests, child=waited.child)
        except LimitReached as reached:
            if stop is None:
                stop = frame.hit(run, reached.limit, reached.value, reached.scope)
            result = failed(f"not run: limit {stop}")
        finally:
            if frame.relays is not None:
                frame.relays.left(call.id)
        if result.requests:
            waiting[call.id] = Waiting(requests=result.requests, child=result.child)
            questions = "; ".join(r.prompt for r in result.requests)
            part = ToolResultPart(call.id, f"no answer yet to: {questions}")
        else:
            output = _said_before(frame, call, result.output)
            part = ToolResultPart(call.id, output, result.is_error, result.parts)
        frame.results[call.id] = part
        return part

    results = await run_all([partial(one, call) for call in calls])
    frame.resumed = None
    ordered = {call.id: waiting[call.id] for call in calls if call.id in waiting}
    return Batch(results=tuple(results), waiting=ordered, stop=stop)


def _may_have_run(point: FramePoint, waited: Waiting | None) -> bool:
    """Whether a call without a result may have done something. The run below it knows that of its own."""
    if waited is None:
        return True
    is_run = "path" in (waited.child or {})  # else what the tool itself keeps
    return not is_run and waited.answered(point.let_go)


def _relays(frame: Frame, view: View, calls: Sequence[ToolCallPart]) -> Relays | None:
    """What joins the calls that the host runs; None when there are not several."""
    open_calls = [call for call in calls if call.id not in frame.results]
    relayed = [call.id for call in open_calls if (tool := view.get(call.name)) and tool.source == "relay"]
    return Relays(relayed) if len(relayed) > 1 else None


def _said_before(frame: Frame, call: ToolCallPart, output: str) -> str:
    """`output`, with a word to a model that asks the same again and again and learns nothing new.

    A call that is repeated because its result changes, such as asking how far a job is, is not meant.
    """
    key = (call.name, call.arguments)
    last, turns, turn = frame.repeats.get(key, ("", 0, 0))
    if turn != frame.turns:
        turns = turns + 1 if last == output else 1
        frame.repeats[key] = (output, turns, frame.turns)
    if turns < REPEATS:
        return output
    return f"{output}\n[the same call gave the same result in {turns} turns: do something else, or finish]"
