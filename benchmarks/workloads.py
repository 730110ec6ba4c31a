"""What is measured, of whatever can do it: see `side`."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from statistics import mean, median
from typing import NamedTuple

from benchmarks import script
from benchmarks.endpoint import control
from benchmarks.memory import peak_memory
from benchmarks.side import Ask, Server, Side

Figures = dict[str, float]
FAULTS = script.Faults._fields


class Bench(NamedTuple):
    """What a workload needs."""

    side: Side
    url: str
    quick: bool = False
    """Small sizes."""
    seconds: float = inf
    """When no further repetition is begun."""

    def count(self, full: int) -> int:
        """How often to repeat, or how much to do."""
        return max(1, full // 20) if self.quick else full


class Job(NamedTuple):
    """Some runs that are started at once, under one plan."""

    run: Ask
    plan: script.Plan
    asks: int = 1

    async def __call__(self) -> int:
        """Do it; the tokens that the runs say they used. Raises when a run gave another text."""
        asks = [self.run(script.prompt(**self.plan)) for _ in range(self.asks)]
        results = await asyncio.gather(*asks) if self.asks > 1 else [await asks[0]]
        for text, _ in results:
            if text != script.final_text(self.plan):
                raise RuntimeError(f"the run ended with {text[:200]!r}")
        return sum(tokens for _, tokens in results)


async def _measure(bench: Bench, job: Job, *, times: int, warm: Job | None = None) -> Figures:
    """CPU and wall time of one repetition, and whether all that was sent is right."""
    job, warm = (each._replace(plan={**bench.side.plan, **each.plan}) for each in (job, warm or job))
    for _ in range(min(3, times)):
        await warm()
    gc.collect()
    control(bench.url, "reset")
    before, told, first = peak_memory(), 0, dict[str, int]()
    walls: list[float] = []
    cpus: list[float] = []
    while len(cpus) < times and (not cpus or sum(walls) < bench.seconds):
        wall, spent = time.perf_counter(), time.process_time()
        told += await job()
        cpus.append(time.process_time() - spent)
        walls.append(time.perf_counter() - wall)
        first = first or control(bench.url, "stats")
    stats = control(bench.url, "stats")
    due = job.asks * script.requests_needed(job.plan)
    return {
        "cpu": _middle(cpus),
        "wall": median(walls),
        "connections": first["connections"] / first["requests"],
        "in_flight": first["max_in_flight"],
        "memory": peak_memory() - before,
        "counted": told / stats["tokens"],
        "wrong_requests": abs(stats["requests"] - due * len(cpus)),
        "wrong_tokens": abs(stats["tokens"] - told),
        "wrong_results": sum(stats[name] for name in FAULTS),
    }


def _middle(values: Sequence[float]) -> float:
    """The median of the means of ten groups: garbage collection counts, a busy neighbour hardly."""
    size = max(1, len(values) // 10)
    return median([mean(values[i : i + size]) for i in range(0, len(values) - size + 1, size)])


async def turn(bench: Bench) -> Figures:
    """One request, one answer."""
    return await _measure(bench, Job(bench.side.ask, {"rounds": 0}), times=bench.count(400))


async def tools(bench: Bench) -> Figures:
    """Three rounds of eight parallel tools."""
    job = Job(bench.side.ask, {"rounds": 3, "calls": 8})
    return await _measure(bench, job, times=bench.count(100))


async def rounds(bench: Bench, count: int, ask: Ask | None = None) -> Figures:
    """A transcript that grows by one tool call per round; figures per round."""
    run = ask or bench.side.ask
    job, warm = Job(run, {"rounds": count}), Job(run, {"rounds": 10})
    figures = await _measure(bench, job, times=bench.count(max(2, 500 // count)), warm=warm)
    return figures | {"cpu": figures["cpu"] / count, "wall": figures["wall"] / count}


async def asks(bench: Bench) -> Figures:
    """Two hundred asks at once, three rounds of two tools each, at 50 ms."""
    plan = {"rounds": 3, "calls": 2, "delay": 0.05}
    job = Job(bench.side.ask, plan, asks=20 if bench.quick else 200)
    figures = await _measure(bench, job, times=bench.count(5), warm=Job(bench.side.ask, plan))
    return figures | {"ideal": figures["wall"] / 0.2, "cpu": figures["cpu"] / job.asks}


async def agents(bench: Bench, count: int, delay: float = 0.05, times: int = 5) -> Figures:
    """One parent, `count` sub-agents in one turn, two tool rounds each; CPU per sub-agent."""
    each = {**bench.side.plan, "rounds": 2}
    job = Job(bench.side.delegate, {"agents": count, "delay": delay, "each": {**each, "delay": delay}})
    warm = Job(bench.side.delegate, {"agents": 2, "each": each})
    figures = await _measure(bench, job, times=bench.count(times), warm=warm)
    per = {name: figures[name] / count for name in ("cpu", "memory")}
    return figures | per | {"ideal": figures["wall"] / (5 * delay)}


async def stream(bench: Bench, count: int, times: int) -> Figures:
    """Answers in `count` deltas, after a short one: CPU per delta, and seconds to the first."""
    cpus: list[float] = []
    firsts: list[float] = []
    control(bench.url, f"deltas/{count}")
    lost, began = 0, time.perf_counter()
    for deltas in (10, *[count] * times):
        if len(cpus) > 1 and time.perf_counter() - began > bench.seconds:
            break
        wall, cpu, pieces = time.perf_counter(), time.process_time(), list[str]()
        async for piece in bench.side.stream(script.prompt(**bench.side.plan, deltas=deltas)):
            if not pieces:
                firsts.append(time.perf_counter() - wall)
            pieces.append(piece)
        cpus.append(time.process_time() - cpu)
        lost += "".join(pieces) != "".join(script.pieces(deltas))
    return {"cpu": median(cpus[1:]) / count, "first": median(firsts[1:]), "wrong_results": lost}


async def deltas(bench: Bench) -> Figures:
    """A long answer in many deltas."""
    return await stream(bench, bench.count(20_000), bench.count(5))


async def first_delta(bench: Bench) -> Figures:
    """A short answer in ten deltas."""
    return await stream(bench, 10, bench.count(100))


async def large_result(bench: Bench) -> Figures:
    """One tool result of five megabytes; the side was made with such a tool."""
    plan = {"rounds": 1, "wrapped": True}
    return await _measure(
        bench, Job(bench.side.ask, plan), times=bench.count(5), warm=Job(bench.side.ask, {"rounds": 0})
    )


def _server(bench: Bench, tools: int) -> AbstractAsyncContextManager[Server]:
    return bench.side.mcp(sys.executable, ["-m", "benchmarks.many_tools", str(tools)])


async def mcp_calls(bench: Bench) -> Figures:
    """Calls of a tool of an MCP server over stdio, one after the other; CPU per call."""
    cpus: list[float] = []
    lost, group, began = 0, bench.count(100), time.perf_counter()
    async with _server(bench, 1) as server:
        while len(cpus) < 11 and (len(cpus) < 2 or time.perf_counter() - began < bench.seconds):
            cpu = time.process_time()
            results = [await server.call(x) for x in range(group)]
            cpus.append((time.process_time() - cpu) / group)
            lost += sum(f"tool0 {x}" not in str(result) for x, result in enumerate(results))
    return {"cpu": median(cpus[1:]), "wrong_results": lost}


async def mcp_listing(bench: Bench) -> Figures:
    """Connecting to an MCP server of 500 tools, until all of them can be called; our own processor time."""
    cpus: list[float] = []
    for _ in range(bench.count(10) + 1):
        cpu = time.process_time()
        async with _server(bench, bench.count(500)):
            cpus.append(time.process_time() - cpu)
    return {"cpu": median(cpus[1:])}


async def mcp_rounds(bench: Bench) -> Figures:
    """Ten rounds of one call each, while 500 tools of an MCP server are offered in every request."""
    async with _server(bench, bench.count(500)) as server:
        if server.ask is None:
            raise RuntimeError("nothing asks with the tools of a server here")
        return await rounds(bench, 10, server.ask)


WORKLOADS: dict[str, Callable[[Bench], Awaitable[Figures]]] = {
    "turn": turn,
    "tools": tools,
    "sdk": tools,
    "rounds10": partial(rounds, count=10),
    "rounds100": partial(rounds, count=100),
    "rounds500": partial(rounds, count=500),
    "asks": asks,
    "agents64": partial(agents, count=64),
    "agents256": partial(agents, count=256),
    "agents1000": partial(agents, count=1000, delay=0.2, times=2),
    "stream": deltas,
    "first_delta": first_delta,
    "large": large_result,
    "mcp_calls": mcp_calls,
    "mcp_listing": mcp_listing,
    "mcp_rounds": mcp_rounds,
}
