"""Slots under any order of lending, cancels and returns."""

from __future__ import annotations

import asyncio
import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus.runtime.concurrency import stop
from toolnexus.runtime.slots import Slot, Slots

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
            async with slot.held():
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
