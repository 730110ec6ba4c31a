"""Messages as the JSON that the semantic conventions want of them. Only made when the host asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from toolnexus.core.messages import (
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from toolnexus.core.model import ModelRequest

Redact = Callable[[str], str]


def system(request: ModelRequest, redact: Redact) -> str | None:
    """The system prompt; None without one."""
    return as_json([{"type": "text", "content": redact(request.system)}]) if request.system else None


def messages(given: Sequence[Message], redact: Redact, stop: str | None = None) -> str:
    """`given`; `stop` is why the model stopped, when they are its reply. Images and files are only named."""
    out: list[dict[str, Any]] = []
    for message in given:
        parts = [shown for part in message.parts if (shown := _part(part, redact)) is not None]
        entry: dict[str, Any] = {"role": message.role, "parts": parts}
        if stop is not None:
            entry["finish_reason"] = stop
        out.append(entry)
    return as_json(out)


def arguments(text: str, redact: Redact) -> Any:
    """The arguments of a call without secrets, also those that are spelt with escapes; text when they
    are no JSON."""
    try:
        return _masked(json.loads(text or "{}"), redact)
    except (ValueError, RecursionError):
        return redact(text)


def as_json(value: object) -> str:
    """`value` as an attribute can hold it."""
    return json.dumps(value, ensure_ascii=False)


def _part(part: Part, redact: Redact) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "text", "content": redact(part.text)}
        case ReasoningPart():
            return {"type": "reasoning", "content": redact(part.text)}
        case ToolCallPart():
            given = arguments(part.arguments, redact)
            return {"type": "tool_call", "id": part.id, "name": redact(part.name), "arguments": given}
        case ToolResultPart():
            return {"type": "tool_call_response", "id": part.call_id, "response": redact(part.output)}
        case MediaPart():
            return {"type": "media", "mime_type": part.mime_type}
        case _:
            return None


def _masked(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_masked(item, redact) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {redact(k): _masked(v, redact) for k, v in cast("dict[str, Any]", value).items()}
    return value
