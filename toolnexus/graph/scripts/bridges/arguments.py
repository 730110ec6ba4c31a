"""What scripts hand in, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolnexus.graph.scripts.runtime import ScriptError


def invalid(problem: str) -> ScriptError:
    """The error for a wrong argument."""
    return ScriptError("validation", problem)


def text(value: Any, what: str) -> str:
    """`value`, which must be text that is not empty."""
    if not isinstance(value, str) or not value:
        raise invalid(f"{what} must be text, not {shown(value)}")
    return value


def whole(value: Any, what: str, least: int = 0, most: int | None = None) -> int:
    """`value`, which must be a whole number: in scripts 1.0 is one."""
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    bounds = f"from {least} to {most}" if most is not None else f"of {least} or more"
    if isinstance(number, bool) or not isinstance(number, int) or number < least or number > (most or number):
        raise invalid(f"{what} must be a whole number {bounds}, not {shown(value)}")
    return number


def table(value: Any, what: str, allowed: Sequence[str] | None = None) -> Mapping[str, Any]:
    """`value`, which must be an object; with the fields `allowed` only. Null is an empty one."""
    if value is None or value == []:  # an empty table of Lua may be either
        return {}
    if not isinstance(value, Mapping):
        raise invalid(f"{what} must be an object, not {shown(value)}")
    fields = cast("Mapping[str, Any]", value)
    if allowed is not None and (unknown := [key for key in fields if key not in allowed]):
        raise invalid(f"{what} has an unknown field {unknown[0]!r}; allowed: {', '.join(allowed)}")
    return fields


def items(value: Any, what: str) -> list[Any]:
    """`value`, which must be a list; an empty table of Lua is an empty one."""
    if value == {}:
        return []
    if not isinstance(value, list):
        raise invalid(f"{what} must be a list, not {shown(value)}")
    return cast("list[Any]", value)


def shown(value: Any) -> str:
    """What a wrong value is called in an error."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return repr(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    return "an object" if isinstance(value, Mapping) else "a list"
