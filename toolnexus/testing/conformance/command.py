"""`toolnexus conformance`: plays fixtures, and prints how they went."""

from __future__ import annotations

import asyncio
import fnmatch
import shlex
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from toolnexus.cli.exits import DONE, ERROR, UsageError
from toolnexus.cli.view.words import printable
from toolnexus.testing.conformance import report
from toolnexus.testing.conformance.fixture import Data, FixtureError, find, label, load
from toolnexus.testing.conformance.links import Link, LinkError, ProcessLink
from toolnexus.testing.conformance.play import Player

OWN = "own"
MOST_NAME = 100


def command(options: Namespace) -> int:
    """Play what is named. Gives 0 when nothing failed, else 1. Raises `UsageError` when nothing can be."""
    try:
        cases = [(label(p), case) for p in find([Path(p) for p in options.paths]) for case in load(p)]
    except FixtureError as error:
        raise UsageError(str(error)) from error
    chosen = [(file, case) for file, case in cases if _fits(options.only, file, case)]
    if not chosen:
        raise UsageError(f"--only {options.only!r} fits none of {len(cases)} cases")
    return asyncio.run(_play(options, chosen))


def _fits(pattern: str | None, file: str, case: Data) -> bool:
    """Whether the pattern is found in what a line of the table says."""
    line = f"{file}: {case['name']}".lower()
    patterns = [] if pattern is None else pattern.lower().split("|")
    return not patterns or any(fnmatch.fnmatchcase(line, f"*{part}*") for part in patterns)


async def _play(options: Namespace, cases: Sequence[tuple[str, Data]]) -> int:
    async with AsyncExitStack() as stack:
        drivers = options.driver or [OWN]
        players = [await _player(stack, driver, options.seconds) for driver in drivers]
        names = [printable(report.name(player))[:MOST_NAME] for player in players]
        rows: list[report.Row] = []
        async for row in report.rows(players, cases):
            rows.append(row)
            if not options.markdown:
                lines = (
                    report.as_json(row, names)
                    if options.json
                    else map(printable, report.as_lines(row, names))
                )
                print("\n".join(lines), flush=True)
    if options.markdown:
        print(printable(report.as_page(rows, names), keep="\n"), end="")
    elif not options.json:
        print("\n".join(report.totals(rows, names)))
    return ERROR if any(o.status == "FAILED" for row in rows for o in row.outcomes) else DONE


async def _player(stack: AsyncExitStack, driver: str, seconds: float) -> Player:
    """The player of one driver. Raises `UsageError` when it is none."""

    async def start() -> Link:
        return await ProcessLink.start(shlex.split(driver))

    try:
        return await stack.enter_async_context(Player(None if driver == OWN else start, seconds=seconds))
    except (OSError, ValueError, LinkError) as error:
        raise UsageError(f"--driver {driver!r} does not start: {error}") from error
