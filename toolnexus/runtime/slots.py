"""How many sub-agents are active at once, without a deadlock between parents and children."""

from __future__ import annotations

import asyncio
from collections import deque


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
    """The one slot of one run, held inside `async with`. Several waits of that run at once lend it once."""

    __slots__ = ("_entered", "_held", "_one", "_slots", "_waits")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = False
        self._entered = False
        self._waits = 0
        self._one: asyncio.Lock | None = None

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        self._held = self._entered = True

    async def __aexit__(self, *_: object) -> None:
        self._entered = False
        if self._held:
            self._held = False
            self._slots.release()

    def lent(self) -> _Lent:
        """Give the slot away while the run waits for a child or for a human."""
        return _Lent(self)

    @property
    def lost(self) -> bool:
        """Whether a wait was cancelled while the run goes on, so that it works without its slot."""
        return self._entered and not self._held and self._waits == 0

    async def regain(self) -> None:
        """Take the slot again after it was lent or lost, unless somebody has, or lends it again.

        Branches of one run share its slot: one of those that come back waits for it, for all of them.
        """
        self._one = self._one or asyncio.Lock()
        async with self._one:
            if self._held or self._waits:
                return
            await self._slots.acquire(returning=True)
            if self._waits:  # somebody lent it again meanwhile
                self._slots.release()
            else:
                self._held = True

    def _lend(self) -> None:
        self._waits += 1
        if self._held:
            self._held = False
            self._slots.release()

    async def _back(self) -> None:
        self._waits -= 1
        await self.regain()


class _Lent:
    """A class and no generator: many runs stand in one at once."""

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def __aenter__(self) -> None:
        self._slot._lend()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self._slot._waits -= 1  # the run is ending: it must not queue for a slot again
        else:
            await self._slot._back()
