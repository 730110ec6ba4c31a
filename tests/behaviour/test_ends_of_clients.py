"""Clients and streams at their end, and what is gone when a run goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Client,
    ConfigError,
    FunctionModel,
    ModelRequest,
    OutputError,
    Stream,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


@tool
async def check(ctx: ToolContext) -> str | ToolResult:
    """Ask somebody."""
    return pending(kind="question", prompt="sure?") if ctx.answer is None else "said"


def plain() -> Client:
    return Client(model=FunctionModel(lambda request: "end"), builtins=False)


def test_a_client_that_was_used_from_plain_code_is_closed_there() -> None:
    """[CONV-10] Its thread ends with it; closing again does nothing, and nothing runs any more."""
    client = plain()
    assert client.ask_sync("q").text == "end"
    threads = [thread for thread in threading.enumerate() if thread.name == "toolnexus"]
    assert threads and all(thread.daemon for thread in threads)
    client.close()
    client.close()
    assert not any(thread.is_alive() for thread in threads)
    with pytest.raises(ConfigError, match="closed"):
        client.ask_sync("q")


def test_a_client_that_was_never_used_can_be_closed() -> None:
    """[CONV-10] From plain code, also twice; it takes nothing any more."""
    client = plain()
    client.close()
    client.close()
    with pytest.raises(ConfigError, match="closed"):
        client.ask_sync("q")


async def test_a_client_of_a_loop_is_closed_there() -> None:
    """[CONV-10] `close` says so while it is open, and does nothing when it is closed."""
    async with asyncio.timeout(30):
        client = plain()
        async with client:
            await client.ask("q")
            with pytest.raises(ConfigError, match="aclose"):
                client.close()
        client.close()
        await client.aclose()
        with pytest.raises(ConfigError, match="closed"):
            await client.ask("q")


async def test_a_stream_whose_run_failed_has_the_run() -> None:
    """[EV-04] Where the failure has one, it is the result; the failure is raised as itself."""
    async with asyncio.timeout(30), plain() as client:
        streams: list[Stream] = []
        with pytest.raises(OutputError) as caught:
            async with client.stream("q", output_type=int) as stream:
                streams.append(stream)
                async for _ in stream:
                    pass
        result = streams[0].result
        assert result is not None and result is caught.value.result and result.turns == 2


async def test_an_agent_that_is_gone_is_told_where_its_run_would_go_on() -> None:
    """[RES-14] In the background: an error that names it, for the model; the rest of the run goes on."""
    on: dict[str, Any] = {"tools": ["task"], "task_background": True}
    start = call("task", id="a", agent="kid", prompt="p", background=True)
    first = ScriptedModel(
        by_path={
            "main": [reply("", start), reply("", call("task_wait", id="w"))],
            "main/kid.*": [reply("", call("check"))],
        }
    )
    agents = [Agent(name="kid"), Agent(name="other")]
    async with asyncio.timeout(30), Client(model=first, builtins=on, agents=agents, tools=[check]) as one:
        waiting = await one.ask("go")
    assert waiting.status == "pending"
    then = ScriptedModel(by_path={"main": ["", "", "end"]})
    async with asyncio.timeout(30), Client(model=then, builtins=on, agents=agents[1:], tools=[check]) as two:
        result = await two.resume(waiting, [Answer(id=waiting.pending[0].id)])
    (part,) = [p for m in result.messages for p in m.tool_results if p.call_id == "w"]
    assert part.is_error and "there is no agent 'kid' any more" in part.output
    (run,) = result.sub_agents
    assert (run.agent, run.path) == ("kid", ("main", "kid.a")) and run.status != "done"


async def test_runs_of_one_key_have_paths_of_their_own() -> None:
    """[SUB-20] Started by a tool for one agent several times under one call: numbered from the second on."""
    kid = Agent(name="kid")

    @tool
    async def many(ctx: ToolContext) -> str:
        """Start three."""
        for _ in range(3):
            await ctx.run(kid, "p")
        return "done"

    def model(request: ModelRequest) -> Any:
        if request.agent == "kid":
            return "kid is done"
        return assistant("", call("many", id="c")) if request.turn == 1 else "end"

    async with (
        asyncio.timeout(30),
        Client(model=FunctionModel(model), builtins=False, tools=[many]) as client,
    ):
        result = await client.ask("go")
    assert [run.path for run in result.sub_agents] == [
        ("main", "kid.c"),
        ("main", "kid.c~2"),
        ("main", "kid.c~3"),
    ]


@pytest.mark.parametrize("wrong", [7, "look", None])
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    """[DEF-01] With the place and what may stand there."""
    with pytest.raises(ConfigError, match="is no tool; give a function, a Tool or a ToolSource"):
        Client(model=FunctionModel(lambda request: "end"), tools=[wrong])
