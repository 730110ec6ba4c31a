"""Requests that fail for a while, and streams that break in the middle."""

from __future__ import annotations

import json

import pytest

from tests.loop.support import OPENAI, Way, bench, each_streamed_way, each_way, paired, task, use
from toolnexus import Agent, ModelConnectionError, ModelError, tool
from toolnexus.core.events import Event, Retrying, TextDelta, ToolStarted
from toolnexus.testing.turns import Turn, anthropic_events, openai_events

pytestmark = pytest.mark.anyio

SAID = "let me see"


class Counter:
    """A tool that counts its runs."""

    def __init__(self) -> None:
        self.seen: list[str] = []

        @tool
        async def probe(q: str) -> str:
            """Probe."""
            self.seen.append(q)
            return "probed"

        self.tool = probe


def calling(*, cut: bool, text: str | None = SAID, way: Way) -> Turn:
    """A turn of text and one call; cut, its stream ends with half of the arguments."""
    turn = Turn(text=text, calls=[use("probe", {"q": "a long question, quite long"})], chunk=100)
    if not cut:
        return turn
    events = list((openai_events if way.style == OPENAI else anthropic_events)(turn, "main"))
    whole = [i for i, e in enumerate(events) if "quite long" in json.dumps(e)]
    return Turn(text=text, calls=turn.calls, chunk=100, drop_after=whole[-1])


def heard(events: list[Event]) -> tuple[list[str], list[str]]:
    """The text of one reader before and behind the last restart."""
    restarts = [i for i, e in enumerate(events) if isinstance(e, Retrying) and e.restarted]
    at = restarts[-1] if restarts else 0
    return tuple([e.text for e in part if isinstance(e, TextDelta)] for part in (events[:at], events[at:]))  # type: ignore[return-value]


@each_way
async def test_retries_are_events_and_one_turn(way: Way) -> None:
    """[RUN-30] Two failures and a reply are one turn and one request of the run; each retry is an event with
    its attempt, its delay and its reason, at the path of the run that waits."""
    busy = Turn(status=429, headers={"retry-after": "0.05"}, body='{"error": {"message": "slow down"}}')
    turns = {
        "main": [Turn(calls=[task("a")]), Turn(text="end")],
        "a": [busy, Turn(status=529, body="overloaded"), Turn(text="fine")],
    }
    async with bench(way, turns, agents=[Agent(name="a", model="a", tools=[])]) as b:
        result = await b.ask()
        assert len(b.sent("a")) == 3
    (child,) = result.sub_agents
    assert (child.text, child.turns, child.usage.requests) == ("fine", 1, 1)
    if way.streamed:
        first, second = [e for e in b.events if isinstance(e, Retrying)]
        assert (first.attempt, second.attempt) == (1, 2)
        assert first.path == second.path == ("main", "a.call_a")
        assert "429" in first.reason and "slow down" in first.reason and "529" in second.reason
        assert 0.05 <= first.delay < 0.1 and not first.restarted and not second.restarted


@each_way
async def test_a_connection_that_breaks_is_tried_again(way: Way) -> None:
    """[RUN-30] A connection that is closed before a byte of the reply costs nothing but a retry."""
    turns = [Turn(text="x", drop_after=0), Turn(text="x", drop_after=0), Turn(text="fine")]
    async with bench(way, {"main": turns}) as b:
        assert (await b.ask()).text == "fine"
    reasons = [e.reason for e in b.events if isinstance(e, Retrying)]
    assert len(reasons) == (2 if way.streamed else 0)


@each_streamed_way
async def test_a_call_of_a_broken_stream_never_runs(way: Way) -> None:
    """[RUN-31] [RUN-32] The stream dies after text and half of a call's arguments: that call does not run,
    the request goes out again unchanged, the reader is told that the text before is void, and the transcript
    holds the text once."""
    probe = Counter()
    turns = [calling(cut=True, way=way), calling(cut=False, way=way), Turn(text="end")]
    async with bench(way, {"main": turns}, tools=[probe.tool]) as b:
        result = await b.ask()
        first, second, third = b.sent()
        bodies = [seen.raw for seen in b.endpoint.requests]
    assert probe.seen == ["a long question, quite long"]
    assert result.status == "done" and result.messages[1].text == SAID
    assert first.calls == [] and bodies[0] == bodies[1] and second.users == ["go"]
    assert third.raw.count(SAID) == 1 and len(third.calls) == 1
    before, behind = heard(b.events)
    assert "".join(before) == SAID and "".join(behind) == SAID + "end"
    assert len([e for e in b.events if isinstance(e, ToolStarted)]) == 1


@each_streamed_way
async def test_a_stream_that_breaks_for_good_is_incomplete(way: Way) -> None:
    """[RUN-33] After the last retry: `incomplete`, limit `connection`, the text so far, no call run; the
    conversation goes on."""
    probe = Counter()
    turns = [*[calling(cut=True, way=way)] * 3, Turn(text="went on")]
    async with bench(way, {"main": turns}, tools=[probe.tool]) as b:
        result = await b.ask(conversation="t")
        assert len(b.endpoint.requests) == 3
        assert (result.status, result.limit, result.text) == ("incomplete", "connection", SAID)
        assert probe.seen == [] and result.tool_calls == 0 and paired(result.messages)
        assert (await b.ask("and?", conversation="t")).text == "went on"
        assert b.sent()[-1].calls == [] and SAID in b.sent()[-1].raw


@each_streamed_way
async def test_a_stream_that_breaks_before_any_text_is_an_error(way: Way) -> None:
    """[RUN-33] Nothing to show and nothing run: the connection error is raised, with the result."""
    probe = Counter()
    turns = [calling(cut=True, text=None, way=way)] * 3
    async with bench(way, {"main": turns}, tools=[probe.tool]) as b:
        with pytest.raises(ModelConnectionError) as caught:
            await b.ask()
    assert probe.seen == [] and caught.value.result.status == "error"
    assert caught.value.result.turns == 1


@each_streamed_way
async def test_a_parent_reads_that_a_childs_stream_broke(way: Way) -> None:
    """[RUN-33] With text: the text and the limit. Without: a failed agent. Never silence."""
    probe = Counter()
    turns = {
        "main": [Turn(calls=[task("a"), task("b")]), Turn(text="end")],
        "a": [calling(cut=True, way=way)] * 3,
        "b": [calling(cut=True, text=None, way=way)] * 3,
    }
    agents = [Agent(name=name, model=name, tools=[probe.tool]) for name in "ab"]
    async with bench(way, turns, agents=agents) as b:
        result = await b.ask()
        said, failed = b.sent("main")[1].results
    assert said.text == f"{SAID}\n[incomplete: connection]"
    assert failed.text.startswith("agent 'b' failed: model 'b'")
    assert probe.seen == [] and [h.limit for h in result.limits_hit] == ["connection"]


@each_streamed_way
@pytest.mark.parametrize("clean", [True, False])
async def test_the_end_of_a_reply_is_what_the_endpoint_says_it_is(way: Way, clean: bool) -> None:
    """[RUN-34] A finish reason without `[DONE]`, and a connection that breaks behind the end, are an end."""
    turn = calling(cut=False, way=way)
    events = list((openai_events if way.style == OPENAI else anthropic_events)(turn, "main"))
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    first = Turn(sse=lines) if clean else Turn(sse=[*lines, ": nothing more\n\n"], drop_after=len(lines))
    probe = Counter()
    async with bench(way, {"main": [first, Turn(text="end")]}, tools=[probe.tool]) as b:
        result = await b.ask()
    assert result.status == "done" and len(probe.seen) == 1
    assert not [e for e in b.events if isinstance(e, Retrying)]


@each_streamed_way
async def test_a_stream_that_just_ends_is_no_end(way: Way) -> None:
    """[RUN-34] Text, then an orderly end of the stream without a finish: tried again, then `incomplete`."""
    events = list((openai_events if way.style == OPENAI else anthropic_events)(Turn(text=SAID), "main"))
    kept = [
        e for e in events if 'finish_reason": "stop' not in json.dumps(e) and e.get("type") != "message_stop"
    ]
    lines = [f"data: {json.dumps(event)}\n\n" for event in kept]
    async with bench(way, {"main": [Turn(sse=lines)] * 3}) as b:
        result = await b.ask()
        assert len(b.endpoint.requests) == 3
    assert (result.status, result.limit, result.text) == ("incomplete", "connection", SAID)


@each_way
async def test_a_reply_without_any_message_is_an_error(way: Way) -> None:
    """[RUN-35] 200 with `choices: null`, with an empty object, with text that is no JSON: a `ModelError` that
    says so, for a child an error result; never another exception."""
    bodies = ['{"choices": null}', "{}", '{"content": null, "choices": [{"message": null}]}', "<html>"]
    turns: dict[str, list[Turn]] = {"main": [Turn(calls=[task(f"a{n}") for n in range(4)]), Turn(text="end")]}
    for n, body in enumerate(bodies):
        turns[f"a{n}"] = [Turn(body=body)] * 3
    agents = [Agent(name=f"a{n}", model=f"a{n}", tools=[]) for n in range(4)]
    async with bench(way, turns, agents=agents) as b:
        result = await b.ask()
        answers = b.sent("main")[1].results
    assert result.status == "done"
    assert all(r.text.startswith(f"agent 'a{n}' failed: ") for n, r in enumerate(answers))
    assert all(isinstance(child.error, ModelError) for child in result.sub_agents)
