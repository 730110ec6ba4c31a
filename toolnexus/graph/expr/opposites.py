"""Whether one of several conditions always holds, as far as their texts say it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from toolnexus.graph.expr.lexer import tokens

_POSITIVE = {"!=": "==", ">=": "<", "<=": ">"}
_COMPARING = frozenset(
    ("==", "!=", "<", ">=", ">", "<=", "in", "matches", "contains", "startsWith", "endsWith")
)
_LOOSER = frozenset(("not", "||", "or", "&&", "and", "??", "?", ":", "|", ";", "let", "if"))
"""Beside one of these a comparison is not all that is said."""
_UNARY = frozenset(("not", "!", ".", "?."))
_OPENS = ("bracket", "(")

_Words = tuple[tuple[str, str], ...]

_BOOLS: dict[_Words, bool] = {(("name", "true"),): True, (("name", "false"),): False}


def exhaustive(conditions: Iterable[str]) -> bool:
    """Whether two of `conditions`, which compile, are opposites.

    `x == true` and `x == false`, `c` and `not c`, `n < 5` and `n >= 5` are; other ways in which one of them
    always holds are not seen.
    """
    said = {_sided(tuple([(t.kind, t.value) for t in tokens(text)[:-1]])) for text in conditions}
    return any((words, not holds) in said for words, holds in said)


def _sided(words: _Words) -> tuple[_Words, bool]:
    """What is said, and whether it is said to hold or not to."""
    depths = _depths(words)
    if words[0] == _OPENS and depths.index(0) == len(words) - 1:
        return _sided(words[1:-1])
    outer = {n: value for n, (kind, value) in enumerate(words) if kind == "operator" and not depths[n]}
    if outer.get(0) in ("not", "!"):
        if not {*outer.values()} <= _UNARY:
            return words, True
        said, holds = _sided(words[1:])
        return said, not holds
    comparing = [n for n, value in outer.items() if value in _COMPARING]
    if len(comparing) != 1 or not _LOOSER.isdisjoint(outer.values()):
        return words, True
    (at,) = comparing
    left, right = words[:at], words[at + 1 :]
    holds, operator = outer[at] not in _POSITIVE, _POSITIVE.get(outer[at], outer[at])
    if operator == "==" and right in _BOOLS:
        said, positive = _sided(left)
        return said, positive is (holds is _BOOLS[right])
    return (*left, ("operator", operator), *right), holds


def _depths(words: _Words) -> list[int]:
    """In how many brackets each word stands; one that closes stands outside of its own."""
    steps = [0 if kind != "bracket" else 1 if value in "([{" else -1 for kind, value in words]
    return list(accumulate(steps))
