"""A child process with a limit on everything.

Whether it has ended is asked of the system, never of a pipe: whoever inherits a pipe keeps its
reader waiting, long after the child has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal
from weakref import WeakSet

End = Literal["exit", "timeout", "flood"]

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


_starting: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


async def turn_to_start() -> None:
    """Wait for the turn to start a process: one in each round of the event loop.

    Starting one holds the loop for about a millisecond, so fifty at once would be felt.
    """
    loop = asyncio.get_running_loop()
    while loop in _starting:  # noqa: ASYNC110 (it is free again in the next round)
        await asyncio.sleep(0)
    _starting.add(loop)
    loop.call_soon(_starting.discard, loop)


class Process:
    """A child in a process group of its own. Whoever makes one must `reap` it.

    `output` and `errors` are file descriptors; without `errors` both streams are merged. It inherits
    these, `input` and `open_files`, under their own numbers, and nothing else.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path,
        output: int,
        errors: int = subprocess.STDOUT,
        input: int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        open_files: Sequence[int] = (),
    ) -> None:
        self._popen = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=input,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            pass_fds=open_files,
        )
        self.pid = self._popen.pid

    def exited(self) -> bool:
        """Whether it has ended. Leaves it unreaped, so that its number stays its own."""
        if self._popen.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self._popen.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody else's SIGCHLD handler was first
            return True

    def done(self) -> bool:
        """Whether what it was started for is done; here that is its own end."""
        return self.exited()

    async def wait(self, seconds: float, flooded: Callable[[], bool]) -> End:
        """How the wait ended: the work was done, the time was up, or `flooded()` said so.

        Kills nothing. Looks often at first and at most twenty times a second later: that costs
        less than a thread and works the same everywhere.
        """
        end = time.monotonic() + seconds
        pause = _FIRST_PAUSE
        while not self.done():
            left = end - time.monotonic()
            if flooded():
                return "flood"
            if left <= 0:
                return "timeout"
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        return "exit"

    async def settle(self) -> None:
        """Let it end, once it is done. Nothing to do where being done is the end."""

    def kill(self) -> None:
        """Kill the whole group at once, unless it was reaped: then its number may be another's."""
        if self._popen.returncode is not None:
            return
        if not hasattr(os, "killpg"):
            self._popen.kill()
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def reap(self) -> int:
        """The exit code, negative for a signal. Call it for a child that has ended or was killed."""
        try:
            return self._popen.wait(0.1)
        except subprocess.TimeoutExpired:  # killed, but stuck in the kernel
            threading.Thread(target=self._popen.wait, name="toolnexus-reaper", daemon=True).start()
            return -9
