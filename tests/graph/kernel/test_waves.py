"""Waves: what runs at once, how a wave ends, and what is left when it is stopped."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.graph.kernel.worlds import PARALLEL, Recorder, World, a_set, fork, line, said
from toolnexus.graph import (
    Board,
    BoardSnapshot,
    BranchResult,
    BuildOptions,
    Checkpoint,
    GraphRunError,
    Interrupt,
    Interrupted,
    NodeContext,
    ParallelOptions,
    RunEndPublishError,
    build,
)
from toolnexus.graph.definition import GraphDefinition

pytestmark = pytest.mark.anyio


def parallel(**options: Any) -> BuildOptions:
    return BuildOptions(parallel=ParallelOptions(enabled=True, **options))


async def test_branches_run_at_once_and_are_merged_in_the_order_of_the_wave() -> None:
    """[GR-020] The order in which branches end changes nothing."""
    world, host = World(), Recorder()
    graph = world.graph(
        fork({"id": "a", "type": "wait"}, {"id": "b", "type": "wait"}, a_set("c", say="c")), PARALLEL
    )
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(graph.run(host=host, run_id="r"))
        await world.started("a").wait()
        await world.started("b").wait()
        world.go.set()
    board = running.result()
    assert board.vars() == {"a_done": True, "b_done": True}
    told = [(s, p.get("branch_id")) for s, p in host.events if p.get("type") == "parallel_branch_accept"]
    assert [branch for _, branch in told] == ["a", "b", "c"]
    assert host.subjects[-1] == "end"
    assert [c.steps for c in host.checkpoints] == [("s",), ("a", "b", "c")]


async def test_no_more_branches_run_at_once_than_may() -> None:
    """[GR-021] `max_concurrency` bounds them; they begin in the order of the wave."""
    world = World()
    graph = world.graph(
        fork(*[{"id": f"n{i}", "type": "wait"} for i in range(4)]), parallel(max_concurrency=2)
    )
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(graph.run())
        await world.started("n1").wait()
        await asyncio.sleep(0)
        assert world.ran == ["s", "n0", "n1"] or world.ran == ["n0", "n1"]
        world.go.set()
    assert [id for id in world.ran if id != "s"] == ["n0", "n1", "n2", "n3"]


async def test_a_cancel_from_outside_stops_every_branch() -> None:
    """[GR-022] Nothing outlives the run, nothing of the wave counts, and its end is told."""
    world, host = World(), Recorder()
    graph = world.graph(
        fork({"id": "a", "type": "wait"}, {"id": "b", "type": "wait"}, first={"vars": {"x": 1}}), PARALLEL
    )
    board = Board()
    async with asyncio.timeout(5):
        before = asyncio.all_tasks()
        running = asyncio.create_task(graph.run(board, host=host))
        await world.started("b").wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == before
    assert board.vars() == {"x": 1}
    assert host.events[-1] == ("end", {"graph": "g", "error": "cancelled"})


async def test_a_branch_that_is_too_slow_fails_the_wave() -> None:
    """[GR-023] `branch_timeout` is an error of kind timeout that names the branch."""
    world = World()
    graph = world.graph(
        fork({"id": "a", "type": "wait"}, a_set("b", vars={"b": 1})), parallel(branch_timeout=0.02)
    )
    with pytest.raises(GraphRunError, match="'a' ran longer") as caught:
        await graph.run()
    assert (caught.value.kind, caught.value.http_status, caught.value.node_id) == ("timeout", 504, "a")
    assert caught.value.board is not None
    assert "b" not in caught.value.board


async def test_a_run_that_is_too_slow_is_ended_with_its_board() -> None:
    """[GR-024] The timeout of the run is told from every other one, and is not retried."""
    world = World()
    graph = world.graph(
        line(a_set("a", vars={"x": 1}), {"id": "w", "type": "wait"}),
        BuildOptions(timeout="20ms", max_node_retries=3),
    )
    with pytest.raises(GraphRunError, match="timeout") as caught:
        await graph.run()
    assert caught.value.kind == "timeout"
    assert caught.value.board is not None
    assert caught.value.board.vars() == {"x": 1}
    assert world.ran == ["a", "w"]


@pytest.mark.parametrize("on_error", ["wait", "cancel_siblings"])
async def test_the_siblings_of_a_failed_branch(on_error: str) -> None:
    """[GR-025] They run to their end, or are cancelled when the options say so; nothing of them counts."""
    world, host = World(), Recorder()
    graph = world.graph(
        fork({"id": "w", "type": "wait"}, {"id": "f", "type": "fail"}), parallel(on_error=on_error)
    )
    async with asyncio.timeout(5):
        running = asyncio.create_task(graph.run(host=host))
        await world.started("w").wait()
        if on_error == "wait":
            world.go.set()
        with pytest.raises(GraphRunError, match="boom"):
            await running
    cancels = [p["branch_id"] for _, p in host.events if p.get("type") == "parallel_branch_cancel"]
    assert sorted(cancels) == ["f", "w"]
    assert "parallel.join" not in host.subjects


async def test_a_merge_of_ones_own() -> None:
    """[GR-026] It gets what every branch gave, skipped and cancelled ones too, in the order of the wave."""
    seen: list[str] = []

    async def largest(board: Board, pre: BoardSnapshot, results: Sequence[BranchResult]) -> None:
        seen.extend(f"{r.node_id}:{r.snapshot is not None}:{r.cancelled}" for r in results)
        board["x"] = max(r.snapshot.vars["x"] for r in results if r.snapshot is not None)

    skipped = {**a_set("c", vars={"x": 9}), "skip_condition": "true"}
    graph = World().graph(
        fork(a_set("a", vars={"x": 1}), a_set("b", vars={"x": 3}), skipped), parallel(merge_strategy=largest)
    )
    assert (await graph.run())["x"] == 3
    assert seen == ["a:True:False", "b:True:False", "c:False:False"]


async def test_what_a_node_may_not_emit() -> None:
    """[GR-027] The engine's own deltas are refused, and so is the id of another branch."""
    registry = World().registry()
    kinds: list[str] = []

    @registry.node_type("emit")
    async def emit(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
        for delta in ({"type": "parallel_branch_accept"}, {"type": "x", "branch_id": "other"}):
            try:
                await ctx.emit(delta)
            except GraphRunError as error:
                kinds.append(error.kind)
        await ctx.emit_text("fine")

    host = Recorder()
    document = fork({"id": "a", "type": "emit"}, a_set("b"))
    await build(GraphDefinition.from_data(document), registry, PARALLEL).run(host=host, run_id="r")
    assert kinds == ["validation", "conflict"]
    (text,) = [p for _, p in host.events if p.get("type") == "part"]
    assert text["speculative"] is True
    assert (text["branch_id"], text["fork_id"]) == ("a", "r#attempt-1#iteration-1#a")


async def test_an_event_that_cannot_be_published() -> None:
    """[GR-028] Steps go on without it; that the end cannot be told is an error, joined with the run's."""
    host = Recorder()
    host.failing = {".complete", ".start"}
    board = await World().graph(line(a_set("a", vars={"x": 1}))).run(host=host)
    assert board["x"] == 1
    host.failing = {".end"}
    with pytest.raises(RunEndPublishError, match="bus is down"):
        await World().graph(line(a_set("a"))).run(host=host)
    with pytest.raises(RunEndPublishError, match="boom") as caught:
        await World().graph(line({"id": "f", "type": "fail"})).run(host=host)
    assert caught.value.run_error is not None


async def test_an_end_that_takes_too_long_to_publish() -> None:
    """[GR-028] It has its own time, also after the run's is over."""

    class Slow(Recorder):
        async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
            if subject.endswith(".end"):
                await asyncio.Event().wait()

    graph = World().graph(line(a_set("a")), BuildOptions(run_end_publish_timeout=0.02))
    with pytest.raises(RunEndPublishError, match=r"longer than 0\.02 s"):
        async with asyncio.timeout(5):
            await graph.run(host=Slow())


async def test_a_checkpoint_that_cannot_be_saved() -> None:
    """[GR-029] It is logged, or fails the run where checkpoints are required."""

    class Full(Recorder):
        async def checkpoint(self, checkpoint: Checkpoint) -> None:
            raise OSError("disk full")

    assert (await World().graph(line(a_set("a", vars={"x": 1}))).run(host=Full()))["x"] == 1
    with pytest.raises(GraphRunError, match="disk full"):
        await World().graph(line(a_set("a")), BuildOptions(checkpoint="required")).run(host=Full())


async def test_an_interrupt_before_the_first_wave() -> None:
    """[GR-030] Nothing runs, and the board names the node that would have."""
    world, host = World(), Recorder()
    host.interrupt = Interrupt("host_shutdown", "bye")
    with pytest.raises(Interrupted, match="host_shutdown") as caught:
        await world.graph(line(a_set("a"))).run(host=host)
    assert world.ran == []
    assert (caught.value.cause, caught.value.detail) == ("host_shutdown", "bye")
    assert caught.value.board is not None
    assert caught.value.board["__interrupted_node"] == "a"


async def test_interrupted_branches_keep_only_what_the_model_said() -> None:
    """[GR-031] The first in the order of the wave ends it; variables and other branches are dropped."""
    registry = World().registry()

    @registry.node_type("stop")
    async def stop(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
        board["x"] = ctx.node_id
        board.append("", said(ctx.node_id))
        raise Interrupted("user_input", ctx.node_id)

    document = fork(
        a_set("a", vars={"y": 1}, say="a"), {"id": "b", "type": "stop"}, {"id": "c", "type": "stop"}
    )
    graph = build(GraphDefinition.from_data(document), registry, PARALLEL)
    with pytest.raises(Interrupted) as caught:
        await graph.run()
    board = caught.value.board
    assert board is not None
    assert [m.text for m in board.main] == ["b", "c"]
    assert board.vars() == {"__interrupted_node": "b"}
    assert caught.value.detail == "b"


async def test_retries_wait_as_long_as_they_are_asked_to() -> None:
    """[GR-032] A kind that no retry can mend is not tried again, whatever the options say."""
    for kind, times in {
        "internal": 3,
        "unauthorized": 1,
        "forbidden": 1,
        "policy_denied": 1,
        "conflict": 3,
    }.items():
        world = World()
        graph = world.graph(
            line({"id": "f", "type": "fail", "config": {"kind": kind}}),
            BuildOptions(max_node_retries=2, retry_backoff=0),
        )
        with pytest.raises(GraphRunError) as caught:
            await graph.run()
        assert (caught.value.kind, len(world.ran)) == (kind, times)


async def test_one_graph_runs_many_times_at_once() -> None:
    """[GR-033] Runs share nothing."""
    graph = World().graph(
        fork(a_set("a", trace="a", vars={"y": "${board:x}"}), a_set("b", trace="b")), PARALLEL
    )
    boards = await asyncio.gather(*[graph.run(Board({"x": n})) for n in range(200)])
    assert [board["y"] for board in boards] == list(range(200))
    assert all(board["trace"] == ["a"] for board in boards)
