"""Media in what a tool returned: taken out of lists, mappings and objects before these become JSON.

A model must never read base64 as text: it is long, and says nothing to it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from io import BytesIO
from types import GeneratorType
from typing import Any, cast

from toolnexus.core.media import START, note, sniff
from toolnexus.core.messages import MediaPart, TextPart
from toolnexus.core.tools import ToolResult

MOST_LEVELS = 60
MOST_BYTES = 256
"""Bytes that are no text and are still shown, in base64: a hash, a key; more of them lie in a file."""

_BESIDE = "it goes with this result"
_TOO_DEEP = "[not shown: it is nested too deeply]"


def media_result(value: object, encode: Callable[[object], str]) -> ToolResult | None:
    """What a tool meant that returned media: alone, in a list of texts and media, or among other values.

    Of the latter, `encode` makes text, with a sentence where something was taken out. Media are a
    `MediaPart`, the bytes of an image, a PDF or a sound, and long bytes that are no text, which end
    in a file. None for a value without any. Raises what `encode` raises.
    """
    is_list = isinstance(value, (list, tuple))
    items = cast("Sequence[object]", value) if is_list else (value,)
    texts: list[str] = []
    media: list[MediaPart] = []
    for item in items:
        if isinstance(item, (str, TextPart)):
            texts.append(item if isinstance(item, str) else item.text)
        elif (part := _media_of(item)) is not None:
            media.append(part)
        else:
            break
    else:
        return ToolResult(output="\n".join(texts), parts=tuple(media)) if media else None
    taken = _Taken()
    rest = taken.out_of(value, 0)
    return None if rest is value else ToolResult(output=encode(rest), parts=tuple(taken.media))


def _media_of(value: object) -> MediaPart | None:
    """`value` as media; None when it is none."""
    if isinstance(value, MediaPart):
        return value
    if isinstance(value, BytesIO):
        value = value.getvalue()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return None
    content = bytes(cast("bytes | bytearray | memoryview[int]", value))
    kind = sniff(content[:START])
    if kind is None and (len(content) <= MOST_BYTES or _is_text(content)):
        return None
    return MediaPart(kind or "application/octet-stream", data=b64encode(content).decode("ascii"))


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Taken:
    """What was taken out of one value."""

    def __init__(self) -> None:
        self.media: list[MediaPart] = []
        self._around: set[int] = set()

    def out_of(self, value: object, level: int) -> object:
        """`value` without its media; itself when there are none in it."""
        part = _media_of(value)
        if part is not None:
            self.media.append(part)
            return note(part.mime_type, part.name, part.url, _BESIDE)
        if isinstance(value, GeneratorType):
            return self.out_of(list(cast("Iterable[object]", value)), level)
        inner = _inside(value)
        if inner is None or id(value) in self._around:  # whoever encodes a circle says what is wrong
            return value
        if level > MOST_LEVELS:
            return value if _is_plain(value) else _TOO_DEEP
        self._around.add(id(value))
        found = [(key, item, self.out_of(item, level + 1)) for key, item in inner]
        self._around.discard(id(value))
        if all(item is new for _, item, new in found):
            return value
        if isinstance(value, (Sequence, Set)):
            return [new for _, _, new in found]
        return {key: new for key, _, new in found}


def _inside(value: object) -> list[tuple[Any, Any]] | None:
    """What `value` holds, with its keys; None when it holds nothing."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return None
    if isinstance(value, Mapping):
        return list(cast("Mapping[Any, Any]", value).items())
    if isinstance(value, (Sequence, Set)):
        return list(enumerate(cast("Iterable[Any]", value)))
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    if hasattr(type(value), "model_fields"):  # a pydantic model
        return list(vars(value).items())
    return None


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
