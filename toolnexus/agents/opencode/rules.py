"""Tables of permissions, in which the last match wins, as rules of ours, in which the closest one does.

Wherever the two orders could differ, the stricter word is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from toolnexus.agents.format import Remarks
from toolnexus.tools.builtin.catalog import NAMES
from toolnexus.tools.permissions import VERDICTS, Rule

OURS: Mapping[str, tuple[str, ...]] = {
    "edit": ("edit", "write", "apply_patch"),
    "write": ("edit", "write", "apply_patch"),
    "patch": ("edit", "write", "apply_patch"),
    "multiedit": ("edit", "write", "apply_patch"),
    "todoread": (),
    "list": (),
    "lsp": (),
    "websearch": (),
    "codesearch": (),
    "external_directory": (),
    "doom_loop": (),
}
_WITHOUT = {
    "external_directory": "file tools stay in the folder of the caller anyway",
    "doom_loop": "a model that repeats itself is told so",
}
_BUILTINS = frozenset((*NAMES, "task", "skill"))
_TOOL = re.compile(r"[A-Za-z0-9_*?-]{1,200}")
_STRICTNESS = {verdict: n for n, verdict in enumerate(VERDICTS)}
MOST = 100
"""Lines of a table: each is compared with all before it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of such a table."""

    tool: str
    pattern: str
    verdict: str


def read_lines(value: Any, key: str, remarks: Remarks) -> list[Line]:
    """The lines of `permission` (a word, or a table by tool) or of `permissions` (a list), in their order."""
    if value is None or value == "":
        return []
    try:
        lines = list(_lines(value))
    except ValueError as error:
        remarks.fail(key, str(error))
        return []
    if len(lines) > MOST:
        remarks.fail(key, f"it has {len(lines)} lines; at most {MOST} are read")
        return []
    return lines


def _lines(value: Any) -> Iterator[Line]:
    if isinstance(value, list):
        for entry in cast("list[Any]", value):
            if not isinstance(entry, Mapping) or set(cast("Mapping[str, Any]", entry)) - {*_PARTS}:
                raise ValueError(f"each line is a table of {', '.join(_PARTS)}")
            line = cast("Mapping[str, Any]", entry)
            yield _line(line.get("action"), line.get("resource", "*"), line.get("effect"))
    elif isinstance(value, Mapping):
        for tool, given in cast("Mapping[str, Any]", value).items():
            if isinstance(given, Mapping):
                for pattern, verdict in cast("Mapping[str, Any]", given).items():
                    yield _line(tool, pattern, verdict)
            else:
                yield _line(tool, "*", given)
    else:
        yield _line("*", "*", value)


_PARTS = ("action", "resource", "effect")


def _line(tool: Any, pattern: Any, verdict: Any) -> Line:
    if not isinstance(tool, str) or not _TOOL.fullmatch(tool):
        raise ValueError(f"{str(tool)[:40]!r} is no name of a tool")
    if not isinstance(pattern, str) or not isinstance(verdict, str) or verdict not in VERDICTS:
        raise ValueError(f"{tool}: write one of {', '.join(VERDICTS)}, alone or behind a pattern")
    return Line(tool, pattern or "*", verdict)


def as_permissions(lines: Sequence[Line], key: str, remarks: Remarks) -> dict[str, str] | None:
    """`permissions` of an agent that allow no call which these lines ask about or deny."""
    rules: list[Rule] = []
    for line in lines:
        for rule in _translated(line, key, remarks):
            if rule.subject is None and line.pattern != "*":  # wider than it was written
                before = [old.verdict for old in rules if not _apart(old.tool, rule.tool)]
                rule = replace(rule, verdict=max([rule.verdict, *before], key=VERDICTS.index))
            # what comes later counts more: a wider one covers this one, and else the stricter word holds
            rules = [_under(old, rule) for old in rules if not _covers(rule, old)]
            rules.append(rule)
    out: dict[str, str] = {}
    for rule in rules:
        out[rule.text] = max(out.get(rule.text, "allow"), rule.verdict, key=VERDICTS.index)
    return out or None


def _translated(line: Line, key: str, remarks: Remarks) -> Iterator[Rule]:
    tools = OURS.get(line.tool, (line.tool,))
    if not tools:
        why = _WITHOUT.get(line.tool, "there is no such tool here")
        remarks.lose(key, f"{line.tool} is left out: {why}")
    for tool in tools:
        for subject in _subjects(line, tool, key, remarks):
            text = tool if subject is None else f"{tool}({subject})"
            yield Rule(text, tool, subject, cast("Any", line.verdict))


def _subjects(line: Line, tool: str, key: str, remarks: Remarks) -> list[str | None]:
    """The patterns that take the place of one; None: whatever the tool is called with."""
    pattern, strict = line.pattern, line.verdict != "allow"
    if pattern == "*":
        return [None]
    if pattern.startswith(("~", "$")) or tool not in _BUILTINS:
        why = "the pattern means something else here"
        if not strict:
            remarks.lose(key, f"{line.tool}: {pattern[:60]!r} is left out: {why}")
            return []
        remarks.lose(key, f"{line.tool}: {line.verdict} holds for all of it, not for {pattern[:60]!r}: {why}")
        return [None]
    subject = pattern.replace("[", "[[]")
    if strict and subject.endswith(" *"):  # there, it is the command without arguments, too
        return [subject, subject[:-2]]
    return [subject]


def _covers(later: Rule, earlier: Rule) -> bool:
    """Whether nothing of `earlier` counts beside `later`."""
    if later.tool == earlier.tool:
        return later.subject in (None, earlier.subject)
    return later.tool == "*" and later.subject is None and _is_as_strict(later, earlier)


def _under(earlier: Rule, later: Rule) -> Rule:
    """`earlier`, which would win here by its longer pattern, no laxer than a later one that may overlap."""
    if _is_as_strict(earlier, later) or _apart(later.tool, earlier.tool):
        return earlier
    if _apart(later.subject or "*", earlier.subject or "*") or _weight(later) >= _weight(earlier):
        return earlier
    return replace(earlier, verdict=later.verdict)


def _is_as_strict(one: Rule, other: Rule) -> bool:
    return _STRICTNESS[one.verdict] >= _STRICTNESS[other.verdict]


def _apart(one: str, other: str) -> bool:
    """Whether two globs match nothing together, for sure: their beginnings already differ."""
    head, tail = _head(one), _head(other)
    if one == head and other == tail:
        return one != other
    return not (head.startswith(tail) or tail.startswith(head))


@lru_cache(maxsize=4096)
def _head(glob: str) -> str:
    return re.split(r"[*?\[]", glob, maxsplit=1)[0]


@lru_cache(maxsize=4096)
def _weight(rule: Rule) -> tuple[bool, int, int, int]:
    return rule.weight
