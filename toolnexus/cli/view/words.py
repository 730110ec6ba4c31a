"""Making text fit for one line of a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

_TELLING = ("path", "pattern", "command", "query", "url", "name", "agent", "question", "prompt")


_STEERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that turn the direction of the text around them."""


def printable(text: str, *, keep: str = "") -> str:
    """`text` without what could steer the terminal or cannot be shown, except characters in `keep`."""
    if text.isprintable():
        return text
    return "".join([c if c in keep or not _steers(c) else " " for c in text])


def _steers(character: str) -> bool:
    return character in _STEERING or unicodedata.category(character) in ("Cc", "Cs")


def one_line(text: str) -> str:
    """The first line that says something."""
    lines = text.split("\n")
    return printable(next((line for line in lines if line.strip()), "").strip())


def cells(text: str) -> int:
    """How many columns `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(c) for c in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` columns: cut with a mark, or filled up."""
    if cells(text) > width:
        kept, used = "", 0
        for character in text:
            if used + _cells(character) > width - 1:
                break
            kept, used = kept + character, used + _cells(character)
        text = kept + "~" if width > 0 else ""
    return text + " " * (width - cells(text))


def telling(arguments: Mapping[str, Any] | None) -> str:
    """The one argument that says what a call is about, in one line."""
    if not arguments:
        return ""
    known = [arguments[key] for key in _TELLING if isinstance(arguments.get(key), str)]
    texts = known or [value for value in arguments.values() if isinstance(value, str)]
    return one_line(texts[0]) if texts else ""


def plural(count: int, thing: str) -> str:
    """`1 tool call`, `2 tool calls`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
