"""Agents elsewhere: asked, and offered as agents and as tools."""

from __future__ import annotations

import base64
import json
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
