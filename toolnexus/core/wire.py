"""Messages as versioned JSON: what stores hold.

Version 1: `{"v": 1, "role", "parts": [{"type", …}], "origin"?, "extra"?}`. Absent keys are left
out, unknown parts are an error: a record that we do not understand is never half read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

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

VERSION = 1

_TYPES: dict[str, type[Any]] = {
    "text": TextPart,
    "media": MediaPart,
    "reasoning": ReasoningPart,
    "opaque": OpaquePart,
    "tool_call": ToolCallPart,
    "tool_result": ToolResultPart,
}
_KINDS: dict[str, type[Any]] = {"extra": dict, "is_error": bool, "media": tuple}
_NAMES = {cls: name for name, cls in _TYPES.items()}


def message_to_json(message: Message) -> dict[str, Any]:
    """`message` as JSON values."""
    out: dict[str, Any] = {"v": VERSION, "role": message.role, "parts": [_part(p) for p in message.parts]}
    if message.origin is not None:
        out["origin"] = message.origin
    if message.extra is not None:
        out["extra"] = dict(message.extra)
    return out


def message_from_json(data: Mapping[str, Any]) -> Message:
    """The message that `message_to_json` wrote.

    Raises `ValueError` that says what is wrong when the record is torn or of another version.
    """
    try:
        version, role, parts = data["v"], data["role"], data["parts"]
        if version != VERSION:
            raise ValueError(f"message record of version {version!r}; this release reads {VERSION}")
        if role not in ("user", "assistant", "tool", "system"):
            raise ValueError(f"message record with role {role!r}")
        values = {k: data[k] for k in ("origin", "extra") if k in data}
        _check(values)
        return Message(role, tuple([_unpart(p) for p in parts]), **values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a message record: {type(error).__name__} {error}") from error


def _part(part: Part) -> dict[str, Any]:
    out: dict[str, Any] = {"type": _NAMES[type(part)]}
    for f in fields(part):
        value = getattr(part, f.name)
        if f.name == "media":
            if value:
                out["media"] = [_part(m) for m in value]
        elif value is not None and not (f.name == "is_error" and value is False):
            out[f.name] = value
    return out


def _unpart(data: Mapping[str, Any]) -> Part:
    values = {k: v for k, v in data.items() if k != "type"}
    if "media" in values:
        values["media"] = tuple([_unpart(m) for m in values["media"]])
    _check(values, data["type"])
    return _TYPES[data["type"]](**values)


def _check(values: Mapping[str, Any], type: str = "message") -> None:
    """All fields are text, but for the few in `_KINDS`."""
    for name, value in values.items():
        kind = dict if (type, name) == ("opaque", "data") else _KINDS.get(name, str)
        if not isinstance(value, kind):
            raise ValueError(f"message record with {name}={value!r}, which is no {kind.__name__}")
