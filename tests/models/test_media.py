"""Images, audio and files reach each style in its own form."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.models.support import ANTHROPIC, OPENAI, Case, bench
from toolnexus.core.messages import MediaPart, Message, TextPart, ToolCallPart, ToolResultPart, user
from toolnexus.testing import Turn

pytestmark = pytest.mark.anyio

DATA = base64.b64encode(b"\x89PNG not really" * 9).decode()
PNG = MediaPart("image/png", data=DATA)
PNG_URL = MediaPart("image/png", url="https://example.com/a.png")
WAV = MediaPart("audio/wav", data=DATA)
MP3 = MediaPart("audio/mpeg", data=DATA)
PDF = MediaPart("application/pdf", data=DATA, name="a.pdf")
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
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"},
        },
        {"type": "text", "text": "a,ä"},
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
            "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
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
    odd = [MediaPart("video/mp4", data=DATA), MediaPart("application/octet-stream", data=DATA), WAV]
    for message in await sent(style, *with_result(*odd)):
        content = message["content"]
        texts = [content] if isinstance(content, str) else [str(block) for block in content or ()]
        assert not any(DATA in text for text in texts)


async def test_media_without_content_are_a_note() -> None:
    """[WIRE-18] A part with neither data nor address cannot be sent as media."""
    for style in (OPENAI, ANTHROPIC):
        (message,) = await sent(style, user([MediaPart("image/png", name="lost.png")]))
        assert message["content"][0]["text"].startswith("[image/png 'lost.png'")
