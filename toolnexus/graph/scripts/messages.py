"""What goes over to a child: JSON that neither its memory nor our event loop is troubled by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any, cast

MOST_BYTES = 10 << 20
"""The largest message, in bytes: 8 MiB of text, and what it takes to write it as JSON."""
MOST_VALUES = 50_000
"""The most values in one message: reading and copying more of them holds up an event loop."""
DEEPEST = 200
"""How deep the lists and objects of a message may be nested."""

_EACH = 100
"""What one value weighs: as much as so many characters."""
_LARGE = 500_000


async def encode(value: Any, what: str) -> bytes:
    """`value` as JSON. Raises `ValueError` about `what` when it is none, or too much.

    Lets others have their turn between two steps of something large.
    """
    if _weight(value, what) > _LARGE:
        await asyncio.sleep(0)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} is not JSON: {error}") from error
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: as an escape it can be written
        data = json.dumps(value, separators=(",", ":")).encode()
    if len(data) > MOST_BYTES:
        raise ValueError(f"{what} is larger than {MOST_BYTES >> 20} MiB")
    return data


def _weight(value: Any, what: str) -> int:
    values = characters = 0
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        values += len(level)
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                characters += len(item)
            elif isinstance(item, (list, tuple, dict)):
                held = cast("Collection[Any]", item.values() if isinstance(item, dict) else item)
                if values + len(below) + len(held) > MOST_VALUES:
                    raise ValueError(f"{what} holds more than {MOST_VALUES} values")
                below.extend(held)
        if characters > MOST_BYTES:
            raise ValueError(f"{what} is larger than {MOST_BYTES >> 20} MiB")
        if not below:
            return values * _EACH + characters
        level = below
    raise ValueError(f"{what} is nested deeper than {DEEPEST}, or holds itself")
