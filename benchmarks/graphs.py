"""Graphs whose nodes do nothing: ours, a bare asyncio loop, and two packages.

`python -m benchmarks.graphs [--peers] [--passes 5]` prints a table of CPU per node; every measurement is a
process of its own, the sides take turns. `kept` is ours with a host that takes every event and keeps a
checkpoint of every wave in memory. `--peers` adds langgraph and pydantic-graph, each in an environment
of its own in the cache of the user (needs a network). `--side NAME WORK` is one measurement.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from benchmarks.beside import Runs, Suite

if TYPE_CHECKING:
    from toolnexus.graph import Graph, Host

LONG, WIDE, ROUNDS = 1_000, 100, 20


async def step(value: int) -> int:
    """What every node does."""
    return value + 1


def bare(work: str, stack: AsyncExitStack) -> Runs:
    """A loop, and tasks."""

    async def line() -> int:
        value = 0
        while value < LONG:
            value = await step(value)
        return value

    async def fan() -> int:
        done = 0
        for _ in range(ROUNDS):
            done += sum(await asyncio.gather(*[step(0) for _ in range(WIDE)]))
            await step(done)
        return done

    return {"chain": line, "loop": line, "fan": fan}[work]


def document(work: str) -> dict[str, Any]:
    """The graph of a kind of work. `last` counts the rounds."""
    if work == "chain":
        ids = [f"n{n}" for n in range(LONG)]
        edges = [{"from": one, "to": other} for one, other in pairwise(ids)]
    elif work == "loop":
        ids = ["last"]
        edges = [{"from": "last", "to": "last", "condition": f"rounds < {LONG}"}]
    else:
        ids = ["first", *[f"n{n}" for n in range(WIDE)], "last"]
        edges = [{"from": "first", "to": id} for id in ids[1:-1]]
        edges += [{"from": id, "to": "last"} for id in ids[1:-1]]
        edges += [{"from": "last", "to": "first", "condition": f"rounds < {ROUNDS}"}]
    edges.append({"from": ids[-1], "to": "__end__"})
    nodes = [{"id": id, "type": "round" if id == "last" else "step"} for id in ids]
    return {"name": work, "entry": ids[0], "nodes": nodes, "edges": edges}


def _graph(work: str, ran: list[int]) -> Graph:
    from toolnexus import graph

    types = graph.Registry()

    @types.node_type("step")
    async def _step(ctx: graph.NodeContext, board: graph.Board, config: Any) -> None:
        ran[0] = await step(ran[0])

    @types.node_type("round")
    async def _round(ctx: graph.NodeContext, board: graph.Board, config: Any) -> None:
        board["rounds"] = await step(board.get("rounds", 0))

    options = graph.BuildOptions(max_iterations=0, parallel=graph.ParallelOptions(enabled=True))
    return graph.build(graph.GraphDefinition.from_data(document(work)), types, options)


def _runs(work: str, host: Host | None) -> Runs:
    ran = [0]
    graph = _graph(work, ran)

    async def run() -> int:
        ran[0] = 0
        board = await graph.run(host=host)
        if work == "loop":
            return board["rounds"]
        return ran[0] if work == "chain" else ran[0] - board["rounds"]  # the first of a round is no branch

    return run


def ours(work: str, stack: AsyncExitStack) -> Runs:
    """A graph by itself."""
    return _runs(work, None)


def kept(work: str, stack: AsyncExitStack) -> Runs:
    """A graph whose host takes everything."""
    from toolnexus import Usage, graph

    class Keeper:
        def __init__(self) -> None:
            self.store = graph.MemoryCheckpoints()
            self.events = 0

        async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
            self.events += 1

        async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
            return None

        async def checkpoint(self, checkpoint: graph.Checkpoint) -> None:
            await self.store.save(checkpoint)

        async def report_usage(self, usage: Usage) -> None:
            pass

        def poll_interrupt(self) -> graph.Interrupt | None:
            return None

    return _runs(work, Keeper())


SUITE = Suite(
    module="benchmarks.graphs",
    sizes={"chain": LONG, "loop": LONG, "fan": WIDE * ROUNDS},
    labels={
        "chain": "1,000 nodes in a line: CPU per node",
        "loop": "one node, 1,000 rounds, a condition: CPU per round",
        "fan": "100 branches and a join, 20 rounds: CPU per branch",
    },
    sides={"bare": bare, "ours": ours, "kept": kept},
    peers={"langgraph": "langgraph", "pydantic_graph": "pydantic-graph"},
    peers_module="benchmarks.graphs_peers",
)


if __name__ == "__main__":
    sys.exit(SUITE.main(__doc__))
