"""Workflows that wait for answers, and go on."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from tests.workflow.worlds import EVERY_STYLE, Asked, Said, as_json, client
from toolnexus import (
    Agent,
    Answer,
    MemoryStore,
    Request,
    RunContext,
    RunError,
    Tool,
    ToolContext,
    pending,
    tool,
)
from toolnexus.testing import call
from toolnexus.workflow import (
    SCRATCHPAD,
    AgentStep,
    FanOut,
    Fn,
    Loop,
    Parallel,
    Scratchpad,
    Sequential,
    Slot,
    Switch,
    as_runnable,
    as_tool,
)

pytestmark = pytest.mark.anyio


def asker(answers: list[Any]) -> Tool:
    @tool
    async def ask(about: str, ctx: ToolContext) -> object:
        """Ask a person."""
        if ctx.answer is None:
            return pending(kind="question", prompt=f"{about}?")
        answers.append(ctx.answer.data)
        return str(ctx.answer.data)

    return ask


def brain(asked: Asked) -> Said:
    """Asks about its input, then gives the answer."""
    return call("ask", about=asked.last) if asked.turn == 1 else asked.last


@EVERY_STYLE
async def test_finished_nodes_are_not_run_again(style: str) -> None:
    """[WF-30] Before, beside and behind the step that waits; answers reach their steps in any order."""
    ran: list[str] = []

    def step(name: str) -> Fn[Any, Any]:
        def work(value: Any) -> Any:
            ran.append(name)
            return value

        return Fn(work, name=name)

    agent = Agent(name="a", tools=[asker([])])
    flow = Sequential(
        step("first"),
        Parallel(
            Sequential(step("b1"), AgentStep(agent)), AgentStep(agent, prompt="other {input}"), step("b3")
        ),
        step("last"),
    )
    async with client(style, brain) as (one, seen):
        result = await one.run(flow, "x")
        assert (result.status, sorted(ran)) == ("pending", ["b1", "b3", "first"])
        assert [request.prompt for request in result.pending] == ["x?", "other x?"]
        second, first = result.pending[1], result.pending[0]
        result = await one.resume(
            as_json(result.snapshot), [Answer(id=second.id, ok=True, data="2")], target=flow
        )
        assert result.status == "pending" and [r.id for r in result.pending] == [first.id]
        result = await one.resume(
            as_json(result.snapshot), [Answer(id=first.id, ok=True, data="1")], target=flow
        )
    assert (result.status, result.output) == ("done", ["1", "2", "x"])
    assert sorted(ran) == ["b1", "b3", "first", "last"] and len(seen) == 4
    assert result.usage.requests == 4 and len(result.sub_agents) == 2


async def test_another_process_needs_the_store_alone() -> None:
    """[WF-31] With a conversation the workflow is registered under its name, or given as the target."""
    from toolnexus import Client, FunctionModel

    store = MemoryStore()
    agent = Agent(name="a", tools=[asker([])])
    flow = Sequential(
        Fn(str.upper),
        AgentStep(agent),
        name="flow",
    )

    async def generate(request: Any) -> Any:
        last = request.messages[-1]
        if last.role == "tool":
            return last.tool_results[0].output
        from toolnexus import assistant

        return assistant("", call("ask", about=last.text))

    def make() -> Client:
        return Client(model=FunctionModel(generate), store=store, builtins=False, agents=[flow])

    async with make() as one:
        waiting = await one.run("flow", "x", conversation="c")
        assert waiting.status == "pending"
    async with make() as other:
        result = await other.resume("c", [Answer(id=waiting.pending[0].id, ok=True, data="yes")])
    assert (result.status, result.output) == ("done", "yes")


class Found(BaseModel):
    n: int


@dataclass
class Kept:
    found: Found
    tags: tuple[str, ...]


async def test_values_come_back_as_what_they_were() -> None:
    """[WF-32] As the annotation of the function says, and as the slot says."""
    slot: Slot[Kept] = Slot("kept", Kept)
    mine: Slot[list[int]] = Slot("mine", list[int], scope="branch", merge="append")
    seen: list[Any] = []

    def make(value: str, ctx: RunContext) -> Kept:
        kept = Kept(Found(n=len(value)), ("a", "b"))
        pad: Any = ctx.get(SCRATCHPAD)
        pad.set(slot, kept)
        return kept

    async def branch(value: Kept, ctx: RunContext) -> Found:
        pad: Any = ctx.get(SCRATCHPAD)
        pad.set(mine, [value.found.n])
        return value.found

    def look(value: Any, ctx: RunContext) -> Any:
        pad: Any = ctx.get(SCRATCHPAD)
        seen.extend([value, pad.get(slot), pad.get(mine)])
        return "end"

    agent = Agent(name="a", tools=[asker([])])
    flow = Sequential(Fn(make), Parallel(Fn(branch), AgentStep(agent, prompt=lambda kept: "q")), Fn(look))
    async with client("function", brain) as (one, _):
        waiting = await one.run(flow, "four")
        answer = Answer(id=waiting.pending[0].id, ok=True, data="yes")
        result = await one.resume(as_json(waiting.snapshot), [answer], target=flow, scratchpad=Scratchpad())
    assert result.output == "end"
    assert seen == [[Found(n=4), "yes"], Kept(Found(n=4), ("a", "b")), [4]]


async def test_choices_and_rounds_are_not_asked_again() -> None:
    """[WF-33] What `key` and `until` said before the wait holds."""
    asked: list[str] = []

    def key(value: str) -> str:
        asked.append(f"key {value}")
        return "go"

    def until(value: str) -> bool:
        asked.append(f"until {value}")
        return value == "stop"

    agent = Agent(name="a", tools=[asker([])])
    flow = Switch(key, {"go": Loop(AgentStep(agent), until, max_rounds=5)})
    async with client("function", brain) as (one, _):
        result = await one.run(flow, "x")
        for data in ("more", "stop"):
            answer = Answer(id=result.pending[0].id, ok=True, data=data)
            result = await one.resume(as_json(result.snapshot), [answer], target=flow)
    assert (result.status, result.output) == ("done", "stop")
    assert asked == ["key x", "until more", "until stop"]


async def test_a_value_that_cannot_be_kept_is_told() -> None:
    """[WF-34] The error names the node; nothing is lost silently."""
    flow = Parallel(Fn(lambda value: object(), name="thing"), AgentStep(Agent(name="a", tools=[asker([])])))
    async with client("function", brain) as (one, _):
        with pytest.raises(
            RunError, match=r"node 0\.0 holds a object, which cannot be kept while the run waits"
        ):
            await one.run(flow, "x")


async def test_a_question_is_answered_in_place_where_somebody_is_there() -> None:
    """[WF-35] The nearest `on_request`; the workflow never waits."""
    agent = Agent(name="a", tools=[asker([])])

    def here(request: Request) -> Answer:
        return Answer(id=request.id, ok=True, data="here")

    async with client("function", brain, on_request=here) as (one, _):
        result = await one.run(FanOut(AgentStep(agent)), ["a", "b"])
    assert (result.status, result.output) == ("done", ["here", "here"])


async def test_a_snapshot_is_plain_json() -> None:
    """[WF-31] It survives any store of text."""
    flow = Sequential(Fn(len), AgentStep(Agent(name="a", tools=[asker([])]), prompt="{input}"))
    async with client("function", brain) as (one, _):
        waiting = await one.run(flow, "four")
    assert json.loads(json.dumps(waiting.snapshot)) == waiting.snapshot


async def test_what_was_let_go_before_a_crash_is_not_done_again() -> None:
    """[WF-36] In a step of a workflow that `task` started, and in a node that is a tool."""
    frozen: list[Any] = []
    store = MemoryStore()

    @tool
    async def ask(about: str, ctx: ToolContext) -> object:
        """Ask, and do what was allowed."""
        if ctx.answer is None:
            return pending(kind="question", prompt=f"{about}?")
        frozen.append((await store.load("c"), await store.load_state("c")))
        return "done"

    step = AgentStep(Agent(name="inner", tools=[ask]), prompt="inner {input}")
    below = as_runnable(Sequential(step, name="below"), "below", "Does it.")
    node = as_tool(step, "node", "Does it, too.")

    def both(asked: Asked) -> Said:
        if "inner" in asked.last or asked.turn > 1:
            return brain(asked) if "task" not in asked.tools else asked.last
        return [call("task", agent="below", prompt="a"), call("node", prompt="b")]

    options: dict[str, Any] = {"agents": [below], "tools": [node]}
    async with client("function", both, store=store, **options) as (one, _):
        waiting = await one.ask("go", conversation="c")
        answers = [Answer(id=request.id, ok=True) for request in waiting.pending]
        assert len(answers) == 2 and (await one.resume("c", answers)).status == "done"
    assert len(frozen) == 2
    for (messages, _), state in list(frozen):
        left = MemoryStore()
        await left.append("c", messages, 0, state)
        async with client("function", both, store=left, **options) as (other, _):
            result = await other.resume("c")
        assert len(frozen) == 2 and "outcome unknown" in result.text
