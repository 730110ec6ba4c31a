"""What is left of a run that waited for an answer and is given up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from toolnexus.core.messages import Message, close_transcript, user
from toolnexus.core.result import RunResult
from toolnexus.core.values import frozen
from toolnexus.engine.boundary import told
from toolnexus.runtime.context import Frame
from toolnexus.runtime.ledger import Ledger
from toolnexus.runtime.past import Path
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.snapshot import FramePoint, Waiting
from toolnexus.tools.truncate import cut, needs_cut

AT_END = "[Background tasks when the run ended. This message comes from the system, not from the user.]"
UNANSWERED = "no answer was given, and the run was stopped"


@frozen()
class GivenUp:
    """Its `place` among the runs of its caller, and its `result`."""

    place: int
    result: RunResult


def close_below(frame: Frame, redact: Redactor) -> None:
    """The run of `frame` ends: those below it that wait for an answer end with it."""
    children = frame.children
    for place, child in enumerate(children):
        if child is not None:
            children[place] = _closed(child, frame, redact)
    if frame.stood is not None and None in children:
        for left in all_given_up(frame.stood, frame.ledger, redact):
            if children[left.place] is None:
                children[left.place] = left.result


def left_of(path: Path, frame: Frame, redact: Redactor, error: Exception | None = None) -> RunResult | None:
    """What the run at `path`, below that of `frame`, comes to when it ends now; None when it never began.

    `error`: why it cannot go on, for one that fails.
    """
    left = _found(path, frame, redact)
    if left is None:
        return None
    result = left.result
    if error is not None:
        result = replace(result, status="error", limit=None, error=error)
    frame.children[left.place] = result
    return result


def _found(path: Path, frame: Frame, redact: Redactor) -> GivenUp | None:
    for place, child in enumerate(frame.children):
        if child is not None and child.path == path:
            return GivenUp(place, _closed(child, frame, redact))
    if frame.stood is None:
        return None
    waiting = all_given_up(frame.stood, frame.ledger, redact)
    return next((left for left in waiting if left.result.path == path), None)


def _closed(run: RunResult, frame: Frame, redact: Redactor) -> RunResult:
    """`run`, which ends for good if it waits for an answer."""
    if run.status != "pending":
        return run
    left = given_up(Waiting(requests=run.pending, child=run.snapshot), frame.ledger, redact)
    return run if left is None else left.result


def given_up(waiting: Waiting, above: Ledger, redact: Redactor) -> GivenUp | None:
    """What the run behind `waiting` had done; None when no run below `above` is behind it."""
    if waiting.child is None:
        return None
    try:
        point = FramePoint.from_json(waiting.child)
        ledger = above.restored(point.path)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration):  # what a tool keeps for itself
        return None
    children = list(point.children)
    for below in all_given_up(point, ledger, redact):
        children[below.place] = below.result
    closed = close_transcript(point.messages, UNANSWERED, point.results)
    messages = (*closed, *notes_of(point, ledger, redact))
    said = [m.text for m in messages[point.start :] if m.role == "assistant" and m.text.strip()]
    result = RunResult(
        status="incomplete",
        text=said[-1] if said else UNANSWERED,
        limit="cancelled",
        limits_hit=point.limits,
        messages=messages,
        tool_calls=ledger.tool_calls,
        sub_agent_tool_calls=ledger.tool_calls_below,
        sub_agents=tuple([child for child in children if child is not None]),
        turns=point.turns,
        usage=ledger.usage,
        own_usage=ledger.own_usage,
        path=point.path,
        agent=ledger.agent,
        continues=point.continues,
    )
    return GivenUp(point.place, result)


def all_given_up(point: FramePoint, ledger: Ledger, redact: Redactor) -> Iterator[GivenUp]:
    """The runs below the one at `point` that wait."""
    beside = [job.waiting for job in point.background if job.waiting is not None]
    for waiting in (*point.waiting.values(), *beside):
        if (below := given_up(waiting, ledger, redact)) is not None:
            yield below


def notes_of(point: FramePoint, ledger: Ledger, redact: Redactor) -> list[Message]:
    """What a run that is given up says of those it left in the background."""
    left = [below.result for below in all_given_up(point, ledger, redact)]
    ended = {run.path[-1]: run for run in (*point.children, *left) if run is not None}
    texts = [
        f"[task_id: {job.id}]\n{told(job.agent, ended[job.id], redact).output}"
        for job in point.background
        if not job.given and job.id in ended
    ]
    return [note("\n\n".join(texts), redact)] if texts else []


def note(output: str, redact: Redactor) -> Message:
    """The last message of a run, about those it left in the background."""
    output = redact(output)
    if needs_cut(output):
        output = cut(output, "the transcripts of these runs")
    return user(f"{AT_END}\n\n{output}")
