"""The builtin `read`."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.builtins.helpers import call, lively_loop, output, tree
from toolnexus.core.messages import MediaPart
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.loader import definition

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.mark.parametrize("text", ["one\ntwo\n", "no end", "a\r\nb\r\n", "\n", "ä € 😀\n", "a\rb\n"])
async def test_text_comes_back_as_it_is(text: str, tmp_path: Path) -> None:
    """[BT-20] Without a window the whole text, line ends and a missing last one included."""
    tree(tmp_path, {"a.txt": text})
    assert await output("read", tmp_path, path="a.txt") == text


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [(2, None, "b\nc\n"), (2, 1, "b"), (1, 3, "a\nb\nc"), (3, 99, "c\n"), (None, 2, "a\nb")],
)
async def test_a_window_holds_the_lines_asked_for(
    offset: int | None, limit: int | None, expected: str, tmp_path: Path
) -> None:
    """[BT-21] `offset` counts lines from 1; the last of `limit` lines comes without its line end."""
    tree(tmp_path, {"a.txt": "a\nb\nc\n"})
    window = {name: value for name, value in (("offset", offset), ("limit", limit)) if value is not None}
    assert await output("read", tmp_path, path="a.txt", **window) == expected


@pytest.mark.parametrize(("text", "lines"), [("", "0 lines"), ("a", "1 line"), ("a\nb\n", "2 lines")])
async def test_past_the_end_it_says_how_many_lines_there_are(text: str, lines: str, tmp_path: Path) -> None:
    """[BT-22] An offset past the end, and an empty file, give an empty window and the number of lines."""
    tree(tmp_path, {"a.txt": text})
    assert await output("read", tmp_path, path="a.txt", offset=3) == f"[empty window: a.txt has {lines}]"


async def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    """[BT-23] A NUL byte in the first 8 KiB makes a file binary; one further on does not."""
    tree(tmp_path, {"a.bin": b"x" * 8191 + b"\0", "late.txt": b"x" * 8192 + b"\0"})
    with pytest.raises(ToolError, match=r"'a.bin' is a binary file"):
        await call("read", tmp_path, path="a.bin")
    assert "\0" in await output("read", tmp_path, path="late.txt")


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\0", "image/jpeg"),
        (b"GIF89a\0\0", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_an_image_comes_as_a_media_part(data: bytes, mime: str, tmp_path: Path) -> None:
    """[BT-24] PNG, JPEG, GIF and WebP are known by their first bytes, not by their name."""
    tree(tmp_path, {"pics/picture": data})
    result = await call("read", tmp_path, path="pics/picture")
    assert result.parts == (MediaPart(mime, data=base64.b64encode(data).decode(), name="picture"),)
    assert result.output == f"pics/picture: {mime}, {len(data)} bytes"


async def test_an_image_too_large_for_a_model_is_refused(tmp_path: Path) -> None:
    """[BT-24] An image above the limit is an error that says what to do."""
    largest = definition("read").limits["maxImageBytes"]
    tree(
        tmp_path,
        {"big.png": PNG + b"x" * (largest - len(PNG) + 1), "ok.png": PNG + b"x" * (largest - len(PNG))},
    )
    with pytest.raises(ToolError, match="make a smaller copy"):
        await call("read", tmp_path, path="big.png")
    assert (await call("read", tmp_path, path="ok.png")).parts


async def test_a_huge_line_is_cut_with_a_mark(tmp_path: Path) -> None:
    """[BT-25] One line of 10 MB costs no more than its head; the lines around it are whole."""
    longest = definition("read").limits["maxLineBytes"]
    tree(tmp_path, {"a.json": "before\n" + "ä" * 5_000_000 + "\nafter\n", "b.json": "x" * 10_000_000})
    text = await output("read", tmp_path, path="a.json")
    before, line, after, end = text.split("\n")
    assert (before, after, end) == ("before", "after", "")
    assert line == "ä" * (longest // 2) + " [… line cut, it has 10000001 bytes]"
    assert (
        await output("read", tmp_path, path="b.json")
        == "x" * longest + " [… line cut, it has 10000000 bytes]"
    )
    assert await output("read", tmp_path, path="a.json", offset=3) == "after\n"


async def test_bytes_that_are_no_utf8_are_replaced_and_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    """[BT-26] Text in another encoding is still read; a mark at the start is no text."""
    tree(tmp_path, {"latin.txt": b"gr\xfc\xdfe\n", "bom.txt": b"\xef\xbb\xbfx\n"})
    assert await output("read", tmp_path, path="latin.txt") == "gr\ufffd\ufffde\n"
    assert await output("read", tmp_path, path="bom.txt") == "x\n"


async def test_a_directory_is_an_error_that_names_glob(tmp_path: Path) -> None:
    """[BT-27] A directory cannot be read."""
    with pytest.raises(ToolError, match=r"'\.' is a directory; use glob"):
        await call("read", tmp_path, path=".")


async def test_a_text_without_end_stops_at_a_bound_and_says_where_to_go_on(tmp_path: Path) -> None:
    """[BT-28] At most five million characters are returned, and the loop runs on meanwhile."""
    line = "x" * 99 + "\n"
    tree(tmp_path, {"big.log": line * 400_000})
    async with lively_loop():
        text = await output("read", tmp_path, path="big.log")
    assert text.endswith(line + "[the file goes on: read it with offset=50002]")
    async with lively_loop():
        assert await output("read", tmp_path, path="big.log", offset=400_000) == line


async def test_a_read_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-29] A read past its time limit is an error."""
    from toolnexus.tools.builtin import read

    tree(tmp_path, {"big.log": "x\n" * 5_000_000})
    monkeypatch.setattr(read, "_LIMITS", {**read._LIMITS, "seconds": 0.05})
    with pytest.raises(ToolError, match=r"stopped after 0.05 s; read a smaller part"):
        await call("read", tmp_path, path="big.log", offset=5_000_000)
