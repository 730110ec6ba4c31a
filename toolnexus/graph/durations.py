"""Durations as Go writes them: `1h30m`, `1.5s`, `500ms`."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
DOCUMENT = "document"
"""The key of a validation context that says: this was written down, so a number has no unit."""


def parse_duration(text: str) -> float:
    """The seconds of a duration such as `1h30m`. Raises `ValueError` that says how to write one."""
    sign, rest = (-1.0, text[1:]) if text[:1] == "-" else (1.0, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    total, at = 0.0, 0
    while at < len(rest) and (found := _PART.match(rest, at)):
        total += float(found[1]) * _UNITS[found[2]]
        at = found.end()
    if not rest or at != len(rest) or math.isinf(total):
        raise ValueError(f"{text!r} is no duration; write numbers with units, such as '500ms' or '1h30m'")
    return sign * total


def _seconds(value: Any, info: ValidationInfo) -> float:
    if isinstance(value, str):
        return parse_duration(value)
    written = bool(info.context and info.context.get(DOCUMENT))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (written and value != 0):
        raise ValueError(f"{value!r} is no duration; write it with a unit, such as '30s'")
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is no duration")
    return float(value)


Duration = Annotated[float, BeforeValidator(_seconds)]
"""Seconds; in a document a text with units."""
