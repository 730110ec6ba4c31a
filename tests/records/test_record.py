"""Runs are recorded at the model port and played again without network, key or model."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.loop.support import KEYS, Way, bench, each_way, everything, task, two_ways, use
from toolnexus import Agent, Budget, Client, FunctionModel, RunResult, pending, tool
from toolnexus.core.events import Event, ReasoningDelta, TextDelta
from toolnexus.core.messages import MediaPart
from toolnexus.core.model import ModelRequest
from toolnexus.core.suspension import Answer, Request
from toolnexus.core.tools import Tool
from toolnexus.errors import ModelConnectionError, ModelError, ModelHTTPError
from toolnexus.runtime.questions import OnRequest
from toolnexus.testing import RecordingModel, ReplayingModel, ReplayMismatch, ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on nobody can connect anywhere, and no variable holds a key."""

    def refuse(*_: object) -> None:
        raise AssertionError("a replay needs no network")

    def cut() -> None:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TOOLNEXUS_MODEL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket.socket, "connect_ex", refuse)

    return cut


def probe(said: str = "found") -> Any:
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        return f"{said} {q}"

    return look


AGENTS = [Agent(name=name, description=f"Agent {name}.", tools=["look"]) for name in "ab"]


def give(*names: str) -> Any:
    """A turn that delegates to agents at once."""
    return reply(*(call("task", id=name, agent=name, prompt=name.upper()) for name in names))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def transcripts(result: RunResult) -> list[tuple[Any, ...]]:
    """All that a run said, did and used, and every run below it."""
    return [
        (run.path, run.status, run.limit, run.text, run.messages, run.turns, run.tool_calls, run.usage)
        for run in everything(result)
    ]


@each_way
async def test_a_replay_gives_the_same_run_without_network_and_key(
    way: Way, tmp_path: Path, offline: Callable[[], None]
) -> None:
    """[RP-01] Two parallel children, tools, thinking and usage: recorded at an endpoint of either style and
    played where no connection can be made, the transcripts of all runs, their usage and ends are the same."""
    file = tmp_path / "run.jsonl"
    thought: dict[str, Any] = {"thinking": ("hm", "sig")} if way.style == "anthropic" else {"reasoning": "hm"}
    child = [Turn(calls=[use("look", {"q": "x"})], **thought), Turn(text="grün ✓", chunk=2)]
    both = Turn(text="I split", calls=[task("a"), task("b")])
    events: list[Event] = []

    def client(model: Any) -> Client:
        agents = [Agent(name=a.name, description=a.description, tools=["look"], model=a.name) for a in AGENTS]
        return Client(model=model, builtins=False, tools=[probe()], agents=agents)

    async with bench(way, {"main": [both, Turn(text="end")], "a": child, "b": child}) as b:
        async with client(RecordingModel(way.model(b.endpoint), file)) as recorded:
            first = await way.ask(recorded, "go", events)
    offline()
    replay = ReplayingModel(file)
    again: list[Event] = []
    async with asyncio.timeout(20), client(replay) as played:
        second = await way.ask(played, "go", again)
    assert transcripts(first) == transcripts(second) and replay.left == ()
    models = first.usage.by("model")
    assert models == second.usage.by("model") and set(models) == {"main", "a", "b"}
    assert KEYS[way.style] not in file.read_text()
    if way.streamed:
        heard = [_joined(events), _joined(again)]
        for kind in (TextDelta, ReasoningDelta):
            told = [sorted((e.path, e.text) for e in seen if isinstance(e, kind)) for seen in heard]
            assert told[0] == told[1] and told[0]


def _joined(events: list[Event]) -> list[Event]:
    """The deltas of each run put together: how they are cut is not recorded."""
    out: dict[tuple[Any, ...], Any] = {}
    for event in events:
        if isinstance(event, (TextDelta, ReasoningDelta)):
            key = (type(event), event.path)
            out[key] = type(event)(path=event.path, text=(out[key].text if key in out else "") + event.text)
    return list(out.values())


def delegating(*, mixed: bool = False) -> ScriptedModel:
    """Two children at once, one look each; `mixed` holds the first back until the second is through."""
    through = asyncio.Event()

    async def late(request: ModelRequest) -> Any:
        if mixed:
            await through.wait()
        return reply(call("look", q="a"))

    def last(request: ModelRequest) -> Any:
        through.set()
        return "b is done"

    return ScriptedModel(
        by_path={
            "main": [
                give("a", "b"),
                "all done",
            ],
            "main/a.a": [late, "a is done"],
            "main/b.b": [reply(call("look", q="b")), last],
        }
    )


async def record(
    file: Path, model: Any, *, tools: list[Any] | None = None, prompt: Any = "go", **options: Any
) -> RunResult:
    recording = RecordingModel(model, file)
    given: dict[str, Any] = {"builtins": False, "tools": tools or [probe()], **options}
    given.setdefault("hooks", [recording.tools])
    async with asyncio.timeout(20), Client(model=recording, **given) as client:
        return await client.ask(prompt)


async def play(
    file: Path | ReplayingModel,
    *,
    tools: list[Any] | None = None,
    prompt: Any = "go",
    recorded_tools: bool = False,
    **options: Any,
) -> RunResult:
    replay = file if isinstance(file, ReplayingModel) else ReplayingModel(file)
    given: dict[str, Any] = {"builtins": False, "tools": tools or [probe()], **options}
    if recorded_tools:
        given["hooks"] = [replay.tools]
    async with asyncio.timeout(20), Client(model=replay, **given) as client:
        return await client.ask(prompt)


async def test_another_order_of_children_changes_nothing(tmp_path: Path) -> None:
    """[RP-02] Requests are matched by path and turn: recorded one after the other, played at once."""
    file = tmp_path / "run.jsonl"
    first = await record(file, delegating(mixed=True), agents=AGENTS)
    order = ["/".join(line["path"]) for line in lines(file) if line["type"] == "request"]
    assert order.index("main/a.a") > order.index("main/b.b") + 1
    assert transcripts(first) == transcripts(await play(file, agents=AGENTS))


async def test_asks_of_one_client_take_their_own_replies(tmp_path: Path) -> None:
    """[RP-02] Several asks have the same path and turn: each gets the reply to what it asks, in any order;
    equal ones get theirs in the recorded order."""
    file = tmp_path / "run.jsonl"
    count = iter(range(10))
    model = RecordingModel(FunctionModel(lambda r: f"{r.messages[0].text} {next(count)}"), file)
    async with Client(model=model, builtins=False) as client:
        for prompt in ("one", "two", "same", "same"):
            await client.ask(prompt)
    async with Client(model=ReplayingModel(file), builtins=False) as client:
        said = [(await client.ask(prompt)).text for prompt in ("same", "two", "same", "one")]
    assert said == ["same 2", "two 1", "same 3", "one 0"]


async def test_a_conversation_is_recorded_and_played(tmp_path: Path) -> None:
    """[RP-02] The second ask of a conversation holds the first."""
    file = tmp_path / "run.jsonl"

    async def talk(model: Any) -> list[str]:
        async with Client(model=model, builtins=False) as client:
            return [(await client.ask(p, conversation="c")).text for p in ("one", "two")]

    model = RecordingModel(FunctionModel(lambda r: f"{len(r.messages)} messages"), file)
    assert await talk(model) == await talk(ReplayingModel(file)) == ["1 messages", "3 messages"]


async def test_another_request_is_an_error_with_a_diff(tmp_path: Path) -> None:
    """[RP-03] A tool that gives something else: the error names path, turn and line of the record, and shows
    what was recorded and what came now, and not what is the same."""
    file = tmp_path / "run.jsonl"
    model = ScriptedModel([reply(call("look", q="x")), "end"])
    await record(file, model, system_prompt="Be brief.")
    with pytest.raises(ReplayMismatch) as caught:
        await play(file, tools=[probe("lost")], system_prompt="Be brief.")
    text = str(caught.value)
    assert text.startswith("run 'main', turn 2: this request is not the recorded one") and "line 5)" in text
    assert "--- recorded\n+++ now\n" in text
    assert [t for t in text.splitlines() if t[0] in "+-"][2:] == ["-    found x", "+    lost x"]
    assert not caught.value.retryable and caught.value.result.turns == 2


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"prompt": "stop"}, ["-  go", "+  stop"]),
        ({"system_prompt": "Be long."}, ["-  Be brief.", "+  Be long."]),
        ({"agents": AGENTS[:1]}, ["+tool task:"]),
    ],
)
async def test_every_part_of_a_request_is_compared(
    tmp_path: Path, change: dict[str, Any], shown: list[str]
) -> None:
    """[RP-03] Prompt, system prompt and offered tools."""
    file = tmp_path / "run.jsonl"
    await record(file, ScriptedModel(["end"]), system_prompt="Be brief.")
    with pytest.raises(ReplayMismatch) as caught:
        given: dict[str, Any] = {"system_prompt": "Be brief.", **change}
        await play(file, **given)
    said = str(caught.value).splitlines()
    assert set(shown) <= set(said) and said[0].startswith("run 'main', turn 1: ")


async def test_a_childs_mismatch_is_what_the_caller_gets(tmp_path: Path) -> None:
    """[RP-03] A mismatch in a child is not hidden behind its parent's reading of it: the run fails with the
    child's path, turn and diff."""
    file = tmp_path / "run.jsonl"
    await record(file, delegating(), agents=AGENTS)
    with pytest.raises(ReplayMismatch, match=r"^run 'main/a\.a', turn 2: this request") as caught:
        await play(file, agents=AGENTS, tools=[probe("lost")])
    assert "+    lost a" in str(caught.value)


async def test_a_request_that_was_never_made_is_named(tmp_path: Path) -> None:
    """[RP-03] What the record does not hold: the run, the turn, and what it holds instead."""
    file = tmp_path / "run.jsonl"
    await record(file, ScriptedModel(["end"]))
    replay = ReplayingModel(file)
    assert replay.left == ("run 'main', turn 1",)
    await play(replay)
    assert replay.left == ()
    with pytest.raises(ReplayMismatch, match="no such request; its 1 recorded ones have been played"):
        await play(replay)
    with pytest.raises(ReplayMismatch, match=r"recorded runs: \['main'\]"):
        await ReplayingModel(file).generate(ModelRequest(messages=[], path=("other",)))
    with pytest.raises(ReplayMismatch, match="the record ends at turn 1 of this run"):
        await ReplayingModel(file).generate(ModelRequest(messages=[], path=("main",), turn=2))


ERRORS = [
    ModelHTTPError(
        "host answered HTTP 429: slow; it asks to wait 90 s", status=429, retry_after=90.0, retryable=True
    ),
    ModelConnectionError("host: cannot connect"),
    ModelError("model 'm': no"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
async def test_errors_of_the_provider_are_played(tmp_path: Path, error: ModelError) -> None:
    """[RP-04] The same class, text and hints; at the root it is raised, a parent reads it."""
    file = tmp_path / "run.jsonl"
    with pytest.raises(type(error)):
        await record(file, ScriptedModel([error]))
    with pytest.raises(type(error)) as caught:
        await play(file)
    again = caught.value
    assert str(again) == str(error) and again.retryable == error.retryable
    assert getattr(again, "retry_after", None) == getattr(error, "retry_after", None)
    parent = ScriptedModel(by_path={"main": [give("a"), "end"], "main/*": [error]})
    first = await record(file, parent, agents=AGENTS)
    second = await play(file, agents=AGENTS)
    assert transcripts(first) == transcripts(second)
    assert str(error) in second.messages[2].tool_results[0].output


async def test_an_error_of_another_kind_is_played_as_a_model_error(tmp_path: Path) -> None:
    """[RP-04] What a function in place of a model raised comes back as a `ModelError` that names it."""
    file = tmp_path / "run.jsonl"
    with pytest.raises(ValueError, match="odd"):
        await record(file, ScriptedModel([ValueError("odd")]))
    with pytest.raises(ModelError, match="ValueError: odd"):
        await play(file)


async def test_a_request_that_was_cancelled_waits_for_its_deadline_again(tmp_path: Path) -> None:
    """[RP-04] A child whose model never answered ends at its own deadline in the replay, too."""
    file = tmp_path / "run.jsonl"
    slow = Agent(name="a", tools=[], budget=Budget(seconds=0.1))

    async def never(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(by_path={"main": [give("a"), "end"], "main/*": [never]})
    first = await record(file, model, agents=[slow])
    second = await play(file, agents=[slow])
    assert (
        transcripts(first) == transcripts(second)
        and "passed its deadline" in second.messages[2].tool_results[0].output
    )


async def test_tools_run_for_real_unless_they_are_taken_from_the_record(tmp_path: Path) -> None:
    """[RP-05] Without more, tools run. With `hooks=[replay.tools]` none does: results, errors, metadata and
    media come from the record, and delegation still runs."""
    file = tmp_path / "run.jsonl"
    ran: list[str] = []

    @tool
    async def look(q: str) -> Any:
        """Look something up."""
        ran.append(q)
        if q == "b":
            raise ValueError("no b")
        return MediaPart("image/png", data=base64.b64encode(PNG).decode())

    options: dict[str, Any] = {"agents": AGENTS, "tools": [look]}
    first = await record(file, delegating(), **options)
    assert sorted(ran) == ["a", "b"]
    assert transcripts(first) == transcripts(await play(file, **options)) and len(ran) == 4
    assert (
        transcripts(first) == transcripts(await play(file, recorded_tools=True, **options)) and len(ran) == 4
    )
    image, error = (run.messages[2].tool_results[0] for run in first.sub_agents)
    assert image.media and error.is_error


async def test_the_results_of_a_last_turn_are_recorded_too(tmp_path: Path) -> None:
    """[RP-05] Results that no request holds any more, because a limit stopped the run, are there."""
    file = tmp_path / "run.jsonl"
    first = await record(file, ScriptedModel([reply(call("look", q="x"))]), max_turns=1)
    second = await play(file, tools=[probe("lost")], recorded_tools=True, max_turns=1)
    assert transcripts(first) == transcripts(second) and first.limit == "max_turns"


async def test_a_tool_without_a_recorded_result_does_not_run(tmp_path: Path) -> None:
    """[RP-05] A record without results of tools: nothing runs, the run fails, the text says what to do."""
    file = tmp_path / "run.jsonl"
    ran: list[str] = []

    @tool
    async def look(q: str) -> str:
        """Look something up."""
        ran.append(q)
        return "found"

    model = RecordingModel(ScriptedModel([reply(call("look", q="x")), "end"]), file)
    async with Client(model=model, builtins=False, tools=[look]) as client:
        await client.ask("go")
    with pytest.raises(
        ReplayMismatch, match=r"no result of call 'c1_0' of 'look' in run 'main'; record it with"
    ):
        await play(file, tools=[look], recorded_tools=True)
    assert ran == ["x"]


def agree(request: Request) -> Answer:
    return Answer(id=request.id, data="yes")


@pytest.mark.parametrize("asker", [None, agree], ids=["open", "answered"])
async def test_questions_of_tools_are_in_the_record(tmp_path: Path, asker: OnRequest | None) -> None:
    """[RP-05] From the record, an open question ends the run pending again; an answered one is not asked."""
    file = tmp_path / "run.jsonl"
    asked: list[Request] = []

    async def execute(arguments: dict[str, Any], ctx: Any) -> Any:
        if ctx.answer is None:
            return pending(kind="question", prompt="Sure?")
        return f"answered {ctx.answer.data}"

    ask = Tool("sure", "Ask.", {"type": "object"}, execute)
    given: dict[str, Any] = {"tools": [ask], "on_request": asker}
    first = await record(file, ScriptedModel([reply(call("sure")), "end"]), **given)

    def refuse(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, ok=False)

    second = await play(file, tools=[ask], recorded_tools=True, on_request=None if asker is None else refuse)
    assert asked == [] and first.status == second.status == ("done" if asker else "pending")
    assert [m.parts for m in first.messages] == [m.parts for m in second.messages]
    assert [r.id for r in first.pending] == [r.id for r in second.pending]


async def test_long_results_match_wherever_their_files_are(tmp_path: Path) -> None:
    """[RP-05] A result that is cut names a file in a folder of its own client; that is no difference."""
    file = tmp_path / "run.jsonl"

    @tool
    async def look(q: str) -> str:
        """Look something up."""
        return "long\n" * 30_000

    model = ScriptedModel([reply(call("look", q="x")), "end"])
    first = await record(file, model, tools=[look])
    for recorded_tools in (False, True):
        second = await play(file, tools=[look], recorded_tools=recorded_tools)
        assert (
            second.text == first.text and "the full text is in" in second.messages[2].tool_results[0].output
        )


async def test_models_of_agents_are_recorded_and_played_without_their_keys(
    tmp_path: Path, offline: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RP-06] Agents with models of their own, as objects and by name: all are in the one record, under
    their own names, and need no key to be played."""
    file = tmp_path / "run.jsonl"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    other = ScriptedModel(["from other"], name="other")

    def agents(model: Any) -> list[Agent]:
        return [Agent(name="a", model=model, tools=[]), Agent(name="b", model="anthropic:claude-x", tools=[])]

    main = ScriptedModel([give("a"), "end"])
    first = await record(file, main, agents=agents(other))
    offline()
    unused = ScriptedModel([], name="other")
    second = await play(file, agents=agents(unused))
    assert transcripts(first) == transcripts(second) and unused.requests == []
    assert set(second.usage.by("model")) == {"scripted", "other"}


async def test_a_shortened_history_is_recorded_as_it_was_sent(tmp_path: Path) -> None:
    """[RP-07] A hook that leaves messages out: the record holds what was sent, and the replay compares it."""
    file = tmp_path / "run.jsonl"

    class Shorten:
        def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
            kept = [request.messages[0], *request.messages[1:][-2:]]
            return replace(request, messages=kept)

    model = ScriptedModel([reply(call("look", q=q)) for q in "xyz"] + [reply("end")])
    recording = RecordingModel(model, file)
    async with Client(model=recording, builtins=False, tools=[probe()], hooks=[Shorten()]) as client:
        first = await client.ask("go")
    assert [line.get("keep") for line in lines(file) if line["type"] == "request"][2:] == [1, 1]
    replay = ReplayingModel(file)
    async with Client(model=replay, builtins=False, tools=[probe()], hooks=[Shorten()]) as client:
        assert transcripts(await client.ask("go")) == transcripts(first)
    with pytest.raises(ReplayMismatch, match="turn 3"):
        await play(file)


@two_ways
async def test_a_mismatch_of_a_stream_is_raised_at_its_exit(way: Way, tmp_path: Path) -> None:
    """[RP-03] However the run is read."""
    file = tmp_path / "run.jsonl"
    await record(file, ScriptedModel(["end"]))
    async with Client(model=ReplayingModel(file), builtins=False) as client:
        with pytest.raises(ReplayMismatch):
            await way.ask(client, "other")
