"""Where the output of a command goes: through a pipe into a file.

A pipe, so that a command that opens /dev/stdout or /dev/stderr anew does not cut what it wrote
before, and so that not one byte too many reaches the disk. Nobody ever waits for the end of the
pipe: a background child may hold it open for hours.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from pathlib import Path

from toolnexus.runtime.spill import Spill

_HEAD = 32_000
_TAIL = 16_000
_CHUNK = 65_536
_DRAINS = 32
"""Chunks that a pipe can hold at most, twice over."""


class Pump:
    """Moves what comes through `descriptor` to the end of a file, `largest` bytes at most.

    Works on the running event loop, and may outlive the descriptor `file` that it was given.
    """

    def __init__(self, file: int, largest: int) -> None:
        self._room = largest
        self._loop = asyncio.get_running_loop()
        self._file = os.dup(file)
        try:
            self._source, self.descriptor = os.pipe()
        except OSError:
            os.close(self._file)
            raise
        os.set_blocking(self._source, False)
        self._loop.add_reader(self._source, self._move)
        self.full = False
        """Whether more came than there was room for."""
        self.failure: str | None = None
        """Why the file could not be written; then `full` holds as well."""

    def started(self) -> None:
        """Whoever writes has `descriptor` now: let go of ours."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def drain(self) -> None:
        """Move what was written before now, and return."""
        for _ in range(_DRAINS):
            if not self._move():
                return

    def close(self) -> None:
        """Stop. Whoever still writes is told by the system. Needs no event loop, may be called twice."""
        self.started()
        if self._source >= 0:
            self._silence()
            os.close(self._source)
            os.close(self._file)
            self._source = -1

    def _move(self) -> bool:
        """Move one chunk; false when there was none."""
        if self._source < 0:
            return False
        try:
            data = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return False
        self._store(data)
        if not data or self.full:
            self._silence()
            return False
        return True

    def _store(self, data: bytes) -> None:
        taken = data[: self._room]
        self.full = self.full or len(taken) < len(data)
        self._room -= len(taken)
        try:
            while taken:
                taken = taken[os.write(self._file, taken) :]
        except OSError as error:
            self.full, self.failure = True, error.strerror

    def _silence(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._source)


class OutputFile:
    """A private temporary file, filled by its `pump`; it is removed on `close` unless it was kept."""

    def __init__(self, largest: int) -> None:
        self._path = Path(tempfile.gettempdir(), f"toolnexus-{secrets.token_hex(8)}.out")
        self.kept: Path | None = None
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(self._path, flags, 0o600)
        try:
            self.pump = Pump(self._file, largest)
        except BaseException:
            self.close()
            raise

    def size(self) -> int:
        """Bytes written so far."""
        return os.fstat(self._file).st_size

    def text(self, largest: int) -> str:
        """The output; of more than `largest` bytes only the head and the tail."""
        size = self.size()
        if size <= largest:
            return self._at(0, size)
        left_out = size - _HEAD - _TAIL
        return f"{self._at(0, _HEAD)}\n[… {left_out} bytes left out …]\n{self._at(size - _TAIL, _TAIL)}"

    def keep(self, spill: Spill) -> Path:
        """Move it to where `read` finds it, and say where. It is filled on."""
        if self.kept is None:
            self.kept = spill.write("")
            os.replace(self._path, self.kept)
        return self.kept

    def close(self) -> None:
        """Let go of the file. A pump that somebody else has taken goes on."""
        os.close(self._file)
        if self.kept is None:
            self._path.unlink(missing_ok=True)

    def _at(self, start: int, length: int) -> str:
        return os.pread(self._file, length, start).decode("utf-8", "replace")
