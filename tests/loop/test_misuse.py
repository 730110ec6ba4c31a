"""What only misuse reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from toolnexus import Agent, Budget, Client, ConfigError, FunctionModel, MediaPart, ToolContext, tool
from toolnexus.engine.environment import ENVIRONMENT
from toolnexus.engine.runner import LocalRunner, Run
from toolnexus.runtime.concurrency import run_all
from toolnexus.runtime.context import RunSettings
from toolnexus.runtime.past import Past
from toolnexus.runtime.spill import Spill
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def model() -> FunctionModel:
    return FunctionModel(lambda request: request.messages[0].text)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Agent(name="x" * 65), "1 to 64 characters"),
        (lambda: Agent(name=" "), "1 to 64 characters"),
        (lambda: Client(model=model(), api_key="k"), "a model object carries its own"),
        (lambda: Client(model=model(), agents=cast("Any", [7])), "7 cannot be run; give an Agent"),
        (lambda: Agent(name="a", tools=cast("Any", [7])), "7 is no tool; give a function, a Tool"),
        (lambda: Agent(name="a", agents=cast("Any", [7])), "agents holds 7; give names, globs or agents"),
        (lambda: Agent(name="a", agents=cast("Any", [Agent])), "give names, globs or agents"),
        (lambda: Agent(name="a", tools=cast("Any", "read")), "'read'; give a list of names and tools"),
        (lambda: Agent(name="a", tools={"mpc": True}), "mpc.*did you mean 'mcp'"),
    ],
    ids=[
        *("long name", "blank name", "key beside a model", "no agent", "no tool", "no target"),
        *("a class of agents", "a text of tools", "a kind that is none"),
    ],
)
def test_what_cannot_be_is_told_where_it_is_written(wrong: Callable[[], Any], says: str) -> None:
    """[ROB-11] A `ConfigError` that says what is allowed."""
    with pytest.raises(ConfigError, match=says):
        wrong()


async def test_prompts_and_places_that_are_none() -> None:
    """[ROB-11] A prompt that is none, an agent without a client, and a ceiling of cost without prices."""
    picture = MediaPart("image/png", data="iVBORw0KGgo=")
    async with Client(model=model(), builtins=False) as client:
        odd: Any
        for odd, kind in ((7, "int"), ([7], "list"), ([], "list"), (["a", 7], "list"), ({"a": 1}, "dict")):
            with pytest.raises(ConfigError, match=f"{kind} is no prompt: give text"):
                await client.ask(odd)
        assert (await client.ask(["a ", picture, "b"])).text == "a b"
    async with Client(model=model(), builtins=False, budget=Budget(cost=1.0)) as client:
        with pytest.raises(ConfigError, match="prices"):
            await client.ask("hi")


async def test_a_tool_knows_its_run_and_how_deep_it_is() -> None:
    """[ROB-11] The id of the ask is one for the whole tree, and the depth grows by one."""
    seen: list[tuple[str, int]] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append((ctx.run_id, ctx.context.depth))
        return "seen"

    turns = {
        "main": [reply(call("look"), call("task", agent="child", prompt="p")), "end"],
        "*": [reply(call("look")), "end"],
    }
    root = ScriptedModel(by_path={"*/*": turns["*"], "*": turns["main"]})
    agents = [Agent(name="child", tools=["look"])]
    async with Client(model=root, tools=[look], builtins=["task"], agents=agents) as client:
        await client.ask("go")
    assert [depth - seen[0][1] for _, depth in seen] == [0, 1]
    assert len({id for id, _ in seen}) == 1


@pytest.mark.parametrize("beside", [0, 2])
async def test_a_job_that_cancels_itself_is_a_failure(beside: int) -> None:
    """[ROB-11] Alone and among others; nobody else is cancelled by it, and no job is left."""

    async def odd() -> None:
        raise asyncio.CancelledError

    async def waits() -> None:
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    with pytest.raises(RuntimeError, match="cancelled from inside"):
        await run_all([odd, *[waits] * beside])
    assert asyncio.all_tasks() == before


async def test_a_call_has_ids_of_its_own_where_nobody_traces() -> None:
    """[OBS-09] One trace for the whole tree, and another span for each call, whenever it is asked."""
    seen: list[tuple[str, str]] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        assert ctx.trace is ctx.trace
        seen.append((ctx.trace.trace_id, ctx.trace.span_id))
        return "seen"

    turns = [reply(call("look"), call("task", agent="child", prompt="p")), "end"]
    root = ScriptedModel(by_path={"*/*": [reply(call("look")), "end"], "*": turns})
    async with Client(model=root, tools=[look], builtins=["task"], agents=[Agent(name="child")]) as client:
        await client.ask("go")
    assert [len(part) for part in seen[0]] == [32, 16] and len({trace for trace, _ in seen}) == 1
    assert len({span for _, span in seen}) == 2 == len(seen)


async def test_an_agent_that_runs_below_no_client_says_where_it_can() -> None:
    """[ROB-11] In a graph that runs by itself, say: the error names the agent and the way."""
    runner = LocalRunner()
    agent = Agent(name="lone", model=model())
    result = await runner.start(Run(runner=runner), agent, "hi", settings=RunSettings(), host={})
    assert (result.status, result.usage.requests) == ("error", 0)
    assert isinstance(result.error, ConfigError) and "'lone' runs under a client" in str(result.error)


async def test_a_run_that_nobody_counts_is_the_same() -> None:
    """[ROB-11] Outside of a client there are no metrics: an unknown tool and a child end as inside."""
    turns = [reply(call("nothing"), call("task", agent="child", prompt="p")), "end"]
    root = ScriptedModel(by_path={"*/*": ["found"], "*": turns})
    async with Client(model=root, builtins=["task"], agents=[Agent(name="child")]) as client:
        inside = await client.ask("go")
        runner, host = LocalRunner(), {ENVIRONMENT: client._environment}
        outside = await runner.start(
            Run(runner=runner), client._main, "go", settings=RunSettings(), host=host
        )
        counted = client.metrics()
    assert outside == inside and outside.status == "done"
    assert "unknown tool 'nothing'" in outside.messages[2].tool_results[0].output
    assert 'toolnexus_sub_agents_total{agent="child",status="done"} 1' in counted


def test_a_note_without_a_name_is_refused() -> None:
    """[ROB-11] Of an earlier run: whose it was is text."""
    with pytest.raises(ValueError, match="the name of an agent is text"):
        Past.from_json({"path": ["main", "a.1"], "agent": 7, "continues": None})


def test_a_folder_that_is_gone_takes_nothing_more() -> None:
    """[ROB-11] Outputs that come after the client was closed are an error, and leave no file."""
    spill = Spill()
    first = spill.write("one")
    assert first.read_text() == "one" and spill.folder == first.parent
    assert spill.write(b"two", ".bin").name == "output-2.bin"
    spill.close()
    spill.close()
    assert not first.parent.exists() and spill.folder is None
    with pytest.raises(OSError, match="the client is closed"):
        spill.write("three")
    Spill().close()


@pytest.mark.parametrize("path", [7, [], [1]])
async def test_a_note_of_an_earlier_run_that_is_torn_is_refused(path: Any) -> None:
    """[ROB-11] Its path is a list of texts."""
    with pytest.raises(ValueError, match="a path is a list"):
        Past.from_json({"path": path, "agent": "a", "continues": None})
