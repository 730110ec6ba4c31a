"""A model that goes round in circles, and one that only looks how far something is."""

from __future__ import annotations

import pytest

from tests.loop.support import WAYS, bench, use
from toolnexus import tool
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio
WAY = WAYS[0]


async def told(turns: list[Turn], answers: list[str]) -> list[list[str]]:
    """What the model read as results in each request, for a tool that gives `answers` in turn."""
    left = iter(answers)

    @tool(thread=False)
    def look(what: str) -> str:
        """Look."""
        return next(left)

    async with bench(WAY, {"main": [*turns, Turn(text="end")]}, tools=[look]) as b:
        await b.ask()
        return [[result.text for result in request.results] for request in b.sent()]


async def test_a_call_that_brings_nothing_new_for_three_turns_is_told_so() -> None:
    """[RUN-15] The first two results are as the tool gave them; the call still runs."""
    again = [Turn(calls=[use("look", {"what": "a"})]) for _ in range(4)]
    *_, last = await told(again, ["same"] * 4)
    assert last[:2] == ["same", "same"]
    assert last[2].startswith("same\n[") and "in 3 turns" in last[2]
    assert last[3].startswith("same\n[") and "in 4 turns" in last[3]


async def test_waiting_for_a_result_that_changes_is_no_circle() -> None:
    """[RUN-15] What changes between turns is left alone, and so are calls with other arguments."""
    polls = [Turn(calls=[use("look", {"what": "job"})]) for _ in range(4)]
    assert (await told(polls, ["10 %", "10 %", "60 %", "60 %"]))[-1] == ["10 %", "10 %", "60 %", "60 %"]
    others = [Turn(calls=[use("look", {"what": str(n)})]) for n in range(4)]
    assert (await told(others, ["none"] * 4))[-1] == ["none"] * 4


async def test_equal_calls_of_one_turn_are_no_circle() -> None:
    """[RUN-15] Turns are counted, not calls."""
    thrice = [Turn(calls=[use("look", {"what": "a"}, f"c{n}") for n in range(4)])]
    assert (await told(thrice, ["x"] * 4))[-1] == ["x"] * 4
