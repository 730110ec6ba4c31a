"""How time, processor time and memory grow with the size of the work, and that nothing is lost.

`python -m benchmarks.scale [--quick] [--only agents,store] [--passes 3]`

Each measurement is a process of its own, which does a little of the same work first. The growth is the
exponent between the smallest and the largest size: 1 is "twice as much work, twice as dear", 2 is
quadratic. Ends with status 1 when something was lost, never because something was slow.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.memory import peak_memory
from benchmarks.run import ROOT, endpoint, environment
from benchmarks.scale_works import WORKS

LONGEST = 300

Figures = dict[str, float]
FLAT = 1024**2
"""Less memory than that is no growth: pages, not objects."""


async def measure(work: str, size: int, url: str) -> Figures:
    """One piece of work in this process, after a small one: seconds, bytes, and what was lost."""
    job = WORKS[work]
    await job.run(url, job.quick)
    gc.collect()
    before = peak_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    done = await job.run(url, size)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"wall": wall, "cpu": cpu, "memory": peak_memory() - before, "lost": done.lost, **done.figures}


def measured(work: str, size: int, url: str, env: Mapping[str, str]) -> Figures:
    """The same in a process of its own. Raises `RuntimeError` with what it said."""
    command = [sys.executable, "-m", "benchmarks.scale", "--one", work, str(size), url]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONGEST)
    if done.returncode:
        raise RuntimeError(f"{work} at {size} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def run_all(works: Sequence[str], passes: int, quick: bool) -> dict[str, dict[int, list[Figures]]]:
    """Work, then size, then one set of figures per pass; the sizes take turns."""
    found: dict[str, dict[int, list[Figures]]] = {}
    with endpoint() as url, environment() as env:
        for number in range(passes):
            for work in works:
                sizes = (WORKS[work].quick,) if quick else WORKS[work].sizes
                for size in sizes if number % 2 == 0 else reversed(sizes):
                    print(f"pass {number + 1} of {passes}: {work} {size}", file=sys.stderr, flush=True)
                    by_size = found.setdefault(work, {})
                    by_size.setdefault(size, []).append(measured(work, size, url, env))
    return found


def growth(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """The exponent between the first and the last; None where there is nothing to compare."""
    if len(sizes) < 2 or min(values[0], values[-1]) <= 0:
        return None
    return math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0])


def table(found: Mapping[str, Mapping[int, Sequence[Figures]]]) -> str:
    """Medians of all passes as Markdown: a line for each size, the growth in the last of a kind."""
    lines = [
        "| | size | time | CPU | memory | growth: CPU | memory | lost |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for work, by_size in found.items():
        sizes = sorted(by_size)
        figures = {
            key: [median(f[key] for f in by_size[n]) for n in sizes] for key in ("wall", "cpu", "memory")
        }
        for at, size in enumerate(sizes):
            wall, cpu, memory = (figures[key][at] for key in ("wall", "cpu", "memory"))
            last = at == len(sizes) - 1
            grown = [growth(sizes, figures["cpu"]) if last else None]
            grown += [growth(sizes, figures["memory"]) if last and memory > FLAT else None]
            cells = ["" if value is None else f"{value:.2f}" for value in grown]
            if last and len(sizes) > 1 and not cells[1]:
                cells[1] = "flat"
            lines.append(
                f"| {'' if at else WORKS[work].label} | {size:,} | {wall * 1e3:,.0f} ms "
                f"| {cpu * 1e3:,.0f} ms | {memory / 1024**2:.1f} MB | {cells[0]} | {cells[1]} "
                f"| {sum(f['lost'] for f in by_size[size]):.0f} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is its value."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small size: does it work at all?")
    parser.add_argument("--only", metavar="NAMES", help=f"a comma list of {', '.join(WORKS)}")
    parser.add_argument("--passes", type=int, metavar="N", help="how often to measure each (default 3)")
    parser.add_argument("--one", nargs=3, metavar=("WORK", "SIZE", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one is not None:
        work, size, url = given.one
        print(json.dumps(asyncio.run(measure(work, int(size), url))))
        return 0
    works = given.only.split(",") if given.only else list(WORKS)
    if unknown := [name for name in works if name not in WORKS]:
        parser.error(f"no work is called {', '.join(unknown)}; there are: {', '.join(WORKS)}")
    found = run_all(works, given.passes or (1 if given.quick else 3), given.quick)
    print(table(found))
    lost = sum(f["lost"] for sizes in found.values() for figures in sizes.values() for f in figures)
    if lost:
        print(f"wrong: {lost:g} things were lost", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
