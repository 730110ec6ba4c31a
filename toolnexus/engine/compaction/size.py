"""How many tokens messages take, told without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from toolnexus.core.messages import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
)

BYTES_PER_TOKEN = 4
_FRAME = 4
"""Tokens that a message takes besides what it says."""
_MEDIA = 1_600
"""Tokens of an image: what the endpoints make of a large one."""
_MEDIA_CHARS_PER_TOKEN = 200
"""Of the base64 of sounds and documents; they differ too much for more than a guess."""


def estimate_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens `messages` take: a token for four bytes of UTF-8, 1,600 and more for a file."""
    return sum([_FRAME + sum([_part(part) for part in message.parts]) for message in messages])


def _part(part: Part) -> int:
    if isinstance(part, (TextPart, ReasoningPart)):
        return _text(part.text) + (_text(str(part.extra)) if part.extra else 0)
    if isinstance(part, ToolCallPart):
        return _FRAME + _text(part.name) + _text(part.arguments)
    if isinstance(part, MediaPart):
        return _media(part)
    if isinstance(part, OpaquePart):
        return _text(str(part.data))
    return _FRAME + _text(part.output) + sum([_media(media) for media in part.media])


def _text(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return size // BYTES_PER_TOKEN


def _media(part: MediaPart) -> int:
    size = len(part.data or "")
    if part.mime_type.startswith("text/"):
        return size * 3 // 4 // BYTES_PER_TOKEN
    return _MEDIA + (0 if part.mime_type.startswith("image/") else size // _MEDIA_CHARS_PER_TOKEN)
