"""The file that a command writes its output to."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from toolnexus.runtime.spill import Spill

_HEAD = 32_000
_TAIL = 16_000


class OutputFile:
    """A private temporary file; it is removed on `close` unless it was kept."""

    def __init__(self) -> None:
        self._path = Path(tempfile.gettempdir(), f"toolnexus-{secrets.token_hex(8)}.out")
        # appending, so that a file that was cut grows on without a hole
        self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.kept: Path | None = None

    def size(self) -> int:
        """Bytes written so far."""
        return os.fstat(self.descriptor).st_size

    def text(self, largest: int) -> str:
        """The output; of more than `largest` bytes only the head and the tail."""
        size = self.size()
        if size <= largest:
            return self._at(0, size)
        left_out = size - _HEAD - _TAIL
        return f"{self._at(0, _HEAD)}\n[… {left_out} bytes left out …]\n{self._at(size - _TAIL, _TAIL)}"

    def keep(self, spill: Spill) -> Path:
        """Move it to where `read` finds it, and say where. Whoever has it open goes on writing."""
        if self.kept is None:
            self.kept = spill.write("")
            os.replace(self._path, self.kept)
        return self.kept

    def cut(self, largest: int) -> None:
        """Drop what is beyond `largest` bytes."""
        if self.size() > largest:
            os.ftruncate(self.descriptor, largest)

    def close(self) -> None:
        os.close(self.descriptor)
        if self.kept is None:
            self._path.unlink(missing_ok=True)

    def _at(self, start: int, length: int) -> str:
        return os.pread(self.descriptor, length, start).decode("utf-8", "replace")
