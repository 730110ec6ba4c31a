"""Work off the event loop that ends in time, whatever it meets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from toolnexus.errors import ToolError
from toolnexus.runtime.threads import run_in_thread

T = TypeVar("T")


class Clock:
    """Says when a piece of work has to stop: its time is up, or nobody waits for it any more."""

    __slots__ = ("_advice", "_end", "_seconds", "given_up")

    def __init__(self, seconds: float, advice: str) -> None:
        self._seconds = seconds
        self._advice = advice
        self._end = time.monotonic() + seconds
        self.given_up = False

    @property
    def left(self) -> float:
        """Seconds until the time is up, never negative."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise `ToolError` when the work has to stop. Cheap: call it once per file or block."""
        if self.given_up or time.monotonic() >= self._end:
            raise self.expired()

    def expired(self) -> ToolError:
        return ToolError(f"stopped after {self._seconds:g} s; {self._advice}")


async def in_time(clock: Clock, work: Callable[[], T]) -> T:
    """`work()` in a thread; raises `ToolError` when the clock runs out, even if the thread hangs."""
    try:
        async with asyncio.timeout(clock.left):
            return await run_in_thread(work)
    except TimeoutError:
        raise clock.expired() from None
    except BaseException:
        clock.given_up = True
        raise
