"""What of a large or strange result reaches a model, and where the rest is."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.loop.support import KEYS, Way, bench, each_style, use
from tests.media.files import MP3, b64, fits, gif, jpeg, pdf, png, texts_in
from toolnexus import Client, FunctionModel, MediaPart, ToolResult, tool
from toolnexus.core.media import MAX_IMAGE
from toolnexus.testing.turns import Turn
from toolnexus.tools.media_bounds import MAX_PARTS, MAX_TOTAL
from toolnexus.tools.truncate import MAX_BYTES, cut, needs_cut

pytestmark = pytest.mark.anyio

ROUGH = Path(__file__).parents[1] / "servers" / "rough_mcp.py"
SERVERS = {"mcpServers": {"srv": {"command": sys.executable, "args": ["-S", str(ROUGH)]}}}
PLACE = re.compile(r"the full text is in (\S+) …\]")
FILE = re.compile(r"the file is ([^\s\]]+)\]")
MEGA = 5_000_000


def whole(output: str) -> str:
    """The full text that a cut output names."""
    found = PLACE.search(output)
    assert found is not None, output[:200]
    return Path(found[1]).read_text(encoding="utf-8")


def ends(output: str) -> tuple[str, str]:
    """Head and tail of a cut output."""
    head, _, rest = output.partition("\n[… ")
    return head, rest.partition("…]\n")[2]


def is_cut_of(output: str, text: str) -> bool:
    """Whether `output` is a head and a tail of `text`, short and in valid UTF-8."""
    head, tail = ends(output)
    short = len(output.encode("utf-8", "strict")) < MAX_BYTES + 1_000
    return short and len(head) > 1_000 < len(tail) and text.startswith(head) and text.endswith(tail)


@pytest.mark.parametrize("unit", ["ä", "🙂", "a"], ids=ascii)
async def test_five_megabytes_of_every_source_are_cut(unit: str) -> None:
    """[MED-30] A native function, the text of a server, its structured content alone, and its structured
    content beside a short text: one endless line each, cut at both ends, whole in a file."""
    text = "x" + unit * (MEGA // len(unit.encode()))

    @tool
    async def endless() -> str:
        """Endless."""
        return text

    client = Client(model=FunctionModel(lambda r: ""), builtins=["read"], tools=[endless], mcp=SERVERS)
    async with asyncio.timeout(60), client:
        rows = {"rows": text}
        as_json = json.dumps(rows, ensure_ascii=False)
        calls: list[tuple[str, dict[str, Any], str]] = [
            ("endless", {}, text),
            ("srv_result", {"content": [{"type": "text", "text": text}]}, text),
            ("srv_result", {"structuredContent": rows}, as_json),
            (
                "srv_result",
                {"content": [{"type": "text", "text": "5 MB"}], "structuredContent": rows},
                f"5 MB\n{as_json}",
            ),
        ]
        place = ""
        for name, arguments, wanted in calls:
            result = await client.toolkit.execute(name, arguments)
            assert not result.is_error and is_cut_of(result.output, wanted)
            assert whole(result.output) == wanted
            place = result.metadata["outputPath"]
            assert place in result.output
        read = await client.toolkit.execute("read", {"path": place, "limit": 1})
        assert read.output == "5 MB"


@pytest.mark.parametrize("unit", ["\ud800", "e\u0301", "\r\n", "\u2028", "\x0b", "🙂\n"], ids=ascii)
def test_ends_are_true_ends_whatever_a_text_is_made_of(unit: str) -> None:
    """[MED-30] Lone surrogates, combining marks and every line end: head and tail are the text's own, and the
    numbers in the note add up."""
    text = "x" + unit * 300_000
    assert needs_cut(text)
    out = cut(text, "F")
    head, tail = ends(out)
    numbers = re.search(r"\[… (\d+) characters, (\d+) line breaks left out; the full text is in F …\]", out)
    assert numbers is not None
    at = len(text) - len(tail) - int(numbers[1])
    assert text[:at].rstrip("\n") == head and text.endswith(tail) and len(tail) > 300
    assert int(numbers[2]) == text.count("\n", at, len(text) - len(tail))


def test_a_huge_text_is_not_taken_apart() -> None:
    """[MED-30] Only its two ends are split into lines, so that it costs the loop no more than a long one."""

    class Watched(str):
        __slots__ = ()
        sizes: ClassVar[list[int]] = []

        def splitlines(self, keepends: bool = False) -> list[str]:
            Watched.sizes.append(len(self))
            return super().splitlines(keepends)

        def __getitem__(self, key: Any) -> Watched:
            return Watched(super().__getitem__(key))

    out = cut(Watched("line\n" * 2_000_000), "F")
    assert out.startswith("line\n") and out.endswith("line\n")
    assert 0 < sum(Watched.sizes) <= MAX_BYTES


def part_of(content: bytes, kind: str = "", name: str | None = None) -> MediaPart:
    return MediaPart(kind, data=b64(content), name=name)


HEAVY = png(extra=b"x" * (MAX_IMAGE // 4 * 3))
ASIDE = {
    "heavy": (part_of(HEAVY, name="big.png"), "and endpoints take 3,932,160 for an image", ".png"),
    "tall": (part_of(png(2, 8_001)), "it has 2 x 8001 pixels, and endpoints take 8,000 on a side", ".png"),
    "wide": (part_of(jpeg(60_000, 3)), "it has 60000 x 3 pixels", ".jpg"),
    "page": (part_of(b"<html>", "image/png"), "its content is no PNG, JPEG, GIF or WebP image", ".png"),
    "bill": (part_of(b"<html>", "application/pdf"), "its content is no PDF", ".pdf"),
    "song": (part_of(MP3), "no endpoint takes this kind from a tool", ".mp3"),
    "clip": (part_of(b"\0\0\0\x18ftypmp42", "video/mp4"), "no endpoint takes this kind", ".bin"),
    "scan": (part_of(b"II*\0", "image/tiff"), "no endpoint takes this kind", ".bin"),
    "text": (part_of(b"\xff\xfe\xfd", "text/plain"), "no endpoint takes this kind", ".txt"),
}


@tool
async def show(what: str) -> ToolResult:
    """Show."""
    return ToolResult(output=f"a {what}", parts=(ASIDE[what][0], part_of(png())))


@each_style
async def test_what_no_endpoint_takes_goes_to_a_file(way: Way) -> None:
    """[MED-31] Too heavy, too many pixels, another content than its label, a kind that no endpoint takes: the
    model reads why, with the numbers, and where the file is; the file is whole and goes with the client; what
    stands beside it is shown."""
    turns = {"main": [Turn(calls=[use("show", {"what": w}, f"call_{w}") for w in ASIDE]), Turn(text="end")]}
    paths: list[Path] = []
    async with bench(way, turns, tools=[show]) as b:
        result = await b.ask()
        fits(b.endpoint)
        sent = b.endpoint.requests[-1]
        for (what, (part, why, suffix)), answer in zip(
            ASIDE.items(), result.messages[2].tool_results, strict=True
        ):
            assert answer.media == (part_of(png()),) and not answer.is_error
            said, note = answer.output.split("\n")
            assert said == f"a {what}" and note.startswith(f"[{part.mime_type}") and why in note
            place = FILE.search(note)
            assert place is not None
            paths.append(Path(place[1]))
            assert paths[-1].suffix == suffix and b64(paths[-1].read_bytes()) == part.data
    assert len(set(paths)) == len(paths) and len({p.parent for p in paths}) == 1
    assert sent.raw.decode().count(b64(png())) == len(ASIDE) and len(sent.raw) < 40_000
    assert not any(b64(png())[:30] in text for text in texts_in(sent.body["messages"]))
    assert not paths[0].parent.exists()


@each_style
async def test_media_of_one_result_are_bounded_in_number_and_in_bytes(way: Way) -> None:
    """[MED-32] The first ones are shown, the rest lie in files that `read` shows one at a time."""
    pictures = tuple([part_of(png(n + 1, 1), name=f"{n}.png") for n in range(MAX_PARTS + 2)])
    size = MAX_TOTAL // 4 * 3 // 3
    heavy = tuple([part_of(png(extra=bytes([n]) * size), name=f"{n}.png") for n in range(4)])

    @tool
    async def album(which: str) -> ToolResult:
        """Show an album."""
        return ToolResult(parts=pictures if which == "many" else (*heavy, part_of(gif())))

    def look(seen: Any) -> Turn:
        return Turn(calls=[use("read", {"path": FILE.findall(seen.raw.decode())[0]})])

    calls = [use("album", {"which": w}, f"call_{w}") for w in ("many", "heavy")]
    turns: dict[str, Any] = {"main": [Turn(calls=calls), look, Turn(text="end")]}
    async with bench(way, turns, tools=[album], builtins=["read"]) as b:
        result = await b.ask()
        fits(b.endpoint)
    many, few = result.messages[2].tool_results
    assert many.media == pictures[:MAX_PARTS]
    assert [line.partition(":")[0] for line in many.output.splitlines()] == [
        "[image/png '20.png'",
        "[image/png '21.png'",
    ]
    assert "only the first 20 media of a result are" in many.output
    assert few.media == (*heavy[:2], part_of(gif()))
    assert few.output.count("all media of a result may have 7,864,320 bytes together") == 2
    (seen,) = result.messages[4].tool_results
    assert seen.media[0].data == pictures[MAX_PARTS].data


@each_style
async def test_ten_thousand_media_are_one_bounded_result(way: Way) -> None:
    """[MED-32] The notes of what is not shown are bounded like any text; addresses count as well."""
    links = tuple([MediaPart(url=f"https://e.com/{n}.png") for n in range(10_000)])

    @tool
    async def flood() -> ToolResult:
        """Flood."""
        return ToolResult(parts=links)

    async with bench(way, {"main": [Turn(calls=[use("flood")]), Turn(text="end")]}, tools=[flood]) as b:
        result = await b.ask()
        fits(b.endpoint)
    (answer,) = result.messages[2].tool_results
    assert len(answer.media) == MAX_PARTS and len(answer.output.encode()) < MAX_BYTES + 1_000
    assert "https://e.com/9999.png: not shown" in ends(answer.output)[1]


async def test_a_long_text_file_of_a_tool_is_cut_like_text() -> None:
    """[MED-30] [MED-23] Five megabytes of CSV as a part: head, tail, and the place of the whole."""
    rows = "".join(f"{n},ä\n" for n in range(600_000))

    @tool
    async def table() -> MediaPart:
        """Table."""
        return MediaPart("text/csv", data=b64(rows.encode()), name="t.csv")

    async with asyncio.timeout(30), Client(model=FunctionModel(lambda r: ""), tools=[table]) as client:
        result = await client.toolkit.execute("table", {})
        assert result.parts == () and is_cut_of(result.output, f"File 't.csv':\n{rows}")
        window = {"path": result.metadata["outputPath"], "offset": 300_002, "limit": 1}
        assert (await client.toolkit.execute("read", window)).output == "300000,ä"


async def test_without_a_place_for_files_a_result_is_still_a_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[MED-33] A full or missing disk costs the file, never the call."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    async with asyncio.timeout(30), Client(model=FunctionModel(lambda r: ""), tools=[show]) as client:
        result = await client.toolkit.execute("show", {"what": "song"})
    assert result.output == (
        "a song\n[audio/mpeg: not shown: no endpoint takes this kind from a tool; "
        "it could not be kept in a file]"
    )
    assert not result.is_error and "mediaPaths" not in result.metadata


async def test_the_host_finds_the_files_in_the_metadata() -> None:
    """[MED-31] `mediaPaths` lists them in order; what the tool said itself stays."""

    @tool
    async def both() -> ToolResult:
        """Give."""
        return ToolResult(output="x", parts=(part_of(MP3), part_of(b"\1\2", "audio/ogg")), metadata={"a": 1})

    async with asyncio.timeout(30), Client(model=FunctionModel(lambda r: ""), tools=[both]) as client:
        result = await client.toolkit.execute("both", {})
        files = [Path(p).read_bytes() for p in result.metadata["mediaPaths"]]
    assert files == [MP3, b"\1\2"] and result.metadata["a"] == 1


@each_style
async def test_secrets_in_names_and_text_files_are_masked(way: Way) -> None:
    """[MED-34] What a part adds to the output is masked like the output."""
    key = KEYS[way.style]

    @tool
    async def leak() -> ToolResult:
        """Leak."""
        return ToolResult(parts=(part_of(key.encode(), "text/plain"), part_of(MP3, name=key)))

    async with bench(way, {"main": [Turn(calls=[use("leak")]), Turn(text="end")]}, tools=[leak]) as b:
        await b.ask()
        raw = b.endpoint.requests[-1].raw.decode()
    assert key not in raw and raw.count("[redacted]") == 2


async def test_a_document_that_is_one_stays() -> None:
    """[MED-31] Only what is known to be refused is set aside: a PDF may begin a little later. Parts that came
    as a list are the same."""
    late = b"\n" * 900 + pdf()

    @tool
    async def document() -> ToolResult:
        """Give."""
        given: Any = [part_of(late, "application/pdf")]
        return ToolResult(parts=given)

    async with asyncio.timeout(30), Client(model=FunctionModel(lambda r: ""), tools=[document]) as client:
        result = await client.toolkit.execute("document", {})
    assert result.parts == (part_of(late, "application/pdf"),) and result.output == ""
