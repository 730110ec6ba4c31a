"""What commands left running in the background, until their client closes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from toolnexus.runtime.context import ContextKey
from toolnexus.tools.builtin.tree import Tree

_SECONDS = 1.0


class ProcessGroups:
    """Keeps the background processes of commands; one per client.

    While there are any, it looks once a second: those that ended are forgotten, those whose
    output grows too long are killed.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Tree, Path, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False
        """Whether nothing may go on in the background any more."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, tree: Tree, output: Path, largest: int) -> None:
        """Let `tree` live on as long as the file it writes to is not larger than `largest` bytes.

        Once closed, it is killed at once.
        """
        if self.closed:
            tree.kill()
            return
        self._kept.append((tree, output, largest))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._look)

    def kill_all(self) -> None:
        """Kill every process that is left. Synchronous, needs no event loop, may be called twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kept, self._kept = self._kept, []
        for tree, _, _ in kept:
            tree.kill()

    def close(self) -> None:
        """Kill every process that is left, and from now on each that would be. Like `kill_all` else."""
        self.closed = True
        self.kill_all()

    def _look(self) -> None:
        for entry in list(self._kept):
            tree, output, largest = entry
            if _size(output) > largest:
                tree.kill()
            if not tree.alive():
                self._kept.remove(entry)
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._look) if self._kept else None


PROCESSES: ContextKey[ProcessGroups] = ContextKey("processes")
"""Host value: where commands leave what goes on in the background. Without it nothing may."""


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
