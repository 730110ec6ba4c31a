"""A time limit of one run, whose clock stops while a human is asked."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadline:
    """`async with Deadline(seconds) as d:` cancels the body when the time is up.

    Afterwards `d.expired` says whether it was this limit that ended the body; the `TimeoutError`
    is swallowed then. None means no limit.
    """

    __slots__ = ("_left", "_pauses", "_seconds", "_timeout", "expired")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None
        self._pauses = 0
        self._left = 0.0
        self.expired = False

    async def __aenter__(self) -> Deadline:
        if self._seconds is not None:
            self._timeout = asyncio.timeout(self._seconds)
            await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool:
        if self._timeout is None:
            return False
        timeout, self._timeout = self._timeout, None
        try:
            await timeout.__aexit__(kind, error, tb)
        except TimeoutError:
            self.expired = True
            return True
        return False

    def pause(self) -> None:
        """Stop the clock. Several pauses at once count once."""
        self._pauses += 1
        if self._pauses == 1 and self._timeout is not None:
            when = self._timeout.when()
            if when is not None and not self._timeout.expired():
                self._left = when - asyncio.get_running_loop().time()
                self._timeout.reschedule(None)

    def resume(self) -> None:
        """Let the clock run on where it stopped."""
        self._pauses -= 1
        if self._pauses == 0 and self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)


UNLIMITED = Deadline(None)
"""For all runs without a limit."""
