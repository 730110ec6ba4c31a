"""Our ends of a server's pipes, straight on `loop.add_reader`.

asyncio's subprocess transports cannot be cleaned up once their loop is gone, and cost more per
message.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from io import RawIOBase

_CHUNK = 1 << 16
_ROUNDS = 16
_MAX_LINE = 64 << 20
_QUEUE = 16 << 20
_UNSENT = 1 << 20
_TAIL = 4096


class _End:
    """One end of a pipe, not blocking."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: RawIOBase) -> None:
        self._loop = loop
        self._pipe = pipe
        self._fd = pipe.fileno()
        os.set_blocking(self._fd, False)

    @property
    def closed(self) -> bool:
        return self._pipe.closed

    def close(self) -> None:
        """Let go of it. Idempotent, and possible after the loop has gone."""
        if not self._pipe.closed:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
                self._loop.remove_writer(self._fd)
            self._pipe.close()

    def abandon(self) -> None:
        """In a forked child: close our copy, and leave the loop of the parent alone."""
        self._pipe.close()

    def _read(self) -> bytes | None:
        """Some bytes; none at the end; None when there is nothing yet."""
        try:
            return os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""


class Lines(_End):
    """What comes out of a pipe, line by line. Reading stops while too much is waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: RawIOBase) -> None:
        super().__init__(loop, pipe)
        self.fault: str | None = None
        """What was wrong, when it had to be cut off."""
        self._lines: deque[bytes] = deque()
        self._queued = 0
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self._ended = False
        self._discarding = False
        loop.add_reader(self._fd, self.pull)

    async def next(self) -> bytes:
        """The next line, without its newline. Raises `EOFError` when there will be none."""
        while not self._lines:
            if self._ended:
                raise EOFError
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        line = self._lines.popleft()
        self._queued -= len(line)
        if self._paused and self._queued < _QUEUE // 2:
            self._resume()
        return line

    def pull(self, *, last: bool = False) -> None:
        """Read what is there. `last`: whatever is waiting already."""
        for _ in range(_ROUNDS):
            data = None if self.closed else self._read()
            if data is None:
                return
            if not data:
                self.close()
                self.end()
                return
            if not self._discarding:
                self._take(data)
            if self._paused and not last:
                return

    def discard(self) -> None:
        """Nobody wants the rest: read on, so that the writer never blocks, but keep nothing."""
        self._discarding = True
        self._lines.clear()
        self._partial.clear()
        if self._paused:
            self._resume()

    def end(self) -> None:
        """No more lines after those that are waiting."""
        self._ended = True
        self._wake()

    def _take(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._partial, lines[0]))
            self._partial, self._partial_size = [], 0
            self._lines.extend(lines)
            self._queued += sum(map(len, lines))
            self._wake()
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)
        if self._partial_size > _MAX_LINE:
            self.fault = f"it wrote more than {_MAX_LINE >> 20} MiB without a newline"
            self.discard()
            self.end()
        elif self._queued > _QUEUE and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def _resume(self) -> None:
        self._paused = False
        if not self.closed:
            self._loop.add_reader(self._fd, self.pull)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Tail(_End):
    """The last few kilobytes of what comes out of a pipe; it is never left to fill up."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: RawIOBase) -> None:
        super().__init__(loop, pipe)
        self._kept = b""
        loop.add_reader(self._fd, self.pull)

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace").strip()

    def pull(self) -> None:
        """Read what is there."""
        data = None if self.closed else self._read()
        if data:
            self._kept = (self._kept + data)[-_TAIL:]
        elif data is not None:
            self.close()


class Sink(_End):
    """What goes into a pipe: each piece whole and in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: RawIOBase) -> None:
        super().__init__(loop, pipe)
        self._unsent = bytearray()
        self._room = asyncio.Event()
        self._room.set()

    def write(self, data: bytes) -> None:
        """Send `data` now or as soon as there is room. Raises `BrokenPipeError`."""
        if self.closed:
            raise BrokenPipeError("its stdin is closed")
        sent = 0 if self._unsent else self._send(data)
        if sent < len(data):
            if not self._unsent:
                self._loop.add_writer(self._fd, self._flush)
            self._unsent += data[sent:]
            if len(self._unsent) > _UNSENT:
                self._room.clear()

    async def drain(self) -> None:
        """Wait while too much is unsent: nobody reads at the other end."""
        if not self._room.is_set():
            await self._room.wait()

    def close(self) -> None:
        self._unsent.clear()
        if not self._loop.is_closed():
            self._room.set()
        super().close()

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.close()
            raise BrokenPipeError("it does not read its stdin any more") from None

    def _flush(self) -> None:
        try:
            del self._unsent[: self._send(self._unsent)]
        except BrokenPipeError:
            return
        if not self._unsent:
            self._loop.remove_writer(self._fd)
        if len(self._unsent) <= _UNSENT // 2:
            self._room.set()
