"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from toolnexus.graph.expr.dates import Duration, Month, Weekday
from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.functions.base import builtin, count, needs_integer, numeric, one, takes
from toolnexus.graph.expr.natures import ANY, FLOAT, INT, Nature, unknown
from toolnexus.graph.expr.values import (
    Frame,
    as_float,
    as_int,
    is_list,
    kind_of,
    less,
    number,
    type_name,
    visit,
    wrap,
)

_WORD = (1 << 64) - 1


def _same(given: Sequence[Nature]) -> Nature:
    count(given, 1)
    if unknown(given[0]):
        return ANY
    if not numeric(given[0]):
        raise TypeError(f"cannot take {given[0].name}")
    return given[0]


def _numbers(given: Sequence[Nature]) -> Nature:
    if not given:
        raise TypeError("takes at least 1 argument, got 0")
    for nature in given:
        if unknown(nature) or nature.kind == "array":
            return ANY
        if not numeric(nature):
            raise TypeError(f"cannot take {nature.name}")
    return given[0]


def _abs(frame: Frame, value: Any) -> Any:
    if not number(value):
        raise ExprEvalError(f"abs needs a number, got {type_name(value)}")
    return wrap(abs(value), value) if kind_of(value) is int else abs(value)


def _rounding(name: str, run: Callable[[float], float]) -> Callable[..., float]:
    def rounded(frame: Frame, value: Any) -> float:
        if not number(value):
            raise ExprEvalError(f"{name} needs a number, got {type_name(value)}")
        exact = as_float(value)
        return float(run(exact)) if abs(exact) < 2**52 else exact  # beyond there are no fractions

    return rounded


def _half_up(value: float) -> float:
    whole = math.floor(abs(value))
    return math.copysign(whole + (abs(value) - whole >= 0.5), value)


def _int(frame: Frame, value: Any) -> int:
    if number(value):
        return as_int(value)
    if isinstance(value, Duration):
        return value.nanoseconds
    if isinstance(value, Month | Weekday):
        return value.number
    if kind_of(value) is not str:
        raise ExprEvalError(f"int needs a number or a string, got {type_name(value)}")
    digits = value[1:] if value[:1] in ("+", "-") else value
    if digits.isascii() and digits.isdigit() and len(digits) < 300 and wrap(int(value)) == int(value):
        return int(value)
    raise ExprEvalError(f"int: {value[:80]!r} is no integer")


def _float(frame: Frame, value: Any) -> float:
    if number(value):
        return as_float(value)
    if kind_of(value) is not str:
        raise ExprEvalError(f"float needs a number or a string, got {type_name(value)}")
    lower = value.lower()
    try:
        found = float.fromhex(value) if "x" in lower else float(value)
    except (ValueError, OverflowError):
        found = None
    if found is None or value != value.strip() or (math.isinf(found) and "inf" not in lower):
        raise ExprEvalError(f"float: {value[:80]!r} is no number")
    return found


def _extreme(name: str, sign: int) -> Callable[..., Any]:
    def best(frame: Frame, *arguments: Any) -> Any:
        found: Any = None
        for argument in arguments:
            if is_list(argument):
                visit(frame, argument)
                candidates = [best(frame, item) for item in argument]
                if not all(number(item) for item in candidates):
                    raise ExprEvalError(f"{name} of an array needs numbers in it")
            elif number(argument) or isinstance(argument, Duration):
                candidates = [argument]
            elif len(arguments) == 1:
                return argument
            else:
                raise ExprEvalError(f"{name} needs numbers, got {type_name(argument)}")
            for item in candidates:
                first, second = (found, item) if sign > 0 else (item, found)
                if found is None or less(name, first, second):
                    found = item
        return found

    return best


def _flat(frame: Frame, name: str, arguments: Sequence[Any]) -> list[float]:
    found: list[float] = []
    visit(frame, arguments)
    for argument in arguments:
        if is_list(argument):
            found += _flat(frame, name, argument)
        elif number(argument):
            found.append(as_float(argument))
        else:
            raise ExprEvalError(f"{name} needs numbers, got {type_name(argument)}")
    return found


def _mean(frame: Frame, *arguments: Any) -> float:
    numbers = _flat(frame, "mean", arguments)
    total = 0.0
    for item in numbers:
        total += item
    return total / len(numbers) if numbers else 0.0


def _median(frame: Frame, *arguments: Any) -> float:
    numbers = sorted(_flat(frame, "median", arguments))
    if not numbers:
        return 0.0
    half = len(numbers) // 2
    return numbers[half] if len(numbers) % 2 else (numbers[half - 1] + numbers[half]) / 2


def _bits(name: str, run: Callable[[int, int], int]) -> Any:
    def checked(frame: Frame, a: Any, b: Any) -> int:
        return wrap(run(needs_integer(a, name), needs_integer(b, name)))

    return builtin(name, checked, takes(INT, INT, gives=INT))


def _not(frame: Frame, value: Any) -> int:
    return ~needs_integer(value, "bitnot")


def _shift(value: int) -> int:
    if value < 0:
        raise ExprEvalError(f"a shift by {value} is not possible")
    return min(value, 64)


FUNCTIONS = dict(
    (
        builtin("abs", _abs, rule=_same),
        builtin("ceil", _rounding("ceil", math.ceil), rule=one(FLOAT, numbers=True)),
        builtin("floor", _rounding("floor", math.floor), rule=one(FLOAT, numbers=True)),
        builtin("round", _rounding("round", _half_up), rule=one(FLOAT, numbers=True)),
        builtin("int", _int, rule=one(INT, "string", numbers=True)),
        builtin("float", _float, rule=one(FLOAT, "string", numbers=True)),
        builtin("max", _extreme("max", 1), rule=_numbers),
        builtin("min", _extreme("min", -1), rule=_numbers),
        builtin("mean", _mean, rule=_numbers),
        builtin("median", _median, rule=_numbers),
        _bits("bitand", lambda a, b: a & b),
        _bits("bitor", lambda a, b: a | b),
        _bits("bitxor", lambda a, b: a ^ b),
        _bits("bitnand", lambda a, b: a & ~b),
        _bits("bitshl", lambda a, b: a << _shift(b)),
        _bits("bitshr", lambda a, b: a >> _shift(b)),
        _bits("bitushr", lambda a, b: (a & _WORD) >> _shift(b)),
        builtin("bitnot", _not, takes(INT, gives=INT)),
    )
)
