"""Lines that somebody types, or that come through a pipe, without a thread."""

from __future__ import annotations

import asyncio
import os
from typing import TextIO


class LineReader:
    """Reads lines from the descriptor of `source`, so nothing else may read that one.

    Waiting happens on the event loop: a cancel ends it, and no blocked thread is left behind.
    """

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._buffer = b""
        self._ended = False

    @property
    def is_terminal(self) -> bool:
        return self._source.isatty()

    async def line(self) -> str | None:
        """The next line without its end; None when there is none."""
        while b"\n" not in self._buffer and not self._ended:
            await self._readable()
            data = os.read(self._source.fileno(), 1 << 16)
            if not data:
                self._ended = not self.is_terminal  # Ctrl-D ends only the line
                break
            self._buffer += data
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _readable(self) -> None:
        loop, fd = asyncio.get_running_loop(), self._source.fileno()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
        except OSError:
            return  # a plain file cannot be waited for, and never has to
        try:
            await ready
        finally:
            loop.remove_reader(fd)
