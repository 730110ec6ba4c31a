"""All processes that one command started, found by group, by mark and by descent.

A process group is not enough: a daemon leaves it. On Linux the process table says more: who
descends from whom, and who has our mark in its environment. Elsewhere only the group is known.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Sequence

from toolnexus.tools.builtin import process_table
from toolnexus.tools.builtin.process_table import Row, Snapshot

_ROUNDS = 20
_PAUSE = 0.005


Look = Callable[[], Snapshot]
"""Looks at the process table. Trees that are looked at together can share one look."""


def kill(trees: Sequence[Tree]) -> None:
    """Kill all processes of `trees`, and those that are started meanwhile."""
    for _ in range(_ROUNDS):
        look = functools.cache(process_table.snapshot)
        trees = [tree for tree in trees if tree.signal(signal.SIGKILL, look)]
        if not trees:
            return
        time.sleep(_PAUSE)


class Tree:
    """The processes of one command, whose first one, `leader`, leads a session of its own.

    Everything here is synchronous and takes milliseconds; a process that drops its environment,
    leaves its session and loses its parent all at once is not found.

    `boxed`: the leader and its one child are the walls of a sandbox, not processes of the command.
    """

    def __init__(self, leader: int, mark: str, *, boxed: bool = False) -> None:
        self.leader = leader
        self._boxed = boxed
        self._mark = mark.encode()
        self._known: set[tuple[int, int]] = set()
        self._reaped = False
        first = process_table.find(leader, ended=True)
        self._since = first.started if first else 0

    def reaped(self) -> None:
        """The leader is reaped: its number may be given to somebody else from now on."""
        self._reaped = True

    def living(self, look: Look = process_table.snapshot) -> list[Row]:
        """Those that run now, without the leader once it has ended."""
        if not os.path.isdir(process_table.PROC):
            return self._group()
        now = look()
        young = {pid: row for pid, row in now.rows.items() if row.started >= self._since}
        ours = {pid for pid, row in young.items() if self._is_ours(row, now)}
        parents = ours if self._reaped else ours | {self.leader}
        while more := {pid for pid, row in young.items() if row.parent in parents and pid not in ours}:
            ours |= more
            parents = parents | more
        if self._boxed:
            ours = {pid for pid in ours if self.leader not in (pid, young[pid].parent)}
        self._known |= {(pid, young[pid].started) for pid in ours}
        return [young[pid] for pid in sorted(ours)]

    def alive(self, look: Look = process_table.snapshot) -> bool:
        """Whether any is left; cheap as long as one of those seen before is."""
        for pid, started in self._known:
            row = process_table.find(pid)
            if row is not None and row.started == started:
                return True
        return bool(self.living(look))

    def signal(self, number: int, look: Look = process_table.snapshot) -> bool:
        """Send a signal to all of them; false when there is none left."""
        rows = self.living(look)
        for row in rows:
            try:
                os.kill(row.pid, number)
            except (ProcessLookupError, PermissionError):
                pass
        return bool(rows)

    def kill(self) -> None:
        """Kill all of them, and those that are started meanwhile."""
        kill([self])

    def _is_ours(self, row: Row, now: Snapshot) -> bool:
        if (row.pid, row.started) in self._known:
            return True
        if not self._reaped and self.leader in (row.group, row.session):
            return True
        return self._mark in now.environment(row.pid)

    def _group(self) -> list[Row]:
        """What is known without a process table: whether the group has anybody in it."""
        try:
            os.killpg(self.leader, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [Row(-self.leader, 0, self.leader, self.leader, 0, "process group")]
