"""When a client is open: on which event loop, since when, and how it ends.

What it is not: what is opened and closed; the client hands that in.
"""

from __future__ import annotations

import asyncio
import atexit
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from toolnexus.engine.asks import Asks
from toolnexus.errors import ConfigError

if TYPE_CHECKING:
    from toolnexus.runtime.loop_thread import LoopThread

T = TypeVar("T")

_CLOSED = "this client is closed; make a new one"

_on_threads: WeakSet[Life] = WeakSet()


class Life:
    """Opens once, however many ask at the same time, and closes once, whoever does it from wherever.

    `start(again)` opens everything; `again`: the loop that it was opened on is gone. `ends` close it,
    the last one first, after the asks in flight were ended. `release` drops, without waiting, what no
    event loop is needed for; it is called last, and is all that can be done without one.
    """

    def __init__(
        self,
        *,
        start: Callable[[bool], Coroutine[Any, Any, None]],
        ends: Sequence[Callable[[], Awaitable[None]]],
        release: Callable[[], None],
    ) -> None:
        self._start = start
        self._ends = ends
        self._release = release
        self.asks = Asks()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Be open. Raises `ConfigError` when it is closed, or in use on another live loop."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise ConfigError(_CLOSED)
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                raise ConfigError(
                    "this client is in use on another event loop: make one client per loop, "
                    "or call ask_sync from everywhere"
                )
            again = self._loop is not None
            self._loop = loop
            self._opening = asyncio.create_task(self._start(again))
        assert self._opening is not None
        if self._opening.done() and not self._opening.cancelled():
            return self._opening.result()
        try:
            await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            if self._opening.cancelled() and not _is_cancelled():
                raise ConfigError("this client was closed before it was open; make a new one") from None
            raise

    async def aclose(self) -> None:
        """Be closed. Idempotent; cancelled, it lets its caller go and closes all the same."""
        if self._closing is None:
            if self._closed:
                return
            self._closed = True
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    def close(self) -> None:
        """`aclose` for what was used with `sync`. Idempotent."""
        if self._thread is not None:
            if self._thread.is_current:
                raise ConfigError("close() was called on the client's own loop; call it where ask_sync is")
            if not self._closed:
                self._thread.call(self.aclose())
            self._thread.close()
            self._thread = None
        elif self._loop is not None and not self._closed:
            raise ConfigError("this client was opened on an event loop: await its aclose() there")
        else:
            self._closed = True
            self._release()

    def sync(self, work: Callable[[], Coroutine[Any, Any, T]], what: str, instead: str) -> T:
        """Run `work` on a loop of our own and return its result; errors name `what` and `instead`."""
        if self._thread is not None and self._thread.is_current:
            raise ConfigError(f"{what} was called on the client's own loop; await {instead} here")
        if self._closed:
            raise ConfigError(_CLOSED)
        if self._thread is None:
            from toolnexus.runtime.loop_thread import LoopThread

            self._thread = LoopThread("toolnexus")
            _on_threads.add(self)
        return self._thread.call(work())

    def forgotten(self) -> bool:
        """Nobody holds the client any more: whether that came before it was closed."""
        if self._opening is None or self._closed:
            return False
        self._release()
        return True

    async def _close(self) -> None:
        async with AsyncExitStack() as stack:  # whatever fails, the rest is closed
            stack.callback(self._release)
            for end in self._ends:
                stack.push_async_callback(end)
            if self._opening is not None and self._loop is asyncio.get_running_loop():
                self._opening.cancel()
                await asyncio.gather(self._opening, return_exceptions=True)
                await self.asks.end()


class Openable:
    """Something with a `Life` in `_life`: open for the time of a block, or until it is closed."""

    _life: Life

    async def __aenter__(self) -> Self:
        try:
            await self._life.open()
        except BaseException:  # the block is not entered, so nobody else will close
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        try:
            self._life.sync(self._life.open, "with client", "client.ask(…)")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Stop the asks in flight, then close every source and connection. Idempotent.

        What they had done is stored first; whoever awaits one gets a `RunError` with its result.
        Cancelled, it lets its caller go and closes all the same.
        """
        await self._life.aclose()

    def close(self) -> None:
        """`aclose` for a client that was used with `ask_sync`. Idempotent."""
        self._life.close()

    def __del__(self) -> None:
        life: Life | None = getattr(self, "_life", None)  # missing when an option was wrong
        if life is not None and life.forgotten():
            warnings.warn(f"unclosed {type(self).__name__}: call aclose()", ResourceWarning, stacklevel=2)


def _is_cancelled() -> bool:
    """Whether somebody cancelled the running task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@atexit.register
def _close_those_on_threads() -> None:
    for life in list(_on_threads):
        life.close()
