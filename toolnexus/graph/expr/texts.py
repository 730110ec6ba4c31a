"""Values as text: `string(x)`, `toJSON(x)`, `fromJSON(x)`."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from toolnexus.core import strict_json
from toolnexus.graph.expr.dates import SECOND, Date, Duration, Month, Weekday, Zone
from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.layouts import RFC3339, format_time, show
from toolnexus.graph.expr.values import (
    AnyMap,
    Frame,
    is_list,
    is_map,
    kind_of,
    spend,
    type_name,
    visit,
    weigh,
)

_UNSAFE = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def float_text(value: float, *, json_form: bool = False) -> str:
    """The shortest digits that give `value` back, in the form that Go prints."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    if not value:
        return "-0" if math.copysign(1, value) < 0 else "0"
    mantissa, _, exponent = f"{value!r}e".partition("e")
    sign = "-" if value < 0 else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent.rstrip("e") or 0)
    digits = digits.rstrip("0") or "0"
    power = point - 1
    low, high = (-6, 21) if json_form else (-4, 6)
    if low <= power < high:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return sign + (digits[:point].ljust(point, "0") + "." + digits[point:]).rstrip(".")
    pad = "d" if json_form and power < 0 else "02d"
    shown = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{shown}e{'-' if power < 0 else '+'}{abs(power):{pad}}"


def _int_text(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        raise ExprEvalError("an integer has too many digits") from None


def text(frame: Frame, value: Any) -> str:
    """`string(value)`: lists as `[1 2]`, maps as `map[key:value]` with sorted keys."""
    if isinstance(value, str):
        weigh(frame, value)
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _int_text(value)
    if isinstance(value, float):
        return float_text(value)
    if is_list(value) or isinstance(value, bytes):
        visit(frame, value)
        return f"[{' '.join([text(frame, item) for item in value])}]"
    if is_map(value):
        visit(frame, value)
    if isinstance(value, AnyMap):
        pairs = [(key if isinstance(key, str) else key[1], item) for key, item in value.items()]
        shown = sorted((text(frame, key), text(frame, item)) for key, item in pairs)
        return f"map[{' '.join(f'{key}:{item}' for key, item in shown)}]"
    if is_map(value):
        keys = sorted(value, key=str)
        return f"map[{' '.join(f'{key}:{text(frame, value[key])}' for key in keys)}]"
    if isinstance(value, Date | Duration | Month | Weekday | Zone):
        return show(value)
    raise ExprEvalError(f"{type_name(value)} has no text")


def to_json(frame: Frame, value: Any, indent: str = "\n") -> str:
    """`toJSON(value)`: two blanks of indent, sorted keys, times as RFC 3339, durations in nanoseconds."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        weigh(frame, value)
        return json.dumps(value, ensure_ascii=False).translate(_UNSAFE)
    if isinstance(value, int):
        return _int_text(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExprEvalError(f"{float_text(value)} has no JSON")
        return float_text(value, json_form=True)
    if isinstance(value, AnyMap):
        raise ExprEvalError("a map with keys of any type has no JSON")
    deeper = indent + "  "
    if is_list(value):
        visit(frame, value)
        items = [to_json(frame, item, deeper) for item in value]
        return f"[{deeper}{f',{deeper}'.join(items)}{indent}]" if items else "[]"
    if is_map(value):
        visit(frame, value)
        items = [
            f"{to_json(frame, key)}: {to_json(frame, value[key], deeper)}" for key in sorted(value, key=str)
        ]
        return f"{{{deeper}{f',{deeper}'.join(items)}{indent}}}" if items else "{}"
    return to_json(frame, plain(value))


def plain(value: Any) -> Any:
    """A value of the language's own types as JSON has it. Raises `ExprEvalError` for a function."""
    if isinstance(value, Date):
        shown = format_time(value.fields(), RFC3339)
        if value.instant % SECOND:
            shown = format_time(value.fields(), "2006-01-02T15:04:05.999999999Z07:00")
        return shown
    if isinstance(value, Duration):
        return value.nanoseconds
    if isinstance(value, Month | Weekday):
        return value.number
    if isinstance(value, Zone):
        return {}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise ExprEvalError(f"{type_name(value)} has no JSON")


def from_json(frame: Frame, source: str) -> Any:
    """`fromJSON(source)`; every number is a float."""
    spend(frame, len(source) >> 3)
    try:
        return _floats(frame, strict_json.decode(source))
    except ExprEvalError:
        raise
    except ValueError as error:
        raise ExprEvalError(f"fromJSON: {error}") from None


def _floats(frame: Frame, value: Any) -> Any:
    if is_list(value):
        return [_floats(frame, item) for item in value]
    if is_map(value):
        return {key: _floats(frame, item) for key, item in value.items()}
    if kind_of(value) is not int:
        return value
    try:
        return float(value)
    except OverflowError:
        raise ExprEvalError("fromJSON: a number is too large") from None


def export(frame: Frame, value: Any) -> Any:
    """A detached copy of a result in JSON types. Raises `ExprEvalError` where it has none."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if is_list(value) or is_map(value):
        spend(frame, 10 + (len(value) >> 1))
    if is_list(value):
        return [export(frame, item) for item in value]
    if is_map(value):
        loose = isinstance(value, AnyMap)
        return {
            text(frame, key[1] if loose and not isinstance(key, str) else key): export(frame, item)
            for key, item in value.items()
        }
    if isinstance(value, Zone):
        return value.name
    return plain(value)
