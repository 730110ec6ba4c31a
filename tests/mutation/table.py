"""The figures of a run as Markdown: `python -m tests.mutation.table` writes the page and the list."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.mutation.mutants import files, mutants_of
from tests.mutation.reasons import GAP, UNTRIED, reason
from tests.mutation.warm import Verdict, verdicts

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "mutation"
PAGE = ROOT / "docs" / "mutation.md"
SURVIVORS = Path(__file__).with_name("survivors.md")
BEGIN = "<!-- figures: python -m tests.mutation.table -->\n"


def share(tried: Sequence[Verdict]) -> str:
    """`93.1 %` of them are killed."""
    return f"{100 * sum(each.is_dead for each in tried) / len(tried):.1f} %" if tried else "-"


def row(name: str, mutants: int, tried: Sequence[Verdict]) -> str:
    """One line of the table."""
    dead = sum(each.is_dead for each in tried)
    return f"| {name} | {mutants} | {len(tried)} | {dead} | {len(tried) - dead} | {share(tried)} |"


def figures(tried: Sequence[Verdict], mutants: Counter[str]) -> str:
    """What, when, how many; a line per folder and file."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    hung = sum(each.status == "time" for each in tried)
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, commit {head.stdout.strip()}, Python {platform.python_version()}: "
        f"{len(tried):,} of {sum(mutants.values()):,} mutants tried, in no order; {share(tried)} killed, "
        f"{hung} of them by a test that hung.",
        "",
        "| file | mutants | tried | killed | survived | share |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for folder in ("engine", "runtime"):
        names = [name for name in mutants if f"/{folder}/" in name]
        here = [each for each in tried if each.file in names]
        lines.append(row(f"**{folder}/**", sum(mutants[name] for name in names), here))
        for name in names:
            short = name.removeprefix("toolnexus/")
            lines.append(row(f"`{short}`", mutants[name], [each for each in here if each.file == name]))
    return "\n".join(lines)


def kinds(left: Iterable[Verdict]) -> str:
    """How many survive for which reason."""
    count = Counter(reason(each) for each in left)
    lines = ["| survivors | why |", "|---:|---|"]
    lines += [
        f"| {n} | {why} |"
        for why, n in sorted(count.items(), key=lambda item: (item[0] in (GAP, UNTRIED), -item[1]))
    ]
    return "\n".join(lines)


def survivors(left: Sequence[Verdict]) -> str:
    """All of them, by reason and place."""
    lines = ["# Mutants that no test kills", "", "Written by `python -m tests.mutation.table`."]
    for why in sorted({reason(each) for each in left}, key=lambda why: (why == GAP, why)):
        lines += ["", f"## {why}", ""]
        for each in sorted(left, key=lambda each: (each.file, each.line)):
            if reason(each) == why:
                place = f"{each.file.removeprefix('toolnexus/')}:{each.line}"
                lines.append(f"* {place} {each.kind}: {each.text}")
    return "\n".join(lines) + "\n"


def tried() -> list[Verdict]:
    """What the last run has tried, and those that it went on with."""
    return [each for each in verdicts(OUT) if each.status != "unseen"]


def report() -> str:
    """All but the list of survivors."""
    mutants = {file: len(mutants_of(ROOT, file)) for file in files(ROOT)}
    every = tried()
    left = [each for each in every if not each.is_dead]
    return f"{figures(every, +Counter(mutants))}\n\n{kinds(left)}\n"


def main() -> None:
    page = PAGE.read_text()
    PAGE.write_text(page[: page.index(BEGIN)] + f"{BEGIN}\n{report()}")
    SURVIVORS.write_text(survivors([each for each in tried() if not each.is_dead]))


if __name__ == "__main__":
    main()
