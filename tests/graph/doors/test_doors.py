"""A graph behind every door: as a target of `task`, over A2A and MCP; waiting, cancelled, after a restart."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
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
from toolnexus import (
    Answer,
    Client,
    FunctionModel,
    MemoryStore,
    ModelRequest,
    Store,
    ToolCallPart,
    assistant,
)
from toolnexus.graph import Board, BuildOptions, Graph, NodeContext, ParallelOptions, Registry, build

pytestmark = pytest.mark.anyio
DOCUMENT: Mapping[str, Any] = {
    "name": "desk",
    "entry": "first",
    "nodes": [
        {"id": "first", "type": "note"},
        {"id": "left", "type": "ask"},
        {"id": "right", "type": "ask"},
        {"id": "last", "type": "tell"},
    ],
    "edges": [
        {"from": "first", "to": "left"},
        {"from": "first", "to": "right"},
        {"from": "left", "to": "last"},
        {"from": "right", "to": "last"},
        {"from": "last", "to": "__end__"},
    ],
}
ONCE = ["first", "last"]


class Desk(TwoAtOnce):
    """A graph with two nodes at once."""

    def __init__(self) -> None:
        super().__init__()
        registry = Registry()

        @registry.node_type("note")
        async def note(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            self.ran.append(ctx.node_id)

        @registry.node_type("ask")
        async def ask(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            what, _, rest = board.main[-1].text.partition(" ")
            if what == "hang":
                await self.hang(ctx.node_id)
            if what == "ask":
                question = {"parts": [{"type": "text", "text": f"{rest} {ctx.node_id}?"}]}
                answer = await ctx.ask_user(question)
                rest = answer["parts"][0]["text"] if answer else "nobody"
            board[ctx.node_id] = rest or what

        @registry.node_type("tell")
        async def tell(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            self.ran.append(ctx.node_id)
            board.append("", assistant(f"{board['left']}, {board['right']}"))

        @registry.node_type("count")
        async def count(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            board["count"] = len(board.main[-1].text)

        options = BuildOptions(parallel=ParallelOptions(enabled=True))
        self.target = build(DOCUMENT, registry, options, description="Does what the desk does.")
        counts = {"name": "counts", "entry": "c", "nodes": [{"id": "c", "type": "count"}]}
        self.counts: Graph = build(counts, registry)

    def client(self, store: Store | None = None) -> Client:
        def brain(request: ModelRequest) -> Any:
            last = request.messages[-1]
            if last.role == "tool":
                return last.tool_results[0].output
            return assistant("", ToolCallPart("c1", "task", f'{{"agent": "desk", "prompt": "{last.text}"}}'))

        return Client(model=FunctionModel(brain), builtins=False, agents=[self.target], store=store)


async def test_a_graph_below_task_waits_and_goes_on() -> None:
    """[GR-610] Another client needs the store alone; answers may come one by one."""
    desk, store = Desk(), MemoryStore()
    async with desk.client(store) as one:
        waiting = await one.ask("ask x", conversation="c")
        assert [r.prompt for r in waiting.pending] == ["x left?", "x right?"]
        left, right = [Answer(id=r.id, data=d) for r, d in zip(waiting.pending, ("l", "r"), strict=True)]
        waiting = await one.resume("c", [right])
        assert [r.prompt for r in waiting.pending] == ["x left?"]
    async with desk.client(store) as other:
        result = await other.resume("c", [left])
    assert (result.status, result.text) == ("done", "l, r")
    assert desk.ran == ONCE


async def test_a_cancel_reaches_a_graph_below_task() -> None:
    """[GR-610] Every branch of it; and the conversation can be asked again."""
    desk = Desk()
    async with desk.client() as one, asyncio.timeout(10):
        await cancelled_ask(desk, one)
        assert sorted(desk.stopped) == ["left", "right"] and desk.ran == ["first"]
        assert (await one.ask("x", conversation="c")).text == "x, x"


# ---- A2A


async def test_a_graph_answers_over_a2a() -> None:
    """[GR-611] By its registered name or as it is; variables come out as data, where no model spoke."""
    desk = Desk()
    for target in ("desk", desk.target):
        async with agent(desk, target) as (url, _), calling(url) as caller:
            task = await caller.send("hello")
            assert (state(task), text(task)) == ("completed", "hello, hello")
    async with agent(desk, desk.counts) as (url, _), calling(url) as caller:
        (part,) = (await caller.send("hello")).artifacts[0].parts
        assert MessageToDict(part.data) == {"count": 5}


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_served_graph_asks_and_goes_on_in_its_task(streaming: bool) -> None:
    """[GR-611] `input-required` with every question; answered one by one, nothing finished runs again."""
    desk = Desk()
    assert text(await answered_one_by_one(desk, streaming)) == "l, r"
    assert desk.ran == ONCE


async def test_a_question_of_a_served_graph_survives_a_restart(tmp_path: Path) -> None:
    """[GR-611] With tasks and conversations on disk."""
    desk = Desk()
    assert text(await answered_after_a_restart(desk, tmp_path)) == "l, r" and desk.ran == ONCE


async def test_a_served_graph_is_cancelled() -> None:
    """[GR-611] While it runs, every branch; while it waits, its questions are given up."""
    desk = Desk()
    await cancelled_while_it_runs_and_waits(desk)
    assert sorted(desk.stopped) == ["left", "right"]


# ---- MCP


@asynccontextmanager
async def tools(era: str, desk: Desk, **options: Any) -> AsyncGenerator[McpClient]:
    async with desk.client() as one, mcp_caller(one, {"agents": ["desk"]}, era, **options) as caller:
        yield caller


@both_eras
async def test_a_graph_is_a_tool_over_mcp(era: str) -> None:
    """[GR-612] Its nodes are its progress, and a cancel reaches every branch."""
    heard: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    desk = Desk()
    async with tools(era, desk) as caller:
        offered = {tool.name: tool.description for tool in (await caller.list_tools()).tools}
        assert offered["desk"] == "Does what the desk does."
        result = await caller.call_tool("desk", {"prompt": "x"}, progress_callback=on_progress)
        assert words(result) == "x, x"
        await cancelled_call(desk, caller, "desk")
        assert words(await caller.call_tool("desk", {"prompt": "y"})) == "y, y"
    assert heard[:2] == ["desk started", "first"]
    assert sorted(str(h) for h in heard[2:4]) == ["left", "right"] and "last" in heard


@both_eras
async def test_a_graph_asks_whoever_called_it_over_mcp(era: str) -> None:
    """[GR-612] And goes on with the answers."""

    async def elicit(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"answer": params.message[2:3]})

    desk = Desk()
    async with tools(era, desk, elicitation_callback=elicit) as caller:
        assert words(await caller.call_tool("desk", {"prompt": "ask x"})) == "l, r"
    assert desk.ran == ONCE
    async with tools(era, Desk()) as caller:
        if era == "auto":
            with pytest.raises(MCPError, match="the question was: x left\\?; x right"):
                await caller.call_tool("desk", {"prompt": "ask x"})
        else:
            result = await caller.call_tool("desk", {"prompt": "ask x"})
            assert "the question was: x left?" in words(result) and result.is_error
