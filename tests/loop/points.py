"""Every point where a run waits, found by running it: nobody has to think of them."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

Place = tuple[str, int]
"""A file and a line."""
Point = tuple[Place, ...]
"""From the root of the run inwards to what it waits for."""

MANY = 40
"""More would only keep a processor busy: what cleans up in a thread is asked again and again meanwhile."""

_counted: ContextVar[Points | None] = ContextVar("counted", default=None)


class Points:
    """Cancels a run at the first point where it has not been cancelled before.

    A point is a place where a task of the run gives control back to the event loop: the lines of all its
    frames, behind those of the task that started it. A run that waits at one place again is at another
    point, `times` times; then that is a loop. `again`: it is cancelled there, and at whatever it waits for
    afterwards, `MANY` times.
    """

    def __init__(self, *, again: bool = False, times: int = 1) -> None:
        self._seen: Counter[Point] = Counter()
        self._last: Point = ()
        self._again = again
        self._times = times
        self._met: Counter[Point] = Counter()
        """How often the run was at a point."""
        self._root: asyncio.Task[Any] | None = None
        self._hit = False
        self._left = 0

    @contextmanager
    def counting(self) -> Generator[None]:
        """Tasks that are made inside, and those that they make, are tasks of the run."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        loop.set_task_factory(_new_task)
        token = _counted.set(self)
        try:
            yield
        finally:
            _counted.reset(token)
            loop.set_task_factory(before)

    async def cancelled(
        self, run: Callable[[], Coroutine[Any, Any, Any]]
    ) -> tuple[bool, BaseException | None]:
        """Run it and cancel it at a point that is new. Whether there was one, and what it raised."""
        self._hit = False
        self._left = MANY if self._again else 0
        self._met.clear()
        self._root = task = asyncio.create_task(run())
        await asyncio.wait([task])
        self._root = None
        if task.cancelled():
            try:
                task.result()
            except asyncio.CancelledError as cancel:
                return self._hit, cancel
        return self._hit, task.exception()

    @property
    def where(self) -> str:
        """Where it was cancelled last."""
        return "\n".join([f"{file}:{line}" for file, line in self._last])

    @staticmethod
    def tasks() -> set[asyncio.Task[Any]]:
        """All that runs for the run or its client; not what serves them."""
        return {task for task in asyncio.all_tasks() if isinstance(task.get_coro(), _Walk)}

    def met(self, point: Callable[[], Point]) -> None:
        root = self._root
        if root is None or root.done():
            return
        if self._hit:
            if self._left:
                self._left -= 1
                root.cancel()
            return
        here = point()
        self._met[here] += 1
        if self._seen[here] < min(self._met[here], self._times):
            self._seen[here] += 1
            self._last, self._hit = here, True
            root.cancel()


class _Walk(Coroutine[Any, Any, Any]):
    """A coroutine that tells whenever it waits."""

    def __init__(self, inner: Any, points: Points, above: Point) -> None:
        self._inner = inner
        self._points = points
        self._above = above

    def send(self, value: Any) -> Any:
        waits_for = self._inner.send(value)
        self._points.met(self.point)
        return waits_for

    def throw(self, *error: Any) -> Any:
        waits_for = self._inner.throw(*error)
        self._points.met(self.point)
        return waits_for

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def point(self) -> Point:
        """Where it is now."""
        return self._above + tuple(_places(self._inner))


def _new_task(
    loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    points = _counted.get() if context is None else context.get(_counted)
    if points is not None:
        coro = _Walk(coro, points, _running())
    return asyncio.Task(coro, loop=loop, context=context or copy_context(), **more)


def _running() -> Point:
    """Where the task is that runs now, and those that started it."""
    places: list[Place] = []
    frame = sys._getframe(2)
    while frame is not None:
        walk = frame.f_locals.get("self") if frame.f_code.co_name in ("send", "throw") else None
        if isinstance(walk, _Walk):
            return (*walk._above, *reversed(places))
        places.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return ()  # outside of all


_INNER: dict[type[Any], str] = {
    CoroutineType: "cr_await",
    GeneratorType: "gi_yieldfrom",
    AsyncGeneratorType: "ag_await",
}
_FRAMED = tuple(_INNER)


def _places(at: Any) -> Iterator[Place]:
    while at is not None:
        inner = next((name for kind, name in _INNER.items() if isinstance(at, kind)), None)
        if inner is None:  # a wrapper that only the interpreter can look into
            found: list[Any] = gc.get_referents(at)
            at = next((each for each in found if isinstance(each, _FRAMED)), None)
            continue
        frame = getattr(at, f"{inner[:2]}_frame")
        if frame is None:
            return
        yield frame.f_code.co_filename, frame.f_lineno
        at = getattr(at, inner)
