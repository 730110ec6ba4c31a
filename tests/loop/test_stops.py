"""How a run ends: by itself, at its turns, at a length limit, at a deadline."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.loop.support import (
    PATIENCE,
    Gate,
    Stage,
    Way,
    bench,
    each_style,
    each_way,
    paired,
    sent,
    task,
    use,
)
from toolnexus import Agent, Budget, Client, Suspended, ToolResult, pending, tool
from toolnexus.core.events import LimitHit, Pending, RunFinished
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

LENGTH = {"openai": "length", "anthropic": "max_tokens"}
DECLINED = {"openai": "content_filter", "anthropic": "refusal"}


@tool
async def step() -> str:
    """One step."""
    return "stepped"


@each_way
async def test_a_natural_stop_is_done(way: Way) -> None:
    """[RUN-01] The text of the reply, one turn, one request; without tools none are declared."""
    async with bench(way, {"main": [Turn(text="All is well.")]}, system_prompt="Be brief.") as b:
        result = await b.ask("how is it?")
        (request,) = b.sent()
    assert (result.status, result.text, result.limit, result.turns) == ("done", "All is well.", None, 1)
    assert request.system == "Be brief." and request.users == ["how is it?"]
    assert "tools" not in request.body and "tool_choice" not in request.body
    assert bool(request.body.get("stream")) is way.streamed
    if way.streamed:
        said = [e.to_json()["delta"] for e in b.events if e.type == "text"]
        assert "".join(said) == "All is well." and isinstance(b.events[-1], RunFinished)


@each_way
@pytest.mark.parametrize("text", [None, "2 of 5 files done"])
async def test_max_turns_is_exact_and_keeps_the_work(way: Way, text: str | None) -> None:
    """[RUN-02] So many requests and not one more; the calls of the last turn have run; the text so far, or a
    sentence that there is none; the conversation goes on."""
    turns = [Turn(calls=[use("step")]), Turn(text=text, calls=[use("step")]), Turn(text="on we go")]
    async with bench(way, {"main": turns}, tools=[step], max_turns=2) as b:
        result = await b.ask(conversation="t")
        assert len(b.endpoint.requests) == 2
        assert (result.status, result.limit, result.turns) == ("incomplete", "max_turns", 2)
        assert result.text == (text or "The run ended without any text.")
        assert result.tool_calls == 2 and paired(result.messages)
        assert (await b.ask("go on", conversation="t")).text == "on we go"
        assert [r.text for r in b.sent()[-1].results] == ["stepped", "stepped"]
    if way.streamed:
        assert [e.hit.limit for e in b.events if isinstance(e, LimitHit)] == ["max_turns"]


@each_way
async def test_a_child_at_its_turns_gives_its_text(way: Way) -> None:
    """[RUN-02] [LIM-11] The parent reads the child's text and the limit, and is done itself."""
    turns = {
        "main": [Turn(calls=[task("a")]), Turn(text="end")],
        "a": [Turn(calls=[use("step")]), Turn(text="half of it", calls=[use("step")])],
    }
    agents = [Agent(name="a", model="a", tools=[step], max_turns=2)]
    async with bench(way, turns, agents=agents) as b:
        result = await b.ask()
        (answer,) = b.sent("main")[1].results
    assert answer.text == "half of it\n[incomplete: max_turns 2]"
    assert result.status == "done" and result.sub_agents[0].limit == "max_turns"


@each_way
async def test_a_reply_cut_at_the_length_limit_runs_nothing(way: Way) -> None:
    """[RUN-03] `incomplete`, limit `length`, the text so far; its calls never run, whole ones neither, and
    are answered, so that the conversation goes on."""
    ran: list[int] = []

    @tool
    async def count(n: int) -> str:
        """Count."""
        ran.append(n)
        return "counted"

    cut = Turn(
        text="so far",
        calls=[use("count", {"n": 1}, "c1"), use("count", '{"n": 2', "c2")],
        finish=LENGTH[way.style],
    )
    async with bench(way, {"main": [cut, Turn(text="went on")]}, tools=[count]) as b:
        result = await b.ask(conversation="t")
        assert (result.status, result.limit, result.text) == ("incomplete", "length", "so far")
        assert ran == [] and paired(result.messages) and result.tool_calls == 0
        assert (await b.ask("go on", conversation="t")).text == "went on"
        answers = b.sent()[-1].results
    assert len(answers) == 2 and all("cut short" in r.text for r in answers)


@each_way
async def test_a_declined_reply_is_incomplete(way: Way) -> None:
    """[RUN-03] A content filter, or a model that declines, is the limit `refusal`."""
    async with bench(way, {"main": [Turn(text="I would", finish=DECLINED[way.style])]}) as b:
        result = await b.ask()
    assert (result.status, result.limit, result.text) == ("incomplete", "refusal", "I would")


@each_way
async def test_an_endpoint_that_never_answers_ends_at_the_childs_deadline(way: Way) -> None:
    """[RUN-04] [LIM-12] An error result that names agent and deadline with the text so far; the connection is
    closed; the sibling that ran all the while is untouched."""
    gate = Gate(2)
    turns = {
        "main": [Turn(calls=[task("slow"), task("fast")]), Turn(text="end")],
        "slow": [Turn(text="began", calls=[use("step")]), gate.then(Turn(hang=True))],
        "fast": [gate.then(Turn(calls=[use("step")])), Turn(text="intact")],
    }
    agents = [
        Agent(name="slow", model="slow", tools=[step], budget=Budget(seconds=0.4)),
        Agent(name="fast", model="fast", tools=[step]),
    ]
    async with bench(way, turns, agents=agents) as b:
        result = await b.ask()
        hung = [s for s in b.endpoint.requests if s.model == "slow"][1]
        await b.endpoint.until(lambda: hung.gone)
        slow, fast = b.sent("main")[1].results
        assert [s.gone for s in b.endpoint.requests].count(True) == 1
    assert "'slow' passed its deadline (seconds 0.4)" in slow.text and slow.text.endswith("began")
    assert fast.text == "intact" and result.status == "done"
    assert result.sub_agents[0].status == "incomplete" and result.sub_agents[0].limit == "seconds"
    assert result.usage.total_tokens == b.endpoint.usage_total


@each_way
async def test_an_endpoint_that_never_answers_ends_with_the_clients_time(way: Way) -> None:
    """[RUN-05] [LIM-13] `incomplete`, limit `seconds`, at that time; children and connections are gone."""
    turns = {
        "main": [Turn(text="thinking", calls=[task("a"), task("b")])],
        "a": [Turn(hang=True)],
        "b": [Turn(text="b is done")],
    }
    agents = [Agent(name=name, model=name, tools=[]) for name in "ab"]
    began = time.monotonic()
    async with bench(way, turns, agents=agents, budget=Budget(seconds=0.4)) as b:
        result = await b.ask()
        assert 0.3 < time.monotonic() - began < 10
        await b.endpoint.until(lambda: any(s.gone for s in b.endpoint.requests))
    assert (result.status, result.limit, result.text) == ("incomplete", "seconds", "thinking")
    assert paired(result.messages)
    cut, kept = result.messages[-1].tool_results
    assert "seconds 0.4" in cut.output and kept.output == "b is done"


@each_way
async def test_time_also_ends_the_wait_for_a_retry(way: Way) -> None:
    """[RUN-05] An endpoint that asks to wait longer than the run may take ends with the run."""
    busy = Turn(status=429, headers={"retry-after": "0.9"})
    async with bench(way, {"main": [busy] * 3}, budget=Budget(seconds=0.2)) as b:
        async with asyncio.timeout(0.8):
            result = await b.ask()
        assert len(b.endpoint.requests) == 1
    assert (result.status, result.limit) == ("incomplete", "seconds")


@each_way
async def test_an_open_question_is_pending(way: Way) -> None:
    """[RUN-06] [CONV-07] A question with nobody to answer: the turn's other calls finish, the run is
    `pending`, the conversation waits, and goes on with a valid request once the question is given up."""

    @tool
    async def confirm() -> ToolResult:
        """Confirm."""
        return pending(kind="approval", prompt="sure?")

    turns = {
        "main": [Turn(text="first", calls=[use("step"), task("a")]), Turn(text="without it")],
        "a": [Turn(calls=[use("confirm"), use("step")])],
    }
    agents = [Agent(name="a", model="a", tools=[confirm, step])]
    async with bench(way, turns, agents=agents, tools=[step]) as b:
        result = await b.ask(conversation="t")
        assert (result.status, result.text) == ("pending", "first")
        (question,) = result.pending
        assert (question.data or {})["path"] == ["main", "a.call_a"]
        with pytest.raises(Suspended, match="sure"):
            await b.ask("more", conversation="t")
        await b.client.conversation("t").discard_pending()
        assert (await b.ask("more", conversation="t")).text == "without it"
        assert [r.text for r in b.sent()[-1].results] == ["stepped", "no answer was given to: sure?"]
        assert len(b.endpoint.requests) == 3
    if way.streamed:
        assert [e.request.prompt for e in b.events if isinstance(e, Pending)] == ["sure?"]


@each_style
async def test_the_defaults_end_a_run_that_never_stops(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """[RUN-02] [RUN-07] Ten turns, with the model that the environment names."""
    monkeypatch.setenv("TOOLNEXUS_MODEL", f"{way.style}:main")
    async with asyncio.timeout(PATIENCE), Stage({"main": [Turn(calls=[use("step")])] * 11}) as endpoint:
        client = Client(base_url=endpoint.url, api_key="sk-of-the-test", builtins=False, tools=[step])
        async with client:
            result = await client.ask("go")
        assert len(sent(endpoint, "main")) == 10
        assert all("sk-of-the-test" in str(dict(s.headers)) for s in endpoint.requests)
    assert (result.limit, result.turns) == ("max_turns", 10)
