"""Where data differs from what a fixture says of it. Knows nothing but JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

LONGEST = 400


def compare(expected: Any, actual: Any, where: str) -> Iterator[str]:
    """Hold `actual` against `expected`; one line for everything that differs.

    An object asks for its own keys only, unless it is `exactly` and a value; a list for the same length.
    Against a text or a list an object holds tests; against a number a list is a range. All else is equal.
    """
    match expected, actual:
        case {"exactly": value}, _:
            if value != actual:
                yield difference(f"{where}.exactly", value, actual)
        case dict(), str() | list():
            yield from _tested(cast("dict[str, Any]", expected), cast(Any, actual), where)
        case dict(), dict():
            given = cast("dict[str, Any]", actual)
            for key, value in cast("dict[str, Any]", expected).items():
                yield from compare(value, given.get(key), f"{where}.{key}")
        case list(), list():
            wanted, given = cast("list[Any]", expected), cast("list[Any]", actual)
            if len(wanted) != len(given):
                yield difference(f"{where} ({len(wanted)} of them)", wanted, given)
            for place, (one, other) in enumerate(zip(wanted, given, strict=False)):
                yield from compare(one, other, f"{where}[{place}]")
        case [int(first), int(last)], int() if first <= actual <= last:
            pass
        case _:
            if expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
                yield difference(where, expected, actual)


def _tested(tests: dict[str, Any], actual: Any, where: str) -> Iterator[str]:
    for test, wanted in tests.items():
        whole = test == "equals" or isinstance(wanted, str)
        for piece in [wanted] if whole else cast("list[str]", wanted):
            if not _TESTS[test](piece, actual):
                yield difference(f"{where}.{test}", piece, actual)


def fits(expected: Any, actual: Any) -> bool:
    """Whether nothing differs."""
    return next(compare(expected, actual, ""), None) is None


def difference(where: str, expected: Any, actual: Any) -> str:
    """The line that says what was expected at a place of the case, and what was there."""
    return f"{where}: expected {_short(expected)}, got {_short(actual)}"


def _like(pattern: str, actual: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), actual, re.DOTALL) is not None


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "contains": lambda piece, actual: piece in actual,
    "lacks": lambda piece, actual: piece not in actual,
    "like": _like,
    "equals": lambda names, actual: sorted(names) == sorted(actual),
}


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}… ({len(shown)} characters)"
