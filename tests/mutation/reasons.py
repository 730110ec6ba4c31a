"""Why a mutant may survive. What no rule here explains is a gap."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.mutation.warm import Verdict

GAP = "no test holds it yet"
UNREACHED = "only tests that start programs reach it, or none"
UNTRIED = "most tests reach it, and not all of them were tried in the time of one mutant"
SAVES = "the outcome is the same: it only saves work, or keeps less alive"
BOUND = "at the bound itself both ways give the same"
EQUAL = "what is left out or given is what holds anyway"
CHOICE = "a number that is a choice, such as the size of a cache"
WRITTEN = "a first value that nothing reads before it is written"
TOLD = "only what is logged or suggested is another"
LENGTHS = "the lengths are equal by construction"
ODD = "lone surrogates and the like, which never get so far"

RULES: tuple[tuple[str, str, str, str], ...] = (
    # kind and change, file and function, the line as it is
    ("", "", r"strict=True", LENGTHS),
    ("", "", r"surrogatepass|ensure_ascii|allow_nan", ODD),
    ("", "", r"did_you_mean|near\b|logger|_log_loss|reason = ", TOLD),
    ("comparison", "", r"(len\(|size|gain|known|least|most|before|limit).*(<|>)", BOUND),
    ("comparison", "", r"(<|>).*(len\(|size|known|least|most|before|limit)", BOUND),
    (
        "constant",
        "",
        r"^(MAX|MOST|LEAST|_MOST|_LONGEST|_SHORTEST|_WORTH|_NAME|_PARAMETER|_DESCRIPTION|BUCKETS)",
        CHOICE,
    ),
    ("constant", "", r"lru_cache|IDLE_SECONDS|timeout=|maxsize|\[:\d+\]|urandom", CHOICE),
    (
        "call removed",
        "",
        r"\.clear\(\)|_release|\.add\(|del |_give\(|check_cancelled|shutdown_asyncgens",
        SAVES,
    ),
    ("del removed", "", "", SAVES),
    ("", "", r"_by_spec|_views|\bmemo\b|_opening|_followed|_cached|_kept\.add|cache", SAVES),
    (
        "with removed",
        "",
        r"_locks|_one|_changed|_lock|_door",
        "a lock: what it keeps apart did not meet in the tests",
    ),
    ("argument removed", "", r"status=|is_error=|messages=None|source=|limit=|text=", EQUAL),
    ("and/or", "", r"is not None|or \(\)|or None|isinstance", EQUAL),
    (
        "assignment|constant",
        "__init__|runtime/|environment",
        r"^self\.\w+(: .*)? = (None|0|0\.0|False|\(\)|\"\")$",
        WRITTEN,
    ),
    ("constant", ":$", r"= (False|True|0|0\.0|None|\"\"|\(\))$", WRITTEN),
    ("assignment", "", r"= \(\)$|= None$|= \[\]$", WRITTEN),
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
