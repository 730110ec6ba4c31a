"""A reply that is handed on while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from toolnexus.core.model import ModelSink
from toolnexus.graph.inference.reply import Reply
from toolnexus.runtime.concurrency import stop


class Pieces:
    """A sink whose pieces can be awaited, as parts in wire form."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._text: list[str] = []

    @property
    def said(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def text(self, delta: str) -> None:
        self._text.append(delta)
        self._queue.put_nowait({"type": "text", "text": delta})

    def reasoning(self, delta: str) -> None:
        self._queue.put_nowait({"type": "reasoning", "text": delta})

    def retrying(self, *, attempt: int, delay: float, reason: str, restarted: bool) -> None:
        if restarted:
            self._text.clear()

    def end(self) -> None:
        """No more comes."""
        self._queue.put_nowait(None)

    async def next(self) -> dict[str, Any] | None:
        """The next piece, None at the end."""
        return await self._queue.get()

    async def next_within(self, seconds: float) -> dict[str, Any] | None:
        """The next piece, None at the end. Raises `TimeoutError` when there is none in that time."""
        async with asyncio.timeout(seconds):
            return await self._queue.get()


class Streamed:
    """A request in flight. `reply()` is there once `pieces` have ended; `close` may be called at any time."""

    def __init__(self, ask: Callable[[ModelSink], Awaitable[Reply]]) -> None:
        self.pieces = Pieces()
        self._task = asyncio.ensure_future(ask(self.pieces))
        self._task.add_done_callback(lambda _: self.pieces.end())

    @property
    def done(self) -> bool:
        """Whether the request has ended, whatever way."""
        return self._task.done()

    async def __aiter__(self) -> AsyncGenerator[dict[str, Any]]:
        while (piece := await self.pieces.next()) is not None:
            yield piece

    def reply(self) -> Reply:
        """What the request gave. Raises what it raised."""
        return self._task.result()

    async def close(self) -> None:
        """Give the request up if it is still in flight, and wait for its end."""
        await stop([self._task])
        if not self._task.cancelled():
            self._task.exception()  # it was seen
