"""Child processes that are started when needed, used one execution at a time, and never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from toolnexus.graph.scripts.messages import MOST_BYTES
from toolnexus.graph.scripts.runtime import ScriptFailure
from toolnexus.runtime.slots import Slots
from toolnexus.tools.builtin.process import Process, turn_to_start

PROGRAM = Path(__file__).with_name("worker.py")
_CHUNK = 1 << 16
_LARGE = 1 << 20
_LONGEST_START = 60
_PAUSE = 0.001
_MOST_NESTED = 8


class ChildEnded(Exception):
    """The child is no more, or said what no child says."""


class Child:
    """One child process, and lines of JSON to and from it. Any event loop may use it, one at a time."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._socket, theirs = socket.socketpair()
        lifeline, ours = os.pipe()
        try:
            self.process = Process(
                [sys.executable, "-I", "-S", str(PROGRAM), json.dumps({**settings, "lifeline": lifeline})],
                cwd="/",
                input=theirs.fileno(),
                output=theirs.fileno(),
                errors=subprocess.DEVNULL,
                env={},
                open_files=(lifeline,),
            )
        except BaseException:
            self._socket.close()
            os.close(ours)
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        self._socket.setblocking(False)
        self._buffer = bytearray()
        self._seen = 0
        self.idle = False
        """Whether it waits for work: a child that was left in the middle of some cannot be used again."""
        self._kill = weakref.finalize(self, _kill, self.process, self._socket, ours, os.getpid())

    @property
    def usable(self) -> bool:
        return self.idle and self._kill.alive and not self.process.exited()

    async def send(self, line: bytes) -> None:
        """Raises `ChildEnded`."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, line + b"\n")
        except OSError as error:
            raise ChildEnded from error

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises `ChildEnded`."""
        while (end := self._buffer.find(b"\n", self._seen)) < 0:
            self._seen = len(self._buffer)
            if self._seen > MOST_BYTES + _CHUNK:
                raise ChildEnded
            try:
                data = await asyncio.get_running_loop().sock_recv(self._socket, _CHUNK)
            except OSError as error:
                raise ChildEnded from error
            if not data:
                raise ChildEnded
            self._buffer += data
        line = self._buffer[:end]
        del self._buffer[: end + 1]
        self._seen = 0
        large = end > _LARGE  # then others have their turn before and after it is read
        if large:
            await asyncio.sleep(0)
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ChildEnded from error
        if large:
            await asyncio.sleep(0)
        if not isinstance(message, dict):
            raise ChildEnded
        return cast("dict[str, Any]", message)

    async def end(self) -> None:
        """Kill it, wait until it is gone, and free what it took."""
        self.process.kill()
        await self.gone()
        self._kill()

    async def gone(self) -> int:
        """Wait until it has ended: its exit code, negative for a signal."""
        while not self.process.exited():  # noqa: ASYNC110 (there is no event for it on every system)
            await asyncio.sleep(_PAUSE)
        return self.process.reap()


def _kill(process: Process, ours: socket.socket, lifeline: int, owner: int) -> None:
    ours.close()
    os.close(lifeline)
    if os.getpid() == owner:  # not in a fork, which has a copy of everything
        process.kill()
        process.reap()


def _not_started(why: object) -> ScriptFailure:
    return ScriptFailure("not_available", f"a child process for scripts did not start: {why}")


class _Children:
    """The children of one pool in one event loop."""

    def __init__(self, size: int) -> None:
        self.slots = Slots(size)
        self.idle: list[Child] = []
        self.busy: set[Child] = set()


class _Call:
    """A host call. What is started from it must not wait for the script that waits for it."""

    def __init__(self, children: _Children) -> None:
        self.children = children
        self.slots = Slots(children.slots.width)
        self.open = True


# The host calls that we are inside of, the innermost last.
_calls: ContextVar[tuple[_Call, ...]] = ContextVar("_calls", default=())


class Pool:
    """At most `size` children at work in an event loop, and as many below each host call of a script."""

    def __init__(self, size: int, settings: Mapping[str, Any]) -> None:
        self._size = size
        self._settings = settings
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Children]
        self._loops = weakref.WeakKeyDictionary()
        self.closed = False

    @asynccontextmanager
    async def child(self) -> AsyncGenerator[Child]:
        """A child for one execution. Raises `ScriptFailure` when the pool is closed."""
        mine = self._mine()
        above = [call for call in _calls.get() if call.open and call.children is mine]
        if len(above) >= _MOST_NESTED:
            raise ScriptFailure("not_available", f"scripts wait for scripts {_MOST_NESTED} deep at most")
        slots = above[-1].slots if above else mine.slots
        await slots.acquire()
        try:
            child = await self._take(mine)
            try:
                yield child
            finally:
                await self._give_back(mine, child)
        finally:
            slots.release()

    def _mine(self) -> _Children:
        loop = asyncio.get_running_loop()
        mine = self._loops.get(loop)
        if mine is None:
            mine = self._loops[loop] = _Children(self._size)
        return mine

    async def _take(self, mine: _Children) -> Child:
        while mine.idle:
            child = mine.idle.pop()
            mine.busy.add(child)
            if child.usable:
                return child
            await self._give_back(mine, child)
        await turn_to_start()
        if self.closed:
            raise ScriptFailure("not_available", "the script runtime is closed")
        try:
            child = Child(self._settings)
        except OSError as error:
            raise _not_started(error) from error
        mine.busy.add(child)
        try:
            await self._ready(child)
        finally:
            if not child.idle:
                await self._give_back(mine, child)
        return child

    async def _ready(self, child: Child) -> None:
        try:
            async with asyncio.timeout(_LONGEST_START):  # its own start is no part of the time of a script
                problem = (await child.receive()).get("ready")
        except (ChildEnded, TimeoutError) as error:
            raise _not_started("it ended, or said nothing") from error
        if problem is not None:
            raise _not_started(problem)
        child.idle = True

    async def _give_back(self, mine: _Children, child: Child) -> None:
        mine.busy.discard(child)
        if child.usable and not self.closed and len(mine.idle) < self._size:
            mine.idle.append(child)
        else:
            await child.end()

    @contextmanager
    def host_call(self) -> Generator[None]:
        """Around a host call of a script of this pool."""
        call = _Call(self._mine())
        before = _calls.set((*_calls.get(), call))
        try:
            yield
        finally:
            call.open = False
            _calls.reset(before)

    async def close(self) -> None:
        """End every child, also those at work."""
        self.closed = True
        for mine in list(self._loops.values()):
            idle, busy = mine.idle, [*mine.busy]
            mine.idle = []
            for child in busy:  # whoever waits for it finds it ended, and frees the rest
                child.process.kill()
            for child in idle:
                await child.end()
            for child in busy:
                await child.gone()
