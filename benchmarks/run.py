"""Our figures beside a hand-written loop, in one Markdown table.

`python -m benchmarks.run [--quick] [--only turn,tools] [--passes 5] [--json out.json]`

Every measurement is a process of its own; the sides take turns (A B, B A, A B, …). Each figure is the
median of all passes, and each ratio the median of the ratios within a pass, because the two
measurements of one pass are seconds apart. Only the ratios of one run mean something.
Ends with status 1 when a result was lost or tokens were miscounted, never because something was slow.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.workloads import WORKLOADS as WORKS

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 300

Figures = dict[str, float]
Passes = dict[str, dict[str, list[Figures]]]
"""Workload, then side, then one set of figures per pass."""

WORKLOADS: dict[str, tuple[str, ...]] = {
    "import": ("bare", "floor", "ours"),
    **dict.fromkeys(("first", *WORKS), ("floor", "ours")),
}
AGAIN = 3
"""A short workload is measured so often in a pass: a neighbour that is busy for a second spoils it wholly."""
LONG = {"rounds10", "rounds100", "rounds500", "asks", "agents256", "agents1000", "stream", "large"}
UNITS = {"ms": 1e3, "µs": 1e6, "KB": 1 / 1024, "MB": 1 / 1024**2, "": 1.0}


class Row(NamedTuple):
    """One line of the table: a figure of a workload, beside that of another side."""

    label: str
    workload: str
    figure: str
    unit: str
    goal: float | None = None
    """The highest ratio that we want, or with `absolute` the highest value."""
    absolute: bool = False
    beside: str = "floor"


ROWS = (
    Row("import and construct: CPU, beside `import asyncio`", "import", "cpu", "ms", 1.6, beside="bare"),
    Row("import and construct: CPU, beside `import aiohttp`", "import", "cpu", "ms"),
    Row("import and construct: memory", "import", "memory", "MB", 28.0, absolute=True, beside="bare"),
    Row("a new process to its first answer with a tool: CPU", "first", "cpu", "ms"),
    Row("a new process to its first answer with a tool: memory", "first", "memory", "MB"),
    Row("one turn: CPU", "turn", "cpu", "µs", 1.5),
    Row("3 rounds of 8 parallel tools: CPU", "tools", "cpu", "µs", 1.3),
    Row("10 rounds: CPU per round", "rounds10", "cpu", "µs"),
    Row("100 rounds: CPU per round", "rounds100", "cpu", "µs"),
    Row("500 rounds: CPU per round", "rounds500", "cpu", "µs"),
    Row("CPU per round at 500 rounds over that at 10", "growth", "cpu", "", 1.5, absolute=True),
    Row("200 asks at once: CPU per ask", "asks", "cpu", "µs", 1.4),
    Row("200 asks at once, 50 ms: wall over ideal", "asks", "ideal", "", 3.0, absolute=True),
    Row("64 sub-agents, 50 ms: wall over ideal", "agents64", "ideal", "", 1.5, absolute=True),
    Row("64 sub-agents: CPU per sub-agent", "agents64", "cpu", "µs", 1.5),
    Row("256 sub-agents, 50 ms: wall over ideal", "agents256", "ideal", "", 2.5, absolute=True),
    Row("256 sub-agents: CPU per sub-agent", "agents256", "cpu", "µs", 1.5),
    Row("256 sub-agents: memory per sub-agent", "agents256", "memory", "KB", 26.0, absolute=True),
    Row("256 sub-agents: connections per request", "agents256", "connections", "", 0.35, absolute=True),
    Row("1,000 sub-agents, 200 ms: wall over ideal", "agents1000", "ideal", "", 3.0, absolute=True),
    Row("20,000 deltas: CPU per delta", "stream", "cpu", "µs", 1.5),
    Row("10 deltas: time to the first", "first_delta", "first", "µs", 1.5),
    Row("a result of 5 MB: CPU", "large", "cpu", "ms", 1.3),
    Row("a result of 5 MB: memory", "large", "memory", "MB", 15.0, absolute=True),
    Row("MCP: CPU per call, beside the official session", "mcp_calls", "cpu", "µs", 1.1),
    Row("MCP: listing 500 tools, beside the official session: CPU", "mcp_listing", "cpu", "ms", 1.2),
    Row("MCP: a round with 500 tools: CPU", "mcp_rounds", "cpu", "µs", 1.5),
    Row("over the OpenAI SDK, 3 rounds of 8 parallel tools: CPU", "sdk", "cpu", "µs", 1.15),
)


@contextmanager
def endpoint() -> Generator[str]:
    """The address of an endpoint in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.endpoint"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@contextmanager
def environment() -> Generator[dict[str, str]]:
    """Variables that make processes comparable: no proxy, and byte code that is kept for the next one."""
    plain = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    plain.pop("PYTHONDONTWRITEBYTECODE", None)
    with TemporaryDirectory(prefix="toolnexus-bench-") as folder:
        yield plain | {"PYTHONPYCACHEPREFIX": folder}


def measure(
    side: str,
    workload: str,
    url: str,
    env: Mapping[str, str],
    *options: str,
    python: str = sys.executable,
    folder: Path = ROOT,
    longest: float = LONGEST,
) -> Figures:
    """The figures of one measurement. Raises `RuntimeError` with what its process said when it failed."""
    command = [python, "-m", "benchmarks.measure", side, workload, url, *options]
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=longest)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{workload} of {side} took more than {longest:g} seconds") from None
    if done.returncode:
        raise RuntimeError(f"{workload} of {side} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_all(workloads: Sequence[str], passes: int, quick: bool) -> Passes:
    """All figures of all passes; who is first changes from pass to pass."""
    found: Passes = {name: {side: [] for side in WORKLOADS[name]} for name in workloads}
    options = ["--quick"] * quick
    with endpoint() as url, environment() as env:
        for name in ("import", "first"):  # whoever comes first compiles for all
            for side in WORKLOADS[name] if name in workloads else ():
                measure(side, name, url, env, *options)
        for at in range(passes):
            for name in workloads:
                print(f"pass {at + 1} of {passes}: {name}", file=sys.stderr, flush=True)
                for again in range(1 if quick or name in LONG else AGAIN):
                    sides = WORKLOADS[name]
                    for side in sides if (at + again) % 2 == 0 else reversed(sides):
                        found[name][side].append(measure(side, name, url, env, *options))
    return found


def with_growth(found: Passes) -> Passes:
    """`found`, and how much dearer a round is in a long transcript."""
    if not {"rounds10", "rounds500"} <= found.keys():
        return found
    growth = {
        side: [
            {"cpu": long["cpu"] / short["cpu"]}
            for long, short in zip(found["rounds500"][side], found["rounds10"][side], strict=True)
        ]
        for side in ("floor", "ours")
    }
    return {**found, "growth": growth}


def faults(found: Passes) -> list[str]:
    """What was lost, doubled or miscounted, in words."""
    return [
        f"{workload} of {side}: {name.replace('_', ' ')} {value:g}"
        for workload, sides in found.items()
        for side, passes in sides.items()
        for figures in passes
        for name, value in figures.items()
        if name.startswith("wrong_") and value
    ]


def summary(found: Passes) -> list[dict[str, Any]]:
    """One record per row of the table, for the workloads that were run."""
    out: list[dict[str, Any]] = []
    for row in ROWS:
        if row.workload not in found:
            continue
        sides = found[row.workload]
        theirs = [figures[row.figure] for figures in sides[row.beside]]
        ours = [figures[row.figure] for figures in sides["ours"]]
        base, value = median(theirs), median(ours)
        pairs = [b / a for a, b in zip(theirs, ours, strict=True) if a]
        ratio = median(pairs) if pairs else None
        judged = value * UNITS[row.unit] if row.absolute else ratio
        out.append(
            {
                "label": row.label,
                "unit": row.unit,
                "beside": base * UNITS[row.unit],
                "ours": value * UNITS[row.unit],
                "ratio": ratio,
                "range": [min(pairs), max(pairs)] if pairs else None,
                "goal": row.goal,
                "absolute": row.absolute,
                "reached": None if row.goal is None or judged is None else judged <= row.goal,
            }
        )
    return out


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The records as Markdown."""
    lines = ["| | hand-written | toolnexus | ratio (range) | goal | |", "|---|--:|--:|--:|--:|---|"]
    for row in rows:
        unit = f" {row['unit']}".rstrip()
        ratio = f"{row['ratio']:.2f} ({row['range'][0]:.2f}-{row['range'][1]:.2f})" if row["range"] else ""
        goal = "" if row["goal"] is None else f"≤ {row['goal']:g}{unit if row['absolute'] else ''}"
        reached = {None: "", True: "yes", False: "**no**"}[row["reached"]]
        ours, theirs = (f"{number(row[key])}{unit}" for key in ("ours", "beside"))
        lines.append(f"| {row['label']} | {theirs} | {ours} | {ratio} | {goal} | {reached} |")
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits, or all of them."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _chosen(only: str | None) -> list[str]:
    names = [name.strip() for name in only.split(",")] if only else list(WORKLOADS)
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        sys.exit(f"no workload is called {', '.join(unknown)}; there are: {', '.join(WORKLOADS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is its value."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description="Our figures beside a hand-written loop."
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one pass: does it work at all?")
    parser.add_argument("--only", metavar="NAMES", help=f"a comma list of {', '.join(WORKLOADS)}")
    parser.add_argument("--passes", type=int, metavar="N", help="how often to measure each (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    given = parser.parse_args(arguments)
    passes = given.passes or (1 if given.quick else 5)
    found = with_growth(run_all(_chosen(given.only), passes, given.quick))
    rows, wrong = summary(found), faults(found)
    where = f"Python {platform.python_version()}, {os.cpu_count()} cores, {passes} passes"
    print(f"{where}{', quick' if given.quick else ''}\n\n{table(rows)}")
    for fault in wrong:
        print(f"wrong: {fault}", file=sys.stderr)
    if given.json is not None:
        given.json.write_text(json.dumps({"where": where, "rows": rows, "passes": found}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
