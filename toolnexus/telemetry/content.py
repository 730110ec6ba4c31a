"""Messages as the JSON that the semantic conventions want of them. Only made when the host asks for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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
from toolnexus.runtime.redact import Redactor


def system(request: ModelRequest, redact: Redactor) -> str | None:
    """The system prompt; None without one."""
    return as_json([{"type": "text", "content": redact(request.system)}]) if request.system else None


def messages(given: Sequence[Message], redact: Redactor, stop: str | None = None) -> str:
    """`given`; `stop` is why the model stopped, when they are its reply. Images and files are only named."""
    out: list[dict[str, Any]] = []
    for message in given:
        parts = [shown for part in message.parts if (shown := _part(part, redact)) is not None]
        entry: dict[str, Any] = {"role": message.role, "parts": parts}
        if stop is not None:
            entry["finish_reason"] = stop
        out.append(entry)
    return as_json(out)


def arguments(text: str, redact: Redactor) -> Any:
    """The arguments of a call without secrets, also those that are spelt with escapes; text when they
    are no JSON."""
    try:
        return redact.within(json.loads(text or "{}"))
    except (ValueError, RecursionError):
        return redact(text)


def as_json(value: object) -> str:
    """`value` as an attribute can hold it."""
    return json.dumps(value, ensure_ascii=False)


def _part(part: Part, redact: Redactor) -> dict[str, Any] | None:
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
