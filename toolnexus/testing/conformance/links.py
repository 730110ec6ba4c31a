"""Ways to a driver: a process of its own, or this package's own driver beside us. Both carry JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections import deque
from contextlib import suppress
from typing import Any, Protocol

from toolnexus.testing.conformance.driver import Driver
from toolnexus.testing.conformance.fixture import Data

LONGEST = 16 << 20
"""Bytes of one line, at most."""
GRACE = 2.0
"""Seconds that a driver has to end by itself, once its input is closed."""
SHOWN = 300


class LinkError(Exception):
    """The driver is gone, or writes what is no message."""


class Link(Protocol):
    """A conversation with one driver."""

    async def send(self, message: Data) -> None:
        """Raises `LinkError` when nobody reads any more."""
        ...

    async def receive(self) -> Data:
        """The driver's next message. Raises `LinkError`."""
        ...

    async def aclose(self, *, at_once: bool = False) -> None:
        """End the driver, `at_once` without giving it time. Leaves nothing behind."""
        ...


class ProcessLink:
    """A driver that runs as a program, in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr: deque[str] = deque(maxlen=5)
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: list[str]) -> ProcessLink:
        """Raises `OSError` when there is no such program."""
        pipe = subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=LONGEST, start_new_session=True
            )
        )

    async def send(self, message: Data) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise LinkError(await self._gone()) from error

    async def receive(self) -> Data:
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
        except ValueError as error:
            raise LinkError(f"the driver wrote a line of more than {LONGEST} bytes") from error
        if not line.endswith(b"\n"):
            raise LinkError(await self._gone())
        return read(line)

    async def aclose(self, *, at_once: bool = False) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not at_once:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._process.wait()
        self._listener.cancel()
        await asyncio.wait([self._listener])
        transport: Any = getattr(self._process, "_transport")  # noqa: B009
        transport.close()  # also of pipes that somebody else holds open

    async def _gone(self) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._process.wait()
                await asyncio.shield(self._listener)
        code = self._process.returncode
        how = "closed its output" if code is None else f"ended with code {code}"
        return "; ".join([f"the driver {how}", *self._stderr])

    async def _listen(self) -> None:
        """Keep the last that it complains of; a pipe that nobody reads would stop it."""
        assert self._process.stderr is not None
        while block := await self._process.stderr.read(1 << 16):
            lines = block.decode(errors="replace").splitlines()
            self._stderr.extend([_short(line.strip()) for line in lines if line.strip()])


class OwnLink:
    """This package's own driver, without a process: the same lines over two queues."""

    def __init__(self) -> None:
        self._to: asyncio.Queue[str | None] = asyncio.Queue()
        self._back: asyncio.Queue[str | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._serve())

    async def send(self, message: Data) -> None:
        self._to.put_nowait(json.dumps(message))

    async def receive(self) -> Data:
        line = await self._back.get()
        if line is None:
            raise LinkError(f"the driver ended: {self._task.exception()!r}")
        return read(line)

    async def aclose(self, *, at_once: bool = False) -> None:
        if at_once:
            self._task.cancel()
        self._to.put_nowait(None)
        await asyncio.wait([self._task], timeout=GRACE)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _serve(self) -> None:
        try:
            await Driver(self._to.get, self._back.put_nowait).serve()
        finally:
            self._back.put_nowait(None)


def read(line: str | bytes) -> Data:
    """The message that `line` is. Raises `LinkError`."""
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        text = line if isinstance(line, str) else line.decode(errors="replace")
        raise LinkError(f"the driver wrote what is no message: {_short(text.rstrip())}")
    return message  # pyright: ignore[reportUnknownVariableType]


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
