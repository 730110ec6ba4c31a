"""The asks in flight of one client: closing it ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from toolnexus.errors import RunError


class Asks:
    """Knows what runs, and can end it without cancelling the tasks of others."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Timeout, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """What runs in here may be ended: it is cancelled, and whoever waits gets a `RunError`.

        The error has the result that came with the cancel.
        """
        scope, ended = asyncio.timeout(None), asyncio.get_running_loop().create_future()
        try:
            async with scope:
                self._running[scope] = ended
                yield
        except TimeoutError as stop:
            if not scope.expired():
                raise
            error = RunError("the client was closed while this ran")
            error.result = getattr(stop.__cause__, "result", None)
            raise error from None
        finally:
            self._running.pop(scope, None)
            ended.set_result(None)

    async def end(self) -> None:
        """End all of them, and wait until they have."""
        for scope in self._running:
            scope.reschedule(0)
        if self._running:
            await asyncio.wait(list(self._running.values()))
