"""What is known about the type of a part of an expression before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Nature:
    """A static type. `kind` is its family, `name` what errors call it; compared by identity and name."""

    __slots__ = ("elem", "function", "kind", "name")

    def __init__(
        self, kind: str, name: str, elem: Nature | None = None, function: Function | None = None
    ) -> None:
        self.kind = kind
        self.name = name
        self.elem = elem
        self.function = function


class Overload(NamedTuple):
    """One way to call a function."""

    parameters: tuple[Nature, ...]
    result: Nature


class Function(NamedTuple):
    """What a call is checked against: `overloads`, or `rule` (the natures of the arguments → the result).

    A rule says in a `TypeError` what is wrong.
    """

    name: str
    overloads: tuple[Overload, ...] = ()
    rule: Callable[[Sequence[Nature]], Nature] | None = None


UNKNOWN = Nature("unknown", "unknown")
ANY = Nature("unknown", "any")
"""Like `UNKNOWN`, but declared so by a function or a list: whatever is known can stand in its place."""
NIL = Nature("nil", "nil")
BOOL = Nature("bool", "bool")
INT = Nature("int", "int")
FLOAT = Nature("float", "float")
STRING = Nature("string", "string")
BYTES = Nature("array", "bytes", INT)
TIME = Nature("time", "time")
DURATION = Nature("duration", "duration")
ZONE = Nature("zone", "timezone")
MONTH = Nature("month", "month")
WEEKDAY = Nature("weekday", "weekday")
ARRAY = Nature("array", "array", ANY)
STRINGS = Nature("array", "array of strings", STRING)
MAP = Nature("map", "map", ANY)
ANY_MAP = Nature("map", "map with keys of any type", ANY)
GROUPS = Nature("map", "map of arrays", ARRAY)

NUMBERS = (INT, FLOAT)
_TAKES_NIL = frozenset(("array", "map", "func", "zone"))


def array_of(elem: Nature) -> Nature:
    """An array whose items have the nature `elem`."""
    return Nature("array", "array", elem)


def unknown(nature: Nature) -> bool:
    """Whether nothing is known before the run."""
    return nature.kind == "unknown"


def assignable(nature: Nature, to: Nature) -> bool:
    """Whether a value of the one is also one of the other."""
    if to is ANY:
        return nature is not UNKNOWN
    if nature is NIL:
        return to.kind in _TAKES_NIL
    return nature.kind != "unknown" and nature.kind == to.kind and nature.name == to.name


def comparable(a: Nature, b: Nature) -> bool:
    """Whether `a == b` can make sense."""
    if a.kind == "unknown" or b.kind == "unknown" or a is NIL or b is NIL:
        return True
    if (a in NUMBERS and b in NUMBERS) or a.kind == b.kind == "array":
        return True
    return assignable(a, b)


def compatible(a: Nature, b: Nature, *kinds: Nature) -> bool:
    """Whether one side is unknown and the other unknown too, or one of `kinds`."""
    if a.kind == "unknown":
        return b.kind == "unknown" or b in kinds
    return b.kind == "unknown" and a in kinds
