"""A long run of mixed work: whether memory grows, and whether anything is left behind.

`python -m benchmarks.soak [--minutes 30]`

Asks with tools, sub-agents and an MCP server, streams that are read and left, cancels, questions that are
answered later, graphs, all of it on one client with one SQLite store; the same over HTTP to an endpoint, and
calls of what the client serves, over MCP and A2A. Ends with status 1 when an answer is wrong,
when memory grows by more than 1 MB in ten minutes after a warm-up of a quarter of the time, or when more
files, tasks, threads or child processes are there at the end than at the start.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.soak_works import Tally, Works, works

BESIDE = 8
"""How much goes on at once."""
OF_THE_LOOP = "_shutdown_watcher"
"""The one task that sse-starlette keeps for each event loop that has served a stream."""
MOST = 1024**2
"""Bytes that memory may grow in ten minutes."""


class Left(NamedTuple):
    """What a process holds."""

    files: int
    tasks: int
    threads: int
    children: int


def left() -> Left:
    """What this process holds now."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    files = len(os.listdir("/proc/self/fd"))
    tasks = [t for t in asyncio.all_tasks() if getattr(t.get_coro(), "__name__", "") != OF_THE_LOOP]
    return Left(files, len(tasks), threading.active_count(), len(children))


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _worker(works: Works, name: str, until: float) -> None:
    """Each kind of work once, in an order that is the same in every soak, again and again."""
    random, kinds = Random(name), list(works.kinds)
    for n in count():
        conversation = f"{name}-{n}"
        for kind in random.sample(kinds, len(kinds)):
            await works.once(kind, conversation)
        await works.client.conversation(conversation).delete()  # a longer transcript is no leak
        if time.monotonic() >= until:
            return


async def soak(seconds: float, beside: int = BESIDE) -> tuple[Tally, list[tuple[float, int]], Left, Left]:
    """The work of so long, memory by time, and what the process held before and after."""
    before, begun = left(), time.monotonic()
    memory: list[tuple[float, int]] = []
    with TemporaryDirectory(prefix="toolnexus-soak-") as folder:
        async with works(Path(folder)) as going:
            workers = [asyncio.create_task(_worker(going, f"w{n}", begun + seconds)) for n in range(beside)]
            while not all(task.done() for task in workers):
                await asyncio.wait(workers, timeout=max(seconds / 60, 1))
                memory.append((time.monotonic() - begun, resident()))
            await asyncio.gather(*workers)
    return going.tally, memory, before, left()


def growth(memory: Sequence[tuple[float, int]]) -> float:
    """Bytes in ten minutes after the first quarter, by the line that fits best."""
    points = [(t, float(size)) for t, size in memory if t >= memory[-1][0] / 4]
    middle = sum(t for t, _ in points) / len(points), sum(size for _, size in points) / len(points)
    spread = sum((t - middle[0]) ** 2 for t, _ in points)
    return 600 * sum((t - middle[0]) * (size - middle[1]) for t, size in points) / spread if spread else 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is its value."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="N", help="how long (default 30)")
    given = parser.parse_args(arguments)
    asyncio.run(soak(0, 1))  # what is loaded and opened once is no growth
    tally, memory, before, after = asyncio.run(soak(given.minutes * 60))
    grown = growth(memory)
    print(f"done: {dict(tally.done)}")
    print(f"memory: {memory[0][1] / 1e6:.1f} MB, at the end {memory[-1][1] / 1e6:.1f} MB,", end=" ")
    print(f"{grown / 1024**2:+.2f} MB in ten minutes after the first quarter")
    print(f"before: {before}\nafter:  {after}")
    more = any(now > then for now, then in zip(after, before, strict=True))
    wrong = [*tally.wrong[:10], *([f"left behind: {after}, before {before}"] if more else [])]
    if grown > MOST:
        wrong.append(f"memory grows by {grown / 1024**2:.2f} MB in ten minutes")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
