"""Arguments as texts: in an address, a form, a header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote

from toolnexus.errors import ToolError

_WHOLE = 1e15
"""Below it a float that is whole is written without a point: `1e3` from a model means 1000."""


def text_of(value: Any) -> str:
    """`value` as a text: as JSON has it, strings without quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encoded(value: Any, safe: str = "") -> str:
    """`value` percent-encoded, so that it is one piece wherever it stands. Raises `ToolError`."""
    try:
        return quote(text_of(value), safe=safe)
    except UnicodeEncodeError:
        raise ToolError("an argument holds half of a surrogate pair; send whole characters") from None


def pairs(arguments: Mapping[str, Any]) -> Iterator[str]:
    """`name=value` for each argument, encoded; of a list one for each item, of None nothing."""
    for name, value in arguments.items():
        for item in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if item is not None:
                yield f"{encoded(name)}={encoded(item)}"
