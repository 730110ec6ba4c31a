"""A conversation that begins on one style and goes on on the other."""

from __future__ import annotations

import asyncio
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
    each_streamed_way,
    each_way,
    is_anthropic,
    paired,
    sent,
    task,
    use,
)
from tests.models.test_types import accepted
from toolnexus import Agent, Client, MediaPart, MemoryStore, SqliteStore, Store, ToolResult, tool
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

PIXEL = MediaPart("image/png", data="iVBORw0KGgo=")


@tool
async def look(q: str) -> ToolResult:
    """Look at something."""
    if q == "gone":
        return ToolResult(output="it is gone", is_error=True)
    return ToolResult(output=f"saw {q}", parts=(PIXEL,) if q == "picture" else ())


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


def working(style: str, n: int) -> list[Turn]:
    """One ask: reasoning, two calls in one turn with the ids of the style, a child, an end."""
    ids = [f"toolu_{n}a", f"toolu_{n}b"] if style == ANTHROPIC else ["call_0", "functions.look:1"]
    thinking: dict[str, Any] = (
        {"thinking": (f"hm {n}", f"sig{n}+/=")} if style == ANTHROPIC else {"reasoning": f"hm {n}"}
    )
    calls = [use("look", {"q": "picture"}, ids[0]), use("look", {"q": "gone"}, ids[1])]
    return [
        Turn(text=f"let me see {n}", calls=calls, **thinking),
        Turn(calls=[task("helper", f"help {n}", id="" if style == ANTHROPIC else "call_0")]),
        Turn(text=f"end {n}"),
    ]


async def one_ask(way: Way, store: Store, n: int) -> tuple[Stage, list[str]]:
    """Ask on conversation `t` with a client of its own; the stage it played on, and what was thought."""
    stage = Stage({"main": working(way.style, n), "small": [Turn(text=f"helped {n}")]})
    helper = Agent(name="helper", model="small", tools=[])
    async with (
        stage,
        Client(model=way.model(stage), builtins=False, tools=[look], agents=[helper], store=store) as client,
    ):
        result = await way.ask(client, f"ask {n}", conversation="t")
        assert (result.status, result.text) == ("done", f"end {n}") and paired(result.messages)
    return stage, [m.text for m in result.messages if m.role == "user"]


@each_way
async def test_a_conversation_moves_between_styles(way: Way, stores: Stores) -> None:
    """[RUN-50] [RUN-51] Begun on one style, gone on with on the other and back, with parallel calls, a failed
    one, images, thinking, a sub-agent and equal ids: nothing is lost, ids stay unique and paired, and every
    request is what the official SDK of its style accepts."""

    other = Way(ANTHROPIC if way.style == OPENAI else OPENAI, way.streamed)
    stages: list[Stage] = []
    async with asyncio.timeout(PATIENCE):
        for n, there in enumerate((way, other, way, other)):
            stage, users = await one_ask(there, stores.get(), n)
            assert users == [f"ask {i}" for i in range(n + 1)]
            stages.append(stage)
    for stage in stages:
        sent(stage)
        for seen in stage.requests:
            accepted(ANTHROPIC if is_anthropic(seen) else OPENAI, way.streamed, seen.body)
    last = sent(stages[-1], "main")[-1]
    assert [call.name for call in last.calls] == ["look", "look", "task"] * 4
    assert [r.text.split("\n")[0] for r in last.results if "saw" in r.text] == ["saw picture"] * 4
    assert [r.text for r in last.results if "helped" in r.text] == [f"helped {n}" for n in range(4)]


@each_way
async def test_what_only_one_endpoint_understands_goes_back_to_it_alone(way: Way) -> None:
    """[RUN-50] Thinking and its signature return to the endpoint that wrote them and to no other."""

    other = Way(ANTHROPIC if way.style == OPENAI else OPENAI, way.streamed)
    store = MemoryStore()
    first = Stage({"main": [*working(way.style, 0), Turn(text="back")], "small": [Turn(text="helped 0")]})
    second = Stage({"main": [Turn(text="elsewhere")]})
    helper = Agent(name="helper", model="small", tools=[])
    options: dict[str, Any] = {"builtins": False, "tools": [look], "agents": [helper], "store": store}
    async with asyncio.timeout(PATIENCE), first, second:
        async with Client(model=way.model(first), **options) as client:
            await way.ask(client, "a", conversation="t")
        async with Client(model=other.model(second), **options) as client:
            await other.ask(client, "b", conversation="t")
        async with Client(model=way.model(first), **options) as client:
            assert (await way.ask(client, "c", conversation="t")).text == "back"
    assert "hm 0" not in second.requests[0].raw.decode() and "sig0" not in second.requests[0].raw.decode()
    back = first.requests[-1].raw.decode()
    assert "hm 0" in back and ("sig0+/=" in back) == (way.style == ANTHROPIC)
    assert "elsewhere" in back


@each_streamed_way
async def test_a_stream_stores_what_a_plain_ask_stores(way: Way) -> None:
    """[RUN-52] The same turns, read as a stream or not, leave the same transcript and the same usage."""
    plain = Way(way.style)
    kept: list[Any] = []
    for there in (way, plain):
        store = MemoryStore()
        stage = Stage({"main": working(way.style, 0), "small": [Turn(text="helped")]})
        helper = Agent(name="helper", model="small", tools=[])
        async with (
            stage,
            Client(
                model=there.model(stage, wire=None),
                builtins=False,
                tools=[look],
                agents=[helper],
                store=store,
            ) as client,
        ):
            result = await there.ask(client, "go", conversation="t")
        messages, _ = await store.load("t")
        said = [re.sub(r"127\.0\.0\.1:\d+", "host", repr((m.role, m.parts))) for m in messages]
        kept.append((said, result.usage, result.text))
    assert kept[0] == kept[1] and len(kept[0][0]) == 6
