"""What the operators do with values while an expression runs.

A frame is a list: the variables, the steps that are left, then one slot per `let` and per loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from toolnexus.graph.expr.dates import Date, Duration, Month, Weekday, Zone
from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.methods import Bound, method_of

Frame = list[Any]
kind_of: Callable[[Any], Any] = type
"""`type` for values that are of any type."""
MOST_STEPS = 1_000_000
"""Items that the loops of one evaluation may visit, and pieces of text and lists that it may copy."""

_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_NUMBERS = frozenset((int, float))
_SIZED = frozenset((str, list, dict, bytes))
_TYPES = {
    type(None): "nil",
    bool: "bool",
    int: "int",
    float: "float",
    str: "string",
    list: "array",
    bytes: "array",
    dict: "map",
    Date: "time.Time",
    Duration: "time.Duration",
    Zone: "time.Location",
    Month: "time.Month",
    Weekday: "time.Weekday",
    Bound: "func",
}


class AnyMap(dict[Any, Any]):
    """A map whose keys may be of any type: made by `groupBy` and `fromPairs`."""


class Pairs(list[Any]):
    """An array that is equal only to others of its kind: `toPairs` makes one, of such arrays of two."""


_TYPES[AnyMap] = "map"
_TYPES[Pairs] = "array"


def is_list(value: Any) -> bool:
    """Whether it is an array."""
    return isinstance(value, list)


def is_map(value: Any) -> bool:
    """Whether it is a map."""
    return isinstance(value, dict)


def is_row(value: Any) -> bool:
    """Whether it has numbered items: an array, a text (its bytes), bytes."""
    return isinstance(value, list | str | bytes)


def type_name(value: Any) -> str:
    """The name of the type of `value` in the language: `nil`, `int`, `array` and so on."""
    name = _TYPES.get(kind_of(value))
    if name is None:
        name = next((n for t, n in _TYPES.items() if isinstance(value, t)), None)
        name = name or "unknown"
    return name


def spend(frame: Frame, steps: int) -> None:
    """Take `steps` from what the evaluation may do. Raises `ExprEvalError` when too few are left."""
    frame[1] -= steps
    if frame[1] < 0:
        raise ExprEvalError(f"the expression takes more than {MOST_STEPS:,} steps; give it less data")


def visit(frame: Frame, value: Any) -> None:
    """Pay for going through the items of `value`, an array or a map."""
    spend(frame, 10 + 4 * len(value))


def weigh(frame: Frame, value: Any) -> Any:
    """Pay for handling `value` as a whole; hands it back."""
    if kind_of(value) in _SIZED and len(value) > 64:
        spend(frame, len(value) >> 6)
    return value


def wrap(value: int, *operands: int) -> int:
    """Keep 64 bits of `value`, as integers of the language have.

    Raises `ExprEvalError` where an operand had more of them: digits of a board are never lost.
    """
    if _MIN <= value <= _MAX:
        return value
    if any(not _MIN <= operand <= _MAX for operand in operands):
        raise ExprEvalError("arithmetic is for integers of 64 bits")
    return ((value - _MIN) & 0xFFFF_FFFF_FFFF_FFFF) + _MIN


def as_float(value: float) -> float:
    """The number as a float. Raises `ExprEvalError` for an integer that no float can hold."""
    try:
        return float(value)
    except OverflowError:
        raise ExprEvalError("an integer is too large for arithmetic with floats") from None


def as_int(value: Any, what: str = "int") -> int:
    """`value` without its fraction. Raises `ExprEvalError` where it is no number, or no integer is near."""
    if kind_of(value) is int:
        if _MIN <= value <= _MAX:
            return value
        raise ExprEvalError(f"{what} needs an integer of 64 bits")
    if kind_of(value) is float and math.isfinite(value):
        return wrap(int(value))
    raise ExprEvalError(f"{what} needs a number, got {type_name(value)}")


def mismatch(operator: str, a: Any, b: Any) -> ExprEvalError:
    """The error of an operator that does not take these two."""
    return ExprEvalError(f"{operator} cannot take {type_name(a)} and {type_name(b)}")


def number(value: Any) -> bool:
    """Whether `value` is an int or a float (a bool is not)."""
    return kind_of(value) in _NUMBERS


# equality


def equal(frame: Frame, a: Any, b: Any) -> bool:
    """`a == b`: numbers by value, lists item by item, maps only when they hold the same types."""
    kind, other = kind_of(a), kind_of(b)
    if kind in _NUMBERS and other in _NUMBERS:
        return a == b if kind is other else as_float(a) == as_float(b)
    if kind is list and other is list:
        return same_items(frame, a, b, equal)
    return identical(frame, a, b)


def same_items(frame: Frame, a: list[Any], b: list[Any], same: Any) -> bool:
    """Whether two lists are equal item by item."""
    if len(a) != len(b):
        return False
    visit(frame, a)
    return all(same(frame, x, y) for x, y in zip(a, b, strict=True))


def identical(frame: Frame, a: Any, b: Any) -> bool:
    """Equality without conversion: 1 and 1.0 differ."""
    kind = kind_of(a)
    if kind is not kind_of(b):
        return False
    if kind is list or kind is Pairs:
        return same_items(frame, a, b, identical)
    if kind is dict or kind is AnyMap:
        if len(a) != len(b):
            return False
        visit(frame, a)
        return all(key in b and identical(frame, value, b[key]) for key, value in a.items())
    return kind in _TYPES and bool(a == b)


def contains(frame: Frame, needle: Any, haystack: Any) -> bool:
    """`needle in haystack`."""
    if haystack is None:
        return False
    if is_list(haystack):
        return _has(frame, haystack, needle)
    if isinstance(haystack, AnyMap):
        return map_key(needle) in haystack
    if is_map(haystack):
        if needle is None:
            return "" in haystack
        if kind_of(needle) is not str:
            raise ExprEvalError(f"the keys of a map are strings, got {type_name(needle)}")
        return needle in haystack
    raise mismatch("in", needle, haystack)


def _has(frame: Frame, items: list[Any], needle: Any) -> bool:
    spend(frame, len(items) >> 3)
    simple = kind_of(needle) is str or (number(needle) and abs(needle) < 2**53)
    if simple and needle not in items:
        return False  # quickly; where Python finds it, it may have taken True for 1
    spend(frame, len(items))
    return any(equal(frame, item, needle) for item in items)


def map_key(key: Any) -> Any:
    """The key under which an `AnyMap` stores `key`: 1, 1.0 and true are three keys."""
    if isinstance(key, list | dict):
        raise ExprEvalError(f"{type_name(key)} cannot be the key of a map")
    return key if kind_of(key) is str else (type(key), key)


# order


def less(operator: str, a: Any, b: Any) -> bool:
    """`a < b`; `operator` is for the error only."""
    kind, other = kind_of(a), kind_of(b)
    if kind in _NUMBERS and other in _NUMBERS:
        return a < b if kind is other else as_float(a) < as_float(b)
    if kind is other and (kind is str or kind is Date or kind is Duration):
        return a < b
    raise mismatch(operator, a, b)


def at_most(operator: str, a: Any, b: Any) -> bool:
    """`a <= b`. Not the contrary of `b < a`: NaN is neither."""
    kind, other = kind_of(a), kind_of(b)
    if kind in _NUMBERS and other in _NUMBERS:
        return a <= b if kind is other else as_float(a) <= as_float(b)
    return not less(operator, b, a) if kind is other else less(operator, a, b)


# arithmetic


def add(frame: Frame, a: Any, b: Any) -> Any:
    """`a + b` of numbers, texts, durations, or a time and a duration."""
    kind, other = kind_of(a), kind_of(b)
    if kind is int and other is int:
        return wrap(a + b, a, b)
    if kind in _NUMBERS and other in _NUMBERS:
        return as_float(a) + as_float(b)
    if kind is str and other is str:
        spend(frame, (len(a) + len(b)) >> 6)
        return a + b
    if kind is Duration and other is Duration:
        return Duration(wrap(a.nanoseconds + b.nanoseconds))
    if kind is Date and other is Duration:
        return a.add(b)
    if kind is Duration and other is Date:
        return b.add(a)
    raise mismatch("+", a, b)


def subtract(a: Any, b: Any) -> Any:
    """`a - b` of numbers, times, durations."""
    kind, other = kind_of(a), kind_of(b)
    if kind is int and other is int:
        return wrap(a - b, a, b)
    if kind in _NUMBERS and other in _NUMBERS:
        return as_float(a) - as_float(b)
    if kind is Date and other is Date:
        return a.since(b)
    if kind is Date and other is Duration:
        return a.add(Duration(-b.nanoseconds))
    if kind is Duration and other is Duration:
        return Duration(wrap(a.nanoseconds - b.nanoseconds))
    raise mismatch("-", a, b)


def multiply(a: Any, b: Any) -> Any:
    """`a * b` of numbers and durations."""
    kind, other = kind_of(a), kind_of(b)
    if kind is int and other is int:
        return wrap(a * b, a, b)
    if kind in _NUMBERS and other in _NUMBERS:
        return as_float(a) * as_float(b)
    if Duration in (kind, other):
        x = a.nanoseconds if kind is Duration else a
        y = b.nanoseconds if other is Duration else b
        if number(x) and number(y):
            return Duration(wrap(x * y) if kind_of(x) is type(y) else as_int(as_float(x) * as_float(y)))
    raise mismatch("*", a, b)


def divide(a: Any, b: Any) -> float:
    """`a / b`, always a float; by zero it is an infinity or NaN."""
    if not (number(a) and number(b)):
        raise mismatch("/", a, b)
    x, y = as_float(a), as_float(b)
    if y:
        return x / y
    if not x or math.isnan(x):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def modulo(a: Any, b: Any) -> int:
    """`a % b` of integers; the result has the sign of `a`."""
    if kind_of(a) is not int or kind_of(b) is not int:
        raise mismatch("%", a, b)
    if not b:
        raise ExprEvalError("% by zero")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def power(a: Any, b: Any) -> float:
    """`a ** b`, always a float."""
    if not (number(a) and number(b)):
        raise mismatch("**", a, b)
    x, y = as_float(a), as_float(b)
    odd = y.is_integer() and math.fmod(y, 2) != 0
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf
    except ValueError:  # zero to a negative power, or a root of a negative number
        if x:
            return math.nan
        return math.copysign(math.inf, x) if odd else math.inf


def negate(value: Any) -> Any:
    """`-value`."""
    if kind_of(value) is int:
        return wrap(-value, value)
    if kind_of(value) is float:
        return -value
    raise ExprEvalError(f"- of {type_name(value)} is not possible")


# parts of values


def fetch(base: Any, key: Any) -> Any:
    """`base[key]` and `base.key`: an item of a list, a byte of a text, a value of a map or nil, a method."""
    if isinstance(base, AnyMap):
        return base.get(map_key(key))
    if is_map(base):
        if kind_of(key) is str:
            return base.get(key)
        if key is None:
            return base.get("")
        raise ExprEvalError(f"the keys of a map are strings, got {type_name(key)}")
    if is_row(base):
        index = as_int(key, "an index")
        items: Any = base.encode("utf-8", "surrogatepass") if kind_of(base) is str else base
        at = index + len(items) if index < 0 else index
        if not 0 <= at < len(items):
            raise ExprEvalError(f"index {index} is out of range, the length is {len(items)}")
        return items[at]
    method = method_of(base, key) if kind_of(key) is str else None
    if method is not None:
        return method
    shown = repr(key[:100]) if kind_of(key) is str else type_name(key)
    raise ExprEvalError(f"{type_name(base)} has no {shown}")


def cut(base: Any, start: Any, stop: Any) -> Any:
    """`base[start:stop]`; of a text it counts bytes."""
    if not is_row(base):
        raise ExprEvalError(f"{type_name(base)} cannot be sliced")
    wide = kind_of(base) is str and not base.isascii()
    items: Any = base.encode("utf-8", "surrogatepass") if wide else base
    length = len(items)
    first = as_int(start, "a slice")
    last = length if stop is None else as_int(stop, "a slice")
    first = max(first + length if first < 0 else first, 0)
    last = min(max(last + length if last < 0 else last, 0), length)
    part = items[min(first, last) : last]
    return text_of(part) if wide else part


def text_of(data: bytes) -> str:
    """Bytes as text; each byte that is not UTF-8 becomes one U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        shown = data.decode("utf-8", "surrogateescape")
        return "".join("�" if "\udc80" <= c <= "\udcff" else c for c in shown)


def span(frame: Frame, first: Any, last: Any) -> list[int]:
    """`first..last`, both ends included."""
    low, high = as_int(first, ".."), as_int(last, "..")
    if high < low:
        return []
    if high - low >= MOST_STEPS:
        raise ExprEvalError(f"a range holds at most {MOST_STEPS:,} integers")
    spend(frame, (high - low) >> 1)
    return list(range(low, high + 1))


def truth(value: Any) -> bool:
    """`value`, which must be a bool. Raises `ExprEvalError`."""
    if value is True or value is False:
        return value
    raise ExprEvalError(f"a bool is needed here, got {type_name(value)}")


def loop(frame: Frame, value: Any) -> list[Any]:
    """The items that a predicate visits: of a list, or the bytes of a text."""
    if is_list(value):
        spend(frame, len(value))
        return value
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        spend(frame, len(data))
        return list(data)
    if is_map(value) and not value:
        return []
    raise ExprEvalError(f"a loop needs an array, got {type_name(value)}")
