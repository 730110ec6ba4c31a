"""Media in the results of tools: where they stand in a request of each style."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from tests.loop.support import OPENAI, Bench, Way, bench, each_style, each_way, use
from tests.media.files import MP3, b64, fits, gif, jpeg, pdf, png, texts_in
from toolnexus import Client, MediaPart, OpenAIModel, TextPart, Tool, ToolResult, tool
from toolnexus.models.wire import Wire
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

RED, BLUE = MediaPart(data=b64(png(2, 2)), name="red.png"), MediaPart(data=b64(png(3, 3)), name="blue.png")
BILL = MediaPart(data=b64(pdf()), name="bill.pdf")
ROUGH = Path(__file__).parents[1] / "servers" / "rough_mcp.py"


@tool
async def look(what: str) -> ToolResult:
    """Look."""
    return {
        "red": ToolResult(output="one picture", parts=(RED,)),
        "both": ToolResult(parts=(RED, BLUE)),
        "bill": ToolResult(output="the bill", parts=(BILL, BLUE)),
        "none": ToolResult(output="nothing to see"),
        "failed": ToolResult(output="it broke; the screen then:", is_error=True, parts=(RED, BILL)),
    }[what]


def looking(*what: str) -> dict[str, list[Turn]]:
    return {"main": [Turn(calls=[use("look", {"what": w}, f"call_{w}") for w in what]), Turn(text="end")]}


def last(b: Bench) -> list[dict[str, Any]]:
    """The wire messages behind the call, of a request that is valid in its style."""
    fits(b.endpoint)
    b.sent()
    messages = b.endpoint.requests[-1].body["messages"]
    start = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
    for message in messages:
        for part in message["content"] if isinstance(message["content"], list) else ():
            part.pop("cache_control", None)
    return messages[start + 1 :]


def image(part: MediaPart, way: Way) -> dict[str, Any]:
    if way.style == OPENAI:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{part.data}"}}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": part.data}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@each_way
async def test_images_of_several_calls_in_one_batch(way: Way) -> None:
    """[MED-20] [MED-21] OpenAI style: each tool message says which images follow, and one user message behind
    all of them shows them, call by call. Anthropic style: each image stands in its own result."""
    async with bench(way, looking("red", "none", "both"), tools=[look]) as b:
        await b.ask()
        messages = last(b)
    if way.style == OPENAI:
        assert [m["role"] for m in messages] == ["tool", "tool", "tool", "user"]
        assert [m["content"] for m in messages[:3]] == [
            "one picture\n[image/png 'red.png': in the next user message]",
            "nothing to see",
            "[image/png 'red.png': in the next user message]\n"
            "[image/png 'blue.png': in the next user message]",
        ]
        assert messages[3]["content"] == [
            text("Images that the tool call call_red gave:"),
            image(RED, way),
            text("Images that the tool call call_both gave:"),
            image(RED, way),
            image(BLUE, way),
        ]
    else:
        (message,) = messages
        assert [block["content"] for block in message["content"]] == [
            [text("one picture"), image(RED, way)],
            "nothing to see",
            [image(RED, way), image(BLUE, way)],
        ]


@each_way
async def test_a_result_of_text_a_document_and_an_image(way: Way) -> None:
    """[MED-20] [MED-21] A PDF is a document in the Anthropic style; to a server of the OpenAI style, most of
    which take none, it is a sentence. What is beside it goes on."""
    async with bench(way, looking("bill"), tools=[look]) as b:
        await b.ask()
        messages = last(b)
    if way.style == OPENAI:
        assert messages[0]["content"] == (
            "the bill\n"
            "[application/pdf 'bill.pdf': not shown: this endpoint takes only images and text from a tool]\n"
            "[image/png 'blue.png': in the next user message]"
        )
        assert [p["type"] for p in messages[1]["content"]] == ["text", "image_url"]
    else:
        said, document, shown = messages[0]["content"][0]["content"]
        assert said == text("the bill") and shown == image(BLUE, way)
        assert document["type"] == "document" and document["source"]["data"] == BILL.data


@each_way
async def test_media_of_a_failed_call(way: Way) -> None:
    """[MED-20] [MED-21] Anthropic takes text only in a result that is an error: there its media follow behind
    the results of the whole batch, and the result says so."""
    async with bench(way, looking("failed", "red"), tools=[look]) as b:
        await b.ask()
        messages = last(b)
    if way.style == OPENAI:
        assert [m["role"] for m in messages] == ["tool", "tool", "user"]
        assert [p["type"] for p in messages[2]["content"]] == ["text", "image_url"] * 2
    else:
        failed, red, said, shown, document = messages[0]["content"]
        assert failed["is_error"] is True and failed["content"] == [
            text("it broke; the screen then:"),
            text("[image/png 'red.png': behind the tool results]"),
            text("[application/pdf 'bill.pdf': behind the tool results]"),
        ]
        assert red["content"][1] == image(RED, way)
        assert said == text("What the failed tool call call_failed gave:")
        assert shown == image(RED, way) and document["type"] == "document"


async def test_a_server_of_mistral_gets_no_user_directly_behind_a_tool() -> None:
    """[MED-20] Its rule is tool, assistant, user; elsewhere nothing stands between."""

    class Recorder(Wire):
        """A wire to a host that is not there."""

        def __init__(self, host: str) -> None:
            self._host = host
            self.bodies: list[bytes] = []

        @property
        def host(self) -> str:
            return self._host

        @property
        def secrets(self) -> tuple[str, ...]:
            return ()

        async def post(self, path: str, body: bytes) -> dict[str, Any]:
            self.bodies.append(body)
            function = {"name": "look", "arguments": '{"what": "red"}'}
            calls = [{"id": "c1", "type": "function", "function": function}]
            first = len(self.bodies) == 1
            message = {"role": "assistant", "content": "end", **({"tool_calls": calls} if first else {})}
            return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

        def stream(self, path: str, body: bytes) -> Any:
            raise AssertionError

        async def aclose(self) -> None: ...

    roles: dict[str, list[str]] = {}
    for host in ("api.mistral.ai", "api.example.com"):
        wire = Recorder(host)
        async with Client(model=OpenAIModel("m", wire=wire), builtins=False, tools=[look]) as client:
            assert (await client.ask("go")).text == "end"
        roles[host] = [m["role"] for m in json.loads(wire.bodies[1])["messages"]]
    assert roles["api.example.com"] == ["user", "assistant", "tool", "user"]
    assert roles["api.mistral.ai"] == ["user", "assistant", "tool", "assistant", "user"]


@tool
async def give(what: str) -> Any:
    """Give something that is no ToolResult."""
    return {
        "part": RED,
        "list": ["before", RED, TextPart("after"), BLUE],
        "png": png(),
        "jpeg": bytearray(jpeg()),
        "pdf": pdf(),
    }[what]


@tool
def give_from_a_thread() -> MediaPart:
    """Give."""
    return RED


async def _bare(arguments: dict[str, Any], ctx: Any) -> Any:
    return [RED, "of a bare tool"]


bare = Tool("bare", "Give.", {"type": "object"}, _bare)


@each_style
async def test_a_tool_may_return_media_as_they_are(way: Way) -> None:
    """[MED-22] A part, a list of texts and parts, and the bytes of an image or a PDF: nothing of it is ever
    shown as base64."""
    what = ("part", "list", "png", "jpeg", "pdf")
    calls = [use("give", {"what": w}, f"call_{w}") for w in what] + [use("give_from_a_thread"), use("bare")]
    async with bench(
        way, {"main": [Turn(calls=calls), Turn(text="end")]}, tools=[give, give_from_a_thread, bare]
    ) as b:
        result = await b.ask()
        fits(b.endpoint)
        body = b.endpoint.requests[-1].body
    results = result.messages[2].tool_results
    assert [tuple(m.mime_type for m in r.media) for r in results] == [
        ("image/png",),
        ("image/png", "image/png"),
        ("image/png",),
        ("image/jpeg",),
        ("application/pdf",),
        ("image/png",),
        ("image/png",),
    ]
    assert [r.output for r in results] == ["", "before\nafter", "", "", "", "", "of a bare tool"]
    assert not any(r.is_error for r in results)
    said = "\n".join(texts_in(body["messages"]))
    assert "iVBOR" not in said and "/9j/" not in said and "JVBER" not in said


@each_style
async def test_what_only_looks_like_media_stays_what_it_is(way: Way) -> None:
    """[MED-22] Plain bytes, lists of values and mappings are given as before."""

    @tool
    async def plain(n: int) -> Any:
        """Plain."""
        return [b"text", [1, "a"], {"a": 1}, "text", [], ["a", "b"]][n]

    calls = [use("plain", {"n": n}, f"call_{n}") for n in range(6)]
    async with bench(way, {"main": [Turn(calls=calls), Turn(text="end")]}, tools=[plain]) as b:
        result = await b.ask()
    assert [r.output for r in result.messages[2].tool_results] == [
        '"text"',
        '[1,"a"]',
        '{"a":1}',
        "text",
        "[]",
        '["a","b"]',
    ]


NOISE = bytes(range(256)) * 4
"""Bytes that are no text and no media."""


@dataclass
class Shot:
    where: str
    image: MediaPart
    raw: bytes = b""


class Page(BaseModel):
    title: str
    shots: list[Any]


def deep(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [value]
    return value


AMONG: dict[str, tuple[Callable[[], Any], str, int]] = {
    "a list with numbers": (lambda: [1, RED, {"a": "x"}], '[1,"RED",{"a":"x"}]', 1),
    "a mapping": (
        lambda: {"a": 1, "shot": RED, "two": [BLUE, 2]},
        '{"a":1,"shot":"RED","two":["BLUE",2]}',
        2,
    ),
    "bytes in a mapping": (lambda: {"shot": png(), "n": 1}, '{"shot":"PNG","n":1}', 1),
    "a view and a buffer": (lambda: [memoryview(png()), BytesIO(png()), 1], '["PNG","PNG",1]', 2),
    "texts and bytes": (lambda: ["before", png(), BytesIO(png())], "before", 2),
    "a buffer alone": (lambda: BytesIO(png()), "", 1),
    "a generator": (lambda: (part for part in (1, RED)), '[1,"RED"]', 1),
    "an object": (lambda: Shot("here", RED), '{"where":"here","image":"RED","raw":""}', 1),
    "objects in a model": (
        lambda: Page(title="t", shots=[Shot("here", RED, png()), (1, BLUE)]),
        '{"title":"t","shots":[{"where":"here","image":"RED","raw":"PNG"},[1,"BLUE"]]}',
        3,
    ),
    "a result in a list": (lambda: [ToolResult(output="x", parts=(RED,)), 1], "", 1),
    "nested deeply": (lambda: deep(RED, 50), "[" * 50 + '"RED"' + "]" * 50, 1),
    "nested too deeply": (lambda: [deep(RED, 100), 1], "nested too deeply", 0),
}


@pytest.mark.parametrize("case", AMONG)
@each_style
async def test_media_among_other_values_are_taken_out_of_them(way: Way, case: str) -> None:
    """[MED-25] A sentence stands in their place, and the rest is JSON as before."""
    make, expected, count = AMONG[case]

    @tool
    async def given() -> Any:
        """Give."""
        return make()

    async with bench(way, {"main": [Turn(calls=[use("given")]), Turn(text="end")]}, tools=[given]) as b:
        result = await b.ask()
        fits(b.endpoint)
        said = "\n".join(texts_in(b.endpoint.requests[-1].body["messages"]))
    (got,) = result.messages[2].tool_results
    short = got.output.replace(": it goes with this result]", "")
    for word, part in (
        ("RED", "[image/png 'red.png'"),
        ("BLUE", "[image/png 'blue.png'"),
        ("PNG", "[image/png"),
    ):
        short = short.replace(part, word)
    assert not got.is_error and len(got.media) == count, got.output
    assert expected in short if case in ("a result in a list", "nested too deeply") else short == expected
    assert "iVBOR" not in said and "iVBOR" not in got.output


@each_style
async def test_long_bytes_lie_in_a_file(way: Way, tmp_path: Path) -> None:
    """[MED-26] Alone or inside; short ones and text are given as before, and a circle is an error."""
    circle: list[Any] = [NOISE]
    circle.append(circle)

    @tool
    async def given(n: int) -> Any:
        """Give."""
        return [NOISE, {"a": NOISE, "b": 1}, b"\xff\x00", "ä".encode() * 1000, circle][n]

    calls = [use("given", {"n": n}, f"call_{n}") for n in range(5)]
    async with bench(way, {"main": [Turn(calls=calls), Turn(text="end")]}, tools=[given]) as b:
        result = await b.ask()
        alone, inside, short, text, round_ = result.messages[2].tool_results
        for got in (alone, inside):
            found = re.search(r"the file is ([^\s\]]+)\]", got.output)
            assert found is not None and Path(found[1]).read_bytes() == NOISE
    assert inside.output.startswith('{"a":"[application/octet-stream: it goes with this result]","b":1}')
    assert short.output == '"_wA="' and text.output == json.dumps("ä" * 1000, ensure_ascii=False)
    assert round_.is_error and "JSON cannot hold" in round_.output


@each_style
async def test_a_bare_tool_may_return_media_among_other_values(way: Way) -> None:
    """[MED-25] Without a signature, too."""

    async def execute(arguments: dict[str, Any], ctx: Any) -> Any:
        return {"shot": RED, "n": 1}

    loose = Tool("loose", "Give.", {"type": "object"}, execute)
    async with bench(way, {"main": [Turn(calls=[use("loose")]), Turn(text="end")]}, tools=[loose]) as b:
        result = await b.ask()
    (got,) = result.messages[2].tool_results
    assert got.media == (RED,) and json.loads(got.output)["n"] == 1 and "iVBOR" not in got.output


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ToolResult(parts=cast("Any", RED)), "whose parts are MediaPart; give a tuple of MediaParts"),
        (lambda: ToolResult(parts=cast("Any", ("x",))), "with str among its parts; give MediaParts there"),
        (lambda: ToolResult(metadata=cast("Any", 5)), "whose metadata is int, not a mapping"),
    ],
)
@each_style
async def test_a_result_of_the_wrong_shape_is_told(way: Way, wrong: Callable[[], Any], says: str) -> None:
    """[MED-27] As an error that the model and the author of the tool can read."""

    @tool
    async def given() -> Any:
        """Give."""
        return wrong()

    async with bench(way, {"main": [Turn(calls=[use("given")]), Turn(text="end")]}, tools=[given]) as b:
        result = await b.ask()
    (got,) = result.messages[2].tool_results
    assert got.is_error and says in got.output


@each_style
async def test_text_files_of_a_tool_are_text(way: Way) -> None:
    """[MED-23] A CSV or JSON file beside an output is read in both styles, also in a failed result."""
    parts = (
        MediaPart("text/csv", data=b64("a,ä".encode()), name="t.csv"),
        MediaPart("application/json", data=b64(b'{"a":1}')),
        MediaPart("image/svg+xml", data=b64(b"<svg/>")),
    )

    @tool
    async def table(failed: bool) -> ToolResult:
        """Table."""
        return ToolResult(output="files:", parts=parts, is_error=failed)

    calls = [use("table", {"failed": f}, f"call_{f}") for f in (False, True)]
    async with bench(way, {"main": [Turn(calls=calls), Turn(text="end")]}, tools=[table]) as b:
        await b.ask()
        fits(b.endpoint)
        good, bad = b.sent()[1].results
    assert good.text == bad.text == "files:\nFile 't.csv':\na,ä\n{\"a\":1}\n<svg/>"


def server(*flags: str) -> dict[str, Any]:
    return {"mcpServers": {"srv": {"command": sys.executable, "args": ["-S", str(ROUGH), *flags]}}}


@each_style
async def test_images_of_an_mcp_server(way: Way) -> None:
    """[MED-24] An image in its usual and in its unusual forms is shown; one that is none is a sentence, and
    the rest of its result goes on."""
    content = [
        {"type": "text", "text": "four pictures"},
        {"type": "image", "data": RED.data, "mimeType": "image/png"},
        {"type": "image", "data": f"data:image/png;base64,{BLUE.data}", "mimeType": "image/png"},
        {"type": "image", "data": b64(jpeg()), "mimeType": "image/png"},
        {"type": "image", "data": "no base64!", "mimeType": "image/png"},
        {"type": "image", "data": b64(gif()), "mimeType": "gif"},
        {"type": "audio", "data": b64(MP3), "mimeType": "audio/mpeg"},
    ]
    turns = {"main": [Turn(calls=[use("srv_result", {"content": content})]), Turn(text="end")]}
    async with bench(way, turns, mcp=server()) as b:
        result = await b.ask()
        fits(b.endpoint)
        sent = b.endpoint.requests[-1].body["messages"][-1]
        (answer,) = result.messages[2].tool_results
    assert [m.mime_type for m in answer.media] == ["image/png", "image/png", "image/jpeg"]
    assert answer.media[1].data == BLUE.data
    lines = answer.output.splitlines()
    assert lines[0] == "four pictures" and not answer.is_error
    assert "'no base64!'" in lines[1] and "mime_type='gif'" in lines[2]
    assert lines[3].startswith("[audio/mpeg: not shown: no endpoint takes this kind from a tool")
    kinds = str(sent["content"])
    assert kinds.count("image/jpeg;base64" if way.style == OPENAI else "'image/jpeg'") == 1


@each_style
async def test_the_builtin_read_shows_an_image(way: Way, tmp_path: Path) -> None:
    """[MED-20] [MED-21] A picture of the working folder, named and sized in text, shown as an image."""
    (tmp_path / "red.png").write_bytes(png())
    turns = {"main": [Turn(calls=[use("read", {"path": "red.png"})]), Turn(text="end")]}
    async with bench(way, turns, builtins=["read"], workdir=tmp_path) as b:
        await b.ask()
        messages = last(b)
    shown = messages[-1]["content"]
    if way.style == OPENAI:
        assert messages[0]["content"].startswith(f"red.png: image/png, {len(png())} bytes\n[image/png")
        assert shown[1] == image(MediaPart(data=b64(png())), way)
    else:
        assert shown[0]["content"][1] == image(MediaPart(data=b64(png())), way)


@each_style
async def test_a_hook_may_take_away_and_add_media(way: Way) -> None:
    """[MED-20] [MED-21] What `after_tool` returns is what is shown, bounded like everything else."""

    class Swap:
        def after_tool(self, ctx: Any, result: ToolResult) -> ToolResult:
            return ToolResult(output="swapped", parts=(BLUE, MediaPart("video/mp4", data="AAAA")))

    async with bench(way, looking("red"), tools=[look], hooks=[Swap()]) as b:
        result = await b.ask()
        fits(b.endpoint)
    (answer,) = result.messages[2].tool_results
    assert answer.media == (BLUE,) and answer.output.startswith("swapped\n[video/mp4: not shown")
