"""A workflow behind every door: run, stream, task, A2A and MCP; waiting, cancelled, and seen from outside."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from google.protobuf.json_format import MessageToDict
from mcp import Client as McpClient
from mcp import MCPError

from tests.serving.callers import calling, state, text
from tests.serving.doors import (
    TwoAtOnce,
    agent,
    answered_after_a_restart,
    answered_one_by_one,
    both_eras,
    cancelled_ask,
    cancelled_call,
    cancelled_while_it_runs_and_waits,
    mcp_caller,
    words,
)
from tests.workflow.test_waiting import asker
from tests.workflow.worlds import EVERY_STYLE, Asked, Said, client, function_model
from toolnexus import (
    Agent,
    Answer,
    Client,
    MemoryStore,
    NodeFinished,
    NodeStarted,
    RunResult,
    Store,
    Tool,
    tool,
)
from toolnexus.testing import call
from toolnexus.workflow import AgentStep, Fn, Loop, Parallel, Sequential, as_runnable, as_tool

pytestmark = pytest.mark.anyio


class Desk(TwoAtOnce):
    """A workflow with functions, and two agents at once."""

    def __init__(self) -> None:
        super().__init__()
        agent = Agent(name="clerk", system_prompt="clerk", tools=[asker([]), self._hang()])
        left = Sequential(self._step("left"), AgentStep(agent, prompt="{input} left"))
        right = Sequential(AgentStep(agent, prompt="{input} right"), self._step("right"))
        both = Parallel(left, right, name="both")
        self.target = Sequential(self._step("first"), both, self._step("last"), name="desk")
        self.named = as_runnable(self.target, "desk", "Does what the desk does.")

    def _step(self, name: str) -> Fn[Any, Any]:
        def work(value: Any) -> Any:
            self.ran.append(name)
            return value

        return Fn(work, name=name)

    def _hang(self) -> Tool:
        @tool
        async def hang(name: str) -> str:
            """Wait for ever."""
            await self.hang(name)
            return "never"

        return hang

    @asynccontextmanager
    async def client(self, store: Store | None = None) -> AsyncGenerator[Client]:
        async with client("function", self.brain, agents=[self.named], store=store) as (one, _):
            yield one

    def brain(self, asked: Asked) -> Said:
        if asked.system != "clerk":
            return call("task", agent="desk", prompt=asked.last) if asked.turn == 1 else asked.last
        if asked.turn > 1 or not asked.last.startswith(("ask", "hang")):
            return asked.last
        what, _, rest = asked.last.partition(" ")
        return call("ask", about=rest) if what == "ask" else call("hang", name=rest)


def risk(n: int) -> dict[str, int]:
    return {"risk": n}


ONCE = ["first", "last", "left", "right"]


def answers(result: RunResult, *data: str) -> list[Answer]:
    return [Answer(id=r.id, ok=True, data=d) for r, d in zip(result.pending, data, strict=False)]


# ---- run, stream, task


@EVERY_STYLE
async def test_events_of_a_workflow_that_waits_and_goes_on(style: str) -> None:
    """[WF-66] Every node has its end, `pending` too; what is finished is not started again."""
    desk = Desk()
    async with client(style, desk.brain) as (one, _):
        async with one.stream("ask x", target=desk.target) as stream:
            first = [event async for event in stream]
        waiting = stream.result
        assert waiting is not None and [r.prompt for r in waiting.pending] == ["x left?", "x right?"]
        async with one.stream_resume(waiting, answers(waiting, "l", "r"), target=desk.target) as stream:
            then = [event async for event in stream]
        done = stream.result
    assert done is not None and (done.status, done.output) == ("done", ["l", "r"])
    assert sorted(desk.ran) == ONCE
    assert ends(first) == {
        "desk": "pending",
        "desk/first": "done",
        "desk/both": "pending",
        "desk/both/sequential": "pending",
        "desk/both/sequential/left": "done",
        "desk/both/sequential/clerk": "pending",
    }
    assert "desk/first" not in ends(then) and "desk/both/sequential/left" not in ends(then)
    assert {*ends(then).values()} == {"done"} and {"desk", "desk/last"} <= ends(then).keys()
    for events in (first, then):
        begun = sorted(event.node for event in events if isinstance(event, NodeStarted))
        assert begun == sorted(event.node for event in events if isinstance(event, NodeFinished))


def ends(events: list[Any]) -> dict[str, str]:
    return {"/".join(e.node): e.status for e in events if isinstance(e, NodeFinished)}


@EVERY_STYLE
async def test_a_workflow_below_task_waits_and_goes_on(style: str) -> None:
    """[WF-67] The question comes with the way there; another client needs the store alone."""
    desk, store = Desk(), MemoryStore()
    async with client(style, desk.brain, agents=[desk.named], store=store) as (one, _):
        waiting = await one.ask("ask x", conversation="c")
        assert waiting.status == "pending" and sorted(desk.ran) == ["first", "left"]
        path = (waiting.pending[0].data or {})["path"]
        assert path[0] == "main" and path[1].startswith("desk.") and path[2].startswith("clerk.")
        left, right = answers(waiting, "l", "r")
        waiting = await one.resume("c", [right])
        assert waiting.status == "pending" and sorted(desk.ran) == ["first", "left", "right"]
    async with client(style, desk.brain, agents=[desk.named], store=store) as (other, seen):
        result = await other.resume("c", [left])
    assert (result.status, result.text) == ("done", '["l", "r"]')
    assert sorted(desk.ran) == ONCE and len(seen) == 2


@EVERY_STYLE
async def test_a_cancel_reaches_a_workflow_below_task(style: str) -> None:
    """[WF-67] Every branch of it; and the conversation can be asked again."""
    desk = Desk()
    async with client(style, desk.brain, agents=[desk.named]) as (one, _), asyncio.timeout(10):
        await cancelled_ask(desk, one)
        assert sorted(desk.stopped) == ["x left", "x right"] and desk.ran == ["first", "left"]
        assert (await one.ask("x", conversation="c")).status == "done"


@EVERY_STYLE
async def test_events_below_task_have_both_paths(style: str) -> None:
    """[WF-67] That of the run, and that of the node in its tree."""
    desk = Desk()
    async with client(style, desk.brain, agents=[desk.named]) as (one, _), one.stream("x") as stream:
        found = [event async for event in stream if isinstance(event, NodeFinished)]
    assert {event.path[0] for event in found} == {"main"}
    assert {event.path[1].partition(".")[0] for event in found} == {"desk"}
    assert ("desk", "both", "sequential", "right") in {event.node for event in found}
    assert {event.status for event in found} == {"done"}


# ---- A2A


async def test_a_workflow_answers_over_a2a() -> None:
    """[WF-68] By its registered name or as it is; what comes out is data, a loop at its cap says so."""
    desk = Desk()
    endless = Loop(Fn(lambda text: f"{text}!", name="more"), lambda text: False, max_rounds=2)
    for target in ("desk", desk.target):
        async with agent(desk, target) as (url, _), calling(url) as caller:
            task = await caller.send("hello")
            assert state(task) == "completed"
            assert [part.text for part in task.artifacts[0].parts] == ["hello left", "hello right"]
    async with agent(desk, Sequential(desk.target, Fn(len), Fn(risk))) as (url, _), calling(url) as caller:
        (part,) = (await caller.send("hello")).artifacts[0].parts
        assert MessageToDict(part.data) == {"risk": 2}
    async with agent(desk, endless) as (url, _), calling(url) as caller:
        task = await caller.send("on")
        assert (state(task), text(task)) == ("completed", "on!!\n[incomplete: max_rounds 2]")


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_served_workflow_asks_and_goes_on_in_its_task(streaming: bool) -> None:
    """[WF-68] `input-required` with every question; answered one by one, nothing finished runs again."""
    desk = Desk()
    done = await answered_one_by_one(desk, streaming)
    assert [part.text for part in done.artifacts[0].parts] == ["l", "r"]
    assert sorted(desk.ran) == ONCE


async def test_a_question_of_a_served_workflow_survives_a_restart(tmp_path: Path) -> None:
    """[WF-68] With tasks and conversations on disk."""
    desk = Desk()
    await answered_after_a_restart(desk, tmp_path)
    assert sorted(desk.ran) == ONCE


async def test_a_served_workflow_is_cancelled() -> None:
    """[WF-68] While it runs, every branch; while it waits, its questions are given up."""
    desk = Desk()
    await cancelled_while_it_runs_and_waits(desk)
    assert sorted(desk.stopped) == ["x left", "x right"]


# ---- MCP


@asynccontextmanager
async def tools(era: str, desk: Desk, **options: Any) -> AsyncGenerator[McpClient]:
    """A caller of the workflow as an agent and as a tool of its own."""
    node = as_tool(desk.target, "desk_tool", "Does it, too.", {"type": "object", "properties": {"n": {}}})
    prompt = as_tool(desk.target, "desk_prompt", "Does it with a prompt.")
    async with Client(
        model=function_model(_said(desk)), builtins=False, agents=[desk.named], tools=[node, prompt]
    ) as one:
        async with mcp_caller(one, {"tools": ["desk_*"], "agents": ["desk"]}, era, **options) as caller:
            yield caller


def _said(desk: Desk) -> Any:
    async def said(asked: Asked) -> tuple[str, list[Any]]:
        answer = desk.brain(asked)
        return (answer, []) if isinstance(answer, str) else ("", [answer])

    return said


@both_eras
async def test_a_workflow_is_a_tool_over_mcp(era: str) -> None:
    """[WF-69] As an agent with a prompt, and as a tool with its schema; its nodes are its progress."""
    heard: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    desk = Desk()
    async with tools(era, desk) as caller:
        offered = {tool.name: tool.input_schema for tool in (await caller.list_tools()).tools}
        assert (
            offered.keys() == {"desk", "desk_prompt", "desk_tool"}
            and "n" in offered["desk_tool"]["properties"]
        )
        result = await caller.call_tool("desk", {"prompt": "x"}, progress_callback=on_progress)
        assert words(result) == '["x left", "x right"]'
        assert words(await caller.call_tool("desk_tool", {"n": 1})) == (
            '["{\\"n\\": 1} left", "{\\"n\\": 1} right"]'
        )
    assert heard[:4] == ["desk started", "desk", "desk/first", "desk/both"] and "clerk: turn 1" in heard


@both_eras
@pytest.mark.parametrize("name", ["desk", "desk_prompt"])
async def test_a_workflow_asks_whoever_called_it_over_mcp(era: str, name: str) -> None:
    """[WF-69] And goes on with the answers; who cannot be asked reads the questions."""

    async def elicit(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if params.message == "x right?":
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"answer": "l"})

    desk = Desk()
    async with tools(era, desk, elicitation_callback=elicit) as caller:
        result = await caller.call_tool(name, {"prompt": "ask x"})
    assert words(result) == '["l", "declined: x right?"]' and sorted(desk.ran) == ONCE
    async with tools(era, Desk()) as caller:
        if era == "auto":
            with pytest.raises(MCPError, match=r"x left\?") as caught:
                await caller.call_tool(name, {"prompt": "ask x"})
            assert caught.value.error.code == -32021
        else:
            result = await caller.call_tool(name, {"prompt": "ask x"})
            assert "x left?" in words(result) and not result.is_error


@both_eras
@pytest.mark.parametrize("name", ["desk", "desk_prompt"])
async def test_a_cancel_reaches_a_workflow_over_mcp(era: str, name: str) -> None:
    """[WF-69] Every branch of it."""
    desk = Desk()
    async with tools(era, desk) as caller:
        await cancelled_call(desk, caller, name)
        assert sorted(desk.stopped) == ["x left", "x right"]
        assert words(await caller.call_tool(name, {"prompt": "y"})) == '["y left", "y right"]'
