"""The JSON in what a model wrote."""

from __future__ import annotations

import json
import re
from typing import Any

from toolnexus.core.strict_json import decode


class _Absent:
    """What a text holds that is no JSON: None is a JSON value."""


ABSENT = _Absent()

MOST = 20
"""How many values of one text are looked at."""

_FENCED = re.compile(r"```[\w+-]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_OPENS = re.compile(r'\{\s*["}]|\[\s*(?:[\[{"\]\d-]|true|false|null)')
_decoder = json.JSONDecoder()


def whole(text: str) -> Any:
    """The JSON value that `text` is, or `ABSENT`."""
    try:
        return decode(text.strip())
    except (ValueError, RecursionError):
        return ABSENT


def json_values(text: str) -> list[Any]:
    """The JSON values in `text`, the likeliest answer first: the whole of it, in fences, in prose.

    Of several the last one comes first: models think before they answer. What breaks off is nothing,
    and what stands inside of it is not taken for it.
    """
    value = whole(text)
    if value is not ABSENT:
        return [value]
    for texts in (_FENCED.findall(text), _scattered(text)):
        found = [value for value in map(whole, texts[-MOST:]) if value is not ABSENT]
        if found:
            return found[::-1]
    return []


def _scattered(text: str) -> list[str]:
    """Objects and lists between other text."""
    found: list[str] = []
    end = 0
    while (match := _OPENS.search(text, end)) is not None:
        try:
            _, end = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            break
        found.append(text[match.start() : end])
    return found
