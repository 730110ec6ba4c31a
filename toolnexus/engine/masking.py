"""Replies without our secrets: an endpoint may repeat what it was sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolnexus.core.messages import Message, OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart
from toolnexus.core.model import ModelResponse
from toolnexus.runtime.redact import Redactor

_FIELDS: dict[type[Any], tuple[str, ...]] = {
    TextPart: ("text", "extra"),
    ReasoningPart: ("text", "extra"),
    OpaquePart: ("data",),
    ToolCallPart: ("id", "name", "arguments", "extra"),
}


def masked(response: ModelResponse, redact: Redactor) -> ModelResponse:
    """`response` without secrets; itself, and with the same message and parts, where there are none."""
    if redact.idle:
        return response
    message = response.message
    if (texts := _texts(message)) is not None and redact.finds_none(texts):
        return response
    parts = tuple([_part(part, redact) for part in message.parts])
    extra = redact.within(message.extra)
    if extra is message.extra and all([new is old for new, old in zip(parts, message.parts, strict=True)]):
        return response
    return replace(response, message=replace(message, parts=parts, extra=extra))


def _texts(message: Message) -> list[str] | None:
    """All that a message says; None where it holds more than plain text and calls."""
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart) and part.extra is None:
            texts += (part.id, part.name, part.arguments)
        elif isinstance(part, TextPart) and part.extra is None:
            texts.append(part.text)
        else:
            return None
    return texts if message.extra is None else None


def _part(part: Part, redact: Redactor) -> Part:
    found = {name: getattr(part, name) for name in _FIELDS.get(type(part), ())}
    changed = {name: new for name, old in found.items() if (new := redact.within(old)) is not old}
    return replace(part, **changed) if changed else part
