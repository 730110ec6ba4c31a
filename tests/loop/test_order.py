"""Results in call order, events in finish order."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.loop.support import Way, bench, each_way, use
from toolnexus import tool
from toolnexus.core.events import ToolFinished, ToolStarted
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio


@each_way
async def test_results_go_back_in_call_order_whatever_finishes_first(way: Way) -> None:
    """[RUN-14] Three calls that end 3, 1, 2: results in call order, on Anthropic's style as one user message
    of `tool_result` blocks; `ToolFinished` in the order of their ends."""
    ends = {n: asyncio.Event() for n in (0, 1, 2, 3)}
    after = {3: 0, 1: 3, 2: 1}
    ends[0].set()

    @tool
    async def work(n: int) -> str:
        """Work."""
        await ends[after[n]].wait()
        ends[n].set()
        return f"result {n}"

    turns = [Turn(calls=[use("work", {"n": n}, f"c{n}") for n in (1, 2, 3)]), Turn(text="end")]
    async with bench(way, {"main": turns}, tools=[work]) as b:
        await b.ask()
        request = b.sent()[1]
    assert [(r.id, r.text) for r in request.results] == [(f"c{n}", f"result {n}") for n in (1, 2, 3)]
    behind = request.messages[2:]
    if request.anthropic:
        assert [m["role"] for m in behind] == ["user"]
        assert [block["type"] for block in behind[0]["content"]] == ["tool_result"] * 3
    else:
        assert [m["role"] for m in behind] == ["tool"] * 3
    if way.streamed:
        assert [e.call_id for e in b.events if isinstance(e, ToolStarted)] == ["c1", "c2", "c3"]
        assert [e.call_id for e in b.events if isinstance(e, ToolFinished)] == ["c3", "c1", "c2"]


@each_way
async def test_sync_tools_of_one_turn_run_side_by_side(way: Way) -> None:
    """[RUN-14] Plain functions too: each waits in its thread for the other, and the loop runs on."""

    meeting = threading.Barrier(3, timeout=5)

    @tool
    def meet(n: int) -> int:
        """Meet."""
        meeting.wait()
        return n

    turns = [Turn(calls=[use("meet", {"n": n}, f"c{n}") for n in (1, 2, 3)]), Turn(text="end")]
    async with bench(way, {"main": turns}, tools=[meet]) as b:
        await b.ask()
        assert [r.text for r in b.sent()[1].results] == ["1", "2", "3"]
