"""Workflows of functions that do nothing: ours, a bare asyncio loop, and two packages.

`python -m benchmarks.flows [--peers] [--passes 5]` prints a table of CPU per node; every measurement is a
process of its own, the sides take turns. `--peers` adds langgraph and pydantic-graph, each in an
environment of its own in the cache of the user (needs a network). `--side NAME FLOW` is one measurement.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.beside import Runs, Suite


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


SUITE = Suite(
    module="benchmarks.flows",
    sizes={"line": 1_000, "fan": 2_000},
    labels={
        "line": "1,000 nodes in a line: CPU per node",
        "fan": "100 x 20 branches: CPU per branch",
    },
    sides={"bare": bare, "ours": ours},
    peers={"langgraph": "langgraph", "pydantic_graph": "pydantic-graph"},
    peers_module="benchmarks.flows_peers",
)


if __name__ == "__main__":
    sys.exit(SUITE.main(__doc__))
