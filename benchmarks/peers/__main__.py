"""Our figures beside those of other packages.

`python -m benchmarks.peers [--quick] [--peers agno,strands] [--only turn,tools] [--passes 3]`

Each package is installed into an environment of its own, in the cache of the user. Every measurement is a
process of its own that repeats its work for about a second; the order of the sides changes from pass to pass.
What a package cannot do is told with the reason, and not tried again. Ends with status 1 when something of
ours was lost or miscounted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.environments import cache, python_with
from benchmarks.peers.report import ROWS, Results, markdown
from benchmarks.run import ROOT, endpoint, environment, measure

PEERS = (
    "toolnexus_port",
    "agno",
    "agent_framework",
    "openai_agents",
    "pydantic_ai",
    "langgraph",
    "strands",
    "google_adk",
)
WORKLOADS = tuple(dict.fromkeys(row.workload for row in ROWS))
SECONDS = "1"
"""After which no repetition is begun."""
LONGEST = 60.0
"""For one measurement; on a quiet machine the slowest takes a quarter of that."""
_VERSION = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"


class Place(NamedTuple):
    """How the process of a side is started."""

    python: str
    folder: Path
    env: dict[str, str]


def installed(peer: str, folder: Path, env: dict[str, str], home: Path) -> tuple[str, Place]:
    """The name and version of a package, and its place. Raises `RuntimeError` when it cannot be installed."""
    module: Any = import_module(f"benchmarks.peers.{peer}")
    python = python_with(peer, module.REQUIRES, home)
    name = re.split(r"[^\w-]", module.REQUIRES[0])[0]
    said = subprocess.run([python, "-c", _VERSION, name], capture_output=True, text=True, check=True)
    return f"{name} {said.stdout.strip()}", Place(python, folder, {**env, **module.SETTINGS})


def run_all(peers: Sequence[str], workloads: Sequence[str], passes: int, quick: bool, home: Path) -> Results:
    """All figures of all passes."""
    options = ["--seconds", SECONDS, *["--quick"] * quick]
    results = Results({"ours": "toolnexus", "floor": "hand-written"}, {name: {} for name in workloads})
    with endpoint() as url, environment() as env, TemporaryDirectory(prefix="toolnexus-bench-") as folder:
        # Beside these files ours would be found, and not the public package of the same name.
        shutil.copytree(ROOT / "benchmarks", Path(folder, "benchmarks"))
        places = dict.fromkeys(results.names, Place(sys.executable, ROOT, env))
        theirs = {k: v for k, v in env.items() if k not in ("PYTHONPATH", "PYTHONPYCACHEPREFIX")}
        for peer in peers:
            try:
                results.names[peer], places[peer] = installed(peer, Path(folder), theirs, home)
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                results.names[peer] = peer.replace("_", "-")
                results.failed[peer] = {"install": str(error)}

        def one(side: str, workload: str) -> dict[str, float] | None:
            failed = results.failed.setdefault(side, {})
            if workload in failed:
                return None
            place = places[side]
            try:
                return measure(
                    side,
                    workload,
                    url,
                    place.env,
                    *options,
                    python=place.python,
                    folder=place.folder,
                    longest=LONGEST,
                )
            except RuntimeError as error:
                failed[workload] = str(error).strip().splitlines()[-1][:200]
                return None

        for side in places if "import" in workloads else ():  # whoever comes first compiles for all
            one(side, "import")
        with suppress(KeyboardInterrupt):  # what there is by then is told
            for at, workload, side in _order(passes, workloads, [*places]):
                print(f"pass {at + 1} of {passes}: {workload} of {side}", file=sys.stderr, flush=True)
                if (figures := one(side, workload)) is not None:
                    results.passes[workload].setdefault(side, []).append(figures)
    results.failed = {side: why for side, why in results.failed.items() if why}
    return results


def _order(passes: int, workloads: Sequence[str], sides: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Pass, workload, side; each pass begins further on in the sides."""
    for at in range(passes):
        begin = at * len(sides) // passes
        for workload in workloads:
            for side in [*sides[begin:], *sides[:begin]]:
                yield at, workload, side


def _chosen(parser: argparse.ArgumentParser, given: str | None, all: Sequence[str]) -> list[str]:
    names = [name.strip() for name in given.split(",")] if given else list(all)
    if unknown := [name for name in names if name not in all]:
        parser.error(f"nothing is called {', '.join(unknown)}; there are: {', '.join(all)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is its value."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peers", metavar="NAMES", help=f"a comma list of {', '.join(PEERS)}")
    parser.add_argument("--only", metavar="NAMES", help=f"a comma list of {', '.join(WORKLOADS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one pass: does it work at all?")
    parser.add_argument("--passes", type=int, metavar="N", help="how often to measure each (default 3)")
    parser.add_argument("--cache", type=Path, default=cache(), metavar="FOLDER", help="of the environments")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    given = parser.parse_args(arguments)
    peers, workloads = _chosen(parser, given.peers, PEERS), _chosen(parser, given.only, WORKLOADS)
    passes, load = given.passes or (1 if given.quick else 3), os.getloadavg()[0]
    results = run_all(peers, workloads, passes, given.quick, given.cache)
    where = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {results.passes_begun} passes"
        f"{', quick' if given.quick else ''}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after"
    )
    print(f"{where}\n\n{markdown(results)}")
    for fault in (wrong := results.wrong()):
        print(f"wrong: {fault}", file=sys.stderr)
    if given.json is not None:
        everything = {"where": where, **vars(results), "goals": results.goals()}
        given.json.write_text(json.dumps(everything, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
