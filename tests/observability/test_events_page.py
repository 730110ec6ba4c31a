"""docs/events.md against the code: every event, every field, and what it promises about order."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    Compacted,
    Event,
    FunctionModel,
    GraphEvent,
    Limit,
    LimitHit,
    Message,
    ModelError,
    ModelRequest,
    NodeFinished,
    NodeStarted,
    Pending,
    ReasoningDelta,
    Request,
    Retrying,
    RunFinished,
    RunResult,
    RunStarted,
    SubAgentFinished,
    SubAgentStarted,
    Suspended,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolResult,
    ToolStarted,
    TurnStarted,
    Usage,
    UsageReported,
    assistant,
    pending,
    tool,
)
from toolnexus.core import events
from toolnexus.testing import call

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
SECTION = re.compile(r"^### (\w+) · `(\w+)`\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| `([\w.]+)` \| `(\w+)` \| .+ \|$", re.MULTILINE)
COMMON = {"type", "path", "seq", "time"}

P = ("main",)
RESULT = RunResult(status="done", text="x", path=P)
REQUEST = Request(kind="question", prompt="Which?")
SAMPLES: Sequence[Event] = (
    RunStarted(path=P, agent="main"),
    NodeStarted(path=P, node=("flow", "step"), kind="Fn"),
    NodeFinished(path=P, node=("flow", "step"), kind="Fn", status="done"),
    GraphEvent(path=P, subject="agent.run.r.stream.a.delta", payload={"text": "x"}),
    TurnStarted(path=P, turn=1, model="m"),
    TextDelta(path=P, text="x"),
    ReasoningDelta(path=P, text="x"),
    ToolStarted(path=P, name="t", call_id="c", arguments={}),
    ToolProgress(path=P, call_id="c", message="half"),
    ToolFinished(path=P, name="t", call_id="c", result=ToolResult(output="x"), seconds=0.1),
    SubAgentStarted(path=P, agent="x", child=(*P, "x.c"), call_id="c", prompt="p"),
    SubAgentFinished(path=P, agent="x", child=(*P, "x.c"), result=RESULT),
    Pending(path=P, request=REQUEST),
    Retrying(path=P, attempt=1, delay=0.5, reason="503"),
    LimitHit(path=P, hit=Limit(limit="max_turns", value=1, path=P, scope=P)),
    UsageReported(path=P, model="m", usage=Usage(requests=1)),
    Compacted(path=P, before=9, after=3, dropped=2, summarized=True),
    RunFinished(path=P, result=RESULT),
)


def test_every_event_and_every_field_is_on_the_page() -> None:
    """[OBS-40] Classes, `type` words, fields and JSON keys: those of the code and no others."""
    classes = {
        name: cls
        for name, cls in vars(events).items()
        if isinstance(cls, type) and issubclass(cls, Event) and cls is not Event
    }
    told = {
        name: (type, dict(ROW.findall(body)), ROW.findall(body)) for name, type, body in SECTION.findall(PAGE)
    }
    assert told.keys() == classes.keys() == {type(s).__name__ for s in SAMPLES}
    for sample in SAMPLES:
        name = type(sample).__name__
        word, _, rows = told[name]
        assert word == sample.type, name
        own = {f.name for f in fields(sample)} - COMMON
        assert {python.split(".")[0] for python, _ in rows} == own, name
        assert {key for _, key in rows} == sample.to_json().keys() - COMMON, name


@tool
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def hang() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return ""


@tool
async def ask() -> ToolResult:
    """Ask."""
    return pending(kind="question", prompt="Which?")


def script(*steps: str, then: Any = "end") -> FunctionModel:
    """Calls the tools in `steps` in one turn, in the child as well; then does `then`."""

    def fn(request: ModelRequest) -> Message | str:
        if request.turn == 1:
            task = [call("task", id="t", agent="x", prompt="p")] if request.agent == "main" else []
            return assistant("", *task, *[call(name) for name in steps])
        if isinstance(then, Exception):
            raise then
        return then

    return FunctionModel(fn)


def balanced(seen: list[Event]) -> None:
    """What the page promises about starts, ends and order."""
    assert [e.seq for e in seen] == list(range(1, len(seen) + 1))
    for path in {e.path for e in seen}:
        mine = [e for e in seen if e.path == path]
        assert isinstance(mine[0], RunStarted) and isinstance(mine[-1], RunFinished)
        assert sum(isinstance(e, (RunStarted, RunFinished)) for e in mine) == 2
        started = [e.call_id for e in mine if isinstance(e, ToolStarted)]
        finished = [e.call_id for e in mine if isinstance(e, ToolFinished)]
        assert sorted(started) == sorted(finished)
        children = [e.child for e in mine if isinstance(e, SubAgentStarted)]
        assert sorted(children) == sorted(e.child for e in mine if isinstance(e, SubAgentFinished))
        for child in children:
            at = {
                type(e): e.seq for e in seen if e.path == child and isinstance(e, (RunStarted, RunFinished))
            }
            around = [
                e.seq for e in mine if isinstance(e, (SubAgentStarted, SubAgentFinished)) and e.child == child
            ]
            assert around[0] < at[RunStarted] < at[RunFinished] < around[1]


@pytest.mark.parametrize(
    ("model", "options", "status"),
    [
        (script("look"), {}, "done"),
        (script("look", then=ModelError("down")), {}, "error"),
        (script("look"), {"max_turns": 1}, "incomplete"),
        (script("hang"), {"budget": Budget(seconds=0.05)}, "incomplete"),
        (script("look", "look"), {"budget": Budget(tool_calls=2)}, "incomplete"),
        (script("look"), {"budget": Budget(requests=2)}, "incomplete"),
        (script("ask"), {}, "pending"),
        (script("ask"), {"on_request": lambda r: Answer(id=r.id, ok=False)}, "done"),  # pyright: ignore
        (script("missing"), {}, "done"),
    ],
)
async def test_every_end_closes_the_stream(
    model: FunctionModel, options: dict[str, Any], status: str
) -> None:
    """[OBS-41] Whatever way a run ends, starts have their ends, in order, and the reader comes to the end."""
    seen: list[Event] = []
    agents = [Agent(name="x")]
    async with Client(
        model=model, builtins=False, tools=[look, hang, ask], agents=agents, **options
    ) as client:
        stream = None
        try:
            async with asyncio.timeout(10), client.stream("go") as stream:
                seen += [event async for event in stream]
        except ModelError:
            pass
    assert stream is not None and stream.result.status == status
    balanced(seen)


async def test_closing_the_client_closes_the_stream() -> None:
    """[OBS-41] Also for who reads it in another task."""
    client = Client(model=script("hang"), builtins=False, tools=[hang], agents=[Agent(name="x")])
    hanging = asyncio.Event()

    async def read() -> list[Event]:
        seen: list[Event] = []
        try:
            async with client.stream("go") as stream:
                async for event in stream:
                    seen.append(event)
                    if sum(isinstance(e, ToolStarted) and e.name == "hang" for e in seen) == 2:
                        hanging.set()
        except Exception as error:
            assert "closed" in str(error)
        return seen

    async with asyncio.timeout(10):
        reader = asyncio.create_task(read())
        await hanging.wait()
        await client.aclose()
        balanced(await reader)


async def test_a_run_that_never_begins_gives_no_event() -> None:
    """[OBS-42] The stream ends at once and the block raises why."""
    async with Client(model=script("ask"), builtins=False, tools=[ask], agents=[Agent(name="x")]) as client:
        await client.ask("go", conversation="c")
        seen: list[Event] = []
        with pytest.raises(Suspended):
            async with asyncio.timeout(5), client.stream("go on", conversation="c") as stream:
                seen = [event async for event in stream]
        assert seen == []
