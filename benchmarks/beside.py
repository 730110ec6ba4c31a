"""The same work by several sides: each measurement in a process of its own, the sides by turns, medians, and
ratios within a pass to the bare asyncio loop."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median

from benchmarks.environments import python_with

ROOT = Path(__file__).resolve().parents[1]

Runs = Callable[[], Awaitable[int]]
Side = Callable[[str, AsyncExitStack], Runs]
"""Makes what runs one kind of work, and gives how many nodes ran."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What is measured.

    `module` is where its `main` is, `sizes` how many nodes each kind of work has, `labels` what the table
    calls it. `sides` are those in this interpreter, the bare loop first; `peers` those of `peers_module`,
    with what is installed for them.
    """

    module: str
    sizes: Mapping[str, int]
    labels: Mapping[str, str]
    sides: Mapping[str, Side]
    peers: Mapping[str, str]
    peers_module: str

    def measure(self, side: str, work: str, times: int) -> float:
        """CPU seconds per node, the best of `times` after one to warm up. Raises when a node was lost."""
        make: Side = self.sides.get(side) or getattr(import_module(self.peers_module), side)

        async def main() -> float:
            spent: list[float] = []
            async with AsyncExitStack() as stack:
                run = make(work, stack)
                for _ in range(times + 1):
                    begun = time.process_time()
                    found = await run()
                    spent.append(time.process_time() - begun)
                    if found != self.sizes[work]:
                        raise RuntimeError(f"{side} ran {found} nodes of {self.sizes[work]}")
            return min(spent[1:]) / self.sizes[work]

        return asyncio.run(main())

    def measured(self, python: str, side: str, work: str) -> float:
        """The same in a process of its own. Raises `RuntimeError` with what it said."""
        command = [python, "-m", self.module, "--side", side, work]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{work} of {side} failed:\n{done.stderr}")
        return float(done.stdout)

    def table(self, pythons: Mapping[str, str], passes: int) -> str:
        """Medians of all passes beside the bare loop; each ratio is the median of those within a pass."""
        found: dict[tuple[str, str], list[float]] = {}
        for number in range(passes):
            for work in self.sizes:
                for side in [*pythons] if number % 2 == 0 else reversed([*pythons]):
                    found.setdefault((work, side), []).append(self.measured(pythons[side], side, work))
        lines = ["| | " + " | ".join(pythons) + " |", "|---|" + "--:|" * len(pythons)]
        for work in self.sizes:
            base, cells = found[work, "bare"], list[str]()
            for side in pythons:
                values = found[work, side]
                ratio = median([value / least for value, least in zip(values, base, strict=True)])
                beside = f" ({ratio:.1f} x)" if side != "bare" else ""
                cells.append(f"{median(values) * 1e6:.2f} µs{beside}")
            lines.append(f"| {self.labels[work]} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def main(self, description: str | None, arguments: Sequence[str] | None = None) -> int:
        """The command line; the exit status is its value."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=description)
        parser.add_argument("--peers", action="store_true", help=f"{' and '.join(self.peers.values())}, too")
        parser.add_argument("--passes", type=int, default=5, metavar="N")
        parser.add_argument("--side", nargs=2, metavar=("NAME", "WORK"), help=argparse.SUPPRESS)
        given = parser.parse_args(arguments)
        if given.side is not None:
            print(self.measure(*given.side, times=5))
            return 0
        pythons = dict.fromkeys(self.sides, sys.executable)
        for side, package in self.peers.items() if given.peers else ():
            pythons[side] = python_with(side, [package])
        print(self.table(pythons, given.passes))
        return 0
