"""What a wave that is run again does not do twice, also in another process."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from toolnexus import Answer, Client, FunctionModel, StoreError, Tool, ToolCallPart, assistant
from toolnexus.graph import (
    Board,
    BuildOptions,
    CheckpointStore,
    FileCheckpoints,
    Graph,
    GraphRunError,
    MemoryCheckpoints,
    NodeContext,
    Registry,
    SqliteCheckpoints,
    build,
)

pytestmark = pytest.mark.anyio
DOCUMENT: Mapping[str, Any] = {
    "name": "pays",
    "entry": "calls",
    "nodes": [{"id": "calls", "type": "calls"}, {"id": "tools", "type": "tool"}],
    "edges": [{"from": "calls", "to": "tools"}, {"from": "tools", "to": "__end__"}],
}


class Bank:
    """A tool that pays, and hangs but for the call `done`; and what it did."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.hangs = asyncio.Event()

    async def pay(self, arguments: Mapping[str, Any], ctx: Any) -> str:
        self.paid.append(ctx.call_id)
        if ctx.call_id != "done":
            self.hangs.set()
            await asyncio.Event().wait()
        return "paid"

    def client(self) -> Client:
        tools = [Tool("pay", "Pay.", {"type": "object"}, self.pay)]
        return Client(model=FunctionModel(lambda request: ""), tools=tools, builtins=False)


def graph(client: Client, store: CheckpointStore) -> Graph:
    registry = Registry.standard(client.services)

    @registry.node_type("calls")
    async def calls(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
        board.append("", assistant("", ToolCallPart("done", "pay", "{}"), ToolCallPart("begun", "pay", "{}")))

    made = build(DOCUMENT, registry)
    made.checkpoints = store
    return made


@pytest.mark.parametrize("kind", ["sqlite", "files"])
async def test_a_call_that_was_begun_is_not_begun_again(kind: str, tmp_path: Path) -> None:
    """[GR-615] Where the store of checkpoints keeps it, another process knows: what ended is answered from
    the record, what was begun is told as unknown."""

    def store() -> CheckpointStore:
        return SqliteCheckpoints(tmp_path / "c.db") if kind == "sqlite" else FileCheckpoints(tmp_path)

    first = Bank()
    async with first.client() as client, asyncio.timeout(10):
        running = asyncio.create_task(client.run(graph(client, store()), "go"))
        await first.hangs.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert sorted(first.paid) == ["begun", "done"]
    second = Bank()
    async with second.client() as client, asyncio.timeout(10):
        (run_id,) = await store().list()
        result = await client.run(graph(client, store()), await store().load(run_id))
    assert second.paid == []
    done, begun = result.messages[-1].tool_results
    assert (done.output, done.is_error) == ("paid", False)
    assert begun.is_error and "unknown" in str(begun.output)


class Broken(MemoryCheckpoints):
    async def calls(self, exec_id: str, wave: str) -> dict[str, Any]:
        raise StoreError("the disk is gone")

    async def record(self, exec_id: str, wave: str, calls: Mapping[str, Any]) -> None:
        raise StoreError("the disk is gone")


@pytest.mark.parametrize("checkpoint", ["best_effort", "required"])
async def test_a_record_that_cannot_be_kept(checkpoint: Literal["best_effort", "required"]) -> None:
    """[GR-617] Is logged like a checkpoint, or ends the run before the calls where these are required."""
    bank = Bank()
    async with bank.client() as client, asyncio.timeout(10):
        registry = Registry.standard(client.services)

        @registry.node_type("calls")
        async def calls(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            board.append("", assistant("", ToolCallPart("done", "pay", "{}")))

        made = build(DOCUMENT, registry, BuildOptions(checkpoint=checkpoint))
        made.checkpoints = Broken()
        if checkpoint == "required":
            with pytest.raises(GraphRunError, match="the disk is gone"):
                await client.run(made, "go")
            assert bank.paid == []
        else:
            result = await client.run(made, "go")
            assert [r.output for r in result.messages[-1].tool_results] == ["paid"]


async def test_what_stopped_a_run_is_forgotten_when_it_goes_on() -> None:
    """[GR-616] Behind an answered question no condition sees the node that was interrupted."""
    async with Client(model=FunctionModel(lambda request: ""), builtins=False) as client:
        registry = Registry.standard(client.services)

        @registry.node_type("ask")
        async def ask(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            await ctx.ask_user({"parts": [{"type": "text", "text": "go?"}]})
            board["left"] = sorted(name for name in board if name.startswith("__"))

        graph = build({"name": "g", "entry": "a", "nodes": [{"id": "a", "type": "ask"}]}, registry)
        waiting = await client.run(graph, {})
        result = await client.resume(waiting, [Answer(id=waiting.pending[0].id)], target=graph)
    assert result.output == {"left": []}
