"""One measurement in a fresh process: `python -m benchmarks.measure SIDE WORKLOAD URL [--quick]`.

Prints one JSON object. CPU is `time.process_time` of this process alone: the endpoint is another.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from statistics import mean, median
from typing import Any, NamedTuple, Protocol

from benchmarks import script
from benchmarks.endpoint import control
from benchmarks.memory import peak_memory

Figures = dict[str, float]

FAULTS = script.Faults._fields

_COLD = """
import sys, time
start = time.process_time()
STATEMENT
print(time.process_time() - start, len(sys.modules))
from benchmarks.memory import peak_memory
print(peak_memory())
"""
_FIRST = """
import asyncio
from benchmarks.MODULE import SIDE as Side
async def main():
    side = Side(URL, max_turns=10)
    await side.ask(PROMPT)
    await side.aclose()
asyncio.run(main())
"""
SIDES = {"floor": "HandWritten", "ours": "Ours"}


class Side(Protocol):
    """One way to do the work."""

    async def ask(self, prompt: str) -> tuple[str, int]: ...
    async def delegate(self, prompt: str) -> tuple[str, int]: ...
    def stream(self, prompt: str) -> AsyncIterator[str]: ...
    async def aclose(self) -> None: ...


class Bench(NamedTuple):
    """What a workload needs."""

    side: Side
    url: str
    quick: bool

    def count(self, full: int) -> int:
        """How often to repeat."""
        return max(1, full // 20) if self.quick else full


class Job(NamedTuple):
    """Some runs that are started at once, under one plan."""

    run: Callable[[str], Awaitable[tuple[str, int]]]
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
    for _ in range(min(3, times)):
        await (warm or job)()
    gc.collect()
    control(bench.url, "reset")
    before, told, first = peak_memory(), 0, dict[str, int]()
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(times):
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
        "wrong_requests": abs(stats["requests"] - due * times),
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


async def rounds(bench: Bench, count: int) -> Figures:
    """A transcript that grows by one tool call per round; figures per round."""
    job, warm = Job(bench.side.ask, {"rounds": count}), Job(bench.side.ask, {"rounds": 10})
    figures = await _measure(bench, job, times=bench.count(max(2, 500 // count)), warm=warm)
    return figures | {"cpu": figures["cpu"] / count, "wall": figures["wall"] / count}


async def asks(bench: Bench) -> Figures:
    """Two hundred asks at once, three rounds of two tools each, at 50 ms."""
    plan = {"rounds": 3, "calls": 2, "delay": 0.05}
    job = Job(bench.side.ask, plan, asks=20 if bench.quick else 200)
    figures = await _measure(bench, job, times=bench.count(5), warm=Job(bench.side.ask, plan))
    return figures | {"ideal": figures["wall"] / 0.2, "cpu": figures["cpu"] / job.asks}


async def agents(bench: Bench, count: int) -> Figures:
    """One parent, `count` sub-agents in one turn, two tool rounds each, at 50 ms; CPU per sub-agent."""
    each = {"rounds": 2, "delay": 0.05}
    job = Job(bench.side.delegate, {"agents": count, "delay": 0.05, "each": each})
    warm = Job(bench.side.delegate, {"agents": 2, "each": {"rounds": 2}})
    figures = await _measure(bench, job, times=bench.count(5), warm=warm)
    per = {name: figures[name] / count for name in ("cpu", "memory")}
    return figures | per | {"ideal": figures["wall"] / 0.25}


async def stream(bench: Bench) -> Figures:
    """One answer in ten thousand deltas; CPU per delta."""
    count = 500 if bench.quick else 10_000
    prompt, whole = script.prompt(deltas=count), "".join(script.pieces(count))
    cpus: list[float] = []
    walls: list[float] = []
    lost = 0
    for _ in range(bench.count(5) + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        text = "".join([piece async for piece in bench.side.stream(prompt)])
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
        lost += text != whole
    return {"cpu": median(cpus[1:]) / count, "wall": median(walls[1:]), "wrong_results": lost}


WORKLOADS: dict[str, Callable[[Bench], Awaitable[Figures]]] = {
    "turn": turn,
    "tools": tools,
    "rounds10": partial(rounds, count=10),
    "rounds100": partial(rounds, count=100),
    "rounds500": partial(rounds, count=500),
    "asks": asks,
    "agents64": partial(agents, count=64),
    "agents256": partial(agents, count=256),
    "stream": stream,
}


def _cold(statement: str) -> Figures:
    """What `statement` costs a new interpreter, its own start not counted."""
    code = _COLD.replace("STATEMENT", statement)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    cpu, modules, memory = map(float, done.stdout.split())
    return {"cpu": cpu, "modules": modules, "memory": memory}


def first_answer(kind: str, url: str) -> Figures:
    """From nothing to the end of the first run with a tool: all that is loaded late is in it."""
    words = {"MODULE": kind, "SIDE": SIDES[kind], "URL": repr(url), "PROMPT": repr(script.prompt(rounds=1))}
    statement = _FIRST
    for word, value in words.items():
        statement = statement.replace(word, value)
    return _cold(statement)


def import_cost(kind: str) -> Figures:
    """What importing and constructing costs: of one side, or of `bare` asyncio."""
    return _cold("import asyncio" if kind == "bare" else import_module(f"benchmarks.{kind}").COLD)


def _side(kind: str, url: str) -> Side:
    return getattr(import_module(f"benchmarks.{kind}"), SIDES[kind])(url, max_turns=1000)


async def _warm(bench: Bench, name: str) -> Figures:
    try:
        return await WORKLOADS[name](bench)
    finally:
        await bench.side.aclose()


def measure(kind: str, workload: str, url: str, quick: bool) -> Figures:
    """The figures of one workload, in seconds and bytes."""
    if workload == "import":
        return import_cost(kind)
    if workload == "first":
        return first_answer(kind, url)

    async def run() -> Figures:
        return await _warm(Bench(_side(kind, url), url, quick), workload)

    return asyncio.run(run())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("floor", "ours", "bare"))
    parser.add_argument("workload", choices=("import", "first", *WORKLOADS))
    parser.add_argument("url")
    parser.add_argument("--quick", action="store_true")
    given: Any = parser.parse_args()
    print(json.dumps(measure(given.side, given.workload, given.url, given.quick)))


if __name__ == "__main__":
    main()
