"""Texts that others wrote, as UTF-8 can have them."""

from __future__ import annotations

import json
import re
from typing import Any

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """`text` with lone surrogates (bytes that are no UTF-8, or half a pair of escapes) as U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def encodable_json(value: Any) -> Any:
    """A JSON value with the same done to every text in it. Raises `ValueError` for what is no JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return json.loads(encodable(text)) if _LONE_SURROGATE.search(text) else value
