"""The folder where outputs too long for a model are kept whole."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Spill:
    """A private temporary folder, made at the first write and removed with its client."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._count = 0
        self._closed = False
        self._lock = threading.Lock()

    def write(self, content: str | bytes, suffix: str = ".txt") -> Path:
        """Keep `content` and say where. Blocking: call it from threads."""
        with self._lock:
            if self._closed:
                raise OSError("the client is closed")
            if self._folder is None:
                import tempfile
                from pathlib import Path

                self._folder = Path(tempfile.mkdtemp(prefix="toolnexus-")).resolve()
            self._count += 1
            path = self._folder / f"output-{self._count}{suffix}"
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return path

    @property
    def folder(self) -> Path | None:
        """The folder, links resolved; None while nothing is kept."""
        return self._folder

    def close(self) -> None:
        """Remove the folder and all in it; nothing is kept from now on."""
        with self._lock:
            self._closed = True
            folder, self._folder = self._folder, None
        if folder is not None:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)
