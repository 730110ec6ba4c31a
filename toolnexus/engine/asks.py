"""The asks in flight of one client: closing it ends them."""

from __future__ import annotations

import asyncio
from types import TracebackType

from toolnexus.errors import RunError


class Asks:
    """Knows what runs, and can end it without cancelling the tasks of others."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()
        self._none_left: asyncio.Event | None = None

    def one(self) -> _One:
        """What runs in here may be ended: it is cancelled, and whoever waits gets a `RunError`.

        The error has the result that came with the cancel.
        """
        return _One(self)

    async def end(self) -> None:
        """End all of them, and wait until they have."""
        for scope in self._running:
            scope.reschedule(0)
        if self._running:
            self._none_left = asyncio.Event()
            await self._none_left.wait()

    def _enter(self, scope: asyncio.Timeout) -> None:
        self._running.add(scope)

    def _leave(self, scope: asyncio.Timeout) -> None:
        self._running.discard(scope)
        if self._none_left is not None and not self._running:
            self._none_left.set()


class _One:
    """A class and no generator: every ask stands in one."""

    __slots__ = ("_asks", "_scope")

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._scope = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._scope.__aenter__()
        self._asks._enter(self._scope)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            await self._scope.__aexit__(kind, error, tb)
        except TimeoutError as stop:
            stopped = RunError("the client was closed while this ran")
            stopped.result = getattr(stop.__cause__, "result", None)
            raise stopped from None
        finally:
            self._asks._leave(self._scope)
