"""What branches bring together depends on their order in the definition, and on nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus import Client
from toolnexus.testing import ScriptedModel
from toolnexus.workflow import SCRATCHPAD, FanOut, Fn, Scratchpad, Sequential, Slot

LAST: Slot[int] = Slot("last", int, scope="branch", merge="last")
LISTED: Slot[list[int]] = Slot("listed", list[int], scope="branch", merge="append")
SUMMED: Slot[int] = Slot("summed", int, scope="branch", merge=lambda so_far, value: 3 * (so_far or 0) + value)
DROPPED: Slot[int] = Slot("dropped", int, scope="branch")
SLOTS: list[Slot[Any]] = [LAST, LISTED, SUMMED, DROPPED]

WRITES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), max_size=16)
"""Branch, slot and value, in the order of time."""


def write(pad: Scratchpad, slot: Slot[Any], value: int) -> None:
    pad.set(slot, [*(pad.get(slot) or ()), value] if slot is LISTED else value)


def merged(writes: Sequence[tuple[int, int, int]], stored: Sequence[bool]) -> list[Any]:
    """What the pad of the caller has in the end; branches that are `stored` come by way of JSON."""
    pad = Scratchpad()
    for slot in SLOTS:
        pad.get(slot)
    forks = [pad.fork() for _ in range(4)]
    for branch, slot, value in writes:
        write(forks[branch], SLOTS[slot], value)
    for n, kept in enumerate(stored):
        if kept:
            data = json.loads(json.dumps(forks[n].to_json()))
            forks[n] = pad.fork()
            forks[n].restore(data)
    pad.join(forks)
    return [pad.get(slot) for slot in SLOTS]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(WRITES, st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_scratchpad_merges_by_the_order_of_branches(
    writes: list[tuple[int, int, int]], stored: list[bool]
) -> None:
    """[ROB-05] Whatever order branches write in, and whether they waited in a store meanwhile: what they
    bring is merged in index order by the rule of each slot."""
    by_branch = sorted(writes, key=lambda one: one[0])
    found = merged(writes, stored)
    assert found == merged(by_branch, [False] * 4)
    finals = [[(n, v) for n, s, v in by_branch if s == at] for at in range(4)]
    last, listed, summed = (dict(finals[0]), [v for _, v in finals[1]], list(dict(finals[2]).values()))
    total = None
    for value in summed:
        total = 3 * (total or 0) + value
    assert found == [list(last.values())[-1] if last else None, listed or None, total, None]


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(st.permutations(range(4)))
def test_branches_that_end_in_any_order_give_the_same(order: list[int]) -> None:
    """[ROB-05] The same for real branches, which end in every order."""

    async def run() -> list[Any]:
        gates = [asyncio.Event() for _ in range(5)]
        gates[0].set()

        async def branch(n: int, ctx: Any) -> int:
            place = order.index(n)
            await gates[place].wait()
            pad = ctx.get(SCRATCHPAD)
            for slot in SLOTS:
                write(pad, slot, n)
            gates[place + 1].set()
            return n

        async def read(value: Any, ctx: Any) -> list[Any]:
            return [value, *[ctx.get(SCRATCHPAD).get(slot) for slot in SLOTS]]

        flow = Sequential(FanOut(Fn(branch)), Fn(read))
        async with asyncio.timeout(10), Client(model=ScriptedModel([]), builtins=False) as client:
            return (await client.run(flow, range(4))).output

    assert asyncio.run(run()) == [[0, 1, 2, 3], 3, [0, 1, 2, 3], 18, None]
