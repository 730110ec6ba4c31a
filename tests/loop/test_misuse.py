"""What only misuse reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolnexus import Agent, Budget, Client, ConfigError, FunctionModel, MediaPart, ToolContext, tool
from toolnexus.runtime.concurrency import run_all
from toolnexus.runtime.past import Past
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
    ],
    ids=["long name", "blank name", "key beside a model"],
)
def test_what_cannot_be_is_told_where_it_is_written(wrong: Callable[[], Any], says: str) -> None:
    """[ROB-11] A `ConfigError` that says what is allowed."""
    with pytest.raises(ConfigError, match=says):
        wrong()


async def test_prompts_and_places_that_are_none() -> None:
    """[ROB-11] A prompt that is none, an agent without a client, and a ceiling of cost without prices."""
    picture = MediaPart("image/png", data="iVBORw0KGgo=")
    async with Client(model=model(), builtins=False) as client:
        odd: Any = 7
        with pytest.raises(ConfigError, match="int is no prompt"):
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


@pytest.mark.parametrize("path", [7, [], [1]])
async def test_a_note_of_an_earlier_run_that_is_torn_is_refused(path: Any) -> None:
    """[ROB-11] Its path is a list of texts."""
    with pytest.raises(ValueError, match="a path is a list"):
        Past.from_json({"path": path, "agent": "a", "continues": None})
