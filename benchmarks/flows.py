"""Workflows of functions that do nothing: ours, a bare asyncio loop, and two packages.

`python -m benchmarks.flows [--peers] [--passes 5]` prints a table of CPU per node; every measurement is a
process of its own, the sides take turns. `--peers` adds langgraph and pydantic-graph, each in a virtual
environment of its own that is made for the occasion (needs a network). `--side NAME FLOW` is one measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
import venv
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FLOWS = {"line": 1_000, "fan": 2_000}
"""How many nodes run: 1,000 in a line; 100 branches of 20."""
PEERS = {"langgraph": "langgraph", "pydantic_graph": "pydantic-graph"}
LABELS = {"line": "1,000 nodes in a line: CPU per node", "fan": "100 x 20 branches: CPU per branch"}

Runs = Callable[[], Awaitable[int]]


async def step(value: int) -> int:
    """What every node does."""
    return value + 1


def bare(flow: str, stack: AsyncExitStack) -> Runs:
    """A loop, and tasks."""

    async def line() -> int:
        value = 0
        for _ in range(1_000):
            value = await step(value)
        return value

    async def twenty(values: Sequence[int]) -> Sequence[int]:
        return await asyncio.gather(*[step(value) for value in values])

    async def fan() -> int:
        return sum(map(sum, await asyncio.gather(*[twenty([0] * 20) for _ in range(100)])))

    return {"line": line, "fan": fan}[flow]


def ours(flow: str, stack: AsyncExitStack) -> Runs:
    """Nodes, under a client."""
    from toolnexus import Client, FunctionModel
    from toolnexus.workflow import FanOut, Fn, Node, Sequential

    client = Client(model=FunctionModel(lambda request: ""), builtins=False)
    stack.push_async_callback(client.aclose)
    nodes: list[Node[Any, Any]] = [Fn(step)] * 1_000
    tree: Node[Any, Any] = Sequential(*nodes) if flow == "line" else FanOut(FanOut(Fn(step)))
    input: Any = 0 if flow == "line" else [[0] * 20] * 100

    async def run() -> int:
        output = (await client.run(tree, input)).output
        return output if flow == "line" else sum(map(sum, output))

    return run


def side_of(name: str) -> Callable[[str, AsyncExitStack], Runs]:
    """What makes the workflows of a side."""
    if name in PEERS:
        from benchmarks import flows_peers

        return getattr(flows_peers, name)
    return {"bare": bare, "ours": ours}[name]


def measure(side: str, flow: str, times: int) -> float:
    """CPU seconds per node, the best of `times` after one to warm up. Raises when a node was lost."""

    async def main() -> float:
        spent: list[float] = []
        async with AsyncExitStack() as stack:
            run = side_of(side)(flow, stack)
            for _ in range(times + 1):
                begun = time.process_time()
                found = await run()
                spent.append(time.process_time() - begun)
                if found != FLOWS[flow]:
                    raise RuntimeError(f"{side} ran {found} nodes of {FLOWS[flow]}")
        return min(spent[1:]) / FLOWS[flow]

    return asyncio.run(main())


def measured(python: str, side: str, flow: str) -> float:
    """The same in a process of its own. Raises `RuntimeError` with what it said."""
    command = [python, "-m", "benchmarks.flows", "--side", side, flow]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{flow} of {side} failed:\n{done.stderr}")
    return float(done.stdout)


def table(pythons: dict[str, str], passes: int) -> str:
    """Medians of all passes beside the bare loop; each ratio is the median of those within a pass."""
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(passes):
        for flow in FLOWS:
            for side in [*pythons] if number % 2 == 0 else reversed([*pythons]):
                found.setdefault((flow, side), []).append(measured(pythons[side], side, flow))
    lines = ["| | " + " | ".join(pythons) + " |", "|---|" + "--:|" * len(pythons)]
    for flow in FLOWS:
        base, cells = found[flow, "bare"], list[str]()
        for side in pythons:
            values = found[flow, side]
            ratio = median([value / least for value, least in zip(values, base, strict=True)])
            cells.append(f"{median(values) * 1e6:.2f} µs" + (f" ({ratio:.1f} x)" if side != "bare" else ""))
        lines.append(f"| {LABELS[flow]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is its value."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flows", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="langgraph and pydantic-graph, too")
    parser.add_argument("--passes", type=int, default=5, metavar="N")
    parser.add_argument("--side", nargs=2, metavar=("NAME", "FLOW"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.side is not None:
        print(measure(*given.side, times=5))
        return 0
    pythons = {"bare": sys.executable, "ours": sys.executable}
    with TemporaryDirectory(prefix="toolnexus-bench-") as folder:
        for side, package in PEERS.items() if given.peers else ():
            home = Path(folder, side)
            venv.create(home, with_pip=True)
            pythons[side] = str(home / "bin" / "python")
            install = [pythons[side], "-m", "pip", "install", "-q", "--disable-pip-version-check", package]
            subprocess.run(install, check=True)
        print(table(pythons, given.passes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
