"""MemoryStore: the contract of every store, and what is its own."""

from __future__ import annotations

import asyncio

import pytest

from toolnexus.core.messages import user
from toolnexus.errors import StoreConflict
from toolnexus.stores.base import Store
from toolnexus.stores.memory import MemoryStore
from toolnexus.testing.contracts import StoreSuite

pytestmark = pytest.mark.anyio


class TestMemoryStore(StoreSuite):
    def make_store(self) -> Store:
        return MemoryStore()


async def test_what_was_loaded_does_not_change_when_others_write() -> None:
    """[ST-12] A loaded transcript is a value: later writes to the store do not reach it."""
    store = MemoryStore()
    version = await store.append("c", [user("one")], 0)
    loaded, _ = await store.load("c")
    given = [user("two")]
    await store.append("c", given, version)
    given.append(user("never stored"))
    assert loaded == (user("one"),)
    assert (await store.load("c"))[0] == (user("one"), user("two"))


async def test_a_closed_memory_store_keeps_its_conversations() -> None:
    """[ST-11] A store that was closed works again at the next use, with everything in it."""
    store = MemoryStore()
    await store.append("c", [user("one")], 0)
    await store.aclose()
    assert (await store.load("c"))[0] == (user("one"),)


async def test_clients_on_several_threads_share_one_store_without_losing_a_turn() -> None:
    """[ST-13] Writers on four event loops in four threads: every append arrives once."""
    store = MemoryStore()

    async def write(writer: int) -> None:
        for n in range(50):
            while True:
                _, version = await store.load("c")
                try:
                    await store.append("c", [user(f"{writer}.{n}")], version)
                    break
                except StoreConflict:
                    continue

    async with asyncio.timeout(60):
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, write(w)) for w in range(4)))
    texts = [m.text for m in (await store.load("c"))[0]]
    assert sorted(texts) == sorted(f"{w}.{n}" for w in range(4) for n in range(50))
