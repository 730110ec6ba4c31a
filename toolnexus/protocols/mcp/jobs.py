"""Work beside an owner, who waits for all of it before it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolnexus.protocols.mcp.faults import Fault

logger = logging.getLogger("toolnexus.mcp")

T = TypeVar("T")


class Jobs:
    """Tasks that nobody but their owner waits for. What matters of their errors is a `Fault`
    of their owner's; the rest is for those who debug."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` from now on."""
        task = asyncio.create_task(work, name=self._name)
        self._tasks.add(task)
        task.add_done_callback(self._settle)
        return task

    async def unless(self, stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
        """What `work` gives; None, with `work` cancelled, when `stop` is set first."""
        task = self.start(work)
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stopped.cancel()
            task.cancel()

    async def finish(self) -> None:
        """Wait until there are none, however often we are cancelled meanwhile."""
        while self._tasks:
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError:
                continue

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, Fault):
            logger.debug("%s: %r", self._name, error)
