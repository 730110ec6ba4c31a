"""Work off the event loop that ends in time, whatever it meets."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from toolnexus.errors import ToolError
from toolnexus.runtime.threads import run_in_thread

T = TypeVar("T")

_TO_END = 10.0
"""Seconds that committed work gets beyond its time."""
_TO_UNDO = 2.0
"""Seconds that a cancel waits for committed work."""


class Clock:
    """Says when a piece of work has to stop: its time is up, or nobody waits for it any more.

    Work that changes something calls `commit` before the first change. From then on its time cannot
    be up any more, so that nobody is told that nothing happened while it happens.
    """

    __slots__ = ("_advice", "_committed", "_end", "_lock", "_seconds", "given_up")

    def __init__(self, seconds: float, advice: str) -> None:
        self._seconds = seconds
        self._advice = advice
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._committed = False
        self.given_up = False
        """Whether nobody waits for the work any more."""

    @property
    def left(self) -> float:
        """Seconds until the time is up, never negative."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise `ToolError` when the work has to stop. Cheap: call it once per file or block."""
        if self.given_up or (not self._committed and time.monotonic() >= self._end):
            raise self.expired()

    def commit(self) -> None:
        """Check for the last time; after it the work is stopped by a cancel only."""
        with self._lock:
            self.check()
            self._committed = True

    def stop(self) -> bool:
        """Stop the work; false, and it goes on, when it is committed."""
        with self._lock:
            if not self._committed:
                self.given_up = True
            return self.given_up

    def expired(self) -> ToolError:
        return ToolError(f"stopped after {self._seconds:g} s; {self._advice}")

    def unsure(self) -> ToolError:
        return ToolError(
            f"no end after {self._seconds:g} s, in the middle of changing files: they may have been changed; "
            "look at them again"
        )


async def in_time(clock: Clock, work: Callable[[], T]) -> T:
    """`work()` in a thread; raises `ToolError` when the clock runs out, even if the thread hangs.

    Work that is committed by then gets some seconds more, and its real end is told. A cancel waits
    a moment for such work, which then undoes what it did.
    """
    working = asyncio.ensure_future(run_in_thread(work))
    try:
        await asyncio.wait([working], timeout=clock.left)
        if working.done():
            return working.result()
        if clock.stop():
            raise clock.expired()
        await asyncio.wait([working], timeout=_TO_END)
        if working.done():
            return working.result()
        clock.given_up = True
        raise clock.unsure()
    except asyncio.CancelledError:
        if not clock.stop():
            clock.given_up = True
            await asyncio.wait([working], timeout=_TO_UNDO)
        raise
    except BaseException:
        clock.given_up = True
        raise
    finally:
        if not working.done():
            working.cancel()
        elif not working.cancelled():
            working.exception()  # or asyncio complains that nobody took it
