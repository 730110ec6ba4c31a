"""Nodes, hosts and merges that do what they should not while a run is stopped."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.graph.kernel.worlds import Recorder, World, a_set, fork, line
from toolnexus import Client, FunctionModel, NodeFinished, NodeStarted
from toolnexus.graph import (
    Board,
    BoardSnapshot,
    BranchResult,
    BuildOptions,
    GraphRunError,
    NodeContext,
    ParallelOptions,
    Registry,
    build,
)

pytestmark = pytest.mark.anyio
NEVER: Mapping[str, Any] = {"id": "b", "type": "never"}


class Stops(World):
    """`never` waits for ever, `swallow` swallows a cancel and returns, `turn` makes another error of it."""

    def registry(self) -> Registry:
        registry = super().registry()

        @registry.node_type("never")
        async def never(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            self.ran.append(ctx.node_id)
            self.started(ctx.node_id).set()
            await asyncio.Event().wait()

        @registry.node_type("swallow")
        async def swallow(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            try:
                await never(ctx, board, config)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
            board["late"] = True

        @registry.node_type("turn")
        async def turn(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            try:
                await never(ctx, board, config)
            except asyncio.CancelledError:
                raise RuntimeError("turned") from None

        return registry


def ends(host: Recorder) -> list[tuple[str, str]]:
    """How steps and branches ended, in order."""
    found: list[tuple[str, str]] = []
    for subject, payload in host.events:
        if subject.startswith("step.") and not subject.endswith(".start"):
            found.append((payload["node_id"], subject.rpartition(".")[2]))
        elif payload.get("type", "").startswith("parallel_branch_"):
            found.append((payload["branch_id"], payload["type"].removeprefix("parallel_branch_")))
    return found


@pytest.mark.parametrize("type", ["never", "swallow", "turn"])
async def test_a_late_branch_fails_the_wave_whatever_it_does(type: str) -> None:
    """[GR-600] A branch beyond its time is over: what it makes of its cancel does not count, nor is it tried
    again; its step has an end."""
    world, host = Stops(), Recorder()
    options = BuildOptions(
        max_node_retries=3,
        retry_backoff=0,
        parallel=ParallelOptions(enabled=True, branch_timeout=0.05),
    )
    graph = world.graph(fork({"id": "b", "type": type}, a_set("c", vars={"c": 1})), options)
    async with asyncio.timeout(5):
        with pytest.raises(GraphRunError, match="branch 'b' ran longer") as caught:
            await graph.run(host=host, run_id="r")
    assert caught.value.kind == "timeout"
    assert caught.value.board is not None and caught.value.board.vars() == {}
    assert world.ran.count("b") == 1
    assert ends(host) == [
        ("s", "complete"),
        ("c", "complete"),
        ("b", "error"),
        ("b", "cancel"),
        ("c", "cancel"),
    ]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("type", ["never", "swallow", "turn"])
async def test_a_late_run_is_over_whatever_its_nodes_do(type: str, parallel: bool) -> None:
    """[GR-601] Beyond its time, or cancelled, nothing of a run goes on; each step and branch has its end."""
    document = fork({"id": "b", "type": type}, a_set("c"), {"id": "d", "type": type})
    end = [("b", "error"), ("b", "cancel")] if parallel else [("b", "error")]

    def begun(**options: Any) -> tuple[Stops, Recorder, Any]:
        world, host = Stops(), Recorder()
        at_once = ParallelOptions(enabled=parallel)
        limits = BuildOptions(max_node_retries=3, retry_backoff=0, parallel=at_once, **options)
        return world, host, world.graph(document, limits).run(host=host, run_id="r")

    async with asyncio.timeout(5):
        world, host, run = begun(timeout=0.05)
        with pytest.raises(GraphRunError, match="ran longer than its timeout") as caught:
            await run
        assert caught.value.kind == "timeout"
        assert world.ran == (["s", "b", "c", "d"] if parallel else ["s", "b"])
        assert [e for e in ends(host) if e[0] == "b"] == end
        assert host.subjects[-1] == "end"

        world, host, run = begun()
        task = asyncio.create_task(run)
        await world.started("d" if parallel else "b").wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [e for e in ends(host) if e[0] == "b"] == end
        assert host.events[-1] == ("end", {"graph": "g", "error": "cancelled"})
        assert world.ran.count("b") == 1


async def test_what_breaks_outside_of_nodes_is_an_error_of_the_run() -> None:
    """[GR-602] A host that cannot be asked for interrupts fails the run, with a board."""

    class Broken(Recorder):
        def poll_interrupt(self) -> Any:
            raise RuntimeError("the host is gone")

    host = Broken()
    with pytest.raises(GraphRunError, match="graph 'g': the host is gone") as caught:
        await World().graph(line(a_set("a"))).run(Board({"x": 1}), host=host)
    assert (caught.value.kind, caught.value.node_id) == ("internal", "")
    assert caught.value.board is not None and caught.value.board["x"] == 1
    assert host.events[-1][1]["error"] == "graph 'g': the host is gone"


async def test_a_merge_that_fails_leaves_nothing() -> None:
    """[GR-603] The board stands where the wave began, and every branch is withdrawn once."""

    async def merge(board: Board, pre: BoardSnapshot, results: Sequence[BranchResult]) -> None:
        board["half"] = True
        raise RuntimeError("no")

    host = Recorder()
    options = BuildOptions(parallel=ParallelOptions(enabled=True, merge_strategy=merge))
    graph = World().graph(fork(a_set("b", vars={"b": 1}), a_set("c"), first={"vars": {"x": 1}}), options)
    with pytest.raises(GraphRunError, match="no") as caught:
        await graph.run(host=host)
    assert caught.value.board is not None and caught.value.board.vars() == {"x": 1}
    assert ends(host)[-2:] == [("b", "cancel"), ("c", "cancel")]


@pytest.mark.parametrize("delta", [{}, {"type": ""}, {"type": 3}])
async def test_a_delta_has_a_type(delta: dict[str, Any]) -> None:
    """[GR-604] One without is refused as validation."""
    registry, host = Registry(), Recorder()

    @registry.node_type("emit")
    async def emit(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
        await ctx.emit(delta)

    with pytest.raises(GraphRunError, match="type") as caught:
        await build(line({"id": "e", "type": "emit"}), registry).run(host=host)
    assert caught.value.kind == "validation"


async def test_under_a_client_every_node_that_began_ends() -> None:
    """[GR-605] One that a sibling cancelled, and one that the time of the run cut off, are `cancelled`."""
    world = Stops()
    registry = world.registry()

    @registry.node_type("cancels")
    async def cancels(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
        await world.started("b").wait()
        ctx.cancel_node("b")

    document = fork(NEVER, {"id": "c", "type": "cancels"}, {"id": "d", "type": "cancels"})
    document["nodes"].append({"id": "e", "type": "never"})
    document["edges"].append({"from": "c", "to": "e"})
    graph = build(document, registry, BuildOptions(timeout=0.1, parallel=ParallelOptions(enabled=True)))
    async with Client(model=FunctionModel(lambda request: ""), builtins=False) as client, asyncio.timeout(5):
        async with client.stream({}, target=graph) as stream:
            events = [event async for event in stream]
        assert stream.result is not None and stream.result.limit == "seconds"
    finished = [(e.node[0], e.status) for e in events if isinstance(e, NodeFinished)]
    assert sorted(finished) == [
        ("b", "cancelled"), ("c", "done"), ("d", "done"), ("e", "cancelled"), ("s", "done"),
    ]  # fmt: skip
    assert sorted(e.node[0] for e in events if isinstance(e, NodeStarted)) == sorted(n for n, _ in finished)
