"""One server process: it never fills a pipe, never hangs a close, never outlives us."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from io import RawIOBase
from typing import cast

from toolnexus.protocols.mcp.guard import GUARD
from toolnexus.protocols.mcp.pipes import Lines, Sink, Tail

POSIX = os.name == "posix"
"""Whether processes are ours to start here. Elsewhere the SDK does that, in its way."""

SAFE_NAMES = tuple("HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER".split())
"""What a server inherits from our environment. Everything else may hold a secret."""

EOF_GRACE, TERM_GRACE, KILL_GRACE = 1.5, 1.0, 1.0
"""Seconds that a server gets to leave after end of file, after SIGTERM, and to be gone after SIGKILL."""

_SMALL = 1 << 14


def server_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The safe part of our environment with `env` on top. A function in a variable is not safe."""
    safe = {n: v for n in SAFE_NAMES if (v := os.environ.get(n)) is not None and not v.startswith("()")}
    return safe | dict(env)


class ServerProcess:
    """A started server: `input`, `output`, `errors` are its pipes, `stop` or `kill` end it.

    It leads its own session, so it gets no Ctrl-C of ours and goes together with its children.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str | None = None) -> None:
        """Start `command` now. Raises `OSError` when that is impossible."""
        self._loop = loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._pidfd = -1
        self._abandoned = False
        with GUARD.ready():
            self._popen = popen = subprocess.Popen(
                list(command),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            self.pid = popen.pid
            GUARD.add(self.pid)
        _LIVE.add(self)
        self.input = Sink(loop, cast("RawIOBase", popen.stdin))
        self.output = Lines(loop, cast("RawIOBase", popen.stdout))
        self.errors = Tail(loop, cast("RawIOBase", popen.stderr))
        self._watch()

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._popen.returncode

    def write(self, data: bytes) -> None:
        """Send `data` whole. Raises `BrokenPipeError`; the connection is of no use then."""
        try:
            self.input.write(data)
        except BrokenPipeError:
            self.output.end()
            raise

    async def send(self, data: bytes) -> None:
        """The same, and wait while much is unsent: nobody reads. Cancelled, it is still sent whole."""
        self.write(data)
        if len(data) > _SMALL:  # a note that a call is cancelled must not wait for a server that hangs
            await self.input.drain()

    async def gone(self, seconds: float) -> bool:
        """Whether it has ended, or does so within `seconds`."""
        if not self._exited.done():
            await asyncio.wait({self._exited}, timeout=seconds)
        return self._exited.done()

    async def stop(self, grace: float = EOF_GRACE) -> None:
        """End it and its group: end of file, then SIGTERM, then SIGKILL. Idempotent.

        Takes at most `grace` and two seconds. Cancelled, it kills at once.
        """
        if self._abandoned:
            return
        self.output.discard()
        self.input.close()
        steps = (None, grace), (signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, KILL_GRACE)
        try:
            for number, seconds in steps:
                if number is not None:
                    _signal(self.pid, number)
                if await self.gone(seconds):
                    break
        finally:
            self.kill()

    def kill(self) -> None:
        """End it and its group now, synchronously, whatever became of the event loop. Idempotent."""
        if self._abandoned:
            return
        if self._popen.returncode is None:
            self._reap()
        for end in (self.input, self.output, self.errors):
            end.close()
        if self._pidfd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if not self._loop.is_closed():
            self._settle()

    def abandon(self) -> None:
        """In a forked child: the server belongs to our parent; forget it."""
        self._abandoned = True
        for end in (self.input, self.output, self.errors):
            end.abandon()
        self._popen.returncode = 0

    def _watch(self) -> None:
        """Have `_on_exit` called: a child that inherited stdout keeps it open after the server died."""
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or a sandbox forbids it
            self._poll()
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def _poll(self) -> None:
        if self._popen.poll() is not None:
            self._on_exit()
        elif not self._exited.done():
            self._loop.call_later(0.1, self._poll)

    def _on_exit(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
        self.output.pull(last=True)
        self.errors.pull()
        self._reap()
        self.input.close()
        self._settle()

    def _reap(self) -> None:
        # The group goes first: as long as its leader is not reaped, the number cannot be reused.
        _signal(self.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=KILL_GRACE)
        GUARD.drop(self.pid)
        _LIVE.discard(self)

    def _settle(self) -> None:
        self.output.end()
        if not self._exited.done():
            self._exited.set_result(None)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


_LIVE: set[ServerProcess] = set()


def _kill_all() -> None:
    for process in list(_LIVE):
        process.kill()


def _abandon_all() -> None:
    for process in _LIVE:
        process.abandon()
    _LIVE.clear()
    GUARD.forget()


if POSIX:
    atexit.register(_kill_all)
    os.register_at_fork(after_in_child=_abandon_all)
