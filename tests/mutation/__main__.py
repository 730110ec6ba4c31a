"""`python -m tests.mutation [FILE…]`: small changes of `engine/` and `runtime/` that no test sees."""

from __future__ import annotations

import argparse
import os
import random
import sys
from math import inf

import pytest
from hypothesis import Phase, settings

from tests.mutation.mutants import files, mutants_of
from tests.mutation.table import OUT, ROOT, report
from tests.mutation.warm import Session, Verdict, digest, say, verdicts

TESTS = (
    *("a2a", "agent_files", "approvals", "behaviour", "builtins/test_environment.py", "compaction", "config"),
    *(
        "conformance",
        "core",
        "faults",
        "filters",
        "graph/doors",
        "graph/inference",
        "loop",
        "mcp/test_config.py",
    ),
    *(
        "media",
        "models",
        "money",
        "observability",
        "properties",
        "records",
        "skills",
        "tools_function",
        "translate",
    ),
    *("typed", "whole", "workflow"),
)
"""Not those that mostly start programs, or say nothing about the two folders."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("files", nargs="*", help="files of the two folders, all without any")
    parser.add_argument(
        "--each", type=float, default=1.5, help="CPU seconds of tests for one mutant (default: 1.5)"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this many (default: 60)")
    parser.add_argument("--go-on", action="store_true", help="leave out what the last run has killed")
    parser.add_argument("--tests", nargs="*", help="folders or files of tests")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    chosen = [
        file for file in files(ROOT) if not arguments.files or any(each in file for each in arguments.files)
    ]
    mutants = [mutant for file in chosen for mutant in mutants_of(ROOT, file)]
    # in no order: a run that is stopped has tried a fair sample
    random.Random(len(mutants)).shuffle(mutants)
    earlier: list[Verdict] = []
    if arguments.go_on:
        marks = {file: digest([ROOT / file])[:12] for file in files(ROOT)}
        earlier = [each for each in verdicts(OUT) if each.mark == marks.get(each.file)]
        dead = {each.id for each in earlier if each.is_dead}
        # what few tests reach comes first, what was not tried last: in no order, a fair sample where it ends
        left = {each.id: each.left for each in earlier if not each.is_dead}
        mutants = [each for each in mutants if each.id not in dead]
        mutants.sort(key=lambda each: left.get(each.id, inf))
    settings.register_profile(
        "mutation", derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile("mutation")
    folders = arguments.tests or [f"tests/{each}" for each in TESTS]
    session = Session(
        ROOT, mutants, each=arguments.each, seconds=arguments.minutes * 60, out=OUT, earlier=earlier
    )
    plain = ["--capture=sys", "--tb=line", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
    pytest.main([*plain, "-m", "not peers", *folders], plugins=[session])
    if not session.verdicts:
        return 1
    (OUT / "figures.md").write_text(report())
    say(f"the figures are in {(OUT / 'figures.md').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
