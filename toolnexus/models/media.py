"""Images, audio and files in the form that each style takes; what it does not take becomes a note."""

from __future__ import annotations

import base64
from typing import Any

from toolnexus.core.messages import MediaPart

_OPENAI_AUDIO = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_ANTHROPIC_IMAGES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))


def openai_part(part: MediaPart) -> dict[str, Any]:
    """A content part of an OpenAI user message."""
    mime = part.mime_type
    if is_image(part) and (part.url or part.data):
        return {"type": "image_url", "image_url": {"url": part.url or _data_url(part)}}
    if part.data is None:
        return text_block(note(part))
    if mime in _OPENAI_AUDIO:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": _OPENAI_AUDIO[mime]}}
    if (text := _text(part)) is not None:
        return text_block(text)
    name = part.name or f"file.{mime.rpartition('/')[2]}"
    return {"type": "file", "file": {"filename": name, "file_data": _data_url(part)}}


def anthropic_block(part: MediaPart) -> dict[str, Any]:
    """A content block of an Anthropic user message or tool result."""
    mime = part.mime_type
    if mime in _ANTHROPIC_IMAGES or (is_image(part) and part.url):
        if part.url:
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        if part.data:
            source = {"type": "base64", "media_type": mime, "data": part.data}
            return {"type": "image", "source": source}
    title = {"title": part.name} if part.name else {}
    if mime == "application/pdf" and part.url:
        return {"type": "document", "source": {"type": "url", "url": part.url}, **title}
    if mime == "application/pdf" and part.data:
        source = {"type": "base64", "media_type": mime, "data": part.data}
        return {"type": "document", "source": source, **title}
    if text := _text(part):
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": "document", "source": source, **title}
    return text_block(note(part))


def is_image(part: MediaPart) -> bool:
    return part.mime_type.startswith("image/")


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def note(part: MediaPart, why: str = "not shown: this endpoint does not take it") -> str:
    """A sentence in place of the media: a model must never read base64 as text."""
    name = f" {part.name!r}" if part.name else ""
    where = f" at {part.url}" if part.url else ""
    return f"[{part.mime_type}{name}{where}: {why}]"


def _data_url(part: MediaPart) -> str:
    return f"data:{part.mime_type};base64,{part.data}"


def _text(part: MediaPart) -> str | None:
    if part.data is None or not (part.mime_type.startswith("text/") or part.mime_type == "application/json"):
        return None
    try:
        return base64.b64decode(part.data, validate=True).decode()
    except ValueError:
        return None
