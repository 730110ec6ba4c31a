"""How many sub-agents are active at once, without a deadlock between parents and children."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Slots:
    """First come, first served. A run that waits for others lends its slot meanwhile; coming back,
    it goes before new starts."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.free = width
        self._new: deque[asyncio.Future[None]] = deque()
        self._back: deque[asyncio.Future[None]] = deque()

    async def acquire(self, *, returning: bool = False) -> None:
        """Wait for a slot. Cancelled while waiting, it takes none."""
        if self.free and not (self._back or self._new):
            self.free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        (self._back if returning else self._new).append(place)
        self._grant()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()
            raise

    def release(self) -> None:
        self.free += 1
        self._grant()

    def _grant(self) -> None:
        while self.free and (self._back or self._new):
            place = (self._back or self._new).popleft()
            if not place.done():
                self.free -= 1
                place.set_result(None)


class Slot:
    """The one slot of one run. Several waits of that run at once lend it once."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = False
        self._entered = False
        self._waits = 0

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Hold the slot for the life of the run."""
        await self._slots.acquire()
        self._held = self._entered = True
        try:
            yield
        finally:
            self._entered = False
            if self._held:
                self._held = False
                self._slots.release()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Give the slot away while the run waits for a child or for a human."""
        self._waits += 1
        if self._held:
            self._held = False
            self._slots.release()
        try:
            yield
        except asyncio.CancelledError:  # the run is ending: it must not queue for a slot again
            self._waits -= 1
            raise
        except BaseException:
            await self._back()
            raise
        await self._back()

    @property
    def lost(self) -> bool:
        """Whether a wait was cancelled while the run goes on, so that it works without its slot."""
        return self._entered and not self._held and self._waits == 0

    async def regain(self) -> None:
        """Take the slot again after it was lost."""
        await self._slots.acquire(returning=True)
        if self._held:
            self._slots.release()
        self._held = True

    async def _back(self) -> None:
        self._waits -= 1
        if self._waits == 0:
            await self._slots.acquire(returning=True)
            if self._waits or self._held:  # somebody lent it again meanwhile
                self._slots.release()
            else:
                self._held = True
