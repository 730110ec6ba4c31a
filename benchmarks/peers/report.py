"""What was measured beside other packages, as a table, and whether the goals are reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from benchmarks.run import UNITS, Passes, faults, number

PORT = ("toolnexus_port",)
ON_SDK = ("agno", "agent_framework")


class Row(NamedTuple):
    """One line of the table."""

    label: str
    workload: str
    figure: str
    unit: str = ""


class Goal(NamedTuple):
    """The highest ratio of our figure to that of the best of some packages, or of all."""

    label: str
    workload: str
    beside: tuple[str, ...]
    limit: float
    figure: str = "cpu"


ROWS = (
    Row("import and construct: CPU", "import", "cpu", "ms"),
    Row("import and construct: memory", "import", "memory", "MB"),
    Row("one turn: CPU", "turn", "cpu", "ms"),
    Row("3 rounds of 8 parallel tools: CPU", "tools", "cpu", "ms"),
    Row("100 rounds: CPU per round", "rounds100", "cpu", "ms"),
    Row("200 asks at once: CPU per ask", "asks", "cpu", "ms"),
    Row("200 asks at once, 50 ms: wall over ideal", "asks", "ideal"),
    Row("64 sub-agents: CPU per sub-agent", "agents64", "cpu", "ms"),
    Row("64 sub-agents, 50 ms: wall over ideal", "agents64", "ideal"),
    Row("256 sub-agents: CPU per sub-agent", "agents256", "cpu", "ms"),
    Row("256 sub-agents, 50 ms: wall over ideal", "agents256", "ideal"),
    Row("256 sub-agents: memory per sub-agent", "agents256", "memory", "KB"),
    Row("256 sub-agents: most at the same time", "agents256", "in_flight"),
    Row("256 sub-agents: share of the tokens that is counted", "agents256", "counted"),
    Row("20,000 deltas: CPU per delta", "stream", "cpu", "µs"),
    Row("20,000 deltas: time to the first", "stream", "first", "ms"),
    Row("MCP: CPU per call", "mcp_calls", "cpu", "µs"),
    Row("a result of 5 MB: CPU", "large", "cpu", "ms"),
    Row("a result of 5 MB: memory", "large", "memory", "MB"),
)
PLAIN = ("ideal", "in_flight", "counted")
"""Figures that say enough without a ratio."""

GOALS = (
    Goal("import and construct", "import", PORT, 0.2),
    Goal("one turn", "turn", PORT, 0.5),
    Goal("one turn", "turn", ON_SDK, 0.2),
    Goal("3 rounds of 8 parallel tools", "tools", PORT, 0.55),
    Goal("3 rounds of 8 parallel tools", "tools", ON_SDK, 0.1),
    Goal("100 rounds", "rounds100", PORT, 0.7),
    Goal("100 rounds", "rounds100", ON_SDK, 0.03),
    Goal("200 asks at once", "asks", PORT, 0.5),
    Goal("64 sub-agents", "agents64", PORT, 0.5),
    Goal("256 sub-agents", "agents256", PORT, 0.5),
    Goal("20,000 deltas", "stream", (), 0.08),
)


@dataclass
class Results:
    """The figures, and what went wrong instead, of every side; `names` are those of the columns."""

    names: dict[str, str]
    passes: Passes = field(default_factory=dict[str, Any])
    failed: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Side, then workload (or `install`), then the reason."""

    @property
    def passes_begun(self) -> int:
        """How often whatever was measured most often was."""
        return max((len(figures) for sides in self.passes.values() for figures in sides.values()), default=0)

    def figures(self, workload: str, side: str) -> list[dict[str, float]]:
        """Those of each pass, from the first on."""
        return self.passes.get(workload, {}).get(side, [])

    def goals(self) -> list[dict[str, Any]]:
        """One record per goal whose workload was measured."""
        out: list[dict[str, Any]] = []
        for goal in GOALS:
            ours = [f[goal.figure] for f in self.figures(goal.workload, "ours")]
            beside = goal.beside or tuple(side for side in self.names if side not in ("floor", "ours"))
            each = [[f[goal.figure] for f in self.figures(goal.workload, side)] for side in beside]
            pairs = [
                mine / min(theirs[at] for theirs in each if len(theirs) > at)
                for at, mine in enumerate(ours)
                if any(len(theirs) > at for theirs in each)
            ]
            if ours:
                ratio = median(pairs) if pairs else None
                reached = None if ratio is None else ratio <= goal.limit
                spread = [min(pairs), max(pairs)] if pairs else None
                out.append(goal._asdict() | {"ratio": ratio, "range": spread, "reached": reached})
        return out

    def faults(self, side: str) -> list[str]:
        """What a side failed at, lost or miscounted, in words."""
        words = [f"{work}: {reason}" for work, reason in self.failed.get(side, {}).items()]
        for workload, sides in self.passes.items():
            passes = sides.get(side, [])
            for what, told in (
                ("wrong_results", "{:g} results were lost, doubled or wrong"),
                ("wrong_requests", "{:g} requests more or fewer than the work takes"),
            ):
                if most := max((figures.get(what, 0) for figures in passes), default=0):
                    words.append(f"{workload}: {told.format(most)}")
            least = min((figures.get("counted", 1) for figures in passes), default=1)
            if any(figures.get("wrong_tokens", 0) for figures in passes):
                words.append(f"{workload}: {least:.0%} of the tokens are counted")
        return words

    def wrong(self) -> list[str]:
        """What must not be, of ours and of the hand-written loop."""
        mine = {
            name: {s: f for s, f in by.items() if s in ("floor", "ours")} for name, by in self.passes.items()
        }
        failed = [
            f"{side}: {why}" for side in ("floor", "ours") for why in self.failed.get(side, {}).values()
        ]
        return failed + faults(mine)


def markdown(results: Results) -> str:
    """Medians with the ratios to ours, the goals, and what was lost."""
    parts = [_table(results), _goals(results.goals())]
    told = {side: results.faults(side) for side in results.names}
    parts.append(
        "\n".join([f"* {results.names[side]}: {'; '.join(why)}" for side, why in told.items() if why])
    )
    return "\n\n".join(filter(None, parts))


def _table(results: Results) -> str:
    lines = ["| | " + " | ".join(results.names.values()) + " |", "|---|" + "--:|" * len(results.names)]
    for row in ROWS:
        if row.workload in results.passes:
            cells = [_cell(row, results.figures(row.workload, side), results, side) for side in results.names]
            lines.append(f"| {row.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Row, figures: Sequence[Mapping[str, float]], results: Results, side: str) -> str:
    if not figures:
        return "failed" if {row.workload, "install"} & results.failed.get(side, {}).keys() else ""
    value = f"{number(median([f[row.figure] for f in figures]) * UNITS[row.unit])} {row.unit}".rstrip()
    ours = results.figures(row.workload, "ours")
    pairs = [f[row.figure] / o[row.figure] for f, o in zip(figures, ours, strict=False) if o[row.figure]]
    plain = side == "ours" or row.figure in PLAIN or not pairs
    return value if plain else f"{value} ({number(median(pairs))} x)"


def _goals(goals: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| our CPU over that of | | ratio (range) | goal | |", "|---|---|--:|--:|---|"]
    for goal in goals:
        ratio = "not measured"
        if goal["range"]:
            ratio = f"{goal['ratio']:.3f} ({goal['range'][0]:.3f}-{goal['range'][1]:.3f})"
        beside = " and ".join(goal["beside"]).replace("_", "-") or "the best of all"
        reached = {None: "", True: "yes", False: "**no**"}[goal["reached"]]
        lines.append(f"| {beside} | {goal['label']} | {ratio} | ≤ {goal['limit']:g} | {reached} |")
    return "\n".join(lines)
