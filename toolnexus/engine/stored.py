"""The last run of a conversation, as its store holds it: open, being resumed, or over.

Above: `conversations` decides what follows from it; `record` writes it. The document is
`{"snapshot", "start", "inbox"?, "resumed"?}`, or `{"ended"}` when a resumed run is over.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from toolnexus.core.messages import Message, ToolCallPart, ToolResultPart, close_transcript
from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Answer, Request
from toolnexus.core.values import frozen
from toolnexus.core.wire import message_from_json
from toolnexus.errors import RunError, Suspended
from toolnexus.runtime.ledger import Ledger
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.snapshot import Snapshot

logger = logging.getLogger("toolnexus.conversations")

INTERRUPTED = "interrupted: the run that made this call ended before it finished"
LOST = "no result: the run that made this call was given up, and what was kept of it could not be read"


class Ending(NamedTuple):
    """What is written when a run is given up."""

    messages: Sequence[Message]
    """Behind those that are there."""
    below: Sequence[RunResult] = ()
    """The runs below it that waited, as they are left."""
    requests: Sequence[Request] = ()
    """What it had asked."""


@frozen(kw_only=True)
class StoredRun:
    """A run that waits for answers, is being resumed, or was left open by a crash."""

    id: str
    state: Mapping[str, Any]
    """The document that it was read from."""
    snapshot: Snapshot
    start: int
    """Where its own messages begin among those of the conversation."""
    inbox: tuple[Message, ...]
    """What was said to it and not read yet."""
    resumed_by: str | None
    """The mark of whoever resumes it. Without answers this is a run that a crash left open."""
    asks: bool
    """Whether whoever resumes it also answers questions in place."""

    @classmethod
    def read(cls, id: str, state: Mapping[str, Any] | None) -> StoredRun | None:
        """The run that is open, or None. Raises `RunError` when what is stored cannot be read."""
        if state is None or has_ended(state):
            return None
        try:
            mark = state.get("resumed")
            return cls(
                id=id,
                state=state,
                snapshot=replace(Snapshot.from_json(state["snapshot"]), conversation=id),
                start=int(state["start"]),
                inbox=tuple([message_from_json(message) for message in state.get("inbox", ())]),
                resumed_by=None if mark is None else str(mark["by"]),
                asks=mark is not None and bool(mark["asks"]),
            )
        except (RunError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unreadable(id, error) from error

    @property
    def open(self) -> tuple[Request, ...]:
        """The questions that nobody answered yet."""
        return tuple([r for r in self.snapshot.requests if r.id not in self.snapshot.answers])

    def suspended(self) -> Suspended:
        """Why the conversation takes nothing else now, and what to do."""
        if self.resumed_by is None:
            return Suspended(self.open, f"conversation {self.id!r} waits; discard_pending() gives up")
        return Suspended(
            self.open,
            f"conversation {self.id!r} is being resumed; try again when that is over. If the process that "
            f"does it is gone, client.resume({self.id!r}) goes on, and discard_pending() gives up",
        )

    def stands(self, new: Mapping[str, Answer], answers: Sequence[Answer], asks: bool) -> bool:
        """Whether there is nothing to do: all `answers` were given before, and none of the rest comes."""
        if self.resumed_by is not None:
            return bool(answers)
        return bool(self.snapshot.requests) and not (new or asks)

    def result(self, messages: Sequence[Message]) -> RunResult:
        """The run as it stands, when nothing is done."""
        result = standing(self.snapshot, messages)
        if self.resumed_by is None:
            return result
        text = f"conversation {self.id!r} is being resumed with these answers already; nothing was done"
        return replace(result, text=text, output=text, pending=self.open)

    def marked(self, answers: Mapping[str, Answer], asks: bool) -> StoredRun:
        """The same run, from now on resumed by us with these answers, too."""
        mark = {"by": os.urandom(8).hex(), "asks": asks or self.asks}
        whole = {**self.snapshot.answers, **answers}
        document = {**self.state["snapshot"], "answers": {i: a.to_json() for i, a in whole.items()}}
        state = {**self.state, "snapshot": document, "resumed": mark}
        snapshot = replace(self.snapshot, answers=whole)
        return replace(self, state=state, snapshot=snapshot, resumed_by=mark["by"], asks=mark["asks"])

    def taken_up(self, loaded: Sequence[Message]) -> tuple[tuple[Message, ...], Snapshot]:
        """What was said before it, and where it goes on.

        When somebody resumed it before, or nothing was asked, the process that ran it is gone, and
        nobody knows what calls did that were let go and have no result.
        """
        frame = self.snapshot.frame
        history = close_transcript(loaded[: self.start], INTERRUPTED)
        own = frame.messages or _closed_before(tuple(loaded[self.start :]))
        if not (history or own or frame.state is not None):
            raise _unreadable(self.id, ValueError("its messages are gone"))
        let_go = {request.id for request in self.snapshot.requests} if self.asks else self.snapshot.answers
        frame = replace(
            frame,
            messages=own,
            interrupted=self.resumed_by is not None or not self.snapshot.requests,
            let_go=frozenset(let_go),
        )
        return history, replace(self.snapshot, frame=frame)

    def ending(self, loaded: Sequence[Message], redact: Redactor) -> Ending:
        """What closes its calls, with the results that are there, and what is left of the runs below."""
        from toolnexus.engine.dispatch import OUTCOME_UNKNOWN
        from toolnexus.engine.given_up import all_given_up, notes_of

        frame, answers = self.snapshot.frame, self.snapshot.answers
        ledger = Ledger.from_json(self.snapshot.ledger)

        def result(call: ToolCallPart) -> ToolResultPart:
            waited = frame.waiting.get(call.id)
            if waited is None:
                return frame.results.get(call.id) or ToolResultPart(call.id, INTERRUPTED, is_error=True)
            if self.resumed_by is not None and (self.asks or waited.answered(answers)):
                return ToolResultPart(call.id, OUTCOME_UNKNOWN, is_error=True)
            asked = "; ".join([request.prompt for request in waited.requests])
            return ToolResultPart(call.id, f"no answer was given to: {asked}", is_error=True)

        notes = notes_of(frame, ledger, redact)
        below = [left.result for left in all_given_up(frame, ledger, redact)]
        messages = [*_results(frame.messages or loaded, result), *notes, *self.inbox]
        return Ending(messages, below, self.snapshot.requests)


def standing(snapshot: Snapshot, messages: Sequence[Message]) -> RunResult:
    """The result of a run that still waits, when nothing is done: its calls have what is known of each."""
    from toolnexus.engine.runner import waiting_result

    known = dict(snapshot.frame.results)
    for call, waiting in snapshot.frame.waiting.items():
        asked = "; ".join([request.prompt for request in waiting.requests])
        known[call] = ToolResultPart(call, f"no answer yet to: {asked}")
    return waiting_result(snapshot, close_transcript(messages, INTERRUPTED, known))


def _unreadable(id: str, error: Exception) -> RunError:
    why = str(error) if isinstance(error, RunError) else f"{type(error).__name__} {error}"
    return RunError(
        f"the open run of conversation {id!r} cannot be read: {why}. "
        f"client.conversation({id!r}).discard_pending() gives it up; the messages stay"
    )


def has_ended(state: Mapping[str, Any]) -> bool:
    """Whether it only tells how a resumed run ended. What a store gives may be anything."""
    return isinstance(state, Mapping) and "ended" in state


def is_taken(state: Mapping[str, Any] | None) -> bool:
    """Whether another run would get in the way of the stored one: it waits, or is being resumed."""
    if state is None or has_ended(state):
        return False
    try:
        return "resumed" in state or bool(state["snapshot"]["frame"]["waiting"])
    except (KeyError, TypeError):  # it cannot be read, and must be given up
        return True


def mark_of(state: Mapping[str, Any] | None) -> Any:
    """The mark of whoever resumes the stored run."""
    return state.get("resumed") if isinstance(state, Mapping) else None


def given_up(
    id: str, state: Mapping[str, Any] | None, loaded: Sequence[Message], redact: Redactor
) -> Ending | None:
    """What ends the open run, also one that cannot be read; None: no run is open."""
    try:
        stored = StoredRun.read(id, state)
    except RunError as error:
        logger.warning("conversation %r: what its open run had done is lost: %s", id, error)
        return Ending(_results(loaded, lambda call: ToolResultPart(call.id, LOST, is_error=True)))
    return None if stored is None else stored.ending(loaded, redact)


def _results(messages: Sequence[Message], result: Callable[[ToolCallPart], ToolResultPart]) -> list[Message]:
    calls = messages[-1].tool_calls if messages else ()
    return [Message("tool", tuple([result(call) for call in calls]))] if calls else []


def _closed_before(own: tuple[Message, ...]) -> tuple[Message, ...]:
    """Every call answered but those of the last message: these are the ones that were under way."""
    return (*close_transcript(own[:-1], INTERRUPTED), *own[-1:])
