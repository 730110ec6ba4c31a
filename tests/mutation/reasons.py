"""Why a mutant may survive. What no rule here explains is a gap."""

from __future__ import annotations

import re

from tests.mutation.warm import Verdict

GAP = "no test holds it yet"
RULES: tuple[tuple[str, str, str, str], ...] = ()
"""Patterns for the kind, for the file and function, and for the text; then why."""


def reason(verdict: Verdict) -> str:
    """The first that fits."""
    for kind, where, text, why in RULES:
        place = f"{verdict.file}:{verdict.function}"
        if re.search(kind, verdict.kind) and re.search(where, place) and re.search(text, verdict.text):
            return why
    return GAP
