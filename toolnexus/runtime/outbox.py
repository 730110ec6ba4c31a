"""The queue between a run and the one who reads its events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from toolnexus.core.events import Event, ReasoningDelta, TextDelta

SOFT_SIZE = 256


class Outbox:
    """Never makes the run wait and never drops anything.

    When the reader is slow, a text delta is joined to the last waiting delta of the same run and
    kind; nothing else is merged, so starts and ends always arrive, in order.
    """

    def __init__(self) -> None:
        self._queue: deque[Event] = deque()
        self._tails: dict[tuple[str, ...], TextDelta | ReasoningDelta] = {}
        self._more: dict[tuple[str, ...], list[str]] = {}
        """What is to be joined to a tail, all at once: adding to a long text copies it each time."""
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Take one event. Synchronous."""
        if isinstance(event, (TextDelta, ReasoningDelta)):
            tail = self._tails.get(event.path)
            if tail is not None and type(tail) is type(event) and len(self._queue) >= SOFT_SIZE:
                self._more.setdefault(event.path, []).append(event.text)
                return
            self._end_tail(event.path)
            self._tails[event.path] = event
        else:
            self._end_tail(event.path)
        self._queue.append(event)
        self._wake.set()

    def close(self) -> None:
        """No more events; the reader gets what waits and then the end."""
        self._closed = True
        self._wake.set()

    def _end_tail(self, path: tuple[str, ...]) -> None:
        """Nothing is joined to the last delta of this run any more."""
        tail = self._tails.pop(path, None)
        if tail is not None and (more := self._more.pop(path, None)) is not None:
            tail.text += "".join(more)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._queue:
                event = self._queue.popleft()
                if self._tails.get(event.path) is event:
                    self._end_tail(event.path)
                yield event
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()
