"""Images, audio and files reach each style in its own form."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.models.support import ANTHROPIC, OPENAI, Case, bench
from toolnexus.core.messages import MediaPart, Message, TextPart, ToolCallPart, ToolResultPart, user
from toolnexus.testing import Turn

pytestmark = pytest.mark.anyio

DATA = base64.b64encode(b"\x89PNG\r\n\x1a\n not really" * 9).decode()
PNG = MediaPart("image/png", data=DATA)
PNG_URL = MediaPart("image/png", url="https://example.com/a.png")
WAV = MediaPart("audio/x-wav", data="UklGRiQAAABXQVZF")
MP3 = MediaPart("audio/mp3", data="SUQzBAAA")
BILL = base64.b64encode(b"%PDF-1.7 not really").decode()
PDF = MediaPart("application/pdf", data=BILL, name="a.pdf")
TEXT = MediaPart("text/csv", data=base64.b64encode("a,ä".encode()).decode(), name="t.csv")
ZIP_URL = MediaPart("application/zip", url="https://example.com/a.zip", name="a.zip")


async def sent(style: str, *messages: Message) -> list[dict[str, Any]]:
    async with bench(Case(style), [Turn(text="ok")]) as b:
        await b.ask(*messages)
        return b.bodies[0]["messages"]


async def test_user_media_for_the_openai_style() -> None:
    """[WIRE-18] Images, audio and files become the parts that chat completions know."""
    parts = [TextPart("see"), PNG, PNG_URL, WAV, MP3, PDF, TEXT, ZIP_URL]
    (message,) = await sent(OPENAI, user(parts))
    url = f"data:image/png;base64,{DATA}"
    assert message["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_audio", "input_audio": {"data": WAV.data, "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": MP3.data, "format": "mp3"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{BILL}"},
        },
        {"type": "text", "text": "File 't.csv':\na,ä"},
        {
            "type": "text",
            "text": "[application/zip 'a.zip' at https://example.com/a.zip: "
            "not shown: this endpoint does not take it]",
        },
    ]


async def test_user_media_for_the_anthropic_style() -> None:
    """[WIRE-18] Images and documents become blocks; what the style does not take is a note."""
    (message,) = await sent(ANTHROPIC, user([PNG, PNG_URL, PDF, TEXT, WAV, TextPart("see")]))
    assert message["content"][:4] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": BILL},
            "title": "a.pdf",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "a,ä"},
            "title": "t.csv",
        },
    ]
    assert message["content"][4]["text"].startswith("[audio/wav: not shown")


def with_result(*media: MediaPart, output: str = "here") -> list[Message]:
    calls = (ToolCallPart("c1", "shot"), ToolCallPart("c2", "shot"))
    results = (ToolResultPart("c1", output, media=media), ToolResultPart("c2", "plain"))
    return [user("go"), Message("assistant", calls), Message("tool", results)]


async def test_images_of_a_tool_follow_as_the_users_in_the_openai_style() -> None:
    """[WIRE-18] Tool messages hold text: images follow in one user message, others are named."""
    messages = await sent(OPENAI, *with_result(PNG, PDF))
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    text = messages[2]["content"]
    assert text.startswith("here\n[image/png: in the next user message]\n[application/pdf 'a.pdf'")
    assert DATA not in text
    assert messages[4]["content"][0]["text"] == "Images that the tool call c1 gave:"
    assert messages[4]["content"][1]["type"] == "image_url"
    assert len(messages[4]["content"]) == 2


async def test_media_of_a_tool_are_inside_the_result_in_the_anthropic_style() -> None:
    """[WIRE-18] An image is a block of its result; without output there is no empty text."""
    messages = await sent(ANTHROPIC, *with_result(PNG, output=""))
    content = messages[2]["content"][0]["content"]
    assert [block["type"] for block in content] == ["image"]


@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_media_are_never_shown_as_base64_text(style: str) -> None:
    """[WIRE-18] Whatever a style does not take becomes a note, never base64 in a text."""
    data = base64.b64encode(b"PK\3\4" * 30).decode()
    kinds = ("video/mp4", "application/octet-stream", "audio/wav", "image/png", "text/plain")
    odd = [MediaPart(kind, data=data) for kind in kinds]
    for message in await sent(style, *with_result(*odd)):
        content = message["content"]
        texts = [content] if isinstance(content, str) else [str(block) for block in content or ()]
        assert not any(data in text for text in texts)


async def test_media_whose_content_is_something_else_are_a_note() -> None:
    """[WIRE-18] An endpoint never gets an image or a PDF that it is known to refuse."""
    for style in (OPENAI, ANTHROPIC):
        for kind in ("image/png", "application/pdf"):
            (message,) = await sent(style, user([MediaPart(kind, data="PGh0bWw+", name="page")]))
            assert message["content"][0]["text"].startswith(f"[{kind} 'page': not shown: its content is no ")
