"""Agents elsewhere: found, asked, and offered as agents and as tools."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.a2a.seen import PNG, VARIANTS, Seen
from toolnexus import (
    Agent,
    Budget,
    Client,
    ConfigError,
    FunctionModel,
    MediaPart,
    Price,
    RemoteAgent,
    RunError,
    SourceError,
    TextDelta,
    ToolProgress,
    Usage,
    assistant,
    load,
    tool,
)
from toolnexus.core.messages import Message
from toolnexus.errors import UnknownNames
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def silent() -> FunctionModel:
    """A model that nobody asks."""
    return FunctionModel(lambda request: assistant("unused"))


def client(*agents: Any, **options: Any) -> Client:
    given: dict[str, Any] = {"model": silent(), "builtins": False, "agents": agents, **options}
    return Client(**given)


def results(messages: tuple[Message, ...]) -> list[str]:
    return [r.output for message in messages for r in message.tool_results]


# ---- what is written down


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "remote agent 'far' has neither url nor card: give the address of the agent, or its card"),
        ({"url": "http://x", "card": {}}, "remote agent 'far' has url and card"),
        ({"url": "x"}, "remote agent 'far': an address looks like 'https://host/path'"),
        ({"url": "ftp://x"}, "an address looks like"),
        ({"url": "http://ann:pass@x"}, "an address must not hold a user or password"),
        ({"url": 5}, "remote agent 'far': address=5 (int): give a text"),
        (
            {"card": "missing.json"},
            "remote agent 'far': the card 'missing.json' cannot be read: No such file",
        ),
        ({"url": "http://x", "timeout": 0}, "timeout=0 must be more than 0"),
        ({"url": "http://x", "headers": {"A": "${UNSET_FOR_THIS_TEST}"}}, "'UNSET_FOR_THIS_TEST'"),
        ({"url": "http://x", "headers": {"A": "b\n"}}, "header 'A' holds a control character"),
        ({"url": "http://x", "skills": "all"}, "remote agent 'far': skills: 'all'; a filter is a list"),
        ({"url": "http://x", "description": 5}, "description=5 (int): give text"),
        ({"url": "http://x", "budget": 5}, "budget=5 (int): give a Budget"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_written(options: dict[str, Any], text: str) -> None:
    """[A2A-01] As a ConfigError that names the agent."""
    with pytest.raises(ConfigError) as caught:
        RemoteAgent("far", **options)
    assert text in str(caught.value)
    assert "pass" not in str(caught.value).replace("password", "")


def test_a_name_is_one_to_64_characters() -> None:
    """[A2A-01] Like that of an agent of ours, and unique among all of them."""
    for name in ("", " ", "x" * 65):
        with pytest.raises(ConfigError, match="1 to 64 characters"):
            RemoteAgent(name, url="http://x")
    with pytest.raises(ConfigError, match="two agents are named 'far'"):
        client(Agent(name="far"), RemoteAgent("far", url="http://x"))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """[A2A-02] When the agent is written down, not when it is asked."""
    monkeypatch.setitem(sys.modules, "a2a", None)
    monkeypatch.setattr("toolnexus.agents.remote.find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(ConfigError, match=r"pip install '\.\[a2a\]' in its clone"):
        RemoteAgent("far", url="http://x")


def test_nothing_is_loaded_before_it_is_used() -> None:
    """[A2A-02] A remote agent that is written down loads neither the library nor an HTTP client."""
    program = (
        "import sys, toolnexus\n"
        "far = toolnexus.RemoteAgent('far', url='http://x', headers={'A': 'b'})\n"
        "toolnexus.Client(model='openai:m', api_key='k', base_url='http://x/v1', agents=[far], tools=[far])\n"
        "print([m for m in ('a2a', 'httpx', 'pydantic', 'mcp', 'google.protobuf') if m in sys.modules])"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": root}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[]\n", done.stderr


# ---- cards


async def test_a_card_is_found_wherever_it_may_be(base: str, tmp_path: Path) -> None:
    """[A2A-03] At both well-known paths, at its own address, in a file, and as what it holds."""
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict

    from tests.a2a.remote_server import card

    data: dict[str, Any] = agent_card_to_dict(card(base, "v1"))
    (tmp_path / "card.json").write_text(json.dumps(data))
    places: list[dict[str, Any]] = [
        {"url": f"{base}/v1"},
        {"url": f"{base}/v1/"},
        {"url": f"{base}/v1-before"},
        {"card": f"{base}/v1/.well-known/agent-card.json"},
        {"card": tmp_path / "card.json"},
        {"card": str(tmp_path / "card.json")},
        {"card": data},
    ]
    for place in places:
        far = RemoteAgent("far", **place)
        async with client(far) as c:
            assert (await c.run(far, "echo hi")).text == "echo: hi", place
        assert far.description == "An agent of kind v1."


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/none", "there is no agent card at http://127.0.0.1"),
        ("/page", "it answered with a web page (text/html) and no A2A; check the address"),
        ("/list", "its card is no JSON object"),
        ("/secret", "HTTP 401 Unauthorized"),
        (
            "/nowhere",
            "its card offers no interface for JSONRPC or HTTP+JSON 1.0 or 0.3 ('file:///etc/passwd'",
        ),
        ("/future", "JSONRPC 2.0 is not spoken here"),
    ],
)
async def test_an_agent_without_a_sound_card_is_left_out(
    base: str, path: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """[A2A-04] With a warning that says why; the others work, and `task` says why it does not."""
    model = ScriptedModel(
        [reply(call("task", agent="far", prompt="x"), call("task", agent="near", prompt="echo ok")), "done"]
    )
    near, far = RemoteAgent("near", url=f"{base}/v1"), RemoteAgent("far", url=base + path)
    with caplog.at_level(logging.WARNING, "toolnexus.sources"):
        async with client(far, near, model=model, tools=[far]) as c:
            assert "source 'far' is not available: " in caplog.text and text in caplog.text
            result = await c.ask("go")
    failed, fine = results(result.messages)
    assert failed.startswith("agent 'far' failed: remote agent 'far': ") and text in failed
    assert fine == "echo: ok"


async def test_an_agent_that_does_not_answer_delays_nobody(base: str) -> None:
    """[A2A-04] A dead one and one whose card never comes; an agent that comes back is asked anew."""
    near = RemoteAgent("near", url=f"{base}/v1")
    late = RemoteAgent("late", url=f"{base}/late", timeout=0.1)
    dead = RemoteAgent("dead", url="http://127.0.0.1:1")
    async with client(near, late, dead) as c:
        assert (await c.run(near, "echo hi")).text == "echo: hi"
        with pytest.raises(SourceError, match=r"'late': (its card does not come|it said nothing)"):
            await c.run(late, "x")
        with pytest.raises(SourceError, match="remote agent 'dead': cannot connect"):
            await c.run(dead, "x")
        dead.url = f"{base}/v1"
        assert (await c.run(dead, "echo hi")).text == "echo: hi"


# ---- headers and origins


async def test_headers_go_to_the_origin_that_was_named_and_nowhere_else(
    base: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[A2A-05] A card that points to another origin gets the message without them."""
    monkeypatch.setenv("FAR_TOKEN", "sesame-4711")
    headers = {"Authorization": "Bearer ${FAR_TOKEN}", "X-Team": "tools"}
    own = RemoteAgent("own", url=f"{base}/v1", headers=headers)
    relative = RemoteAgent("relative", url=f"{base}/relative", headers=headers)
    foreign = RemoteAgent("foreign", url=f"{base}/foreign", headers=headers)
    async with client(own, relative, foreign) as c:
        for agent in (own, relative, foreign):
            assert (await c.run(agent, "echo hi")).text == "echo: hi"
    asked = [headers.get("authorization") for headers in seen.of("/v1/rpc")]  # the last two are polled
    assert asked[:2] == ["Bearer sesame-4711", "Bearer sesame-4711"] and asked[-1] is None
    assert asked == sorted(asked, key=lambda token: token is None)
    at = {"url": f"{base}/unauthorized/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    lost = RemoteAgent("lost", url=f"{base}/v1", headers=headers)
    from toolnexus.protocols.a2a.card import read

    lost._found = read({"name": "x", "supportedInterfaces": [at]}, base.replace("127.0.0.1", "localhost"))
    async with client() as c:
        with pytest.raises(SourceError, match=r"HTTP 401 .*headers are not sent there"):
            await c.run(lost, "x")
    assert all("x-team" in headers for headers in seen.of("/foreign/.well-known"))


@pytest.mark.parametrize(
    ("url", "named", "why"),
    [
        ("http://agents.example/rpc", "https://agents.example", "it is not encrypted, unlike its card"),
        ("http://169.254.169.254/rpc", "http://agents.example", "inside of a private network"),
        ("http://localhost:8080/rpc", "http://agents.example", "inside of a private network"),
        ("http://[::1]/rpc", "http://agents.example", "inside of a private network"),
        ("gopher://agents.example/rpc", "https://agents.example", "it is no http(s) address"),
        ("http://[bad/rpc", None, "it is no address"),
        ("/rpc", None, "it is no http(s) address"),
    ],
)
def test_a_card_cannot_point_to_where_the_user_would_not(url: str, named: str | None, why: str) -> None:
    """[A2A-05] Inside of a network, out of encryption, to other protocols."""
    from toolnexus.protocols.a2a.card import read
    from toolnexus.protocols.a2a.http import Fault

    at = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    with pytest.raises(Fault) as caught:
        read({"name": "x", "supportedInterfaces": [at]}, named)
    assert why in str(caught.value)


def test_the_named_origin_and_the_newer_version_come_first() -> None:
    """[A2A-05] Of the interfaces of a card; one of a card that the user gives is as good as named."""
    from toolnexus.protocols.a2a.card import read

    def at(url: str, version: str) -> dict[str, str]:
        return {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}

    here = "https://a.example"
    offers = [at("https://b.example/1", "1.0"), at(f"{here}/0", "0.3"), at("/1", "1.0.2"), at("/2", "2.0")]
    found = read({"name": "x", "supportedInterfaces": offers}, f"{here}/card.json")
    assert (found.card.supported_interfaces[0].url, found.trusted) == (f"{here}/1", True)
    old = read({"name": "x", "url": "https://b.example/", "protocolVersion": "0.2.5"}, None)
    assert (old.card.supported_interfaces[0].protocol_version, old.trusted) == ("0.3", True)


async def test_secrets_of_headers_are_shown_nowhere(
    base: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[A2A-06] Not in what the agent says of them, in an error, in a repr; nor to commands of ours."""
    monkeypatch.setenv("FAR_PASS", "sesame-4711")
    far = RemoteAgent("far", url=f"{base}/v1", headers={"Authorization": "Bearer ${FAR_PASS}"})
    model = ScriptedModel([reply(call("task", agent="far", prompt="echo sesame-4711")), "done"])
    async with client(far, model=model) as c:
        assert results((await c.ask("go")).messages) == ["echo: [redacted]"]
        assert "FAR_PASS" in c._sources.secret_names
    assert "sesame" not in repr(far)
    lost = RemoteAgent("lost", url="http://127.0.0.1:1/sesame-4711", headers={"X-Key": "${FAR_PASS}"})
    async with client(lost) as c:
        with pytest.raises(SourceError) as caught:
            await c.run(lost, "x")
    assert "sesame" not in str(caught.value) and caught.value.__cause__ is None


# ---- one answer, whatever way it comes


@pytest.mark.parametrize("variant", VARIANTS)
async def test_every_version_and_binding_gives_the_same(base: str, variant: str) -> None:
    """[A2A-07] 1.0 and 0.3, JSON-RPC and REST, with streams and without."""
    far = RemoteAgent("far", url=f"{base}/{variant}")
    async with client(far) as c:
        assert (await c.run(far, "stream")).text == "chunk0 chunk1 chunk2 chunk3 chunk4 \nthe other"
        assert (await c.run(far, "said hi")).text == "said: hi"
        assert (await c.run(far, "message hi")).text == "said: hi"
        parts = await c.run(far, "parts")
        assert parts.text == '{"share": 0.5, "total": 3}'
        media = [part for part in parts.messages[-1].parts if isinstance(part, MediaPart)]
        assert [(part.mime_type, part.name, part.url) for part in media] == [
            ("image/png", "dot.png", None),
            ("application/pdf", None, "https://files.example/report.pdf"),
        ]
        with pytest.raises(RunError, match=r"^A2A task [\w-]+ failed: out of paper$") as caught:
            await c.run(far, "fail")
        assert caught.value.result.status == "error"
        with pytest.raises(RunError, match=r"^A2A task [\w-]+ rejected$"):
            await c.run(far, "reject")
        with pytest.raises(RunError, match=r"^A2A task [\w-]+ canceled: somebody pulled the plug$"):
            await c.run(far, "cancelled")


async def test_a_remote_agent_stands_beside_local_ones(base: str) -> None:
    """[A2A-08] `task` takes both; what comes back is the text and the media of the answer."""
    near = Agent(name="near", description="Is here.", model=ScriptedModel(["from near"]), tools=[])
    far = RemoteAgent("far", url=f"{base}/v1")
    model = ScriptedModel(
        [
            reply(
                call("task", agent="near", prompt="x"),
                call("task", agent="far", prompt="parts", context="look:"),
                call("task", agent="far", prompt="fail"),
                call("task", agent="far", prompt="parts"),
            ),
            "done",
        ]
    )
    async with client(far, near, model=model) as c:
        task = c.toolkit.get("task")
        assert task is not None
        assert (
            "- far: An agent of kind v1. (tools: its own)\n- near: Is here. (tools: none)" in task.description
        )
        result = await c.ask("go")
    from_near, with_context, failed, parts = result.messages[2].tool_results
    assert (from_near.output, with_context.output) == ("from near", "answer: look:\n\nparts")
    assert failed.is_error and failed.output.startswith("agent 'far' failed: A2A task ")
    assert parts.output.startswith('{"share": 0.5, "total": 3}')
    assert [part.mime_type for part in parts.media] == ["image/png", "application/pdf"]
    assert [child.path for child in result.sub_agents] == [
        ("main", "near.c1_0"),
        ("main", "far.c1_1"),
        ("main", "far.c1_2"),
        ("main", "far.c1_3"),
    ]
    assert result.status == "done"


async def test_our_media_go_out(base: str, seen: Seen) -> None:
    """[A2A-09] Beside the text, as files."""
    far = RemoteAgent("far", url=f"{base}/v1")
    image = MediaPart(data=base64.b64encode(PNG).decode(), name="dot.png")
    async with client(far) as c:
        await c.run(far, ["echo look", image, MediaPart("image/png", url="https://files.example/a.png")])
        with pytest.raises(RunError, match="there is nothing to send"):
            await c.run(far, "")
    (message,) = seen.messages
    assert message["parts"] == [
        {"text": "echo look"},
        {"raw": base64.b64encode(PNG).decode(), "filename": "dot.png", "mediaType": "image/png"},
        {"url": "https://files.example/a.png", "mediaType": "image/png"},
    ]


# ---- skills as tools


async def test_each_skill_of_a_card_is_a_tool(base: str, seen: Seen) -> None:
    """[A2A-10] Named after card and skill; a call is a run below, and says which skill is meant."""
    far = RemoteAgent("far", url=f"{base}/v1")
    model = ScriptedModel([reply(call("Far_v1_tell_fortune", task="echo luck")), "done"])
    async with client(tools=[far], model=model) as c:
        assert c.toolkit.names() == ["Far_v1_tell_fortune", "Far_v1_weather"]
        fortune = c.toolkit.get("Far_v1_tell_fortune")
        assert fortune is not None
        assert (fortune.source, fortune.origin, fortune.original_name) == ("a2a", "far", "tell.fortune")
        assert fortune.description == "Fortune: tells what comes"
        assert fortune.input_schema["required"] == ["task"]
        result = await c.ask("go")
        assert results(result.messages) == ["echo: luck"]
        assert result.sub_agents[0].path == ("main", "Far_v1_tell_fortune.c1_0")
        assert (await c.toolkit.execute("Far_v1_weather", {"task": "echo sun"})).output == "echo: sun"
        refused = await c.toolkit.execute("Far_v1_weather", {"text": "x"})
        assert refused.is_error and "task" in refused.output
    assert [message["request"] for message in seen.messages] == [
        {"skillId": "tell.fortune"},
        {"skillId": "weather"},
    ]
    assert far.tools == ()


async def test_skills_are_filtered(base: str) -> None:
    """[A2A-10] By their ids with `skills`, by the names of the tools like any other; unknown is an error."""
    for skills in (["tell.*"], {"weather": False}):
        async with client(tools=[RemoteAgent("far", url=f"{base}/v1", skills=skills)]) as c:
            assert c.toolkit.names() == ["Far_v1_tell_fortune"]
    with pytest.raises(UnknownNames, match=r"remote agent 'far': skills: there is no 'wether'.*'weather'"):
        async with client(tools=[RemoteAgent("far", url=f"{base}/v1", skills=["wether"])]):
            pass
    picky = Agent(name="picky", tools=["Far_v1_w*"], model=ScriptedModel(["ok"]))
    async with client(picky, tools=[RemoteAgent("far", url=f"{base}/v1")]) as c:
        assert c.tools_of(picky).names() == ["Far_v1_weather"]


async def test_delegating_to_a_remote_agent_counts(base: str) -> None:
    """[A2A-10] In number and depth, as a task and as a skill."""
    far = RemoteAgent("far", url=f"{base}/v1")
    calls = [call("Far_v1_weather", task="echo a"), call("task", agent="far", prompt="echo b")]
    async with client(far, tools=[far], model=ScriptedModel([reply("", *calls), "x"]), max_sub_agents=1) as c:
        first, second = results((await c.ask("go")).messages)
    assert first == "echo: a" and "all 1 sub-agents of this request have been started" in second


# ---- conversations, usage, events, traces


async def test_a_conversation_stays_in_its_context(base: str, seen: Seen) -> None:
    """[A2A-11] Each ask is a task of its own in the same context; other conversations have other contexts."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        await c.run(far, "echo one", conversation="ann")
        await c.run("far", "message two", conversation="ann")
        await c.run("far", "echo three", conversation="ann")
        await c.run("far", "echo four", conversation="bob")
        await c.run("far", "echo five")
        assert [m.text for m in await c.conversation("ann").messages()][:2] == ["echo one", "echo: one"]
    one, two, three, four, five = [message["contextId"] for message in seen.messages]
    assert one == two == three and len({one, four, five}) == 3
    assert len({message["taskId"] for message in seen.messages if "two" not in str(message["parts"])}) == 4


async def test_every_task_call_has_a_context_of_its_own(base: str, seen: Seen) -> None:
    """[A2A-11] A delegated run knows nothing of the others."""
    calls = [call("task", agent="far", prompt=f"echo {n}") for n in range(2)]
    model = ScriptedModel([reply("", *calls), "done"])
    async with client(RemoteAgent("far", url=f"{base}/v1"), model=model) as c:
        await c.ask("go")
    assert len({message["contextId"] for message in seen.messages}) == 2


async def test_usage_that_an_agent_reports_is_counted(base: str) -> None:
    """[A2A-12] In the run, in the tree, and against budgets."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        usage = (await c.run(far, "usage")).usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (7, 5)
    assert usage.by("model").keys() == {"a2a:far"}


@pytest.mark.parametrize(("limit", "most"), [("cost", 0.00003), ("tokens", 20)])
async def test_a_ceiling_holds_for_agents_elsewhere(base: str, seen: Seen, limit: str, most: Any) -> None:
    """[COST-09] [A2A-12] What they report is priced by name, and nothing is sent above a ceiling."""
    calls = [call("task", agent="far", prompt="usage") for _ in range(3)]
    prices = {"a2a:far": Price(input=1, output=2), "scripted": Price(input=0, output=0)}
    budget = Budget(**{limit: most}, concurrency=1)
    turns = [reply("", *calls, usage=Usage(prompt_tokens=1)), "x"]
    far, model = RemoteAgent("far", url=f"{base}/v1"), ScriptedModel(turns)
    async with client(far, model=model, prices=prices, budget=budget) as c:
        result = await c.ask("go")
    assert [child.limit for child in result.sub_agents] == [None, None, limit]
    assert len(seen.messages) == 2 and result.limit == limit
    assert result.usage.by("model")["a2a:far"].cost == pytest.approx(2 * 17e-6)


async def test_an_agent_elsewhere_without_a_price_is_not_asked_below_a_ceiling(base: str, seen: Seen) -> None:
    """[COST-09] [COST-10] Its own ceiling brings prices along, also nested; the error says what to write."""
    far = RemoteAgent("far", url=f"{base}/v1", budget=Budget(cost=1))
    outer = Agent(name="outer", description="d", agents=[far])
    async with client(outer) as c:
        with pytest.raises(ConfigError, match=r"prices=\{'a2a:far': Price\("):
            await c.run(far, "usage")
    assert seen.messages == []


def test_what_cannot_be_a_usage_is_none() -> None:
    """[A2A-12] An agent may claim anything."""
    from toolnexus.agents.remote_run import _usage

    odd: list[Any] = [None, 5, [], {}, {"promptTokens": -1}, {"promptTokens": 1e3}, {"inputTokens": True}]
    assert [_usage({"usage": said}) for said in odd] == [None] * len(odd)
    assert _usage({"usage": {"inputTokens": 10**12}}) is None
    usage = _usage({"usage": {"input_tokens": 3}})
    assert usage is not None and usage.total_tokens == 3


async def test_what_arrives_is_reported_while_it_arrives(base: str) -> None:
    """[A2A-13] Text as it streams, words about the state as progress of the call; the rest at the end."""
    model = ScriptedModel([reply(call("task", agent="far", prompt="stream")), "done"])
    async with client(RemoteAgent("far", url=f"{base}/v1"), model=model) as c:
        async with c.stream("go") as stream:
            events = [event async for event in stream]
    deltas = [e.text for e in events if isinstance(e, TextDelta) and e.path[-1].startswith("far.")]
    assert "".join(deltas).startswith("chunk0 chunk1 chunk2 chunk3 chunk4 ")
    progress = [(e.path, e.call_id, e.message) for e in events if isinstance(e, ToolProgress)]
    assert progress == [(("main",), "c1_0", "at work")]
    far = RemoteAgent("far", url=f"{base}/poll")
    async with client(far) as c, c.stream("stream", target=far) as stream:
        events = [event async for event in stream]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == stream.result.text


async def test_the_trace_goes_on_at_the_agent(base: str, seen: Seen) -> None:
    """[A2A-14] With `traceparent` in every request when the host traces, without it otherwise."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

    ids = SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=False, trace_flags=TraceFlags(1))
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        await c.run(far, "echo hi")
        with use_span(NonRecordingSpan(ids)):
            await c.run(far, "echo hi")
    found = [headers.get("traceparent") for headers in seen.of("/v1/rpc")]
    assert found == [None, f"00-{0xABC:032x}-{0xDEF:016x}-01"]


# ---- the document


async def test_a_document_describes_remote_agents(
    base: str, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[A2A-15] An entry of `agents` with a url or a card; with `skills` these are tools, too."""
    monkeypatch.setenv("FAR_TOKEN", "sesame-4711")
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict

    from tests.a2a.remote_server import card

    (tmp_path / "card.json").write_text(json.dumps(agent_card_to_dict(card(base, "rest"))))
    (tmp_path / "toolnexus.toml").write_text(
        f"""
        builtins = false
        [agents.near]
        description = "Is here."
        [agents.far]
        url = "{base}/v1"
        headers = {{ Authorization = "Bearer ${{FAR_TOKEN}}" }}
        skills = ["weather"]
        timeout = 5
        budget = {{ seconds = 20 }}
        [agents.other]
        card = "card.json"
        description = "Is elsewhere."
        """
    )

    @tool
    def here() -> str:
        """A function."""
        return "x"

    async with load(tmp_path / "toolnexus.toml", model=silent(), tools=[here]) as c:
        assert c.toolkit.names() == ["here", "Far_v1_weather", "task"]
        assert [agent.name for agent in c.agents] == ["far", "near", "other"]
        assert (await c.run("far", "echo hi")).text == "echo: hi"
        assert (await c.run("other", "echo ho")).text == "echo: ho"
    assert seen.of("/v1/rpc")[0]["authorization"] == "Bearer sesame-4711"
    monkeypatch.delenv("FAR_TOKEN")
    with pytest.raises(ConfigError, match=r"agents\.far\.headers\.Authorization: needs the environment"):
        load(tmp_path / "toolnexus.toml", model=silent())


async def test_one_agent_serves_many_runs_and_clients_at_once(base: str) -> None:
    """[A2A-16] It holds no connection: twenty runs in two clients, and a client on a loop of its own."""
    far = RemoteAgent("far", url=f"{base}/v1", budget=Budget(seconds=30))
    calls = [call("task", agent="far", prompt=f"echo {n}") for n in range(10)]
    models = [ScriptedModel([reply("", *calls), "done"]) for _ in range(2)]
    async with client(far, model=models[0]) as one, client(far, model=models[1]) as two:
        for c in (one, two):
            assert results((await c.ask("go")).messages) == [f"echo: {n}" for n in range(10)]
    model = ScriptedModel([reply(call("task", agent="far", prompt="echo hi")), "done"])
    with client(far, model=model) as c:
        assert results(c.ask_sync("go").messages) == ["echo: hi"]
