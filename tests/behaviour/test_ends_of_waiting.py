"""Runs that wait and are not gone on with: as they stand, given up, unreadable."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.behaviour.test_snapshot_values import client, look, pay
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    Hooks,
    MemoryStore,
    ModelRequest,
    RunError,
    RunResult,
    Suspended,
    ToolContext,
    ToolResult,
    assistant,
    tool,
)
from toolnexus.core.messages import ToolResultPart
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def comparable(result: RunResult) -> RunResult:
    """Without what differs between a run and the same one read back."""
    children = tuple([replace(child, error=None) for child in result.sub_agents if child.status != "pending"])
    return replace(result, snapshot=None, sub_agents=children)


async def test_a_run_that_nobody_answers_stands_as_it_was() -> None:
    """[RES-01] Resumed without an answer it gives what the ask gave, every field; nothing counts twice."""
    store = MemoryStore()
    async with asyncio.timeout(30), client(store=store) as one:
        first = await one.ask("go", conversation="c")
        assert (first.snapshot or {})["conversation"] == "c"
        assert first.limits_hit and first.sub_agent_tool_calls and first.own_usage.requests == 1
        async with client(store=store) as other:
            alone = {key: value for key, value in (first.snapshot or {}).items() if key != "conversation"}
            for again in (
                await other.resume("c", []),
                await one.resume("c", []),
                await one.resume(alone, []),
            ):
                assert comparable(again) == comparable(first)
                assert [run.agent for run in again.sub_agents] == ["done", "short", "broken"]
                assert again.text == again.output == "pay bob?"
                assert again.pending == first.pending and again.snapshot is not None


async def test_what_is_given_up_is_closed_with_errors_and_kept() -> None:
    """[RES-27] Results that are there stand, each open call says why it has none, as an error; the runs below
    that ended and those that waited are kept, and the conversation goes on."""

    @tool
    async def quick() -> str:
        """Quick."""
        return "quick is done"

    script = ScriptedModel(
        by_path={
            "main": [
                reply("", call("quick"), call("pay", to="ann"), call("task", agent="kid", prompt="p")),
            ],
            "main/kid.*": [reply("I ask", call("pay", to="bob"))],
        }
    )
    async with (
        asyncio.timeout(30),
        Client(
            model=script, builtins=False, tools=[quick, pay], agents=[Agent(name="kid")], store=MemoryStore()
        ) as one,
    ):
        await one.ask("go", conversation="c")
        with pytest.raises(Suspended):
            await one.ask("more", conversation="c")
        chat = one.conversation("c")
        await chat.discard_pending()
        assert await chat.pending() == ()
        parts = (await chat.messages())[-1].tool_results
        assert [(part.call_id, part.output, part.is_error) for part in parts] == [
            ("c1_0", "quick is done", False),
            ("c1_1", "no answer was given to: pay ann?", True),
            ("c1_2", "no answer was given to: pay bob?", True),
        ]
        (path,) = await chat.sub_agents()
        below = await chat.sub_agent(path)
        assert [message.role for message in below] == ["user", "assistant", "tool"]
        (part,) = below[-1].tool_results
        assert part == ToolResultPart(
            part.call_id, "no answer was given, and the run was stopped", is_error=True
        )
        before = await chat.messages()
        await chat.discard_pending()
        assert await chat.messages() == before


@pytest.mark.parametrize("state", [{"snapshot": 7}, {"resumed": {}}, {}, {"snapshot": {"version": 9}}])
async def test_a_run_that_cannot_be_read_can_be_given_up(state: dict[str, Any]) -> None:
    """[RES-27] Asks and resumes say how; its calls are answered with errors."""
    store = MemoryStore()
    async with asyncio.timeout(30), client(store=store) as one:
        await one.ask("go", conversation="c")
        _, version = await store.load("c")
        await store.append("c", [], version, state)
        chat = one.conversation("c")
        for way in (one.ask("more", conversation="c"), one.resume("c", [])):
            with pytest.raises((RunError, Suspended)) as caught:
                await way
            assert "discard_pending" in str(caught.value)
        await chat.discard_pending()
        last = (await chat.messages())[-1]
        assert last.role == "tool" and len(last.tool_results) == 4
        assert all(part.is_error and part.output for part in last.tool_results)


async def test_results_of_children_say_how_they_ended() -> None:
    """[SUB-16] Turns, calls, tokens, status, limit and path are in the metadata, whatever the status."""
    seen: dict[str, ToolResult] = {}

    class Watch(Hooks):
        async def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
            if ctx.path == ("main",):
                seen[result.metadata["agent"]] = result

    async with asyncio.timeout(30), client(hooks=[Watch()]) as one:
        result = await one.ask("go")
    assert set(seen) == {"done", "short", "broken", "asking"}
    for run in result.sub_agents:
        told = seen[run.agent].metadata
        assert told == {
            "agent": run.agent,
            "turns": run.turns,
            "toolCalls": run.tool_calls,
            "totalTokens": run.usage.total_tokens,
            "status": run.status,
            "limit": run.limit,
            "path": list(run.path),
        }
        assert seen[run.agent].is_error == (run.status == "error")


async def test_a_budget_of_a_run_below_holds_where_it_goes_on() -> None:
    """[RES-10] What it spent before the wait counts, its own ceiling and that of its caller."""

    def model(request: ModelRequest) -> Any:
        match request.agent, request.turn:
            case "main", 1:
                return assistant("", call("task", id="t", agent="kid", prompt="p"))
            case "kid", 1:
                return assistant("", call("look", id="a", x=1), call("pay", id="b", to="bob"))
            case "kid", 2:
                return assistant("", call("look", id="c", x=2), call("look", id="d", x=3))
            case _:
                return "end"

    def one() -> Client:
        kid = Agent(name="kid", budget=Budget(tool_calls=3))
        return Client(model=FunctionModel(model), builtins=False, tools=[look, pay], agents=[kid])

    async with asyncio.timeout(30), one() as first, one() as second:
        waiting = await first.ask("go")
        result = await second.resume(waiting, [Answer(id=waiting.pending[0].id)])
    (kid,) = result.sub_agents
    parts = {part.call_id: part for message in kid.messages for part in message.tool_results}
    assert [parts[id].is_error for id in "abcd"] == [False, False, False, True]
    assert parts["d"].output == "not run: limit tool_calls 3"
    assert (kid.status, kid.limit, kid.tool_calls) == ("incomplete", "tool_calls", 3)
    assert [(hit.limit, hit.value, hit.scope) for hit in result.limits_hit] == [("tool_calls", 3, kid.path)]
