"""Steps that continue a conversation."""

import asyncio
from typing import Any

import pytest

from tests.workflow.test_waiting import asker
from tests.workflow.worlds import EVERY_STYLE, Asked, Said, as_json, client
from toolnexus import Agent, Answer, Client, ConfigError, Message, RunContext, RunError, SqliteStore
from toolnexus.testing import call
from toolnexus.workflow import AgentReply, AgentStep, Parallel, Sequential, as_tool

pytestmark = pytest.mark.anyio


def texts(messages: Any) -> list[str]:
    return [m.text or "".join(r.output for r in m.tool_results) or "call" for m in messages]


@EVERY_STYLE
async def test_a_step_continues_its_conversation(style: str) -> None:
    """[WF-40] What was said there comes before, and what the step adds is appended, once."""
    step = AgentStep(Agent(name="a", tools=[]), conversation="c")
    async with client(style, lambda asked: f"{asked.turn}: {asked.last}") as (one, _):
        await one.ask("before", conversation="c")
        result = await one.run(Sequential(step, step), "x")
        after = await one.ask("after", conversation="c")
    assert result.output == "3: 2: x"
    assert texts(after.messages)[:-1] == ["before", "1: before", "x", "2: x", "2: x", "3: 2: x", "after"]


async def test_steps_of_one_conversation_are_ordered(tmp_path: Any) -> None:
    """[WF-41] Branches, and other asks of it, go one after the other; nothing is lost on a conflict."""
    store = SqliteStore(tmp_path / "s.db")
    other = SqliteStore(tmp_path / "s.db")

    async def brain(asked: Asked) -> str:
        if asked.last == "b":  # somebody else writes at the same time
            loaded, version = await other.load("c")
            await other.append("c", [Message("user", loaded[0].parts)], version)
        return f"re {asked.last}"

    agent = Agent(name="a", tools=[])
    flow = Parallel(*[AgentStep(agent, conversation="c", prompt=f"{s}{{input}}") for s in "abc"])
    async with client("function", brain, store=store) as (one, _), asyncio.timeout(30):
        await asyncio.gather(one.run(flow, ""), one.ask("d", conversation="c"))
        said = texts(await one.conversation("c").messages())
    await other.aclose()
    assert sorted(said) == sorted([*"abcd", *(f"re {s}" for s in "abcd"), said[0]])
    assert all(said[said.index(f"re {s}") - 1] == s for s in "abcd")


@EVERY_STYLE
async def test_a_step_that_waits_appends_when_it_is_done(style: str) -> None:
    """[WF-42] Nothing until then; other asks go on meanwhile; the step sees its own past."""

    def brain(asked: Asked) -> Said:
        return call("ask", about=asked.last) if asked.last == "q" else f"{asked.turn}: {asked.last}"

    flow = AgentStep(Agent(name="a", tools=[asker([])]), conversation="c")
    async with client(style, brain) as (one, _):
        await one.ask("before", conversation="c")
        waiting = await one.run(flow, "q")
        assert waiting.status == "pending"
        await one.ask("between", conversation="c")
        answer = Answer(id=waiting.pending[0].id, ok=True, data="yes")
        result = await one.resume(as_json(waiting.snapshot), [answer], target=flow)
        said = texts(await one.conversation("c").messages())
    assert result.output == "3: yes"
    assert said == ["before", "1: before", "between", "2: between", "q", "call", "yes", "3: yes"]


async def test_a_conversation_that_waits_refuses_a_step_and_stays() -> None:
    """[WF-42] A run that waits there keeps its questions, also when a step that waited itself is done."""

    def brain(asked: Asked) -> Said:
        return call("ask", about=asked.last) if asked.last.startswith("q") else asked.last

    agent = Agent(name="a", tools=[asker([])])
    flow = AgentStep(agent, conversation="c")
    async with client("function", brain) as (one, _):
        step = await one.run(flow, "q1")
        there = await one.run(agent, "q2", conversation="c")
        with pytest.raises(RunError, match="waits"):
            await one.run(flow, "x")
        done = await one.resume(
            as_json(step.snapshot), [Answer(id=step.pending[0].id, ok=True, data="1")], target=flow
        )
        assert done.output == "1"
        assert [r.id for r in await one.conversation("c").pending()] == [there.pending[0].id]


async def test_a_step_within_its_own_conversation_is_an_error() -> None:
    """[WF-43] Never a deadlock: at the top, and in a tool of the step."""
    inner = AgentStep(Agent(name="inner", tools=[]), conversation="c")
    outer = AgentStep(Agent(name="outer", tools=[as_tool(inner, "inner", "Ask.")]), conversation="c")

    def brain(asked: Asked) -> Said:
        return call("inner", prompt="x") if asked.turn == 1 and asked.tools else asked.last

    async with client("function", brain) as (one, _), asyncio.timeout(10):
        with pytest.raises(RunError, match="would wait for itself"):
            await one.run(inner, "x", conversation="c")
        assert "would wait for itself" in (await one.run(outer, "x")).output
    with pytest.raises(ConfigError, match="conversation"):
        AgentStep(Agent(name="a"), conversation=7)  # type: ignore[call-overload]


async def test_a_cancelled_step_appends_nothing_and_frees_the_conversation() -> None:
    """[WF-43] The next ask of it goes on."""
    there = asyncio.Event()

    async def brain(asked: Asked) -> str:
        if asked.last == "hang":
            there.set()
            await asyncio.Event().wait()
        return "ok"

    async with client("function", brain) as (one, _), asyncio.timeout(10):
        running = asyncio.create_task(one.run(AgentStep(Agent(name="a", tools=[]), conversation="c"), "hang"))
        await there.wait()
        running.cancel()
        await asyncio.wait([running])
        await one.ask("next", conversation="c")
        assert texts(await one.conversation("c").messages()) == ["next", "ok"]


class Counting:
    """An executor of the host's that says how much it was given."""

    async def run(self, agent: Agent, message: Any, ctx: RunContext) -> AgentReply:
        return AgentReply(str(len(message)))

    async def run_structured(self, agent: Agent, message: Any, output_type: Any, ctx: RunContext) -> Any:
        return len(message)


async def test_a_host_runner_gets_the_conversation() -> None:
    """[WF-44] All of its messages, with the new one at the end; its answers are kept, typed ones too."""
    text = AgentStep(Agent(name="a"), conversation="c", runner=Counting())
    typed = AgentStep(Agent(name="a"), conversation="c", runner=Counting(), output_type=int)
    async with Client(model="openai:none", api_key="k", builtins=False) as one:
        assert (await one.run(Sequential(text, typed), "x")).output == 3
        assert texts(await one.conversation("c").messages()) == ["x", "1", "1", "3"]
