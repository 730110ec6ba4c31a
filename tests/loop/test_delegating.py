"""`task` over real HTTP: in parallel, rolled up, isolated, and without a secret in any word."""

from __future__ import annotations

import json
import logging
import traceback

import pytest

from tests.loop.support import (
    ANTHROPIC,
    HEADER,
    KEYS,
    OPENAI,
    Act,
    Gate,
    Stage,
    Way,
    as_text,
    bench,
    each_style,
    each_way,
    everything,
    sent,
    task,
    use,
)
from toolnexus import Agent, Client, ModelHTTPError, tool
from toolnexus.core.events import RunStarted, SubAgentFinished
from toolnexus.testing.endpoint import Seen
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio


def echo(status: int) -> Act:
    """A failing answer that repeats every header of its request."""

    def act(seen: Seen) -> Turn:
        return Turn(status=status, body=json.dumps({"error": {"message": f"bad key: {dict(seen.headers)}"}}))

    return act


def echo_raw(seen: Seen) -> Turn:
    """The same as a good status with something that is no reply."""
    return Turn(body=f"<html>{dict(seen.headers)}</html>")


def echo_event(seen: Seen) -> Turn:
    """The same as an event in a stream that had begun well."""
    error = {"type": "error", "error": {"type": "api_error", "message": f"lost {dict(seen.headers)}"}}
    return Turn(sse=[f"data: {json.dumps(error)}\n\n"])


AGENTS = [Agent(name=name, model=name, tools=[]) for name in ("a", "b", "c")]


@each_way
async def test_two_tasks_of_one_turn_are_in_flight_together(way: Way) -> None:
    """[RUN-20] [SUB-01] Neither child is answered before both have asked; two results in call order."""
    gate = Gate(2)
    turns = {
        "main": [Turn(calls=[task("b"), task("a")]), Turn(text="end")],
        "a": [gate.then(Turn(text="from a"))],
        "b": [gate.then(Turn(text="from b"))],
    }
    async with bench(way, turns, agents=AGENTS) as b:
        result = await b.ask()
        assert b.endpoint.max_in_flight == 2
        assert [r.text for r in b.sent("main")[1].results] == ["from b", "from a"]
    assert result.status == "done" and result.text == "end"
    if way.streamed:
        kinds = [type(e) for e in b.events if isinstance(e, (RunStarted, SubAgentFinished))]
        assert kinds[1:3] == [RunStarted, RunStarted]


@each_way
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_usage_is_what_the_endpoint_served(way: Way, status: int) -> None:
    """[RUN-21] [SUB-02] The parent's usage is the endpoint's own sum, also when a child ends in an error."""
    bad = Turn(text="fine", usage=(7, 3)) if status == 200 else Turn(status=status)
    turns = {
        "main": [Turn(calls=[task("a"), task("b")], usage=(100, 10)), Turn(text="end", usage=(200, 1))],
        "a": [Turn(calls=[use("step")], usage=(30, 4)), *[bad] * 3],
        "b": [Turn(text="fine", usage=(11, 2))],
    }

    @tool
    async def step() -> str:
        """Step."""
        return "ok"

    agents = [Agent(name="a", model="a", tools=[step]), AGENTS[1]]
    async with bench(way, turns, agents=agents) as b:
        result = await b.ask()
        total = b.endpoint.usage_total
        outputs = [r.text for r in b.sent("main")[1].results]
    assert result.usage.total_tokens == total == 100 + 10 + 200 + 1 + 34 + 13 + (10 if status == 200 else 0)
    assert {k: u.total_tokens for k, u in result.usage.by("agent").items()} == {
        "main": 311,
        "a": 34 + (10 if status == 200 else 0),
        "b": 13,
    }
    assert result.usage.requests == 5
    assert outputs[1] == "fine" and (status == 200 or f"HTTP {status}" in outputs[0])
    assert result.sub_agents[0].status == ("done" if status == 200 else "error")


@each_way
@pytest.mark.parametrize(
    "fault", [echo(401), echo(500), echo_raw, echo_event], ids=["401", "500", "no JSON", "in a stream"]
)
async def test_no_secret_is_in_any_word(way: Way, fault: Act, caplog: pytest.LogCaptureFixture) -> None:
    """[RUN-22] An endpoint that echoes its headers: no key and no header value in a request, a result, an
    event, an error or a log."""
    caplog.set_level(logging.DEBUG)
    turns: dict[str, list[Turn | Act]] = {
        "main": [Turn(calls=[task("a"), task("b"), task("c")]), Turn(text="end")],
        "a": [fault] * 3,
        "b": [Turn(text="fine")],
        "c": [fault] * 3,
    }
    async with bench(way, turns, agents=AGENTS) as b:
        result = await b.ask()
        bodies = [seen.raw.decode() for seen in b.endpoint.requests]
    assert result.status == "done"
    words = [result.text, repr(result), caplog.text, *bodies, *[as_text(e.to_json()) for e in b.events]]
    for run in everything(result):
        words += [m.text for m in run.messages] + [r.output for m in run.messages for r in m.tool_results]
        if run.error is not None:
            words += [str(run.error), repr(run.error), "".join(traceback.format_exception(run.error))]
    assert any("agent 'a' failed" in word for word in words)
    for secret in (*KEYS.values(), HEADER):
        assert not any(secret in word for word in words)


@each_way
async def test_the_clients_own_failure_shows_no_secret_either(way: Way) -> None:
    """[RUN-22] What `ask` raises, its text and its traceback."""
    async with bench(way, {"main": [echo(401)]}) as b:
        with pytest.raises(ModelHTTPError, match=r"HTTP 401.*bad key") as caught:
            await b.ask()
    text = "".join(traceback.format_exception(caught.value)) + as_text([e.to_json() for e in b.events])
    assert not any(secret in text for secret in (*KEYS.values(), HEADER))


@each_way
async def test_the_model_of_a_child_is_inherited_or_named(way: Way) -> None:
    """[RUN-24] [SUB-07] Without `model` a child's requests name its caller's, with it the one set; the
    `model` of one call holds for that call; `context` stands in front of `prompt` and nothing else does."""
    agents = [Agent(name="same", tools=[]), Agent(name="other", model="cheap", tools=[])]
    calls = [
        task("same", "S", context="C-1"),
        task("other", "O"),
        task("same", "T", id="call_3", model="cheap"),
    ]
    answers = {"C-1\n\nS": "s", "O": "o", "T": "t"}

    def answer(seen: Seen) -> Turn:
        return Turn(text=answers[sent(b.endpoint)[-1].users[-1]])

    turns = {"main": [Turn(calls=calls), answer, Turn(text="end")], "cheap": [answer, answer]}
    async with bench(way, turns, agents=agents, system_prompt="I lead.") as b:
        await b.ask("the whole story")
        seen = {request.users[0]: request.model for request in b.sent()[1:4]}
        last = b.sent()[-1]
        children = b.sent()[1:4]
    assert seen == {"C-1\n\nS": "main", "O": "cheap", "T": "cheap"}
    assert [r.text for r in last.results] == ["s", "o", "t"]
    assert all(len(child.messages) == 1 and child.system == "" for child in children)
    assert last.model == "main" and last.system == "I lead."


@each_way
async def test_each_host_receives_its_own_key_only(way: Way) -> None:
    """[RUN-23] A child on another provider, and one call that names the other's model: the key and the
    headers of one host are in no request to another."""
    other = Way(ANTHROPIC if way.style == OPENAI else OPENAI, way.streamed)
    calls = [task("far"), task("near"), task("near", id="call_3", model="far-model")]
    near = Stage({"main": [Turn(calls=calls), Turn(text="end")], "near-model": [Turn(text="near")]})
    far = Stage({"far-model": [Turn(text="far"), Turn(text="far too")]})
    async with near, far:
        agents = [
            Agent(name="near", model="near-model", tools=[]),
            Agent(
                name="far", model=other.model(far, "far-model", headers={"x-far": "only-far-1234"}), tools=[]
            ),
        ]
        async with Client(model=way.model(near), builtins=False, agents=agents) as client:
            result = await way.ask(client, "go")
    assert result.status == "done" and len(near.requests) == 3 and len(far.requests) == 2
    for endpoint, mine, others in (
        (near, [KEYS[way.style], HEADER], [KEYS[other.style], "only-far-1234"]),
        (far, [KEYS[other.style], "only-far-1234"], [KEYS[way.style], HEADER]),
    ):
        for seen in endpoint.requests:
            words = f"{dict(seen.headers)} {seen.path} {seen.raw.decode()}"
            assert all(secret in words for secret in mine)
            assert not any(secret in words for secret in others)
    assert {r.usage.total_tokens for r in result.sub_agents} == {15}


@each_style
async def test_a_model_named_by_provider_keeps_the_key_at_home(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RUN-23] `"provider:name"` of the client's own provider goes to its endpoint with its key; one of
    another provider goes to that one's host with the key of that host only."""
    other = Way(ANTHROPIC if way.style == OPENAI else OPENAI)
    home = Stage({"main": [Turn(calls=[task("x"), task("y")]), Turn(text="end")], "small": [Turn(text="x")]})
    abroad = Stage({"guest": [Turn(text="y")]})
    async with home, abroad:
        monkeypatch.setenv(f"{other.style.upper()}_BASE_URL", abroad.url)
        monkeypatch.setenv(f"{other.style.upper()}_API_KEY", "sk-of-the-vendor-itself")
        agents = [
            Agent(name="x", model=f"{way.style}:small", tools=[]),
            Agent(name="y", model=f"{other.style}:guest", tools=[]),
        ]
        async with Client(
            model=f"{way.style}:main",
            base_url=home.url,
            api_key=KEYS[way.style],
            builtins=False,
            agents=agents,
        ) as client:
            result = await client.ask("go")
    assert [r.text for r in result.sub_agents] == ["x", "y"]
    assert all(KEYS[way.style] in str(seen.headers) for seen in home.requests)
    (guest,) = abroad.requests
    assert KEYS[way.style] not in str(guest.headers)
    assert "sk-of-the-vendor-itself" not in str(guest.headers)  # the variable belongs to the vendor's host


@each_way
async def test_nothing_of_a_childs_work_is_in_a_request_of_its_parent(way: Way) -> None:
    """[RUN-25] [SUB-03] A marker in each of ten tool outputs of the child is in no request of the parent."""

    @tool
    async def look(n: int) -> str:
        """Look."""
        return f"MARKER-{n}"

    steps = [Turn(text=f"looking {n}", calls=[use("look", {"n": n}, id=f"l{n}")]) for n in range(9)]
    turns = {
        "main": [Turn(calls=[task("a")]), Turn(text="end"), Turn(text="again")],
        "a": [*steps, Turn(text="nine things")],
    }
    agents = [Agent(name="a", model="a", tools=[look], system_prompt="A-PROMPT")]
    async with bench(way, turns, agents=agents) as b:
        result = await b.ask(conversation="t")
        await b.ask("more", conversation="t")
        mine, childs = b.sent("main"), b.sent("a")
    assert not any(word in r.raw for r in mine for word in ("MARKER", "looking", "A-PROMPT", "l3"))
    assert all(f"MARKER-{n}" in childs[-1].raw for n in range(9))
    assert [len(r.messages) for r in mine] == ([1, 3, 5])
    assert "MARKER-8" in repr(result.sub_agents[0].messages)
