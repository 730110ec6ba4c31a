"""A private event loop on a thread of its own: what runs async code for sync callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that an interrupted call gets to clean up."""
GLANCE = 1.0
"""Seconds after which a waiting call looks for a signal: one that comes just before a thread begins to wait
does not wake it."""


class LoopThread:
    """One event loop on one daemon thread, from now until `close`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this very thread, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and return its result here.

        An interrupt here (Ctrl-C) cancels it there and waits for its end before it goes on.
        """
        ended = threading.Event()

        async def watched() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(watched(), self.loop)
        try:
            while not wait((future,), GLANCE).done:
                pass
            return future.result()
        except BaseException:
            if not ended.is_set():
                future.cancel()
                ended.wait(PATIENCE)
            raise

    def close(self) -> None:
        """Stop the loop and join the thread. Idempotent."""
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
