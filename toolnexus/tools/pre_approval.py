"""`allowed-tools` of a skill: calls that need no question while it is loaded.

Where a rule asks, such a call passes. It never passes a rule that denies, and gives no tool: what is
not offered stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from toolnexus.core.tools import Tool
from toolnexus.runtime.context import Frame
from toolnexus.tools.claude_names import Grant, Target, read_grants, target_of
from toolnexus.tools.filters import is_glob
from toolnexus.tools.permissions import Rule, Rules

_KEY = "calls that skills approve"


def pre_approve(frame: Frame, allowed: Iterable[str]) -> None:
    """Approve, for the rest of this run alone, the calls that `allowed-tools` names.

    A run that is resumed elsewhere asks again until it loads the skill anew.
    """
    known: Rules = frame.memo.get(_KEY, Rules())
    frame.memo[_KEY] = Rules(tuple(dict.fromkeys([*known.rules, *rules_of(allowed)])))


def is_pre_approved(frame: Frame, tool: Tool, arguments: Mapping[str, Any], root: Path) -> bool:
    """Whether a loaded skill approves the whole of this call; of a command, each of its parts."""
    rules: Rules | None = frame.memo.get(_KEY)
    if rules is None:
        return False
    found = rules.decide(tool, arguments, root)
    return found is not None and found.verdict == "allow"


def rules_of(allowed: Iterable[str]) -> tuple[Rule, ...]:
    """The calls that entries such as `Read` and `Bash(git add:*)` name; all else approves nothing."""
    out: list[Rule] = []
    for entry in allowed:
        try:
            grants = read_grants([entry])
        except ValueError:
            continue
        for grant in grants:
            target = target_of(grant)
            if target is not None and not is_glob(target.name):
                out += [Rule(entry, target.name, subject, "allow") for subject in _subjects(grant, target)]
    # what no entry names is asked about, also where it is one part of a command
    return (*out, Rule("*", "*", None, "ask"))


def _subjects(grant: Grant, target: Target) -> list[str | None]:
    """Patterns of what a tool is called with, in our spelling."""
    if grant.scope is None:
        return [None]
    plain = grant.scope.strip().replace("[", "[[]")
    if target.name == "bash" and plain.endswith(":*"):
        return [f"{plain[:-2]} *", plain[:-2]]
    return [plain]
