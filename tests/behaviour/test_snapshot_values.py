"""Every value of a snapshot is looked at, and comes back as it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    ModelRequest,
    ModelResponse,
    Price,
    RunError,
    RunResult,
    ToolContext,
    ToolResult,
    Usage,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import call

pytestmark = pytest.mark.anyio

USED = Usage(prompt_tokens=50, completion_tokens=9, cached_tokens=8, cache_write_tokens=7, reasoning_tokens=6)


@tool
async def look(x: int) -> ToolResult:
    """Look."""
    return ToolResult(output=f"saw {x}", is_error=x < 0)


@tool
async def pay(to: str, ctx: ToolContext) -> ToolResult:
    """Pay somebody."""
    if ctx.answer is None:
        return pending(kind="approval", prompt=f"pay {to}?")
    return ToolResult(output=f"paid {to}")


def replies(request: ModelRequest) -> ModelResponse:
    """Of one tree: children that end, are stopped, fail and ask; the first has one itself."""
    message = assistant('{"found": [1, 2.5, null]}' if request.agent == "done" else "end of " + request.agent)
    match request.agent, request.turn:
        case "main", 1:
            names = ("done", "short", "broken", "asking")
            message = assistant("", *[call("task", agent=name, prompt="p") for name in names])
        case "done", 1:
            message = assistant(
                "", call("look", x=1), call("look", x=-1), call("task", agent="leaf", prompt="q")
            )
        case "leaf", 1:
            message = assistant("", call("look", x=4))
        case "short", _:
            message = assistant("so far", call("look", x=2))
        case "broken", _:
            raise RuntimeError("broken for good")
        case "asking", 1:
            message = assistant("", call("look", x=3), call("pay", to="bob"))
        case _:
            pass
    return ModelResponse(message=message, usage=USED)


MODEL = FunctionModel(replies, name="m")
PRICES = {"m": Price(input=1, output=2)}
AGENTS = [
    Agent(name="done", agents=[Agent(name="leaf")], output_type={"type": "object"}),
    Agent(name="short", max_turns=2, budget=Budget(tool_calls=1)),
    Agent(name="broken"),
    Agent(name="asking"),
]


def client(**options: Any) -> Client:
    return Client(model=MODEL, builtins=False, prices=PRICES, tools=[look, pay], agents=AGENTS, **options)


@pytest.fixture
async def waiting() -> AsyncGenerator[tuple[Client, RunResult]]:
    async with asyncio.timeout(30), client() as asked:
        result = await asked.ask("go")
        assert result.status == "pending"
        yield asked, result


# What stands at a key, and what it may not be.
TEXTS: list[Any] = [7, [], None]
COUNTS: list[Any] = [-1, True, "1", None]
LISTS: list[Any] = ["x", {}, None]
OBJECTS: list[Any] = ["x", [], None]
FORMS: dict[str, tuple[str, list[Any]]] = {
    **dict.fromkeys(("agent", "status", "text", "definition"), ("text", TEXTS)),
    **dict.fromkeys(("error", "limit"), ("text", [7, []])),
    **dict.fromkeys(
        ("turns", "toolCalls", "toolCallsBelow", "place", "start", "subAgents"), ("count", COUNTS)
    ),
    **dict.fromkeys(("promptTokens", "completionTokens", "cachedTokens"), ("count", COUNTS)),
    **dict.fromkeys(("cacheWriteTokens", "reasoningTokens", "requests"), ("count", COUNTS)),
    **dict.fromkeys(("limits", "children", "path", "scope", "messages", "usage"), ("list", LISTS)),
    **dict.fromkeys(("approved", "background"), ("list", LISTS)),
    **dict.fromkeys(
        ("waiting", "results", "answers", "ledger", "frame", "models", "ownUsage"), ("object", OBJECTS)
    ),
    "continues": ("list", ["x", {}]),
    "child": ("object", ["x", []]),
    "cost": ("number", ["1", True]),
    "value": ("number", ["1", True]),
}
OPTIONAL = {"agent", "start", "continues", "background", "child", "cost"}
AS_IT_IS = {"output", "state", "version", "data", "digest", "prompt", "kind", "id"}
"""What only those look at whose it is."""


def spots(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all members that have a form; not into messages, questions and values of tools."""
    found: list[tuple[Any, ...]] = []
    members: Any = enumerate(cast("list[Any]", value)) if isinstance(value, list) else ()
    for key, inner in cast("dict[Any, Any]", value).items() if isinstance(value, dict) else members:
        if key in AS_IT_IS:
            continue
        is_count = key == "requests" and isinstance(inner, int)
        if isinstance(key, str) and key in FORMS and (key != "requests" or is_count):
            found.append((*way, key))
        if key not in {"messages", "results", "requests"}:
            found += spots(inner, (*way, key))
    return found


def place(way: tuple[Any, ...]) -> str:
    """How an error names it."""
    return "snapshot" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in way)


def in_row(way: tuple[Any, ...]) -> str:
    """The members of a row of usage are named by the row."""
    at = way.index("usage") + 2 if "usage" in way else None
    return place(way) if at is None or len(way) <= at else place((*way[:at], *way[at + 1 :]))


@contextmanager
def changed(snapshot: Any, way: tuple[Any, ...], value: Any = ...) -> Generator[None]:
    """Meanwhile another value stands at `way`, or none."""
    at = snapshot
    for key in way[:-1]:
        at = at[key]
    before = dict(at)
    if value is ...:
        del at[way[-1]]
    else:
        at[way[-1]] = value
    yield
    at.clear()
    at.update(before)


async def test_every_member_of_another_form_is_named(waiting: tuple[Client, RunResult]) -> None:
    """[RES-52] Wherever it is: of the run, of runs below that ended or wait, of limits, usage and ledger."""
    asked, result = waiting
    snapshot = json.loads(json.dumps(result.snapshot))
    ways = spots(snapshot)
    assert {way[-1] for way in ways} == set(FORMS)
    for way in ways:
        what, wrong = FORMS[way[-1]]
        for value in wrong:
            with changed(snapshot, way, value), pytest.raises(RunError) as caught:
                await asked.resume(snapshot, [])
            assert str(caught.value).endswith(f"ValueError {in_row(way)} is no {what}"[:211])
        in_child = "child" in way and way[-1] == "messages"  # without them it is what a tool keeps for itself
        if way[-1] not in OPTIONAL and not in_child:
            with changed(snapshot, way), pytest.raises(RunError) as caught:
                await asked.resume(snapshot, [])
            assert f"{in_row(way[:-1])} has no {way[-1]!r}"[:200] in str(caught.value)


async def test_items_of_another_form_are_named(waiting: tuple[Client, RunResult]) -> None:
    """[RES-52] In lists and tables: segments of paths, approvals, messages, rows of usage, jobs."""
    asked, result = waiting
    snapshot = json.loads(json.dumps(result.snapshot))
    usage = snapshot["ledger"]["models"]["m"]
    jobs = ("frame", "background")
    spot = "snapshot.frame.background[0]"
    calls = "snapshot.frame.waiting"
    job = {"id": "j", "agent": "a", "call": "c", "model": None, "given": True, "waiting": None}
    row = [["main"], "main", "m", usage]
    done = ("frame", "children", 0)
    unknown: dict[str, Any] = {"zz": {"requests": []}}
    cases: list[tuple[tuple[Any, ...], Any, str]] = [
        (("frame", "path"), [7], "snapshot.frame.path[0] is no text"),
        (("approved",), ["x", 7], "snapshot.approved[1] is no text"),
        (("answers",), {"r": "yes"}, "snapshot.answers.r is no object"),
        (("answers",), {"r" * 50: 1}, f"snapshot.answers.{'r' * 40} is no object"),
        (("frame", "messages"), ["hi"], "snapshot.frame.messages[0] is no object"),
        (("frame", "continues"), [7], "snapshot.frame.continues[0] is no text"),
        ((*done, "messages"), ["hi"], "snapshot.frame.children[0].messages[0] is no object"),
        ((*done, "usage"), [row[:3]], "snapshot.frame.children[0].usage[0] is no row of usage"),
        ((*done, "usage"), ["rows"], "snapshot.frame.children[0].usage[0] is no row of usage"),
        ((*done, "usage"), [["x", *row[1:]]], "snapshot.frame.children[0].usage[0] is no list"),
        ((*done, "usage"), [[*row[:1], 7, *row[2:]]], "snapshot.frame.children[0].usage[0] is no text"),
        ((*done, "usage"), [[*row[:2], 7, row[3]]], "snapshot.frame.children[0].usage[0] is no text"),
        ((*done, "ownUsage", "estimated"), 1, "snapshot.frame.children[0].ownUsage.estimated is no flag"),
        (("frame", "scratch"), [], "snapshot.frame.scratch is no object"),
        (("frame", "scratch"), {}, "snapshot.frame.scratch has no 'branch'"),
        (("frame", "scratch"), {"branch": {}}, "snapshot.frame.scratch has no 'late'"),
        (("frame", "scratch"), {"branch": {}, "late": {"a": 1}}, "snapshot.frame.scratch.late.a is no list"),
        (jobs, [{**job, "id": 7}], f"{spot}.id is no text"),
        (jobs, [{**job, "agent": 7}], f"{spot}.agent is no text"),
        (jobs, [{**job, "call": 7}], f"{spot}.call is no text"),
        (jobs, [{**job, "model": 7}], f"{spot}.model is no text"),
        (jobs, [{**job, "given": 1}], f"{spot}.given is no flag"),
        (
            ("frame", "background"),
            [{**job, "waiting": 1}],
            f"{spot}.waiting is no object",
        ),
        (("frame", "waiting"), unknown, "the last message has no calls ['zz']"),
        (("frame", "waiting"), {"c": {}}, f"{calls}.c has no 'requests'"),
        (
            ("frame", "waiting"),
            {"c": {"requests": ["x"]}},
            f"{calls}.c.requests[0] is no object",
        ),
    ]
    for way, value, says in cases:
        with changed(snapshot, way, value), pytest.raises(RunError) as caught:
            await asked.resume(snapshot, [])
        assert str(caught.value) == f"the snapshot is torn: ValueError {says}"


async def test_versions_are_told_short(waiting: tuple[Client, RunResult]) -> None:
    """[RES-11] The version that came, and the one that is read, in a line."""
    asked, result = waiting
    for version, shown in ((2, "2"), ("9" * 80, "'" + "9" * 39), ([1], "list"), (None, "NoneType")):
        with pytest.raises(RunError) as caught:
            await asked.resume({**(result.snapshot or {}), "version": version}, [])
        says = f"a snapshot of version {shown} cannot be resumed; this release reads 1"
        assert str(caught.value) == says


async def test_what_has_ended_comes_back_as_it_was(waiting: tuple[Client, RunResult]) -> None:
    """[RES-05] Every field of the runs below: values, limits, usage, transcripts, errors by their text."""
    _, result = waiting
    snapshot = json.loads(json.dumps(result.snapshot))
    async with client() as other:
        last = await other.resume(snapshot, [Answer(id=result.pending[0].id)])
    assert last.status == "done" and len(last.sub_agents) == 4
    done, short, broken, asking = last.sub_agents
    assert (done, short) == result.sub_agents[:2]
    assert done.output == {"found": [1, 2.5, None]} and done.sub_agent_tool_calls == 1
    assert short.limits_hit and short.limits_hit == last.limits_hit == result.limits_hit
    assert isinstance(broken.error, RunError) and str(broken.error) == "broken for good"
    assert replace(broken, error=None) == replace(result.sub_agents[2], error=None)
    assert asking.turns == 2 and asking.tool_calls == 2
    requests = 2 + 2 + 2 + 2 + 1 + 2
    assert last.usage.requests == requests and not last.usage.estimated
    assert last.usage.reasoning_tokens == (requests - 1) * USED.reasoning_tokens


async def test_a_value_that_is_no_json_comes_back_as_its_text() -> None:
    """[RES-05] A typed answer of a run below that ended, when another process goes on."""

    @dataclass
    class Found:
        count: int

    def model(request: ModelRequest) -> Any:
        match request.agent, request.turn:
            case "main", 1:
                names = ("typed", "asking")
                return assistant("", *[call("task", agent=name, prompt="p") for name in names])
            case "typed", _:
                return '{"count": 3}'
            case "asking", 1:
                return assistant("", call("pay", to="bob"))
            case _:
                return "end"

    def one() -> Client:
        agents = [Agent(name="typed", output_type=Found), Agent(name="asking")]
        return Client(model=FunctionModel(model), builtins=False, tools=[pay], agents=agents)

    async with asyncio.timeout(30), one() as first, one() as second:
        before = await first.ask("go")
        snapshot = json.loads(json.dumps(before.snapshot))
        after = await second.resume(snapshot, [Answer(id=before.pending[0].id)])
    assert before.sub_agents[0].output == Found(3)
    assert after.sub_agents[0].output == after.sub_agents[0].text == '{"count": 3}'
