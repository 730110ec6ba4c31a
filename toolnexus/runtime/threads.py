"""Blocking work off the event loop, in daemon threads.

The executors of the standard library join their threads when the interpreter exits, so one hung
function would keep the process alive for ever. Nobody joins these.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

logger = logging.getLogger("toolnexus.threads")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_THREADS = 64
IDLE_SECONDS = 10.0


class _Job:
    """One call, and the loop that waits for it."""

    __slots__ = ("call", "finished", "future", "loop")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()
        self.finished = False

    def run(self) -> tuple[Any, BaseException | None]:
        try:
            return self.call(), None
        except BaseException as error:  # whatever it is, the waiting task raises it
            return None, error
        finally:
            self.finished = True

    def deliver(self, outcome: tuple[Any, BaseException | None]) -> None:
        try:
            self.loop.call_soon_threadsafe(self._settle, outcome)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def _settle(self, outcome: tuple[Any, BaseException | None]) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class ThreadPool:
    """At most `limit` live threads; further work waits its turn, first come, first served.

    Serves any number of event loops at once. A thread that was idle for `idle` seconds ends.
    """

    def __init__(self, limit: int = MAX_THREADS, idle: float = IDLE_SECONDS) -> None:
        self._limit = limit
        self._idle_seconds = idle
        self.reset()

    def reset(self) -> None:
        """Forget all threads and all work: for a forked child, which inherits neither."""
        self._changed = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._live = 0
        self._idle = 0

    async def run(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """`fn(*args)` in a thread, with the context variables of the caller.

        Raises what `fn` raises. Cancelled while the call waits for a thread, `fn` never runs;
        cancelled while `fn` runs, the thread goes on alone and what it gives is dropped.
        """
        job = _Job(functools.partial(contextvars.copy_context().run, fn, *args))
        self._submit(job)
        try:
            value, failure = await job.future
        except asyncio.CancelledError:
            self._give_up(job, fn)
            raise
        if failure is None:
            return value
        try:
            if isinstance(failure, StopIteration):  # a coroutine cannot raise it
                raise RuntimeError(f"{_name(fn)} raised StopIteration") from failure
            raise failure
        finally:
            del failure  # or this frame and the traceback keep each other alive

    def _submit(self, job: _Job) -> None:
        with self._changed:
            self._queue.append(job)
            if len(self._queue) <= self._idle:
                self._changed.notify()
            elif self._live < self._limit:
                self._start()

    def _start(self) -> None:
        self._live += 1
        try:
            threading.Thread(target=self._work, name="toolnexus-worker", daemon=True).start()
        except RuntimeError:  # the system gives no more threads; the live ones will come round
            self._live -= 1
            if not self._live:
                self._queue.pop()
                raise

    def _work(self) -> None:
        self._count_idle()
        while (job := self._next()) is not None:
            outcome = job.run()
            self._count_idle()  # before the result is out: its receiver may come back at once
            job.deliver(outcome)
            del job, outcome  # an idle thread must not keep alive what it worked on

    def _count_idle(self) -> None:
        with self._changed:
            self._idle += 1

    def _next(self) -> _Job | None:
        """The next job to run, or None when there was none for the idle time."""
        with self._changed:
            while self._changed.wait_for(lambda: self._queue, self._idle_seconds):
                job = self._queue.popleft()
                if not job.future.cancelled():
                    self._idle -= 1
                    return job
            self._idle -= 1
            self._live -= 1
            return None

    def _give_up(self, job: _Job, fn: Callable[..., Any]) -> None:
        with self._changed:
            if job in self._queue:
                self._queue.remove(job)
                return
            live = self._live
        if not job.finished:
            logger.warning(
                "%s was given up while it ran; its thread goes on alone (%d of at most %d threads are alive)",
                _name(fn),
                live,
                self._limit,
            )


def _name(fn: Callable[..., Any]) -> str:
    """What a log may say of `fn`: never its arguments."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__qualname__", type(fn).__qualname__)


_pool = ThreadPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.reset)


async def run_in_thread(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """`fn(*args)` in one of the package's shared daemon threads; see `ThreadPool.run`."""
    return await _pool.run(fn, *args)
