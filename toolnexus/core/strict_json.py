"""JSON as RFC 8259 has it: no NaN, no Infinity, no number beyond a float."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


# made once: `json.loads` with options makes a decoder for every call
_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def decode(text: str, *, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The value that `text` holds. `pairs` makes the value of an object, also where keys stand twice.

    Raises `ValueError` (a `json.JSONDecodeError` with its position where the text is no JSON), and
    `RecursionError` for what is nested too deeply.
    """
    if pairs is not None:
        return json.JSONDecoder(
            object_pairs_hook=pairs, parse_constant=_no_constant, parse_float=_finite
        ).decode(text)
    try:
        value, end = _decoder.raw_decode(text)
    except json.JSONDecodeError:
        return _decoder.decode(text)  # blanks at the front, or the error
    return value if end == len(text) else _decoder.decode(text)
