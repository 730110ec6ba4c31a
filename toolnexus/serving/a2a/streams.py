"""Streams of the SDK, read so that whoever leaves one leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

_END = object()


class Streams:
    """Reads each stream in a task of its own.

    The SDK lets go of what a stream follows in a `finally` that awaits. A cancel scope of the web framework
    cancels each of these awaits again, and then the task of a caller who left would be kept for ever. A task
    of our own is in no such scope: it is cancelled once, and not before the stream has begun.
    """

    def __init__(self) -> None:
        self._reading: set[asyncio.Task[None]] = set()

    async def read(self, source: AsyncGenerator[Any]) -> AsyncGenerator[Any]:
        """The events of `source`, one at a time. Raises what it raises."""
        handed, begun, left = asyncio.Queue[Any](1), False, False

        async def read() -> None:
            nonlocal begun
            end: object = _END
            try:
                async with aclosing(source):
                    async for event in source:
                        begun = True
                        if left:
                            return
                        await handed.put(event)
            except Exception as error:
                end = error
            if not left:  # else nobody takes it
                await handed.put(end)

        work = asyncio.create_task(read())
        self._reading.add(work)
        work.add_done_callback(self._reading.discard)
        try:
            while (event := await handed.get()) is not _END:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            left = True
            if begun:
                work.cancel()

    async def ended(self) -> None:
        """Wait until nothing is read any more: everything that is followed has ended."""
        if self._reading:
            await asyncio.wait(self._reading)
