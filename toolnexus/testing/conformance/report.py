"""Outcomes as lines, as JSON, and as the page of a matrix."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

from toolnexus.testing.conformance.expectations import mismatches
from toolnexus.testing.conformance.fixture import Data, without
from toolnexus.testing.conformance.play import Player

Status = Literal["ok", "partly", "FAILED", "unsupported"]
_MARKS = {"ok": "ok", "partly": "partly", "FAILED": "**failed**", "unsupported": "unsupported"}

_LEGEND = """How each implementation does on every case. Below each table is what differs.
*partly*: it holds, but for what the implementation does not tell; *unsupported*: the case needs
something that it does not have.
Made by `toolnexus conformance --markdown`, see [drivers/](drivers/README.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one case went with one driver."""

    status: Status
    why: tuple[str, ...]
    """What differs, a line each; or what the implementation lacks: of the case (unsupported), or of what
    is expected (partly)."""
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case, and how it went with each driver."""

    file: str
    case: str
    outcomes: tuple[Outcome, ...]


async def outcome(player: Player, case: Data) -> Outcome:
    """Play `case`."""
    started = time.perf_counter()
    played = await player.play(case)
    took = (time.perf_counter() - started) * 1000
    if played.unsupported is not None:
        return Outcome(status="unsupported", why=(played.unsupported,), milliseconds=took)
    known, unknown = without(case, player.unsupported)
    if wrong := tuple([line.replace(played.folder, "{workdir}") for line in mismatches(known, played)]):
        return Outcome(status="FAILED", why=wrong, milliseconds=took)
    return Outcome(status="partly" if unknown else "ok", why=tuple(unknown), milliseconds=took)


async def rows(players: Sequence[Player], cases: Sequence[tuple[str, Data]]) -> AsyncIterator[Row]:
    """Play all cases, each with every driver."""
    for file, case in cases:
        outcomes = [await outcome(player, case) for player in players]
        yield Row(file=file, case=case["name"], outcomes=tuple(outcomes))


def name(player: Player) -> str:
    """What a driver calls itself."""
    return f"{player.hello['name']} {player.hello.get('version', '')}".rstrip()


def as_lines(row: Row, names: Sequence[str]) -> list[str]:
    """One line for the case, and below it what is wrong and with whom."""
    cells = "  ".join([f"{outcome.status:11}" for outcome in row.outcomes])
    took = sum(outcome.milliseconds for outcome in row.outcomes)
    lines = [f"{cells}  {row.file:22}  {took:5.0f} ms  {row.case}"]
    for outcome, driver in zip(row.outcomes, names, strict=True):
        whose = f"{driver}: " if len(names) > 1 else ""
        if outcome.status != "ok":
            lines += [f"        {whose}{line}" for line in outcome.why]
    return lines


def as_json(row: Row, names: Sequence[str]) -> list[str]:
    """One object a line for each driver."""
    return [
        json.dumps(
            {
                "file": row.file,
                "case": row.case,
                "driver": driver,
                "outcome": outcome.status.lower(),
                "why": outcome.why,
                "milliseconds": round(outcome.milliseconds, 1),
            },
            ensure_ascii=False,
        )
        for outcome, driver in zip(row.outcomes, names, strict=True)
    ]


def totals(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """How many of each, a line for each driver."""
    lines: list[str] = []
    for column, driver in enumerate(names):
        counts = Counter(row.outcomes[column].status for row in rows)
        counted = [f"{counts[status]} {status.lower()}" for status in ("partly", "FAILED", "unsupported")]
        lines.append(", ".join([f"{driver}: {len(rows)} cases", *counted]))
    return lines


def as_page(rows: Sequence[Row], names: Sequence[str]) -> str:
    """The matrix as Markdown: a table of all cases, then what each driver fails and why."""
    lines = ["# Matrix", "", _LEGEND, "", *[f"* {line}" for line in totals(rows, names)]]
    for file in dict.fromkeys(row.file for row in rows):
        lines += ["", f"## {file}", "", _cells(["case", *names]), _cells(["---"] * (len(names) + 1))]
        of_file = [row for row in rows if row.file == file]
        lines += [_cells([row.case, *[_MARKS[o.status] for o in row.outcomes]]) for row in of_file]
        for column, driver in enumerate(names):
            lines += _reasons(of_file, column, driver)
    return "\n".join([*lines, ""])


def _reasons(rows: Sequence[Row], column: int, driver: str) -> list[str]:
    lines: list[str] = []
    for row in rows:
        outcome = row.outcomes[column]
        if outcome.status in ("unsupported", "partly"):
            lines.append(f"* {row.case}: lacks {', '.join([f'`{why}`' for why in outcome.why])}")
        elif outcome.status == "FAILED":
            lines += [f"* {row.case}:", *[f"  * `{_one_line(why)}`" for why in outcome.why]]
    return ["", f"{driver}:", "", *lines] if lines else []


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join([cell.replace('|', chr(92) + '|') for cell in cells])} |"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("`", "'")
