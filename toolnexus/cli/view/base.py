"""The port of all views, and playing a run into one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Protocol

from toolnexus.core.events import Event
from toolnexus.core.result import RunResult
from toolnexus.engine.stream import Stream

FRAME = 0.1
"""Seconds between two frames of a view that moves."""


class View(Protocol):
    """Shows a run. A view is used for one run; every method is synchronous and quick."""

    moves: bool
    """Whether it wants `tick` while nothing happens."""
    answered: bool
    """Whether it has shown the text of the top run, too."""

    def feed(self, event: Event) -> None:
        """Take one event."""
        ...

    def tick(self) -> None:
        """Some time has passed."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Hold still while somebody else uses the terminal."""
        ...

    def close(self) -> None:
        """The run is over, whatever way. May be called twice."""
        ...


async def play(
    running: AbstractAsyncContextManager[Stream],
    view: View,
    *,
    also: Callable[[Event], None] | None = None,
) -> RunResult:
    """Show a run of `client.stream` in `view`; `also` gets every event, too. Raises what the run raises."""
    async with _running(view), running as stream:
        async for event in stream:
            view.feed(event)
            if also is not None:
                also(event)
    return stream.result


@asynccontextmanager
async def _running(view: View) -> AsyncGenerator[None]:
    clock = asyncio.create_task(_tick(view)) if view.moves else None
    try:
        yield
    finally:
        if clock is not None:
            clock.cancel()
        view.close()


async def _tick(view: View) -> None:
    while True:
        await asyncio.sleep(FRAME)
        view.tick()
