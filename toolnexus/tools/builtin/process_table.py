"""The processes of this machine, as Linux shows them in `/proc`."""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

PROC = "/proc"
_ENDED = (b"Z", b"X")
_KERNEL_THREAD = 0x00200000
_LOOKS = 3
_PAUSE = 0.002


class Row(NamedTuple):
    """One live process. `started` tells two processes with one number apart."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    name: str


class Snapshot:
    """All processes at one time."""

    def __init__(self) -> None:
        stats: dict[int, bytes | None] = {}
        for _ in range(_LOOKS):
            stats = {int(name): _read(name, "stat") for name in os.listdir(PROC) if name.isdigit()}
            if all(stats.values()):
                break  # else one vanished meanwhile, and may have left a child that was not listed
        self.rows = {pid: row for pid, stat in stats.items() if stat and (row := _row(pid, stat))}
        self._environments: dict[int, bytes] = {}

    def environment(self, pid: int) -> bytes:
        """The environment that a process was started with, `b""` when it may not be read."""
        known = self._environments.get(pid)
        if known is None:
            known = self._environments[pid] = _environment(pid)
        return known


_lock = threading.Lock()
_begun = 0
_latest: Snapshot | None = None


def snapshot() -> Snapshot:
    """A snapshot that was begun after this call. Threads that wait for one get the same.

    Each takes some milliseconds of Python, so many at once would keep the event loop waiting.
    """
    global _begun, _latest
    before = _begun
    with _lock:
        if _latest is None or _begun == before:
            _begun += 1
            _latest = Snapshot()
        return _latest


def find(pid: int, *, ended: bool = False) -> Row | None:
    """The process with a number now; with `ended` also one that waits to be reaped."""
    stat = _read(str(pid), "stat")
    return _row(pid, stat, ended=ended) if stat else None


def _row(pid: int, stat: bytes, *, ended: bool = False) -> Row | None:
    head, _, tail = stat.rpartition(b")")
    fields = tail.split()
    if (fields[0] in _ENDED and not ended) or int(fields[6]) & _KERNEL_THREAD:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return Row(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), name)


def _environment(pid: int) -> bytes:
    for _ in range(_LOOKS):
        found = _read(str(pid), "environ")
        if found or found is None:
            return found or b""
        time.sleep(_PAUSE)  # it is just being replaced by another program
    return b""


def _read(pid: str, what: str) -> bytes | None:
    try:
        with open(f"{PROC}/{pid}/{what}", "rb") as file:
            return file.read()
    except OSError:  # it has ended, or belongs to somebody else
        return None
