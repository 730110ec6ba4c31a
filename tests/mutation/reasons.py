"""Why a mutant may survive. What no rule here explains is a gap."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.mutation.warm import Verdict

GAP = "no test holds it yet"
UNREACHED = "only tests that start programs reach it, or none"
UNTRIED = "many tests reach it, and the time of one mutant was over before one of them failed"
SAVES = "the outcome is the same: it saves work, or keeps less alive"
BOUND = "at the bound itself both ways give the same"
CHOICE = "a number that is a choice: how many are remembered, where a text is cut"
TOLD = "only what is logged, or suggested in an error, is another"
LIMITED = "a run that met a limit is incomplete anyway, and the first limit that it met is its limit"
LENGTHS = "the lengths are equal by construction"
SURROGATES = "only a text with lone surrogates tells"

RULES: tuple[tuple[str, str, str, str], ...] = (
    # the kind, the file and function, the line as it is
    ("", "", r"strict=True", LENGTHS),
    ("", "", r"surrogatepass", SURROGATES),
    ("", "", r"_log_loss|reason = ctx|failure := save\.exception", TOLD),
    ("", "", r"did_you_mean|def _excerpt|\[:77\]", TOLD),
    (
        "constant",
        ":$",
        r"^_?(MAX|MOST|LEAST|LONGEST|SHORTEST|WORTH|IDLE|NAME|PARAMETER|DESCRIPTION)\w* ",
        CHOICE,
    ),
    ("constant", ":$", r"^_?(MAX|MOST|LEAST|LONGEST|SHORTEST|WORTH)_\w+ |^_LONGEST|^_MOST", CHOICE),
    ("constant", "", r"lru_cache\(|\[:\d+\]", CHOICE),
    ("call removed", "Environment.view", r"_views\.clear", SAVES),
    ("del removed", "", "", SAVES),
    ("comparison", "compaction/(parts|kept)", r"(len\(\w+\)|size.*) (<|>|<=|>=) ", BOUND),
    ("", "turn.py:estimated", r"known", "the transcript is counted anew: the same sum"),
    ("constant", "turn.py:_unique", r"seen\.get", "the loop comes to the same number"),
    ("argument removed", "loop.py|runner.py", r"status=.incomplete|limit=batch.stop", LIMITED),
    (
        "argument removed",
        "ranking.py:_begins",
        r"key=len",
        "a beginning sorts before what it begins, by letters, too",
    ),
    ("constant", "size.py:_media", r"part\.data or", "four characters are no token"),
)
"""Patterns, then why; the first that fits counts."""


@cache
def _lines(file: str) -> list[str]:
    return (Path(__file__).parents[2] / file).read_text().splitlines()


def reason(verdict: Verdict) -> str:
    """In words."""
    if verdict.status == "unreached":
        return UNREACHED
    line = _lines(verdict.file)[verdict.line - 1].strip()
    place = f"{verdict.file}:{verdict.function}"
    for kind, where, text, why in RULES:
        found = re.search(kind, verdict.kind) and re.search(where, place)
        if found and (re.search(text, line) or re.search(text, verdict.text)):
            return why
    return UNTRIED if verdict.left > 50 else GAP
