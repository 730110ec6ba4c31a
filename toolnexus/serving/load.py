"""How much is under way at once, whichever protocol it came by."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

TICKET = "toolnexus.ticket"
"""Where the ticket of a request is found: in the ASGI scope, and in the state of an A2A call."""


class Load:
    """Counts runs and calls, and knows the most that may be."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.active = 0

    def claim(self) -> Ticket | None:
        """A ticket to hold before anything is awaited, or None when there is no room."""
        return Ticket(self) if self.active < self.most else None


class Ticket:
    """One place. It is given back when neither a request nor a run holds it any more.

    A run may go on after the request that began it, and hold the place then.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._holders = 0
        self.on_leave: Callable[[], object] | None = None
        """Called when whoever asked is gone."""

    @contextmanager
    def held(self) -> Generator[None]:
        """Count as one as long as the block lasts."""
        self._load.active += not self._holders
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._load.active -= not self._holders

    def leave(self) -> None:
        """The request is over, however it ended."""
        if self.on_leave is not None:
            self.on_leave()
