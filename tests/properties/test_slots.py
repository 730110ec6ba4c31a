"""Slots under any order of lending, cancels and returns."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus.runtime.concurrency import stop
from toolnexus.runtime.slots import Slot, Slots

pytestmark = pytest.mark.anyio

WAITS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=3)
"""Waits of a run at once: for so many steps, and whether each is cancelled in between."""


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 6), WAITS, WAITS), min_size=1, max_size=5))
def test_no_order_of_lending_and_cancels_loses_or_doubles_a_slot(
    width: int, runs: list[tuple[int, list[tuple[int, bool]], list[tuple[int, bool]]]]
) -> None:
    """[ROB-10] Never more runs hold a slot than there are, and all of them are free at the end."""

    async def steps(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def main() -> None:
        slots = Slots(width)
        every: list[Slot] = []

        def check() -> None:
            assert 0 <= slots.free <= width
            assert sum(slot._held for slot in every) + slots.free <= width

        async def wait(slot: Slot, count: int) -> None:
            async with slot.lent():
                check()
                await steps(count)
            check()

        async def run(pause: int, *rounds: list[tuple[int, bool]]) -> None:
            slot = Slot(slots)
            every.append(slot)
            await steps(pause)
            async with slot:
                for waits in rounds:
                    tasks = [asyncio.create_task(wait(slot, count)) for count, _ in waits]
                    try:
                        await steps(pause)
                        for task, (_, cancelled) in zip(tasks, waits, strict=True):
                            if cancelled:
                                task.cancel()
                        await asyncio.gather(*tasks, return_exceptions=True)
                    finally:  # a run ends behind all that it waits for
                        await stop(tasks)
                    if slot.lost:
                        await slot.regain()
                    check()
                    assert slot._held

        tasks = [asyncio.create_task(run(*one)) for one in runs]
        async with asyncio.timeout(2):
            await steps(runs[0][0] * 2)
            tasks[0].cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await tasks[0]
            await asyncio.gather(*tasks[1:])
        assert slots.free == width

    asyncio.run(main())


@pytest.mark.parametrize("cancelled", [None, 0, 1, 2])
async def test_several_that_come_back_at_once_need_one_slot(cancelled: int | None) -> None:
    """[ROB-10] Branches of one run whose slot is lost, while another run has the last one: they wait for it
    together, whoever of them gives up meanwhile."""
    slots, free = Slots(1), asyncio.Event()
    mine, other = Slot(slots), Slot(slots)

    async def hold() -> None:
        async with other:
            await free.wait()

    async def lend() -> None:
        async with mine.lent():
            await asyncio.sleep(0)

    async with asyncio.timeout(5):
        async with mine:
            with contextlib.suppress(asyncio.CancelledError):
                async with mine.lent():
                    raise asyncio.CancelledError
            holding = asyncio.create_task(hold())
            await asyncio.sleep(0)
            assert mine.lost and slots.free == 0
            back = [asyncio.create_task(one()) for one in (mine.regain, lend, mine.regain)]
            for _ in range(5):
                await asyncio.sleep(0)
            assert not any(task.done() for task in back)
            if cancelled is not None:
                back[cancelled].cancel()
            free.set()
            ends = await asyncio.gather(*back, return_exceptions=True)
            assert [end is None for end in ends] == [n != cancelled for n in range(3)]
            assert not mine.lost and slots.free == 0
            await holding
        assert slots.free == 1


async def test_a_slot_that_is_lent_while_it_comes_back_is_free_for_others() -> None:
    """[ROB-10] Whoever comes back leaves it alone while a branch beside it waits for somebody."""
    slots, free, over = Slots(1), asyncio.Event(), asyncio.Event()
    mine, other = Slot(slots), Slot(slots)

    async def hold() -> None:
        async with other:
            await free.wait()

    async def lend() -> None:
        async with mine.lent():
            await over.wait()

    async with asyncio.timeout(5), mine:
        mine._lend()
        holding = asyncio.create_task(hold())
        await asyncio.sleep(0)
        coming = asyncio.create_task(mine._back())
        await asyncio.sleep(0)
        lending = asyncio.create_task(lend())
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(holding, coming)
        assert slots.free == 1
        over.set()
        await lending
        assert slots.free == 0 and not mine.lost
    assert slots.free == 1
