"""A run in flight, observed. Streaming is a view of the one loop, not a second loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolnexus.core.result import RunResult
from toolnexus.errors import RunError
from toolnexus.runtime.concurrency import stop

if TYPE_CHECKING:
    from toolnexus.core.events import Event
    from toolnexus.runtime.outbox import Outbox


class Stream:
    """Iterate it for the events of a run; afterwards `result` is there."""

    def __init__(self, outbox: Outbox, work: Coroutine[Any, Any, RunResult]) -> None:
        self._outbox = outbox
        self._result: RunResult | None = None
        self._failure: BaseException | None = None
        self._work = work
        self._task = asyncio.create_task(self._drive(work))

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in self._outbox:
            yield event
        await asyncio.wait([self._task])

    @property
    def result(self) -> RunResult:
        """What the run gave.

        Raises `RuntimeError` while it is still under way, and `RunError` when it never began.
        """
        if self._result is not None:
            return self._result
        if not self._task.done():
            raise RuntimeError("the run is still under way: read the events to their end first")
        if self._failure is not None:
            raise RunError(f"the run has no result, it never began: {self._failure}") from self._failure
        raise RunError("the run has no result: its stream was left before it began")

    async def leave(self) -> None:
        """Stop the run if it is still under way, and wait for its end, through any number of cancels."""
        try:
            await stop([self._task])
        finally:
            self._work.close()  # a task that is cancelled before its first step never awaits it
            self._outbox.close()

    def raise_failure(self) -> None:
        """Raise what the run raised, if it failed by itself."""
        if self._result is not None and self._result.status == "error":
            raise_error(self._result)
        if self._failure is not None:
            raise self._failure

    async def _drive(self, work: Coroutine[Any, Any, RunResult]) -> None:
        try:
            self._result = await work
        except asyncio.CancelledError as cancel:
            self._result = getattr(cancel, "result", None)
            raise
        except Exception as failure:
            self._failure = failure
            self._result = getattr(failure, "result", None)
        finally:
            self._outbox.close()


@asynccontextmanager
async def observed(outbox: Outbox, work: Coroutine[Any, Any, RunResult]) -> AsyncGenerator[Stream]:
    """A run whose events go to `outbox`. Leaving early stops it; its failure is raised at the end."""
    stream = Stream(outbox, work)
    try:
        yield stream
    finally:
        await stream.leave()
    stream.raise_failure()


def raise_error(result: RunResult) -> RunResult:
    """`result` itself, unless the run failed: then its error is raised, with the result on it."""
    if result.status == "error" and result.error is not None:
        result.error.result = result  # type: ignore[attr-defined]
        raise result.error
    return result
