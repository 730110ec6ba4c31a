"""Messages as `{role, content: {parts}}`: what documents and scripts of graphs read and write.

Decoding is strict: an unknown role, kind or field is an error, and so is a message without parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from toolnexus.core.messages import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

DATA = "data"
"""The origin of a part that holds any JSON value; models read it as JSON text."""
MEDIA = ("image", "audio", "video", "file")
_ORDINARY = {"image": "image/png", "audio": "audio/mpeg", "video": "video/mp4"}
ROLES = ("system", "user", "assistant", "tool")


def message_to_wire(message: Message) -> dict[str, Any]:
    """`message` as JSON values. Opaque blocks of a provider keep what only that provider reads."""
    return {"role": message.role, "content": {"parts": [part_to_wire(part) for part in message.parts]}}


def message_from_wire(data: object) -> Message:
    """The message that `data` writes down. Raises `ValueError`."""
    fields = _table(data, "a message", ("role", "content"))
    role = fields.get("role")
    if role not in ROLES:
        raise ValueError(f"a message has the role {role!r}; allowed: {', '.join(ROLES)}")
    return Message(role, parts_from_wire(fields.get("content")))


def parts_from_wire(content: object, where: str = "content") -> tuple[Part, ...]:
    """The parts of `{parts: [...]}`. Raises `ValueError`."""
    parts = _table(content, where, ("parts",)).get("parts")
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"{where}.parts must be a list with at least one part")
    return tuple([part_from_wire(part) for part in cast("list[object]", parts)])


def part_to_wire(part: Part) -> dict[str, Any]:
    """One part as JSON values."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, MediaPart):
        kind = part.mime_type.partition("/")[0]
        source = {"url": part.url, "data": part.data, "mime_type": part.mime_type, "name": part.name}
        told = {key: value for key, value in source.items() if value}
        return {"type": kind if kind in MEDIA else "file", "source": told}
    if isinstance(part, ReasoningPart):
        extra = {} if part.extra is None else {"extra": dict(part.extra)}
        return {"type": "reasoning", "text": part.text, "origin": part.origin, **extra}
    if isinstance(part, ToolCallPart):
        return {"type": "tool_call", "call": call_to_wire(part)}
    if isinstance(part, ToolResultPart):
        return {"type": "tool_result", "result": result_to_wire(part)}
    if part.origin == DATA:
        return {"type": "data", "data": part.data["value"]}
    return {"type": "data", "data": dict(part.data), "origin": part.origin}


def call_to_wire(call: ToolCallPart) -> dict[str, Any]:
    """`{id, name, arguments}`, the arguments as the JSON text that the model wrote."""
    out: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return out if call.extra is None else {**out, "extra": dict(call.extra)}


def result_to_wire(result: ToolResultPart) -> dict[str, Any]:
    """`{call_id, content: {parts}, is_error}`."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": result.output}]
    if result.media and not result.output:
        parts = []
    parts += [part_to_wire(media) for media in result.media]
    return {"call_id": result.call_id, "content": {"parts": parts}, "is_error": result.is_error}


def part_from_wire(data: object) -> Part:
    """The part that `data` writes down. Raises `ValueError`."""
    table: Mapping[str, Any] = cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
    read = _READERS.get(cast("Any", table.get("type")))
    if read is None:
        found = repr(table["type"]) if "type" in table else type(cast("object", data)).__name__
        raise ValueError(f"{found} is no kind of part; allowed: {', '.join(_READERS)}")
    return read(table)


def _text(data: Mapping[str, Any]) -> Part:
    fields = _table(data, "a text part", ("type", "text"))
    return TextPart(_string(fields, "text", "a text part"))


def _reasoning(data: Mapping[str, Any]) -> Part:
    where = "a reasoning part"
    fields = _table(data, where, ("type", "text", "origin", "extra"))
    extra = fields.get("extra")
    origin = _string(fields, "origin", where) if "origin" in fields else ""
    return ReasoningPart(
        _string(fields, "text", where), origin, None if extra is None else _table(extra, f"{where}: extra")
    )


def _media(data: Mapping[str, Any]) -> Part:
    kind = data["type"]
    fields = _table(data, f"a part of type {kind!r}", ("type", "source"))
    source = _table(fields.get("source"), f"{kind}.source", ("url", "data", "mime_type", "name"))
    told = {key: _string(source, key, f"{kind}.source") for key in source if source[key] is not None}
    mime_type = told.pop("mime_type", "")
    try:
        part = MediaPart(mime_type, **told)
    except ValueError:
        if mime_type or kind not in _ORDINARY:
            raise
        part = MediaPart(_ORDINARY[kind], **told)  # an address that does not tell it
    if kind != "file" and not part.mime_type.startswith(f"{kind}/"):
        raise ValueError(f"the source of {kind!r} is {part.mime_type}; write it as a part of its own kind")
    return part


def _data(data: Mapping[str, Any]) -> Part:
    fields = _table(data, "a data part", ("type", "data", "origin"))
    if "data" not in fields:
        raise ValueError("a data part needs 'data'")
    if "origin" in fields:
        return OpaquePart(
            _string(fields, "origin", "a data part"), dict(_table(fields["data"], "the data of a provider"))
        )
    return OpaquePart(DATA, {"value": fields["data"]})


def _tool_call(data: Mapping[str, Any]) -> Part:
    return call_from_wire(_table(data, "a tool_call part", ("type", "call")).get("call"))


def call_from_wire(data: object) -> ToolCallPart:
    """The call of `{id, name, arguments?}`; arguments are JSON text or an object. Raises `ValueError`."""
    fields = _table(data, "a tool call", ("id", "name", "arguments", "extra"))
    id, name = _string(fields, "id", "a tool call"), _string(fields, "name", "a tool call")
    if not id or not name:
        raise ValueError("a tool call needs an 'id' and a 'name' that are not empty")
    arguments = fields.get("arguments", "{}")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str):
        raise ValueError("a tool call has 'arguments' that are neither JSON text nor an object")
    extra = fields.get("extra")
    return ToolCallPart(id, name, arguments, None if extra is None else _table(extra, "a tool call: extra"))


def _tool_result(data: Mapping[str, Any]) -> Part:
    return result_from_wire(_table(data, "a tool_result part", ("type", "result")).get("result"))


def result_from_wire(data: object) -> ToolResultPart:
    """The result of `{call_id, content: {parts}, is_error?}`. Raises `ValueError`."""
    fields = _table(data, "a tool result", ("call_id", "content", "is_error"))
    failed = fields.get("is_error", False)
    if not isinstance(failed, bool):
        raise ValueError("a tool result has an 'is_error' that is neither true nor false")
    call_id = _string(fields, "call_id", "a tool result")
    parts = parts_from_wire(fields.get("content"), "the content of a tool result")
    texts = [text_of(part) for part in parts if not isinstance(part, MediaPart)]
    media = [part for part in parts if isinstance(part, MediaPart)]
    return ToolResultPart(call_id, "\n".join(texts), failed, tuple(media))


def text_of(part: Part) -> str:
    """What a model reads of a part that is no media: its text, or its data as JSON."""
    if isinstance(part, (TextPart, ReasoningPart)):
        return part.text
    return json.dumps(part_to_wire(part).get("data"), ensure_ascii=False)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Part]] = {
    "text": _text,
    "reasoning": _reasoning,
    **dict.fromkeys(MEDIA, _media),
    "data": _data,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
}


def _table(data: object, where: str, allowed: Sequence[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} must be an object, not {type(data).__name__}")
    table = cast("Mapping[str, Any]", data)
    if allowed is not None and (unknown := [key for key in table if key not in allowed]):
        raise ValueError(f"{where} has an unknown field {unknown[0]!r}; allowed: {', '.join(allowed)}")
    return table


def _string(fields: Mapping[str, Any], key: str, where: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{where} needs {key!r} as text, not {type(value).__name__}")
    return value
