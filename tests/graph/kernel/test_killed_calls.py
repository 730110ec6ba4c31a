"""Calls of a wave that a kill cut off."""

import asyncio
import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolnexus import Client, StoreError, ToolCallPart, assistant, tool
from toolnexus.graph import Board, Graph, NodeContext, Registry, SqliteCheckpoints, build
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio

DOCUMENT = {
    "name": "shop",
    "entry": "order",
    "nodes": [{"id": "order", "type": "order"}, {"id": "tools", "type": "tool"}],
    "edges": [{"from": "order", "to": "tools"}, {"from": "tools", "to": "__end__"}],
}


class Shop:
    """Orders three calls at once; while the second runs, its process dies: `dead` is the file it leaves."""

    def __init__(self, folder: Path) -> None:
        self.living, self.dead = folder / "living.sqlite", folder / "dead.sqlite"
        self.ran: list[str] = []
        looked = asyncio.Event()

        @tool(idempotent=True)
        async def look() -> str:
            """Look."""
            self.ran.append("look")
            looked.set()
            return "seen"

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.ran.append("pay")
            await looked.wait()
            with closing(sqlite3.connect(self.living)) as alive, closing(sqlite3.connect(self.dead)) as dead:
                alive.backup(dead)
            return f"paid {amount}"

        self.client = Client(model=ScriptedModel([]), builtins=False, tools=[look, pay])

    def graph(self, place: Path) -> Graph:
        types = Registry.standard(self.client.services)

        @types.node_type("order")
        async def order(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            calls = ToolCallPart("a", "look", "{}"), ToolCallPart("b", "pay", '{"amount": 5}')
            board.append("", assistant("", *calls))

        graph = build(DOCUMENT, types)
        graph.checkpoints = SqliteCheckpoints(place)
        return graph


async def test_a_call_that_was_under_way_when_the_process_died_is_not_made_again(tmp_path: Path) -> None:
    """[GR-046] The model reads that nobody knows what became of it; one that may be repeated is."""
    shop = Shop(tmp_path)
    async with asyncio.timeout(10), shop.client as client:
        first = await client.run(shop.graph(shop.living), {})
        assert [r.output for r in first.messages[-1].tool_results] == ["seen", "paid 5"]
        shop.ran.clear()
        again = shop.graph(shop.dead)
        assert again.checkpoints is not None
        (run,) = await again.checkpoints.list()
        result = await client.run(again, await again.checkpoints.load(run))
    looked, paid = result.messages[-1].tool_results
    assert looked.output == "seen"
    assert paid.is_error and "unknown" in paid.output
    assert shop.ran == ["look"]


class Full(SqliteCheckpoints):
    """Has no room for calls."""

    async def record(self, exec_id: str, wave: str, calls: Mapping[str, Any]) -> None:
        raise StoreError("the disk is full")


async def test_calls_that_cannot_be_kept_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[GR-046] As a checkpoint is that cannot be saved: the run goes on unless they are required."""
    shop = Shop(tmp_path)
    graph = shop.graph(shop.living)
    graph.checkpoints = Full(shop.living)
    async with asyncio.timeout(10), shop.client as client:
        with caplog.at_level(logging.WARNING, "toolnexus.graph"):
            result = await client.run(graph, {})
    assert result.status == "done"
    assert "what tool calls of node 'tools' did was not saved: the disk is full" in caplog.text
