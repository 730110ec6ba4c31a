"""Media in prompts: what reaches an endpoint of each style."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loop.support import OPENAI, Way, bench, each_style, each_way
from tests.media.files import MP3, b64, fits, gif, jpeg, pdf, png, texts_in, wav
from toolnexus import MediaPart, Message, TextPart, user
from toolnexus.core.media import MAX_IMAGE
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

PNG, PDF, WAV = b64(png()), b64(pdf()), b64(wav())


async def content_of(way: Way, prompt: Any) -> list[dict[str, Any]]:
    """The content of the one user message that `prompt` becomes, valid in its style."""
    async with bench(way, {"main": [Turn(text="I see")]}) as b:
        assert (await b.ask(prompt)).text == "I see"
        fits(b.endpoint)
        (message,) = [m for m in b.endpoint.requests[0].body["messages"] if m["role"] == "user"]
        for part in message["content"]:
            part.pop("cache_control", None)
        return message["content"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "red.png": png(),
        "bill.pdf": pdf(),
        "hm.wav": wav(),
        "song.mp3": MP3,
        "t.csv": "a,ä\n".encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@each_way
async def test_files_of_every_kind_in_a_prompt(way: Way, folder: Path) -> None:
    """[MED-10] [MED-13] Images, PDFs, sounds and text files read from disk stand in the prompt in the order
    they were given, in the form of the style; a sound for a style without sounds is a sentence."""
    names = ("red.png", "bill.pdf", "hm.wav", "song.mp3", "t.csv")
    content = await content_of(way, ["What is this?", *[MediaPart.from_file(folder / n) for n in names]])
    assert content[0] == {"type": "text", "text": "What is this?"}
    if way.style == OPENAI:
        assert content[1:] == [
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {
                "type": "file",
                "file": {"filename": "bill.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            },
            {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": b64(MP3), "format": "mp3"}},
            {"type": "text", "text": "File 't.csv':\na,ä\n"},
        ]
    else:
        assert content[1:] == [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "bill.pdf",
            },
            {"type": "text", "text": "[audio/wav 'hm.wav': not shown: this endpoint does not take it]"},
            {"type": "text", "text": "[audio/mpeg 'song.mp3': not shown: this endpoint does not take it]"},
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a,ä\n"},
                "title": "t.csv",
            },
        ]


@each_style
async def test_a_prompt_takes_media_in_every_shape(way: Way) -> None:
    """[MED-10] A part alone, parts and texts, a message, and a list of messages mean the same part."""
    part = MediaPart(data=PNG)
    prompts: list[Any] = [part, [part], user([part]), [user([part])]]
    for prompt in prompts:
        (shown,) = await content_of(way, prompt)
        assert shown["type"] in ("image", "image_url")
    mixed = await content_of(way, (TextPart("a"), part, "b"))
    assert [p.get("text") for p in mixed] == ["a", None, "b"]


@each_style
async def test_addresses(way: Way) -> None:
    """[MED-14] An endpoint gets the address of what it can fetch itself: images, and PDFs in the Anthropic
    style, which fetches over https only. Everything else is a sentence with the address."""
    urls = ("https://e.com/a.jpg", "http://e.com/b.webp", "https://e.com/c.pdf", "https://e.com/d.csv")
    jpg, webp, document, table = await content_of(way, [MediaPart(url=url) for url in urls])
    if way.style == OPENAI:
        assert jpg == {"type": "image_url", "image_url": {"url": urls[0]}}
        assert webp == {"type": "image_url", "image_url": {"url": urls[1]}}
        assert document["text"] == (
            "[application/pdf at https://e.com/c.pdf: not shown: this endpoint does not take it]"
        )
    else:
        assert jpg == {"type": "image", "source": {"type": "url", "url": urls[0]}}
        assert webp["text"] == (
            "[image/webp at http://e.com/b.webp: not shown: this endpoint fetches https addresses only]"
        )
        assert document == {"type": "document", "source": {"type": "url", "url": urls[2]}}
    assert table["text"] == "[text/csv at https://e.com/d.csv: not shown: this endpoint does not take it]"


ODD = {
    "video/mp4": b"\0\0\0\x18ftypmp42" * 50,
    "application/zip": b"PK\3\4" * 50,
    "application/octet-stream": b"\1\2\3" * 50,
    "image/tiff": b"II*\0" * 50,
    "audio/ogg": b"OggS" * 50,
    "text/plain": b"\xff\xfe\xfd" * 50,
    "text/markdown": b" \n" * 50,
    "image/png": b"<html>not found</html>" * 9,
    "application/pdf": b"<html>not found</html>" * 9,
}


@each_style
async def test_what_a_style_does_not_take_is_a_sentence(way: Way) -> None:
    """[MED-11] Kinds that no endpoint takes, texts that are none and broken images: the model reads kind,
    name and reason; it never reads base64, and the endpoint never gets what it would refuse."""
    parts = [
        MediaPart(kind, data=b64(content), name=f"n{i}") for i, (kind, content) in enumerate(ODD.items())
    ]
    content = await content_of(way, parts)
    for i, (shown, (kind, data)) in enumerate(zip(content, ODD.items(), strict=True)):
        assert shown["type"] == "text" and shown["text"].startswith(f"[{kind} 'n{i}': not shown: ")
        assert b64(data)[:24] not in shown["text"]
    assert content[7]["text"].endswith("its content is no PNG, JPEG, GIF or WebP image]")
    assert content[8]["text"].endswith("its content is no PDF]")


@each_style
async def test_a_text_file_is_text_whatever_text_it_is(way: Way) -> None:
    """[MED-10] JSON, XML, SVG, code and Markdown are read, not refused; a byte order mark is left out."""
    kinds = [
        "application/json",
        "image/svg+xml",
        "application/problem+json",
        "text/x-python",
        "text/markdown",
    ]
    content = await content_of(way, [MediaPart(k, data=b64(b"\xef\xbb\xbf<a/>{}")) for k in kinds])
    texts = [p["text"] if way.style == OPENAI else p["source"]["data"] for p in content]
    assert texts == ["<a/>{}"] * 5


@each_style
async def test_a_mislabelled_image_goes_out_under_its_true_kind(way: Way) -> None:
    """[MED-12] Endpoints refuse a JPEG that is called a PNG, and the conversation with it."""
    shown, other = await content_of(
        way, [MediaPart("image/png", data=b64(jpeg())), MediaPart("image/jpg", data=b64(gif()))]
    )
    if way.style == OPENAI:
        assert shown["image_url"]["url"].startswith("data:image/jpeg;base64,")
        assert other["image_url"]["url"].startswith("data:image/gif;base64,")
    else:
        assert shown["source"]["media_type"] == "image/jpeg"
        assert other["source"]["media_type"] == "image/gif"


@each_style
async def test_an_image_beyond_the_limits_is_a_sentence_with_the_number(way: Way) -> None:
    """[MED-12] Bytes and pixels, told with what endpoints take; one at the limit is sent."""
    room = MAX_IMAGE // 4 * 3 - len(png(extra=b"x"))
    largest = b64(png(extra=b"x" * (room + 1)))
    assert len(largest) == MAX_IMAGE
    parts = [MediaPart(data=d) for d in (largest, b64(png(extra=b"x" * (room + 2))), b64(png(8_001, 1)))]
    sent, heavy, wide = await content_of(way, [*parts, MediaPart(data=b64(png(8_000, 1)))][:3])
    assert sent["type"] in ("image", "image_url")
    assert heavy["text"] == (
        "[image/png: not shown: it has 3,932,161 bytes, and endpoints take 3,932,160 for an image]"
    )
    assert wide["text"] == (
        "[image/png: not shown: it has 8001 x 1 pixels, and endpoints take 8,000 on a side]"
    )


@each_way
async def test_a_prompt_of_nothing_but_notes_is_still_a_prompt(way: Way) -> None:
    """[MED-11] No body is empty, and no text is blank."""
    content = await content_of(way, Message("user", (MediaPart("video/mp4", data="AAAA"), TextPart(""))))
    assert any(text.strip() for text in texts_in(content))
