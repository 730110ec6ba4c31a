"""Media in conversations: stored, sent on to another style, and encoded once."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.loop.support import (
    ANTHROPIC,
    OPENAI,
    PATIENCE,
    Stage,
    Way,
    bench,
    each_style,
    each_way,
    paired,
    use,
)
from tests.media.files import MP3, b64, fits, jpeg, pdf, png, texts_in, wav
from toolnexus import Agent, Client, MediaPart, MemoryStore, SqliteStore, Store, ToolResult, tool
from toolnexus.core.events import Event, ToolFinished
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

RED, BILL = MediaPart(data=b64(png()), name="red.png"), MediaPart(data=b64(pdf()), name="bill.pdf")
PROMPT = [
    "see",
    RED,
    BILL,
    MediaPart(data=b64(wav()), name="hm.wav"),
    MediaPart("text/csv", data=b64("a,ä".encode())),
    MediaPart(url="https://e.com/a.png"),
]


@tool
async def shoot(what: str) -> ToolResult:
    """Take a picture."""
    parts = {
        "screen": (RED, BILL),
        "failed": (MediaPart(data=b64(jpeg())),),
        "sound": (MediaPart(data=b64(MP3)),),
    }
    return ToolResult(output=what, parts=parts[what], is_error=what == "failed")


class Stores:
    """The same conversations for one client after the other."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._memory = MemoryStore() if kind == "memory" else None
        self._file = folder / "talks.db"

    def get(self) -> Store:
        return self._memory or SqliteStore(self._file)


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    return Stores(request.param, tmp_path)


async def one_ask(way: Way, store: Store, n: int) -> tuple[Stage, tuple[Any, ...]]:
    """Ask with media, let the tool give media, close; the stage and the whole transcript."""
    calls = [use("shoot", {"what": w}, f"call_{w}_{n}") for w in ("screen", "failed", "sound")]
    stage = Stage({"main": [Turn(calls=calls), Turn(text=f"end {n}")]})
    async with stage, Client(model=way.model(stage), builtins=False, tools=[shoot], store=store) as client:
        result = await way.ask(client, PROMPT, conversation="t")
        assert result.text == f"end {n}" and paired(result.messages)
    return stage, result.messages


@each_way
async def test_media_live_on_in_a_conversation_that_moves_between_styles(way: Way, stores: Stores) -> None:
    """[MED-40] Prompts and results with media, stored and loaded, begun on one style, gone on with on the
    other and back: every part comes back as it was, every body is one that the style takes, and no text of
    any body holds base64."""
    other = Way(ANTHROPIC if way.style == OPENAI else OPENAI, way.streamed)
    before: tuple[Any, ...] = ()
    last = ""
    async with asyncio.timeout(PATIENCE):
        for n, there in enumerate((way, other, way)):
            stage, messages = await one_ask(there, stores.get(), n)
            fits(stage)
            assert messages[: len(before)] == before
            for seen in stage.requests:
                texts = texts_in(seen.body["messages"])
                for data in (RED.data, BILL.data, b64(jpeg()), b64(MP3), b64(wav())):
                    assert data is not None and not any(data[:24] in text for text in texts)
            before, last = messages, stage.requests[-1].raw.decode()
    users = [m for m in before if m.role == "user"]
    assert [m.parts[1:] for m in users] == [tuple(PROMPT[1:])] * 3
    results = [r for m in before for r in m.tool_results]
    assert [r.media for r in results[:3]] == [(RED, BILL), (MediaPart(data=b64(jpeg())),), ()]
    assert last.count(b64(png())) == 6  # three prompts, three results


class Watched(MediaPart):
    """Counts how often somebody reads its content."""

    reads = 0

    @property
    def data(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        Watched.reads += 1
        return RED.data

    @data.setter
    def data(self, value: str | None) -> None: ...  # pyright: ignore[reportIncompatibleVariableOverride]


async def reads_in(way: Way, turns: int) -> int:
    """How often the contents of one prompt's and one result's image are read in a run of so many turns."""
    prompt, shown = Watched(data=RED.data), Watched(data=RED.data)

    @tool
    async def snap(n: int) -> ToolResult:
        """Snap."""
        return ToolResult(output=str(n), parts=(shown,) if n == 0 else ())

    script = [Turn(calls=[use("snap", {"n": n}, f"call_{n}")]) for n in range(turns)]
    async with bench(way, {"main": [*script, Turn(text="end")]}, tools=[snap], max_turns=turns + 1) as b:
        Watched.reads = 0
        await b.ask(["see", prompt])
        assert b.endpoint.requests[-1].raw.decode().count(b64(png())) == 2
        return Watched.reads


@each_way
async def test_media_are_encoded_once_in_a_run(way: Way) -> None:
    """[MED-41] Forty turns read the content of an image no more often than two do."""
    assert await reads_in(way, 40) == await reads_in(way, 2)


@each_style
async def test_media_of_a_conversation_are_encoded_once_per_ask(way: Way) -> None:
    """[MED-41] In a conversation, one more ask reads an image as often as every other ask, however many
    there were."""
    part = Watched(data=RED.data)
    script = [Turn(text=f"answer {n}") for n in range(12)]
    counts: list[int] = []
    async with bench(way, {"main": script}) as b:
        for n in range(12):
            Watched.reads = 0
            await b.ask(["see", part] if n == 0 else f"ask {n}", conversation="t")
            counts.append(Watched.reads)
        assert b.endpoint.requests[-1].raw.decode().count(b64(png())) == 1
    assert len(set(counts[1:])) == 1


async def test_events_and_results_for_machines_hold_no_content() -> None:
    """[MED-42] The wire form of an event tells of the call, not of five megabytes of picture."""
    events: list[Event] = []
    turns = {
        "main": [Turn(calls=[use("task", {"agent": "eye", "prompt": "look"})]), Turn(text="end")],
        "eye": [Turn(calls=[use("shoot", {"what": "screen"})]), Turn(text="seen")],
    }
    agents = [Agent(name="eye", model="eye", tools=[shoot])]
    async with bench(Way(OPENAI, streamed=True), turns, agents=agents) as b:
        async with b.client.stream(PROMPT) as stream:
            async for event in stream:
                events.append(event)
    assert any(isinstance(e, ToolFinished) and e.result.parts == (RED, BILL) for e in events)
    assert all(b64(png())[:24] not in json.dumps(e.to_json(), default=str) for e in events)
    assert b64(png())[:24] not in repr(stream.result)


@each_style
async def test_the_hook_of_the_guide_leaves_media_out(way: Way) -> None:
    """[MED-15] The code of docs/media.md, as it stands there: no request holds media, the transcript does."""
    guide = (Path(__file__).parents[2] / "docs" / "media.md").read_text(encoding="utf-8")
    given: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[-1], given)
    turns = {"main": [Turn(calls=[use("shoot", {"what": "screen"})]), Turn(text="end")]}
    async with bench(way, turns, tools=[shoot], hooks=[given["NoMedia"]()]) as b:
        result = await b.ask(PROMPT)
        fits(b.endpoint)
        assert not any(RED.data in seen.raw.decode() for seen in b.endpoint.requests if RED.data)
        assert b.sent()[1].users == ["see"] and b.sent()[1].results[0].text == "screen"
    assert result.messages[0].parts[1] == RED and result.messages[2].tool_results[0].media == (RED, BILL)
