"""Where the events of one run come together."""

from __future__ import annotations

import time
from collections.abc import Callable

from toolnexus.core.events import Event


class Emitter:
    """Numbers and times events and hands them to the one reader. Never raises, never waits."""

    __slots__ = ("_reader", "_seq")

    def __init__(self, reader: Callable[[Event], None]) -> None:
        self._reader = reader
        self._seq = 0

    def __call__(self, event: Event) -> None:
        self._seq += 1
        event.seq = self._seq
        event.time = time.time()
        self._reader(event)
