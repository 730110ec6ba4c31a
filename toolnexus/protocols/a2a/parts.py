"""Parts and messages of A2A, and ours: both ways.

What comes from the other side is never trusted: a file that is none becomes a sentence, and the rest
of the message stays.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from a2a.types import Message as A2AMessage
from a2a.types import Part as A2APart
from a2a.types import Role
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct, Value

from toolnexus.core.media import kind_of_suffix
from toolnexus.core.messages import MediaPart, Message, Part, TextPart
from toolnexus.core.unicode import encodable, encodable_json
from toolnexus.errors import ConfigError

_UNKNOWN = "application/octet-stream"
_MOST_EXACT = 2**53
"""Numbers of A2A data are floats; up to here a whole one is still what was meant."""


def to_a2a(parts: Iterable[Part]) -> list[A2APart]:
    """Texts and media as A2A parts; what only a model understands (reasoning, calls) is left out."""
    out: list[A2APart] = []
    for part in parts:
        if isinstance(part, TextPart):
            if part.text:
                out.append(text_part(part.text))
        elif isinstance(part, MediaPart):
            content = {"url": part.url} if part.data is None else {"raw": b64decode(part.data)}
            out.append(A2APart(**content, media_type=part.mime_type, filename=part.name or ""))  # type: ignore[arg-type]
    return out


def text_part(text: str) -> A2APart:
    """A text as a part, whatever is in it."""
    return A2APart(text=encodable(text))


def data_part(value: Any) -> A2APart:
    """A JSON value as a data part. Raises `ValueError` for what is no JSON, infinite numbers among it."""
    try:
        return A2APart(data=ParseDict(encodable_json(value), Value()), media_type="application/json")
    except (ParseError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(value).__name__} cannot be sent as JSON: {error}") from error


def from_a2a(parts: Iterable[A2APart]) -> list[TextPart | MediaPart]:
    """A2A parts as ours: data as JSON text, a file inline or by reference, in the order they came.

    Never raises: what cannot be read is a sentence that says so.
    """
    return [_ours(part) for part in parts]


def text_and_media(parts: Iterable[A2APart], between: str = "\n") -> tuple[str, tuple[MediaPart, ...]]:
    """What a model reads of `parts`, and the media beside it. Never raises.

    `between` stands between two texts; `""` for the chunks of a streamed artifact. Data and what
    could not be read stand on lines of their own.
    """
    texts: list[str] = []
    media: list[MediaPart] = []
    after_text = False
    for part in parts:
        ours, is_text = _ours(part), part.WhichOneof("content") == "text"
        if isinstance(ours, MediaPart):
            media.append(ours)
        else:
            if texts:
                texts.append(between if is_text and after_text else "\n")
            texts.append(ours.text)
        after_text = is_text
    return "".join(texts), tuple(media)


def message_to_a2a(
    parts: Iterable[A2APart], *, role: Role = Role.ROLE_USER, task_id: str = "", context_id: str = ""
) -> A2AMessage:
    """A message with an id of its own; `""` is no task, or no context."""
    return A2AMessage(message_id=str(uuid4()), role=role, parts=parts, task_id=task_id, context_id=context_id)


def message_from_a2a(message: A2AMessage) -> Message:
    """The same message as ours; whoever is not the agent is the user."""
    return Message("assistant" if message.role == Role.ROLE_AGENT else "user", tuple(from_a2a(message.parts)))


def plain(value: Value | Struct) -> Any:
    """Data or metadata as a JSON value, whole numbers as `int`."""
    if isinstance(value, Struct):
        return {key: plain(inner) for key, inner in value.fields.items()}
    match value.WhichOneof("kind"):
        case "struct_value":
            return plain(value.struct_value)
        case "list_value":
            return [plain(inner) for inner in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) <= _MOST_EXACT else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case _:
            return None


def _ours(part: A2APart) -> TextPart | MediaPart:
    kind = part.media_type or kind_of_suffix(part.filename)
    match part.WhichOneof("content"):
        case "text":
            return TextPart(part.text)
        case "data":
            # sorted: protobuf has its keys in another order every time
            return TextPart(json.dumps(plain(part.data), ensure_ascii=False, sort_keys=True))
        case "raw":
            return _media(part, kind, b64encode(part.raw).decode("ascii"), None)
        case "url" if part.url[:5].lower() == "data:":
            return _media(part, kind, part.url.rpartition(";base64,")[2], None)
        case "url":
            return _media(part, kind or kind_of_suffix(part.url), None, part.url)
        case _:
            return TextPart("[a part without content]")


def _media(part: A2APart, kind: str, data: str | None, url: str | None) -> TextPart | MediaPart:
    name = part.filename or None
    try:
        return MediaPart(kind or _UNKNOWN, data=data, url=url, name=name)
    except ConfigError as error:
        called = f" {name!r}" if name else ""
        return TextPart(f"[the file{called} cannot be read: {error}]")
