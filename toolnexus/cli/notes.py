"""What a person should know beside the answer: `note:` lines on stderr, each said once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

from toolnexus.cli.spoken import spoken
from toolnexus.cli.view.words import printable


class Notes(logging.Handler):
    """Says lines, and what the package logs as a warning.

    `reported` are loggers whose warnings the command reports in its own words. Threads that go on
    behind something that was given up are no business of a person at a terminal.
    """

    def __init__(self, reported: Iterable[str] = ()) -> None:
        super().__init__(logging.WARNING)
        self._reported = frozenset((*reported, "toolnexus.threads"))
        self._said: set[str] = set()

    def say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            print(printable(f"note: {spoken(line)}"), file=sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name not in self._reported:
            with suppress(OSError, ValueError):  # nobody reads stderr: no reason to fail
                self.say(record.getMessage())


_here: list[Notes] = []


@contextmanager
def noting(reported: Iterable[str] = ()) -> Generator[None]:
    """Within, warnings of the package are notes, and nothing else shows them."""
    notes, logger = Notes(reported), logging.getLogger("toolnexus")
    _here.append(notes)
    logger.addHandler(notes)
    try:
        yield
    finally:
        logger.removeHandler(notes)
        _here.remove(notes)


def tell_notes(lines: Iterable[str]) -> None:
    """Lines about what was read and not carried over, on stderr."""
    notes = _here[-1] if _here else Notes()
    for line in lines:
        notes.say(line)
