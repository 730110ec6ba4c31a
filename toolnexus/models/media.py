"""Images, sounds and files in the form that each style takes; what it does not take becomes a note.

A tool's media do not always fit into its result: `openai_result` and `anthropic_result` give what
stands in the result and what follows all results of the batch.
"""

from __future__ import annotations

from typing import Any

from toolnexus.core import media as kinds
from toolnexus.core.media import IMAGES, PDF, fault, text_of
from toolnexus.core.messages import MediaPart, ToolResultPart

_OPENAI_AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_LONGEST_TITLE = 500
_NOT_TAKEN = "not shown: this endpoint does not take it"
_FOLLOWS = "in the next user message"


def openai_part(part: MediaPart) -> dict[str, Any]:
    """A content part of an OpenAI user message."""
    kind = part.mime_type
    if part.data is None:
        return _image_url(part.url) if kind in IMAGES else _note(part)
    if why := fault(kind, part.data):
        return _note(part, f"not shown: {why}")
    if kind in IMAGES:
        return _image_url(_data_url(part))
    if kind == PDF:  # the only kind of file that chat completions take
        return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": _data_url(part)}}
    if kind in _OPENAI_AUDIO:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": _OPENAI_AUDIO[kind]}}
    text = _text(part)
    if text is None:
        return _note(part)
    return text_block(f"File {part.name!r}:\n{text}" if part.name else text)


def anthropic_block(part: MediaPart) -> dict[str, Any]:
    """A content block of an Anthropic user message or tool result."""
    kind = part.mime_type
    title = {"title": part.name[:_LONGEST_TITLE]} if part.name else {}
    if part.data is None:
        if kind not in IMAGES and kind != PDF:
            return _note(part)
        if not (part.url or "").startswith("https:"):
            return _note(part, "not shown: this endpoint fetches https addresses only")
        source = {"type": "url", "url": part.url}
    elif why := fault(kind, part.data):
        return _note(part, f"not shown: {why}")
    elif kind in IMAGES or kind == PDF:
        source = {"type": "base64", "media_type": kind, "data": part.data}
    else:
        text = _text(part)
        if text is None:
            return _note(part)
        source = {"type": "text", "media_type": "text/plain", "data": text}
    if kind in IMAGES:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, **title}


def openai_result(result: ToolResultPart, id: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of the tool message, and the parts for a user message behind all tool messages.

    Tool messages hold text only. Only images follow: most servers refuse a request with any other
    part in it, and a prompt's files were the host's choice, a tool's are not.
    """
    texts, shown = [result.output], list[dict[str, Any]]()
    for media in result.media:
        part = openai_part(media)
        if part["type"] == "image_url":
            shown.append(part)
            texts.append(note(media, _FOLLOWS))
        elif part["type"] == "text":
            texts.append(part["text"])
        else:
            texts.append(note(media, "not shown: this endpoint takes only images and text from a tool"))
    if shown:
        shown.insert(0, text_block(f"Images that the tool call {id} gave:"))
    return "\n".join([text for text in texts if text]), shown


def anthropic_result(
    result: ToolResultPart, id: str
) -> tuple[str | list[dict[str, Any]], list[dict[str, Any]]]:
    """The content of the tool result, and the blocks behind all tool results of the message.

    A result takes text, images and documents; one that is an error takes text alone, and its media
    follow.
    """
    if not result.media:
        return result.output, []
    content = [text_block(result.output)] if result.output.strip() else []
    follow: list[dict[str, Any]] = []
    for media in result.media:
        block = anthropic_block(media)
        if result.is_error and block["type"] != "text":
            follow.append(block)
            block = text_block(note(media, "behind the tool results"))
        content.append(block)
    if follow:
        follow.insert(0, text_block(f"What the failed tool call {id} gave:"))
    return content, follow


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def note(part: MediaPart, why: str = _NOT_TAKEN) -> str:
    """A sentence in place of the media: a model must never read base64 as text."""
    return kinds.note(part.mime_type, part.name, part.url, why)


def _note(part: MediaPart, why: str = _NOT_TAKEN) -> dict[str, Any]:
    return text_block(note(part, why))


def _image_url(url: str | None) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _data_url(part: MediaPart) -> str:
    return f"data:{part.mime_type};base64,{part.data}"


def _text(part: MediaPart) -> str | None:
    text = text_of(part.mime_type, part.data or "")
    return text if text and text.strip() else None
