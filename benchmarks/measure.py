"""One measurement in a fresh process: `python -m benchmarks.measure SIDE WORKLOAD URL`.

Prints one JSON object. CPU is `time.process_time` of this process alone: the endpoint is another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from importlib import import_module
from math import inf
from typing import Any

from benchmarks import script
from benchmarks.side import Side, large, noop
from benchmarks.workloads import WORKLOADS, Bench, Figures

_COLD = """
import sys, time
start = time.process_time()
STATEMENT
print(time.process_time() - start, len(sys.modules))
from benchmarks.memory import peak_memory
print(peak_memory())
"""
_CONSTRUCT = "from MODULE import SIDE as Side\nside = Side(URL, max_turns=10)\n"
_FIRST = """
import asyncio
from MODULE import SIDE as Side
async def main():
    side = Side(URL, max_turns=10)
    await side.ask(PROMPT)
    await side.aclose()
asyncio.run(main())
"""
SIDES = {"floor": "HandWritten", "ours": "Ours"}
SDK_SIDES = {"floor": "HandWrittenOverSdk", "ours": "OursOverSdk"}
PEERS = "benchmarks.peers."


def place(kind: str, workload: str) -> tuple[str, str]:
    """The module and the class of a side; whoever is not ours is a peer."""
    sides = SDK_SIDES if workload == "sdk" else SIDES
    return (f"benchmarks.{kind}", sides[kind]) if kind in sides else (PEERS + kind, "Peer")


def _cold(statement: str) -> Figures:
    """What `statement` costs a new interpreter, its own start not counted."""
    code = _COLD.replace("STATEMENT", statement)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    cpu, modules, memory = map(float, done.stdout.split())
    return {"cpu": cpu, "modules": modules, "memory": memory}


def _of(kind: str, url: str, statement: str) -> str:
    module, side = place(kind, "")
    words = {"MODULE": module, "SIDE": side, "URL": repr(url), "PROMPT": repr(script.prompt(rounds=1))}
    for word, value in words.items():
        statement = statement.replace(word, value)
    return statement


def first_answer(kind: str, url: str) -> Figures:
    """From nothing to the end of the first run with a tool: all that is loaded late is in it."""
    return _cold(_of(kind, url, _FIRST))


def import_cost(kind: str, url: str) -> Figures:
    """What importing and constructing costs: of one side, or of `bare` asyncio."""
    if kind == "bare":
        return _cold("import asyncio")
    if kind in SIDES:
        return _cold(import_module(f"benchmarks.{kind}").COLD)
    return _cold(_of(kind, url, _CONSTRUCT))


def measure(kind: str, workload: str, url: str, quick: bool, seconds: float = inf) -> Figures:
    """The figures of one workload, in seconds and bytes."""
    if workload == "import":
        return import_cost(kind, url)
    if workload == "first":
        return first_answer(kind, url)
    module, name = place(kind, workload)

    async def run() -> Figures:
        function = large() if workload == "large" else noop
        side: Side = getattr(import_module(module), name)(url, max_turns=1000, function=function)
        try:
            return await WORKLOADS[workload](Bench(side, url, quick, seconds))
        finally:
            await side.aclose()

    return asyncio.run(run())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side")
    parser.add_argument("workload", choices=("import", "first", *WORKLOADS))
    parser.add_argument("url")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=inf)
    given: Any = parser.parse_args()
    print(json.dumps(measure(given.side, given.workload, given.url, given.quick, given.seconds)))


if __name__ == "__main__":
    main()
