"""How a built-in function is declared, and what its arguments are checked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.natures import NUMBERS, Function, Nature, Overload, unknown
from toolnexus.graph.expr.values import Frame, as_int, is_list, is_map, kind_of, type_name

Rule = Callable[[Sequence[Nature]], Nature]
"""The natures of the arguments → that of the result. Raises `TypeError` with what is wrong."""


class Builtin(NamedTuple):
    """A built-in: what a call is checked against, and what it does with the frame and the arguments."""

    check: Function
    run: Callable[..., Any]


def builtin(
    name: str, run: Callable[..., Any], *overloads: Overload, rule: Rule | None = None
) -> tuple[str, Builtin]:
    """An entry of a table of functions."""
    return name, Builtin(Function(name, overloads, rule), run)


def takes(*parameters: Nature, gives: Nature) -> Overload:
    """One way to call a function."""
    return Overload(parameters, gives)


def count(natures: Sequence[Nature], *allowed: int) -> None:
    """Refuse another number of arguments."""
    if len(natures) not in allowed:
        wanted = " or ".join(str(number) for number in allowed)
        raise TypeError(f"takes {wanted} argument{'s' * (allowed != (1,))}, got {len(natures)}")


def numeric(nature: Nature) -> bool:
    """Whether the nature counts something: numbers, durations, months."""
    return nature in NUMBERS or nature.kind in ("duration", "month", "weekday")


def one(result: Nature, *kinds: str, numbers: bool = False) -> Rule:
    """The rule of a function of one argument of these kinds."""

    def rule(given: Sequence[Nature]) -> Nature:
        count(given, 1)
        nature = given[0]
        if not (unknown(nature) or nature.kind in kinds or (numbers and numeric(nature))):
            raise TypeError(f"cannot take {nature.name}")
        return result

    return rule


def needs_text(value: Any, name: str) -> str:
    """`value`, which must be a string."""
    if kind_of(value) is not str:
        raise ExprEvalError(f"{name} needs a string, got {type_name(value)}")
    return value


def needs_array(value: Any, name: str) -> list[Any]:
    """`value`, which must be an array."""
    if not is_list(value):
        raise ExprEvalError(f"{name} needs an array, got {type_name(value)}")
    return value


def needs_map(value: Any, name: str) -> dict[Any, Any]:
    """`value`, which must be a map."""
    if not is_map(value):
        raise ExprEvalError(f"{name} needs a map, got {type_name(value)}")
    return value


def needs_integer(value: Any, name: str) -> int:
    """`value`, which must be an integer."""
    if kind_of(value) is not int:
        raise ExprEvalError(f"{name} needs an integer, got {type_name(value)}")
    return as_int(value, name)


def of_texts(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of strings only, without the frame."""

    def checked(frame: Frame, *arguments: Any) -> Any:
        for argument in arguments:
            needs_text(argument, name)
        return run(*arguments)

    return checked
