"""What tools and agents share in a scratchpad, where a run waits and goes on."""

import asyncio
from typing import Any

import pytest

from tests.workflow.test_waiting import asker
from tests.workflow.worlds import EVERY_STYLE, Asked, Said, as_json, client, task
from toolnexus import Agent, Answer, Client, RunError, RunResult, Tool, ToolContext, pending, tool
from toolnexus.testing import call
from toolnexus.workflow import (
    SCRATCHPAD,
    AgentStep,
    FanOut,
    Fn,
    Node,
    Parallel,
    Scratchpad,
    Sequential,
    Slot,
    as_tool,
    delegate_to,
)

pytestmark = pytest.mark.anyio

PAGES: Slot[list[str]] = Slot("pages", list[str], scope="branch", merge="append")
COUNT: Slot[int] = Slot("count", int)


@tool
async def cite(page: str, ctx: ToolContext) -> str:
    """Remember a page, for this agent and for the whole tree."""
    pad: Any = ctx.get(SCRATCHPAD)
    pad.set(PAGES, [*(pad.get(PAGES) or []), page])
    pad.set(COUNT, (pad.get(COUNT) or 0) + 1)
    return ",".join(pad.get(PAGES))


@tool
async def ask(ctx: ToolContext) -> Any:
    """Ask a person; then say what is remembered."""
    pad: Any = ctx.get(SCRATCHPAD)
    if ctx.answer is None:
        return pending(kind="question", prompt="may I?")
    return f"{pad.get(PAGES)} of {pad.get(COUNT)}"


async def answered(one: Client, result: RunResult, **more: Any) -> RunResult:
    """What comes of it when everything is answered, by way of JSON."""
    answers = [Answer(id=request.id, ok=True, data="yes") for request in result.pending]
    return await one.resume(as_json(result.snapshot), answers, **more)


def cites(asked: Asked) -> Said:
    """Cites what it was asked twice, and gives what the tool said."""
    if asked.turn < 3:
        return call("cite", page=f"{asked.last}{asked.turn}" if asked.turn == 1 else "b")
    return asked.last


@EVERY_STYLE
async def test_the_tools_of_one_agent_share_its_branch_slots(style: str) -> None:
    """[WF-64] From call to call; branches are merged with what their tools set, in order."""
    pad = Scratchpad()
    step = AgentStep(Agent(name="a", tools=[cite]))
    async with client(style, cites) as (one, _):
        result = await one.run(FanOut(step), ["x", "y"], scratchpad=pad)
        asked = Scratchpad()
        alone = await one.run(Agent(name="b", tools=[cite]), "z", scratchpad=asked)
    assert result.output == ["x1,b", "y1,b"] and alone.text == "z1,b"
    assert pad.get(PAGES) == ["x1", "b", "y1", "b"] and asked.get(PAGES) == ["z1", "b"]


async def test_the_clients_own_loop_takes_a_scratchpad() -> None:
    """[WF-64] Its tools, and nodes that are its tools, share the run slots of it."""
    node = as_tool(AgentStep(Agent(name="below", system_prompt="below", tools=[cite])), "below", "Below.")

    def brain(asked: Asked) -> Said:
        if asked.system == "below":
            return cites(asked)
        return [[call("cite", page="top")], [task("below", "x")]][asked.turn - 1] if asked.turn < 3 else "ok"

    async with client("function", brain, tools=[cite, node]) as (one, _):
        for way in ("ask", "stream"):
            pad = Scratchpad()
            if way == "ask":
                await one.ask("go", scratchpad=pad)
            else:
                async with one.stream("go", scratchpad=pad) as stream:
                    async for _ in stream:
                        pass
            assert pad.get(PAGES) == ["top"] and pad.get(COUNT) == 3


def below(kind: str) -> tuple[Agent, dict[str, Any]]:
    """An agent that has another called twice, in one of the ways there are; and options of the client."""
    inner = Agent(name="inner", description="d", system_prompt="inner", tools=[cite, ask])
    if kind == "task":
        return Agent(name="a", tools=[cite, bump()], agents=[inner]), {}
    if kind == "background":
        options = {"builtins": {"tools": False, "task_background": True}}
        return Agent(name="a", tools=[cite, bump()], agents=[inner]), options
    return Agent(name="a", tools=[cite, bump(), as_tool(AgentStep(inner), "inner", "d")]), {}


def bump() -> Tool:
    @tool
    async def bump(ctx: ToolContext) -> str:
        """Set the run slot when everybody else waits."""
        pad: Any = ctx.get(SCRATCHPAD)
        for _ in range(1_000):
            if pad.get(COUNT) == 3:
                break
            await asyncio.sleep(0)
        pad.set(COUNT, 100)
        return "set"

    return bump


@EVERY_STYLE
@pytest.mark.parametrize("kind", ["task", "background", "tool"])
async def test_an_agent_that_waits_below_a_tool_keeps_its_branch_slots(kind: str, style: str) -> None:
    """[WF-65] Apart from those of the other call; and the run slots are those of the end, not of its wait."""

    def brain(asked: Asked) -> Said:
        if asked.system == "inner":
            steps: list[Said] = [call("cite", page=asked.last), call("ask"), asked.last]
            return steps[asked.turn - 1]
        if asked.turn == 1:
            return call("cite", page="top")
        if asked.turn == 2:
            more: dict[str, Any] = {"background": True} if kind == "background" else {}
            calls = [call("task", agent="inner", prompt=p, **more) for p in "xy"]
            return [*(calls if kind != "tool" else [task("inner", p) for p in "xy"]), call("bump")]
        return asked.last

    agent, options = below(kind)
    flow = AgentStep(agent)
    async with client(style, brain, **options) as (one, _), asyncio.timeout(20):
        waiting = await one.run(flow, "go")
        assert waiting.status == "pending" and len(waiting.pending) == 2
        result = await answered(one, waiting, target=flow)
    assert result.status == "done"
    assert "['x'] of 100" in result.output and "['y'] of 100" in result.output


async def test_a_member_that_waits_does_not_set_the_clock_back() -> None:
    """[WF-65] What others wrote into a run slot since stays, also beside a team, and in a nested workflow."""

    def brain(asked: Asked) -> Said:
        if asked.system == "member":
            steps: list[Said] = [call("cite", page="m"), call("ask"), asked.last]
            return steps[asked.turn - 1]
        return task("m") if asked.turn == 1 else asked.last

    def later(value: Any, ctx: Any) -> str:
        ctx.get(SCRATCHPAD).set(COUNT, 50)
        return "later"

    member: Node[Any, Any] = Sequential(
        AgentStep(Agent(name="x", system_prompt="member", tools=[cite, ask])), name="m"
    )
    team = delegate_to(Agent(name="c", tools=[]), member)
    flow = Parallel(team, Sequential(AgentStep(Agent(name="y", tools=[])), Fn(later)))

    def either(asked: Asked) -> Said:
        return brain(asked) if asked.system == "member" or asked.tools else "ok"

    async with client("function", either) as (one, _):
        waiting = await one.run(flow, "go")
        assert waiting.status == "pending"
        result = await answered(one, waiting, target=flow)
    assert result.output == ["['m'] of 50", "later"]


async def test_a_branch_slot_below_a_tool_that_cannot_be_kept_is_told() -> None:
    """[WF-65] By its name; nothing is lost silently."""
    thing: Slot[Any] = Slot("thing", scope="branch")

    @tool
    async def put(ctx: ToolContext) -> str:
        """Put something that is no JSON."""
        pad: Any = ctx.get(SCRATCHPAD)
        pad.set(thing, object())
        return "put"

    def brain(asked: Asked) -> Said:
        if asked.system == "inner":
            return call("put") if asked.turn == 1 else call("ask", about="x")
        return call("task", agent="inner", prompt="go") if asked.turn == 1 else asked.last

    inner = Agent(name="inner", description="d", system_prompt="inner", tools=[put, asker([])])
    async with client("function", brain) as (one, _):
        result = await one.run(AgentStep(Agent(name="a", tools=[], agents=[inner])), "go")
        assert "slot 'thing' holds a object, which cannot be kept while the run waits" in result.output
        with pytest.raises(RunError, match="slot 'thing'"):
            await one.run(AgentStep(inner), "go")
