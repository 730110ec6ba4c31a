"""What a model gets of a long output, where the rest is, and what it never gets."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from tests.loop.bodies import Sent
from tests.loop.support import (
    HEADER,
    KEYS,
    Way,
    as_text,
    bench,
    each_style,
    each_way,
    everything,
    is_anthropic,
    task,
    use,
)
from toolnexus import Agent, Answer, Request, ToolContext, ToolError, ToolResult, pending, tool
from toolnexus.core.events import ToolFinished
from toolnexus.testing.endpoint import Seen
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

MOST = 50_000 + 1_000
LINES = "".join(f"line {n:06} of a rather long listing, äöü\n" for n in range(130_000))
PLACE = re.compile(r"the full text is in (\S+) …\]")


def place_in(text: str) -> str:
    found = PLACE.search(text)
    assert found is not None, text[:200]
    return found[1]


def reading(seen: Seen) -> Turn:
    """Read line 65,001 of the file that the last result names."""
    last = Sent(seen.body, anthropic=is_anthropic(seen)).results[-1].text
    return Turn(calls=[use("read", {"path": place_in(last), "offset": 65_001, "limit": 1})])


@tool
async def listing() -> str:
    """Five megabytes."""
    return LINES


@each_way
async def test_a_long_output_is_cut_and_can_be_read_whole(way: Way) -> None:
    """[RUN-40] [RUN-41] 5 MB: head, tail and the place of the rest; the builtin `read` reads it there."""
    turns = {"main": [Turn(calls=[use("listing")]), reading, Turn(text="end")]}
    assert len(LINES.encode()) > 5_000_000
    async with bench(way, turns, tools=[listing], builtins=["read"]) as b:
        result = await b.ask()
        cut, line = b.sent()[2].results
        path = Path(place_in(cut.text))
        assert path.read_text(encoding="utf-8") == LINES
    head, _, tail = cut.text.partition("\n[… ")
    assert len(cut.text.encode()) < MOST
    assert LINES.startswith(head) and len(head.encode()) > 30_000
    tail = tail.partition("…]\n")[2]
    assert LINES.endswith(tail) and len(tail.encode()) > 15_000
    assert line.text == "line 065000 of a rather long listing, äöü"
    assert result.messages[2].tool_results[0].output == cut.text
    assert not path.exists() and not path.parent.exists()  # it goes with the client
    if way.streamed:
        finished = [e for e in b.events if isinstance(e, ToolFinished)]
        assert finished[0].result.metadata["outputPath"] == str(path)


@each_way
async def test_a_sub_agent_reads_what_its_caller_was_told_of(way: Way) -> None:
    """[RUN-41] The place is good for everybody below: the parent's in a child, the child's own, too."""

    def hand_on(seen: Seen) -> Turn:
        last = Sent(seen.body, anthropic=is_anthropic(seen)).results[-1].text
        return Turn(calls=[task("reader", f"read {place_in(last)}")])

    def read_it(seen: Seen) -> Turn:
        path = Sent(seen.body, anthropic=is_anthropic(seen)).users[0].split()[1]
        return Turn(calls=[use("read", {"path": path, "offset": 3, "limit": 1}), use("listing")])

    def answer(seen: Seen) -> Turn:
        return Turn(text=Sent(seen.body, anthropic=is_anthropic(seen)).results[-1].text)

    turns = {
        "main": [Turn(calls=[use("listing")]), hand_on, Turn(text="end")],
        "reader": [read_it, reading, answer],
    }
    agents = [Agent(name="reader", model="reader", tools=["read", "listing"])]
    async with bench(way, turns, tools=[listing], builtins=["read"], agents=agents) as b:
        await b.ask()
        first, _, own = b.sent("reader")[-1].results
        told = b.sent("main")[-1].results[-1].text
    assert first.text == "line 000002 of a rather long listing, äöü"
    assert told == own.text == "line 065000 of a rather long listing, äöü"


@each_style
@pytest.mark.parametrize("unit", ["ä", "€", "🙂", "e\u0301", "a", "🙂\n", "\n"], ids=ascii)
async def test_no_character_is_split(way: Way, unit: str) -> None:
    """[RUN-43] One endless line of characters of any width, and endless short lines: what is left is a true
    head and a true tail, in valid UTF-8."""
    text = "x" + unit * (120_000 // len(unit.encode()))

    @tool
    async def endless() -> str:
        """Endless."""
        return text

    async with bench(way, {"main": [Turn(calls=[use("endless")]), Turn(text="end")]}, tools=[endless]) as b:
        await b.ask()
        (cut,) = b.sent()[1].results
        b.endpoint.requests[-1].raw.decode("utf-8", "strict")
    head, _, rest = cut.text.partition("\n[… ")
    tail = rest.partition("…]\n")[2]
    assert "\ufffd" not in cut.text and len(cut.text.encode()) < MOST
    assert head and tail and text.startswith(head) and text.endswith(tail)


@each_style
async def test_everything_that_a_model_reads_is_bounded(way: Way) -> None:
    """[RUN-40] A long error, a long answer of a hook, and the long last words of a child are cut like any
    output; a short output of many lines, too."""

    @tool
    async def shout() -> str:
        """Shout."""
        raise ToolError("E" * 200_000)

    @tool
    async def lines() -> str:
        """Lines."""
        return "\n" * 5_000

    class Verbose:
        def before_tool(self, ctx: ToolContext) -> ToolResult | None:
            return ToolResult(output="H" * 200_000) if ctx.tool.name == "hooked" else None

    @tool
    async def hooked() -> str:
        """Hooked."""
        return ""

    calls = [use("shout"), use("lines"), use("hooked"), task("a")]
    turns = {"main": [Turn(calls=calls), Turn(text="end")], "a": [Turn(text="T" * 200_000)]}
    agents = [Agent(name="a", model="a", tools=[])]
    async with bench(way, turns, tools=[shout, lines, hooked], hooks=[Verbose()], agents=agents) as b:
        await b.ask()
        results = b.sent("main")[1].results
    assert all(len(r.text.encode()) < MOST and PLACE.search(r.text) for r in results)
    assert results[1].text.count("\n") < 2_100


@each_way
async def test_secrets_in_what_tools_say_are_masked(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """[RUN-42] A tool that shows the client's key in its error, its output, its progress, its question or a
    long output: no model, event, log or file gets it; the rest of the words stays."""
    caplog.set_level(logging.DEBUG)
    key = KEYS[way.style]
    asked: list[Request] = []

    async def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, ok=False)

    @tool
    async def raising() -> str:
        """Raise."""
        raise ValueError(f"401 for Bearer {key}, sorry")

    @tool
    async def refusing() -> str:
        """Refuse."""
        raise ToolError(f"no entry with {key} and {HEADER}")

    @tool
    async def telling(ctx: ToolContext) -> str:
        """Tell."""
        ctx.emit(f"trying {key} now", header=HEADER)
        return f"the key is {key}."

    @tool
    async def asking(ctx: ToolContext) -> ToolResult:
        """Ask."""
        return pending(kind="question", prompt=f"use {key}?")

    @tool
    async def flooding() -> str:
        """Flood."""
        return f"{key}\n" * 20_000

    tools = [raising, refusing, telling, asking, flooding]
    turns = {
        "main": [Turn(calls=[task("a")]), Turn(text="end")],
        "a": [Turn(calls=[use(t.name) for t in tools]), Turn(text="done")],
    }
    agents = [Agent(name="a", model="a", tools=tools)]
    async with bench(way, turns, agents=agents, on_request=answer) as b:
        result = await b.ask()
        outputs = [r.text for r in b.sent("a")[1].results]
        kept = Path(place_in(outputs[-1])).read_text(encoding="utf-8")
        bodies = [seen.raw.decode() for seen in b.endpoint.requests]
    assert outputs[0] == "'raising' failed: ValueError: 401 for Bearer [redacted], sorry"
    assert outputs[1] == "no entry with [redacted] and [redacted]"
    assert outputs[2] == "the key is [redacted]."
    assert outputs[3] == "declined: use [redacted]?" and asked[0].prompt == "use [redacted]?"
    assert kept == "[redacted]\n" * 20_000
    events = [as_text(e.to_json()) for e in b.events]
    runs = [repr(run.messages) for run in everything(result)]
    for words in (*bodies, *events, *runs, caplog.text):
        assert key not in words and HEADER not in words
