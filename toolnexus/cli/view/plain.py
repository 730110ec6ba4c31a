"""A run as plain lines: one for each start and each end."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from toolnexus.cli.view.words import one_line, plural, printable, telling
from toolnexus.core.events import (
    Compacted,
    Event,
    LimitHit,
    NodeFinished,
    NodeStarted,
    Pending,
    Retrying,
    RunFinished,
    RunStarted,
    SubAgentStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from toolnexus.core.result import RunResult

LONGEST = 48
"""Characters of an argument or an error that one line shows."""


class PlainLines:
    """Writes lines to `out`; with `answer`, the text of the top run goes there as it comes."""

    moves = False

    def __init__(self, out: TextIO, answer: TextIO | None = None) -> None:
        self._out = out
        self._answer = answer
        self._began: float | None = None
        self._mid_line = False
        self.answered = False
        self._delegated: set[tuple[tuple[str, ...], str]] = set()
        self._names: dict[tuple[str, ...], str] = {}
        self._calls: dict[tuple[tuple[str, ...], str], str] = {}
        self._nodes: dict[tuple[tuple[str, ...], tuple[str, ...]], float] = {}

    def feed(self, event: Event) -> None:
        if self._began is None:
            self._began = event.time
        if isinstance(event, TextDelta):
            self._text(event)
            return
        if (words := self._words(event)) is not None:
            run = event.path
            self._line(event, f"{'  ' * (len(run) - 1)}{self._names.get(run, run[-1])}  {words}")

    def tick(self) -> None:
        """Nothing moves."""

    @contextmanager
    def aside(self) -> Generator[None]:
        self._end_line()
        yield

    def close(self) -> None:
        self._end_line()

    def _words(self, event: Event) -> str | None:
        match event:
            case RunStarted():
                self._names[event.path] = printable(event.agent)
                return "starts"
            case SubAgentStarted(call_id=str(id)):
                self._delegated.add((event.path, id))
            case ToolStarted() if event.name != "task":
                call = f"{event.name} {telling(event.arguments)[:LONGEST]}".rstrip()
                self._calls[event.path, event.call_id] = call
                return f"{call} …"
            case ToolFinished() if (event.path, event.call_id) not in self._delegated:
                return f"{self._calls.pop((event.path, event.call_id), event.name)} {_outcome(event)}"
            case NodeStarted():
                self._nodes[event.path, event.node] = event.time
                return f"{_node(event)} …"
            case NodeFinished():
                took = event.time - self._nodes.pop((event.path, event.node), event.time)
                why = f": {one_line(event.error)[: LONGEST * 2]}" if event.error else ""
                return f"{_node(event)} {event.status} after {took:.2f} s{why}"
            case LimitHit():
                return f"limit {event.hit}"
            case Compacted():
                gone = plural(event.dropped, "message")
                return f"no longer sends {gone}: {event.before} tokens before, {event.after} now"
            case Pending():
                return f"asks: {one_line(event.request.prompt)}"
            case Retrying():
                return f"retry {event.attempt} in {event.delay:.1f} s: {one_line(event.reason)[:LONGEST]}"
            case RunFinished():
                return _end(event.result)
            case _:
                pass
        return None

    def _text(self, event: TextDelta) -> None:
        if self._answer is None or len(event.path) > 1 or not event.text:
            return
        self._answer.write(printable(event.text, keep="\n\t"))
        self._answer.flush()
        self.answered = True
        self._mid_line = not event.text.endswith("\n")

    def _line(self, event: Event, text: str) -> None:
        self._end_line()
        self._out.write(f"{event.time - (self._began or event.time):6.2f} s  {text}\n")
        self._out.flush()

    def _end_line(self) -> None:
        if self._mid_line and self._answer is not None:
            self._answer.write("\n")
            self._answer.flush()
        self._mid_line = False


def _node(event: NodeStarted | NodeFinished) -> str:
    return f"{printable('/'.join(event.node))} ({event.kind})"


def _outcome(event: ToolFinished) -> str:
    result = event.result
    if result.requests:
        return "waits for an answer"
    if result.is_error:
        return f"failed after {event.seconds:.2f} s: {one_line(result.output)[: LONGEST * 2]}"
    return f"gave {plural(len(result.output), 'character')} after {event.seconds:.2f} s"


def _end(result: RunResult) -> str:
    words = result.status if result.limit is None else f"{result.status} ({result.limit})"
    if result.status == "error":
        words = f"error: {one_line(str(result.error))}"
    return f"ends {words}, {plural(result.turns, 'turn')}, {plural(result.tool_calls, 'tool call')}"
