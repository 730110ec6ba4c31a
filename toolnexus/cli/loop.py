"""Running a command's coroutine so that every way of stopping it is a clean one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

_STOPS = ("SIGTERM", "SIGHUP")


def run(work: Coroutine[Any, Any, int]) -> int:
    """The exit code that `work` gives.

    Ctrl-C raises `KeyboardInterrupt` after everything is closed; SIGTERM and SIGHUP close everything
    and give 128 and the number of the signal, as a shell would say.
    """
    return asyncio.run(_stoppable(work))


async def _stoppable(work: Coroutine[Any, Any, int]) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    stopped: list[int] = []

    def stop(number: int) -> None:
        stopped.append(number)
        task.cancel()

    for name in _STOPS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not stopped:
            raise
        return 128 + stopped[0]
