"""The only fan-out in the package: everything concurrent goes through `run_all`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def run_all(jobs: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run every job at once; results in job order.

    The first failure cancels the rest and is raised as itself, never inside an exception group.
    A job that ends cancelled although nobody cancelled us is a failure, not a silence. No job
    outlives the call, however often the caller is cancelled. One job needs no task.
    """
    if not jobs:
        return []
    if len(jobs) == 1:
        try:
            return [await jobs[0]()]
        except asyncio.CancelledError as stray:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("a job was cancelled from inside") from stray

    create = asyncio.get_running_loop().create_task
    tasks = [create(job()) for job in jobs]
    del jobs  # many may wait long: what only started them need not stay
    try:
        await asyncio.sleep(0)  # what waits for nothing has ended by then, and `gather` is dear
        if all([t.done() and not t.cancelled() and t.exception() is None for t in tasks]):
            return [task.result() for task in tasks]
        return await asyncio.gather(*tasks)
    except asyncio.CancelledError as stray:
        ours = asyncio.current_task()
        if ours is None or ours.cancelling():
            raise
        raise RuntimeError("a job was cancelled from inside") from stray
    finally:
        await stop(tasks)


async def stop(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel what still runs and wait for it, through any number of further cancels."""
    left: list[asyncio.Task[Any]] = [t for t in tasks if not t.done()]
    cancelled: asyncio.CancelledError | None = None
    for task in left:
        task.cancel()
    while left:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as again:
            cancelled = again
            for task in left:
                task.cancel()
        left = [t for t in left if not t.done()]
    if cancelled is not None:
        raise cancelled
