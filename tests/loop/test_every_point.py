"""A cancel at every point where a run waits, over everything that a run can wait for."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.builtins.websites import site
from tests.loop.points import Points
from tests.loop.support import OPENAI, WAYS, Way, task, use
from tests.loop.world import Told, World, whole
from tests.mcp.helpers import ROUGH, children, http_server, until
from toolnexus import SqliteStore, compactor
from toolnexus.testing.turns import Turn

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]

PATIENCE = 60
each_number = pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])


async def nothing() -> None:
    """There is nothing more to look at."""


async def everywhere(world: World, points: Points, look: Callable[[], Awaitable[None]] = nothing) -> int:
    """Cancel runs until no point is new, and look at what each leaves. How many were cancelled."""
    count = 0
    while True:
        world.told, conversation, tasks = Told(), f"c{count}", points.tasks()
        new, end = await points.cancelled(lambda id=conversation: world.ask(id))
        if not new:
            await world.told.read_to_the_end()
            assert end is None and world.told.result is not None
            assert (world.told.result.status, world.told.result.output) == ("done", {"n": 1})
            return count
        count += 1
        try:
            assert end is None or isinstance(end, asyncio.CancelledError)
            await whole(world, conversation)
            await look()
            await until(lambda known=tasks: points.tasks() <= known)
        except BaseException as error:
            error.add_note(points.where)
            raise


@each_number
async def test_models_tools_children_questions_summaries_and_the_store(again: bool, tmp_path: Path) -> None:
    """[RUN-55] [RUN-56] Both styles, streamed or not, over real HTTP: parallel tools, one in a thread, three
    levels with one slot, a question, a summary, a typed answer with its repair, a store on a disk."""
    points, count = Points(again=again, times=8), 0
    script = {
        "main": [
            Turn(
                text="planning",
                calls=[use("work"), use("plain"), use("confirm"), task("mid"), task("leaf")],
            ),
            Turn(calls=[use("work", {"n": 2}, "again")]),
            Turn(text="no json"),
            Turn(text='{"n": 1}'),
        ],
        "mid": [Turn(calls=[use("confirm"), task("leaf")]), Turn(text="mid is done")],
        "leaf": [Turn(calls=[use("work"), use("nothing")]), Turn(text="leaf is done")] * 2,
    }
    files = open_files()
    async with asyncio.timeout(PATIENCE):
        for way in WAYS:
            world, store = World(way, script), SqliteStore(tmp_path / f"{way}.db")
            async with world.opened(points, store=store, hooks=[compactor(700, keep_tail=100)]):
                count += await everywhere(world, points)
    assert count > 100
    gc.collect()  # whatever was left open complains
    assert open_files() == files


@each_number
async def test_commands_pages_and_servers(again: bool) -> None:
    """[RUN-55] [RUN-57] Of a run and of a child: commands with children of their own, a page, servers over
    stdio and HTTP. No process is left, not even a dead one, and the servers serve the next run."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="a page")

    points = Points(again=again)
    with http_server() as url:
        async with asyncio.timeout(PATIENCE), site(page) as address:
            world = World(Way(OPENAI, streamed=True), outside(address))
            servers = {"near": {"command": sys.executable, "args": ["-S", str(ROUGH)]}, "far": {"url": url}}
            builtins = {"tools": ["bash", "webfetch"], "webfetch_allow": ["127.0.0.1"]}
            options: dict[str, Any] = {"mcp": {"mcpServers": servers}, "builtins": builtins}
            async with world.opened(points, **options):
                processes = children()

                async def nothing_runs() -> None:
                    assert children() == processes

                assert await everywhere(world, points, nothing_runs) > 30
                # what a run leaves open would add up
                assert sockets(open_files()) < 40
    gc.collect()


def outside(page: str) -> dict[str, list[Turn]]:
    command = "setsid sleep 30 & echo hi; sleep 0.01; kill $!"
    servers = [use("near_echo", {"s": "near"}), use("far_echo", {"s": "far"})]
    fetch = use("webfetch", {"url": page})
    return {
        "main": [
            Turn(calls=[use("bash", {"command": command}), fetch, *servers, task("leaf")]),
            Turn(text='{"n": 1}'),
        ],
        "leaf": [
            Turn(calls=[use("bash", {"command": "echo hi"}), *servers]),
            Turn(text="leaf is done"),
        ],
    }


def open_files() -> list[str]:
    """What this process has open."""
    return sorted([str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()])


def sockets(files: Iterable[str]) -> int:
    return sum(file.startswith("socket:") for file in files)
