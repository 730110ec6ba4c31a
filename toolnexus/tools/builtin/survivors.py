"""What commands left running in the background, until their client closes."""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolnexus.runtime.context import ContextKey

if TYPE_CHECKING:
    from toolnexus.tools.builtin.output_file import Pump
    from toolnexus.tools.builtin.tree import Tree

_SECONDS = 1.0


class ProcessGroups:
    """Keeps the background processes of commands; one per client.

    While there are any, it looks once a second: those that ended are forgotten, those whose
    output grows too long are killed.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Tree, Pump]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False
        """Whether nothing may go on in the background any more."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, tree: Tree, pump: Pump) -> None:
        """Let `tree` live on as long as its output fits, and close `pump` when it has ended.

        Once closed, it is killed at once.
        """
        if self.closed:
            _end([(tree, pump)])
            return
        self._kept.append((tree, pump))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._look)

    def kill_all(self) -> None:
        """Kill every process that is left. Synchronous, needs no event loop, may be called twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kept, self._kept = self._kept, []
        _end(kept)

    def close(self) -> None:
        """Kill every process that is left, and from now on each that would be. Like `kill_all` else."""
        self.closed = True
        self.kill_all()

    def _look(self) -> None:
        from toolnexus.tools.builtin import process_table

        look = functools.cache(process_table.snapshot)
        for entry in list(self._kept):
            tree, pump = entry
            alive = tree.signal(signal.SIGKILL, look) if pump.full else tree.alive(look)
            if not alive:
                self._kept.remove(entry)
                pump.drain()
                pump.close()
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._look) if self._kept else None


PROCESSES: ContextKey[ProcessGroups] = ContextKey("processes")
"""Host value: where commands leave what goes on in the background. Without it nothing may."""


def _end(kept: Sequence[tuple[Tree, Pump]]) -> None:
    if not kept:
        return
    from toolnexus.tools.builtin.tree import kill

    kill([tree for tree, _ in kept])
    for _, pump in kept:
        pump.close()
