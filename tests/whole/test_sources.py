"""One client with servers, skills, builtins and functions, good and bad beside each other."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loop.bodies import Sent
from tests.loop.support import (
    PATIENCE,
    Stage,
    Way,
    bench,
    each_style,
    each_way,
    is_anthropic,
    sent,
    task,
    use,
)
from tests.mcp.helpers import alive, all_gone, children, logged, until
from tests.whole.support import nothing_left, skill, stdio
from toolnexus import Agent, Client, ConfigError, tool
from toolnexus.testing.endpoint import Seen
from toolnexus.testing.turns import Turn
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config

pytestmark = pytest.mark.anyio


@tool
async def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means something"


@tool
async def grep(pattern: str) -> str:
    """My own grep."""
    return "mine"


def bad_neighbours(log: Path) -> dict[str, Any]:
    return {
        "chatty": stdio("--banner", "--stderr-kb", "300", "--log", str(log)),
        "hung": stdio("--hang", "--log", str(log), timeout=900),
        "missing": {"command": "no-such-program-here", "args": ["x"]},
        "off": {**stdio(), "enabled": False},
        "late": stdio("--slow-start", "0.3", "--log", str(log)),
        "good": stdio("--log", str(log)),
        "rude": stdio("--exit", "3"),
    }


async def test_good_and_bad_sources_beside_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[RUN-70] [RUN-71] [RUN-76] Good, hung, missing, dying, late and noisy servers with skills, builtins and
    functions: what works is there in time, what does not is named with its reason; the declarations are
    byte-identical on every opening; another task may close; nothing is left, nothing complains."""
    log = tmp_path / "log"
    skills = skill(tmp_path / "skills", "brew")
    calls = [use(f"{name}_echo", {"s": f"{name} here"}) for name in ("good", "chatty", "late")]
    turns = [Turn(calls=calls), Turn(text="end")]
    stage = Stage({"main": turns * 2})
    status: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(PATIENCE), stage:
        async with nothing_left():
            for _ in range(2):
                client = Client(
                    model=Way("openai").model(stage),
                    mcp={"mcpServers": bad_neighbours(log)},
                    skills=skills,
                    builtins=["read", "grep", "glob"],
                    tools=[lookup, grep],
                    agents=[Agent(name="x", description="Helps.", tools=["good_*"])],
                    workdir=tmp_path,
                )
                began = time.monotonic()
                await asyncio.create_task(client.__aenter__())
                assert time.monotonic() - began < 6
                status = client.mcp_status()
                result = await client.ask("go")
                assert result.status == "done"
                await asyncio.create_task(client.aclose())
    bodies = [json.dumps(request.body["tools"]) for request in stage.requests]
    assert len(set(bodies)) == 1 and len(bodies) == 4
    names = sent(stage)[0].tools
    offered = [name.removeprefix("good_") for name in names if name.startswith("good_")]
    served = [f"{server}_{name}" for server in ("chatty", "late", "good") for name in offered]
    assert names == [*served, "skill", "glob", "read", "lookup", "grep", "task"] and "echo" in offered
    assert {name: entry["status"] for name, entry in status.items()} == {
        "chatty": "connected",
        "hung": "failed",
        "missing": "failed",
        "off": "disabled",
        "late": "connected",
        "good": "connected",
        "rude": "failed",
    }
    assert "not ready within 0.9 seconds" in str(status["hung"]["reason"])
    assert "no-such-program-here" in str(status["missing"]["reason"])
    assert "I will not start" in str(status["rude"]["reason"])
    assert [r.text for r in sent(stage)[-1].results] == ["good here", "chatty here", "late here"]
    assert all_gone(logged(log, "pid"), 1)
    assert "Traceback" not in caplog.text and "never retrieved" not in caplog.text
    for name in ("hung", "missing", "rude"):
        assert f"source '{name}' is not available" in caplog.text


@each_way
async def test_changed_tools_are_there_from_the_next_turn_on(way: Way) -> None:
    """[RUN-72] `list_changed` during a call: the very next request has the new offer; so has a child, whose
    own names still hold."""
    second = Turn(calls=[use("srv_fresh"), use("srv_echo", {"s": "x"}), task("x")])
    turns = {
        "main": [Turn(calls=[use("srv_change")]), second, Turn(text="end")],
        "small": [Turn(text="ok")],
    }
    agents = [Agent(name="x", model="small", tools=["srv_*", "task"], agents=[])]
    async with bench(way, turns, agents=agents, mcp={"mcpServers": {"srv": stdio()}}) as b:
        await b.ask()
        first, following, third = b.sent("main")
        (child,) = b.sent("small")
    assert "srv_echo" in first.tools and "srv_fresh" not in first.tools
    for later in (following, third):
        assert "srv_echo" not in later.tools and "srv_fresh" in later.tools
    assert "srv_fresh" in child.tools and "srv_echo" not in child.tools
    _, ran, gone, _ = third.results
    assert "unknown tool" not in ran.text and "unknown tool 'srv_echo'" in gone.text


@each_style
async def test_an_agent_may_have_one_server_and_its_children_no_process_of_their_own(
    way: Way, tmp_path: Path
) -> None:
    """[RUN-73] Eight children that each call a tool use the one process of their client; the others' tools
    and the client's functions stay as the filters say."""
    log = tmp_path / "log"
    servers = {"srv": stdio("--log", str(log)), "other": stdio("--log", str(log))}

    def answer(seen: Seen) -> Turn:
        request = Sent(seen.body, anthropic=is_anthropic(seen))
        return Turn(text=request.results[0].text) if request.results else Turn(calls=[use("srv_pid")])

    turns = {
        "main": [Turn(calls=[task("one", id=f"c{n}") for n in range(8)]), Turn(text="end")],
        "small": [answer] * 16,
    }
    agents = [Agent(name="one", model="small", tools={"mcp": {"srv": True}, "native": []})]
    options: dict[str, Any] = {"tools": [lookup], "mcp": {"mcpServers": servers}}
    async with bench(way, turns, agents=agents, **options) as b:
        await b.ask()
        pids = {r.text for r in b.sent("main")[1].results}
        offers = {tuple(r.tools) for r in b.sent("small")}
        assert len(pids) == 1 and alive(int(pids.pop()))
    (offer,) = offers
    assert offer[-1] == "task" and all(name.startswith("srv_") for name in offer[:-1]) and len(offer) > 5
    assert len(logged(log, "pid")) == 2 and all_gone(logged(log, "pid"), 1)


@each_style
async def test_a_server_of_one_agent_starts_once_and_ends_with_the_client(way: Way, tmp_path: Path) -> None:
    """[RUN-74] A source in an agent's own list: nobody else is offered it, several runs and two agents that
    share it use one process."""
    log = tmp_path / "log"
    (config,) = load_mcp_config({"mcpServers": {"own": stdio("--log", str(log))}})
    source = McpSource(config)

    def answer(seen: Seen) -> Turn:
        request = Sent(seen.body, anthropic=is_anthropic(seen))
        return Turn(text=request.results[0].text) if request.results else Turn(calls=[use("own_pid")])

    turns = {
        "main": [Turn(calls=[task("a"), task("b"), task("a", id="c3")]), Turn(text="end")],
        "small": [answer] * 6,
    }
    agents = [Agent(name=name, model="small", tools=[source, "lookup"]) for name in "ab"]
    async with bench(way, turns, agents=agents, tools=[lookup]) as b:
        assert b.client.toolkit.names() == ["lookup", "task"]
        await b.ask()
        first, second = b.sent("main")
        assert first.tools == second.tools == ["lookup", "task"]
        assert all("own_echo" in r.tools and "lookup" in r.tools for r in b.sent("small"))
        assert len({r.text for r in second.results}) == 1
        assert len(logged(log, "pid")) == 1
    assert all_gone(logged(log, "pid"), 1)


@each_style
async def test_an_agent_that_comes_late_brings_its_server_and_its_secrets(
    way: Way, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[RUN-74] `client.run` with an agent that was never registered, twice at once, the first one cancelled
    while the server starts: one process at the end, the tools are there, and what is secret of its
    server and its model is masked like the client's own."""
    log, secret = tmp_path / "log", "token-of-the-server-271828"
    (config,) = load_mcp_config(
        {"srv": stdio("--slow-start", "0.3", "--log", str(log), env={"TOKEN": secret})}
    )

    def answer(seen: Seen) -> Turn:
        request = Sent(seen.body, anthropic=is_anthropic(seen))
        if request.results:
            return Turn(text=request.results[0].text)
        return Turn(calls=[use("srv_env")] if "srv_env" in request.tools else [], text="no tools")

    stage = Stage({"late": [answer] * 4})
    async with asyncio.timeout(PATIENCE), stage:
        key = "sk-of-a-late-agent-16180"
        model = way.model(stage, "late", api_key=key)
        agent = Agent(name="late", model=model, tools=[McpSource(config)])
        async with nothing_left(), Client(builtins=False) as client:
            first, *others = [asyncio.create_task(client.run(agent, "go")) for _ in range(3)]
            await until(lambda: logged(log, "pid"))
            first.cancel()
            results = await asyncio.gather(*others)
            assert first.cancelled() and len(stage.requests) == 4
            masked = await client.toolkit.execute("nothing")
            assert masked.is_error and client._redact(f"{key} {secret}") == "[redacted] [redacted]"
    for result in results:
        assert json.loads(result.text)["TOKEN"] == "[redacted]" and secret not in repr(result)
    assert 1 <= len(logged(log, "pid")) <= 2 and all_gone(logged(log, "pid"), 1)
    assert secret not in caplog.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mcp": {"srv": stdio(tools={"ecoh": True})}}, "'ecoh'.*did you mean 'echo'"),
        ({"mcp": {"srv": stdio(tools=["echo", "pdi"])}}, "'pdi'.*did you mean 'pid'"),
        ({"agents": [Agent(name="x", tools={"mcp": {"svr": True}})]}, "agent 'x'.*'svr'.*did you mean 'srv'"),
        ({"agents": [Agent(name="x", tools={"mcp": ["srv_ecoh"]})]}, "'srv_ecoh'.*did you mean 'srv_echo'"),
        ({"agents": [Agent(name="x", tools=["srv_ecoh"])]}, "'srv_ecoh'.*did you mean 'srv_echo'"),
        ({"agents": [Agent(name="x", tools={"skills": ["berw"]})]}, "'berw'.*did you mean 'brew'"),
        ({"builtins": ["raed"]}, "'raed'.*did you mean 'read'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_misspelt_name_is_an_error_and_leaves_nothing(
    options: dict[str, Any], told: str, tmp_path: Path
) -> None:
    """[RUN-75] A filter that names a server, a tool or a skill that does not exist: `ConfigError` with the
    nearest, when the client is made or opened; what had been started is ended."""
    skills = skill(tmp_path / "skills", "brew")
    given: dict[str, Any] = {"mcp": {"srv": stdio()}, "skills": skills, "builtins": False, **options}
    with pytest.raises(ConfigError, match=f"(?s){told}"):
        async with asyncio.timeout(PATIENCE), Client(**given):
            pass
    assert children() == set()


async def test_a_name_of_a_server_that_is_not_there_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """[RUN-75] The tools of a server that did not connect cannot be known: the agent has the rest."""
    caplog.set_level(logging.WARNING, "toolnexus")
    agents = [Agent(name="x", tools=["gone_echo", "lookup"]), Agent(name="y", tools={"mcp": {"gone": True}})]
    mcp = {"gone": {"command": "no-such-program-here"}}
    async with Client(tools=[lookup], builtins=False, mcp=mcp, agents=agents) as client:
        task_tool = client.toolkit.get("task")
        assert task_tool is not None and "- x (tools: lookup)" in task_tool.description
    assert "there is no 'gone_echo'" in caplog.text and "not every source is there" in caplog.text


@each_style
async def test_skills_are_limited_per_agent(way: Way, tmp_path: Path) -> None:
    """[RUN-77] An agent's filter decides which skills it can load and which are in the catalog of its own
    system prompt; one whose list names `skill` has them all; one without has no catalog."""
    for name in ("brew", "bake"):
        skill(tmp_path / "skills", name, f"How to {name}.")

    def load(seen: Seen) -> Turn:
        return Turn(calls=[use("skill", {"name": name}, name) for name in ("brew", "bake")])

    turns = {
        "main": [Turn(calls=[task("some"), task("all"), task("none")]), Turn(text="end")],
        "some": [load, Turn(text="ok")],
        "all": [load, Turn(text="ok")],
        "none": [Turn(text="ok")],
    }
    agents = [
        Agent(name="some", model="some", system_prompt="I brew.", tools={"skills": ["brew"], "native": []}),
        Agent(name="all", model="all", tools=["skill"]),
        Agent(name="none", model="none", tools=["lookup"]),
    ]
    options: dict[str, Any] = {"skills": tmp_path / "skills", "tools": [lookup], "agents": agents}
    async with bench(way, turns, **options) as b:
        await b.ask()
        main = b.sent("main")[0]
        some, every = b.sent("some")[1], b.sent("all")[1]
        (none,) = b.sent("none")
    assert "- **bake**: What bake is for.\n- **brew**: What brew is for." in main.system
    assert some.system.startswith("I brew.\n\n") and "**brew**" in some.system and "bake" not in some.system
    assert "How to brew." in some.results[0].text
    assert "unknown skill 'bake'; available: ['brew']" in some.results[1].text
    assert "How to bake." in every.results[1].text and "**bake**" in every.system
    assert none.system == "" and none.tools == ["lookup"]


@each_style
async def test_a_denial_stays_for_everybody_below(way: Way) -> None:
    """[RUN-78] [SUB-18] `false` for a server, a function or a builtin in one agent holds in the agents it
    calls, whatever they list; its siblings keep them; a call is refused, not executed."""
    ran: list[str] = []

    @tool
    async def launch() -> str:
        """Launch."""
        ran.append("launch")
        return "launched"

    tries = [use("srv_echo", {"s": "x"}), use("launch"), use("read", {"path": "x"})]
    turns = {
        "main": [Turn(calls=[task("careful"), task("leaf")]), Turn(text="end")],
        "careful": [Turn(calls=[task("leaf")]), Turn(text="ok")],
        "leaf": [Turn(calls=tries), Turn(calls=tries), Turn(text="ok"), Turn(text="ok")],
    }
    denied = {"mcp": {"srv": False}, "native": {"launch": False}, "builtins": {"read": False}}
    agents = [
        Agent(name="careful", model="careful", tools=denied),
        Agent(name="leaf", model="leaf", tools=["srv_echo", "launch", "read"]),
    ]
    options: dict[str, Any] = {"builtins": ["read"], "tools": [launch], "agents": agents}
    async with bench(way, turns, mcp={"mcpServers": {"srv": stdio()}}, **options) as b:
        result = await b.ask()
        (careful,) = [r for r in b.sent("careful") if not r.results]
        offers = sorted(r.tools for r in b.sent("leaf"))
    assert careful.tools == ["task"]
    assert offers == [[], [], ["srv_echo", "read", "launch"], ["srv_echo", "read", "launch"]]
    below = result.sub_agents[0].sub_agents[0].messages[2].tool_results
    free = result.sub_agents[1].messages[2].tool_results
    assert all("unknown tool" in r.output for r in below)
    assert [r.output for r in free[:2]] == ["x", "launched"] and ran == ["launch"]


@each_style
async def test_a_cancelled_opening_does_not_hurt_the_next_ask(way: Way, tmp_path: Path) -> None:
    """[RUN-70] Two asks share one opening: the first is cancelled while it lasts, the second is answered."""
    log = tmp_path / "log"
    stage = Stage({"main": [Turn(text="here")]})
    servers = {"late": stdio("--slow-start", "0.4", "--log", str(log))}
    async with asyncio.timeout(PATIENCE), stage, nothing_left():
        client = Client(model=way.model(stage), builtins=False, mcp={"mcpServers": servers})
        first, second = (asyncio.create_task(client.ask(word)) for word in ("a", "b"))
        await until(lambda: logged(log, "pid"))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await second).text == "here" and len(stage.requests) == 1
        await client.aclose()
    assert len(logged(log, "pid")) == 1 and all_gone(logged(log, "pid"), 1)


@each_style
async def test_five_megabytes_from_a_server_are_cut_like_any_output(way: Way) -> None:
    """[RUN-79] Also when they come in `structuredContent` only."""
    data = {"rows": ["row " + "x" * 96] * 50_000}
    turns = [
        Turn(calls=[use("srv_large", {"size": 5_000_000}), use("srv_result", {"structuredContent": data})]),
        Turn(text="end"),
    ]
    async with bench(way, {"main": turns}, mcp={"mcpServers": {"srv": stdio()}}) as b:
        await b.ask()
        results = b.sent()[1].results
    assert len(results) == 2
    assert all(len(r.text.encode()) < 51_000 and "the full text is in" in r.text for r in results)
