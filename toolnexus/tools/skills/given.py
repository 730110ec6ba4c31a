"""Skills as data, checked: they may come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from toolnexus.tools.skills.definition import SkillDef, one_line
from toolnexus.tools.skills.load import SkillIssue, issue


def usable(given: Any, report: list[SkillIssue]) -> SkillDef | None:
    """`given` as a skill whose name is one line, or None and an entry in `report`."""
    if not isinstance(given, SkillDef):
        report.append(issue("skills", "unreadable", f"a SkillDef is wanted, not {type(given).__name__}"))
        return None
    if not isinstance(given.name, str) or not (name := one_line(given.name)):
        report.append(issue("skills", "missing-name", "a SkillDef without a name"))
        return None
    for what in ("content", "description"):
        if not isinstance(value := getattr(given, what), str):
            detail = f"its {what} must be text, not {type(value).__name__}"
            report.append(issue(f"skill://{name}/", "unreadable", detail))
            return None
    if not _texts(given.resources) or not isinstance(given.base, str | None):
        detail = "its resources must be a sequence of texts and its base text or None"
        report.append(issue(f"skill://{name}/", "unreadable", detail))
        return None
    return given if name == given.name else replace(given, name=name)


def _texts(value: Any) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return all(isinstance(item, str) for item in cast("Sequence[Any]", value))
