"""Glob patterns that no path can make slow.

A pattern is matched name by name: each part is compiled to a regular expression that never
backtracks past a `*`, and `**` is a state of its own. So a hostile pattern (a `.gitignore` of a
foreign repository) costs time in proportion to its length, where the usual translation into one
regular expression may hold the interpreter for hours.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from toolnexus.core.values import frozen
from toolnexus.errors import ToolError

_NEVER = "(?!)"
_BRACES = 32


@frozen()
class Part:
    """What one name must look like; `regex` None stands for `**`, any number of names."""

    regex: re.Pattern[str] | None
    dotted: bool = False
    """Whether the pattern itself starts with a dot, so that it may match a hidden name."""

    def accepts(self, name: str, hidden: bool) -> bool:
        if name.startswith(".") and not (self.dotted or hidden):
            return False
        return self.regex is None or self.regex.match(name) is not None


ANY_DEPTH = Part(None)


def parts_of(pattern: str) -> tuple[Part, ...]:
    """The parts of a pattern without braces; a trailing `**` matches all that lies below."""
    parts = [
        ANY_DEPTH if len(text) > 1 and not text.strip("*") else Part(_compiled(text), text.startswith("."))
        for text in pattern.split("/")
    ]
    if parts[-1] is ANY_DEPTH:
        parts.append(Part(_compiled("*")))
    return tuple(parts)


def begin(parts: Sequence[Part]) -> frozenset[int]:
    """How far one is in `parts` before the first name."""
    return _spread(parts, {0})


def step(parts: Sequence[Part], at: Iterable[int], name: str, *, hidden: bool = False) -> frozenset[int]:
    """How far one is after one more name; `len(parts)` is in it when the names so far match.

    With `hidden`, a leading dot is a character like any other.
    """
    moved: set[int] = set()
    for i in at:
        if i < len(parts) and parts[i].accepts(name, hidden):
            moved.add(i if parts[i].regex is None else i + 1)
    return _spread(parts, moved)


def _spread(parts: Sequence[Part], at: set[int]) -> frozenset[int]:
    """`**` also matches no name at all."""
    for i in sorted(at):
        while i < len(parts) and parts[i].regex is None:
            i += 1
            at.add(i)
    return frozenset(at)


class Level:
    """What a glob asks of the names in one folder. Made once for a folder: a name then costs little."""

    __slots__ = ("_at", "_files", "_folders")

    def __init__(self, at: Iterable[tuple[tuple[Part, ...], frozenset[int]]]) -> None:
        self._at = [(parts, here) for parts, here in at if here]
        self._files = _joined([parts[-1] for parts, here in self._at if len(parts) - 1 in here])
        self._folders = _joined(
            [p for parts, here in self._at for i, p in enumerate(parts[:-1]) if i in here]
        )

    def wants(self, name: str, folder: bool, *, hidden: bool = False) -> bool:
        """Whether a file matches, or something in a folder may; `hidden` as in `step`."""
        for part in self._folders if folder else self._files:  # no generator: this is the inner loop
            if part.accepts(name, hidden):
                return True
        return False

    def below(self, name: str) -> Level:
        """The level of a folder in this one."""
        return Level([(parts, step(parts, here, name)) for parts, here in self._at])


def _joined(parts: Sequence[Part]) -> list[Part]:
    """As few parts as accept the same names."""
    if len(parts) < 2:
        return list(parts)
    joined = [ANY_DEPTH] if ANY_DEPTH in parts else []
    for dotted in (False, True):
        patterns = dict.fromkeys([p.regex.pattern for p in parts if p.regex and p.dotted is dotted])
        if patterns:
            joined.append(Part(either(tuple(patterns)), dotted))
    return joined


@functools.lru_cache(64)
def either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """What matches where one of `patterns` does."""
    return re.compile("|".join(patterns))


class Glob:
    """A pattern with braces over paths with `/`; hidden names match only a part with a dot.

    Raises `ToolError` for a pattern that leaves its folder or stands for too many others.
    """

    def __init__(self, pattern: str, *, alternatives: int = 256) -> None:
        texts = _expanded(pattern, alternatives) if pattern.count("{") <= _BRACES else []
        if not 0 < len(texts) <= alternatives:
            raise ToolError(
                f"glob {pattern!r} stands for more than {alternatives} patterns; use fewer braces"
            )
        choices = [parts_of(_relative(text, pattern)) for text in texts]
        self.top = Level([(parts, begin(parts)) for parts in choices])
        """What it asks for in the folder that it starts from."""


def _relative(text: str, pattern: str) -> str:
    while text.startswith("./"):
        text = text[2:]
    text = re.sub("//+", "/", text)
    if text.startswith("/") or ".." in text.split("/"):
        raise ToolError(f"glob {pattern!r} must stay below `path`; give the folder as `path` instead")
    return text


def _expanded(pattern: str, most: int) -> list[str]:
    """The patterns that one with `{a,b}` stands for, in order; stops soon after `most`."""
    opened = _braces(pattern)
    if opened is None:
        return [pattern]
    start, commas, end = opened
    cuts = [start, *commas, end]
    rests = _expanded(pattern[end + 1 :], most)
    out: list[str] = []
    for i in range(len(cuts) - 1):
        for choice in _expanded(pattern[cuts[i] + 1 : cuts[i + 1]], most):
            out += [pattern[:start] + choice + rest for rest in rests]
            if len(out) > most:
                return out
    return out


def _braces(pattern: str) -> tuple[int, list[int], int] | None:
    """The first balanced pair of braces that holds a choice: its start, its commas, its end."""
    for start, sign in enumerate(pattern):
        if sign != "{":
            continue
        depth, commas = 0, list[int]()
        for i in range(start, len(pattern)):
            depth += (pattern[i] == "{") - (pattern[i] == "}")
            if pattern[i] == "," and depth == 1:
                commas.append(i)
            if depth == 0:
                if commas:
                    return start, commas, i
                break
    return None


def _compiled(text: str) -> re.Pattern[str]:
    """One part as a regular expression over a whole name.

    Between two stars only the first place that fits is tried: what a later star may skip, an
    earlier one need not. An atomic group says so, which keeps the cost linear.
    """
    pieces = _pieces(text)
    if pieces is None:
        return re.compile(_NEVER)
    head, *middle = pieces
    if not middle:
        return re.compile(f"(?s:{head})\\Z")
    *middle, tail = middle
    return re.compile("(?s:" + head + "".join([f"(?>.*?{m})" for m in middle if m]) + f".*{tail})\\Z")


def _pieces(text: str) -> list[str] | None:
    """The regular expressions between the stars; None for a pattern that matches nothing."""
    pieces = [""]
    i = 0
    while i < len(text):
        sign = text[i]
        i += 1
        if sign == "*":
            pieces.append("")
        elif sign == "?":
            pieces[-1] += "."
        elif sign == "[" and (end := text.find("]", i + 1 + (text[i : i + 1] in ("!", "^")))) > 0:
            pieces[-1] += _set(text[i:end])
            i = end + 1
        elif sign == "\\":
            if i == len(text):
                return None
            pieces[-1] += re.escape(text[i])
            i += 1
        else:
            pieces[-1] += re.escape(sign)
    return pieces


def _set(body: str) -> str:
    """`[…]` of a glob. A range that runs backwards holds nothing."""
    negated = body[0] in "!^"
    body = body[1:] if negated else body
    items = ""
    i = 0
    while i < len(body):
        if body[i + 1 : i + 2] == "-" and i + 2 < len(body):
            if body[i] <= body[i + 2]:
                items += f"{re.escape(body[i])}-{re.escape(body[i + 2])}"
            i += 3
        else:
            items += re.escape(body[i])
            i += 1
    if not items:
        return "." if negated else _NEVER
    return f"[{'^' if negated else ''}{items}]"
