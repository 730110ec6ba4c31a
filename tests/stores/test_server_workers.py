"""Workers of one name over a server."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.stores.places import Place
from tests.workflow.test_workers import items, said
from tests.workflow.worlds import Asked, client
from toolnexus import Agent, Bus, Worker

pytestmark = pytest.mark.anyio


async def test_two_workers_share_an_inbox_on_a_server(place: Place) -> None:
    """[WF-70] As on a file: nothing is lost, nothing handled twice; a claim that was left is taken up."""
    left = place.make()
    await left.append("inbox:worker:w", (), 0, {"by": "gone", "beat": 3, "lease": 0.3})
    await left.aclose()
    handled: list[str] = []

    async def brain(asked: Asked) -> str:
        handled.extend(said(asked))
        return "ok"

    buses = [Bus(), Bus()]
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        for bus in buses:
            one, _ = await stack.enter_async_context(client("function", brain, store=place.make()))
            worker = Worker(Agent(name="w", tools=[]), bus=bus, client=one, lease=5)
            await stack.enter_async_context(worker)
        await asyncio.gather(*[buses[n % 2].post("w", f"{n:02}") for n in range(20)])
        await asyncio.gather(*[bus.idle() for bus in buses])
        assert sorted(handled) == [f"{n:02}" for n in range(20)]
    store = place.make()
    assert (await store.load("inbox:worker:w"))[0] == ()
    assert await store.load_state("inbox:worker:w") is None
    messages, _ = await store.load("worker:w")
    await store.aclose()
    assert [m.role for m in messages] == ["user", "assistant"] * (len(messages) // 2)
    assert sum(len(items(m.text)) for m in messages) == 20
