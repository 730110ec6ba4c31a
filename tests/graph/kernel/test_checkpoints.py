"""Checkpoints: what is kept of a run, and going on from there."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.graph.kernel.worlds import Recorder, World, a_set, line, said
from toolnexus import StoreError
from toolnexus.graph import (
    Board,
    BoardSnapshot,
    Checkpoint,
    FileCheckpoints,
    GraphRunError,
    MemoryCheckpoints,
    SqliteCheckpoints,
)

pytestmark = pytest.mark.anyio

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: MemoryCheckpoints(),
    "files": lambda path: FileCheckpoints(path / "runs"),
    "sqlite": lambda path: SqliteCheckpoints(path / "runs.db"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return STORES[request.param](tmp_path)


def a_checkpoint(exec_id: str = "run/1", **values: Any) -> Checkpoint:
    board = Board({"x": {"deep": [1, None, "é"]}}, {"c": [said("hi")]}).snapshot()
    return Checkpoint(exec_id=exec_id, steps=("a", "b"), iteration=2, board=board, spec_version="1", **values)


async def test_stores_keep_the_latest_checkpoint_of_each_run(store: Any) -> None:
    """[GR-040] A save replaces the one before; what was saved comes back whole."""
    assert await store.load("run/1") is None
    assert await store.list() == []
    await store.save(a_checkpoint())
    await store.save(a_checkpoint(payload={"n": 2}))
    await store.save(a_checkpoint("other"))
    found = await store.load("run/1")
    assert found.to_json() == a_checkpoint(payload={"n": 2}).to_json()
    assert await store.list() == ["other", "run/1"]
    await store.delete("run/1")
    await store.delete("run/1")
    assert await store.list() == ["other"]


async def test_stores_keep_the_calls_of_an_unfinished_wave(store: Any) -> None:
    """[GR-041] What was begun and what ended is there until the wave is saved."""
    await store.record("r", "w", {"c1": None, "c2": None})
    await store.record("r", "w", {"c1": {"call_id": "c1"}})
    await store.record("r", "other", {"c3": None})
    assert await store.calls("r", "w") == {"c1": {"call_id": "c1"}, "c2": None}
    await store.save(a_checkpoint("r"))
    assert await store.calls("r", "w") == {}


async def test_a_file_that_is_no_checkpoint_is_told(tmp_path: Path) -> None:
    """[GR-042] Torn and foreign files are errors of the store, and are never changed."""
    files = FileCheckpoints(tmp_path)
    await files.save(a_checkpoint())
    (path,) = tmp_path.glob("*.json")
    path.write_text('{"v": 1, "exec_id"')
    with pytest.raises(StoreError, match="not a checkpoint"):
        await files.load("run/1")
    foreign = tmp_path / "foreign.db"
    foreign.write_bytes(b"this is no database, but it is longer than a header of one would be" * 20)
    with pytest.raises(StoreError, match="cannot be used"):
        await SqliteCheckpoints(foreign).load("x")
    assert foreign.read_bytes().startswith(b"this is no database")


PROGRAM = """
import asyncio, os, sys
from toolnexus.graph import Board, BuildOptions, GraphDefinition, Registry, SqliteCheckpoints, build

folder, kill_after = sys.argv[1], int(sys.argv[2])
registry = Registry()

@registry.node_type("step")
async def step(ctx, board, config):
    with open(os.path.join(folder, "effects"), "a") as file:
        file.write(ctx.node_id + "\\n")
    board.append_var("trace", ctx.node_id)

class Host:
    def __init__(self):
        self.store, self.saved = SqliteCheckpoints(os.path.join(folder, "runs.db")), 0
    async def publish(self, subject, payload): pass
    async def ask_user(self, request): return None
    async def report_usage(self, usage): pass
    def poll_interrupt(self): return None
    async def checkpoint(self, checkpoint):
        await self.store.save(checkpoint)
        self.saved += 1
        if self.saved == kill_after:
            os.kill(os.getpid(), 9)

ids = [f"n{i}" for i in range(10)]
graph = build(GraphDefinition.from_data({
    "name": "ten", "entry": "n0", "nodes": [{"id": id, "type": "step"} for id in ids],
    "edges": [{"from": a, "to": b} for a, b in zip(ids, [*ids[1:], "__end__"])],
}), registry)

async def main():
    host = Host()
    point = await host.store.load("run-1")
    board = await graph.run(Board(), host=host, run_id="run-1", resume_from=point)
    print(__import__("json").dumps(board.vars()))

asyncio.run(main())
"""


async def test_a_killed_run_goes_on_where_it_stood(tmp_path: Path, warm: Any) -> None:
    """[GR-043] Killed between any two waves, it repeats none that finished, and the board is the same."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    for kill_after in range(1, 10):
        folder = tmp_path / str(kill_after)
        folder.mkdir()
        killed = warm.run(program, str(folder), str(kill_after))
        assert killed.returncode == -signal.SIGKILL
        done = warm.run(program, str(folder), "0")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"trace": [f"n{i}" for i in range(10)]}
        assert (folder / "effects").read_text().split() == [f"n{i}" for i in range(10)]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"exec_id": "other"}, "validation", "of the run 'other'"),
        ({"exec_id": ""}, "validation", "of the run ''"),
        ({"board": None}, "validation", "no board"),
        ({"spec_version": "2"}, "not_available", "version '2'"),
        ({"steps": ()}, "validation", "no steps"),
        ({"steps": ("zz",)}, "validation", "no node 'zz'"),
        ({"iteration": 101}, "validation", "101"),
        ({"spec_digest": "other"}, "not_available", "allow_changed_graph"),
    ],
)
async def test_a_checkpoint_that_does_not_fit_is_refused(
    change: dict[str, Any], kind: str, message: str
) -> None:
    """[GR-044] Nothing runs, and the error says what does not fit."""
    world = World()
    graph = world.graph(line(a_set("a"), a_set("b")))
    values: dict[str, Any] = {
        "exec_id": "r",
        "steps": ("a",),
        "iteration": 1,
        "board": BoardSnapshot(),
        **change,
    }
    with pytest.raises(GraphRunError, match=message) as caught:
        await graph.run(run_id="r", resume_from=Checkpoint(**values))
    assert caught.value.kind == kind
    assert world.ran == []


async def test_a_changed_graph_is_resumed_when_the_host_says_so() -> None:
    """[GR-045] The digest covers everything that is written down."""
    first, host = World().graph(line(a_set("a"), a_set("b", vars={"x": 1}))), Recorder()
    await first.run(host=host, run_id="r")
    changed = World().graph(line(a_set("a"), a_set("b", vars={"x": 2})))
    with pytest.raises(GraphRunError, match="changed since"):
        await changed.run(resume_from=host.checkpoints[0])
    board = await changed.run(resume_from=host.checkpoints[0], allow_changed_graph=True)
    assert board["x"] == 2
    again = World().graph(line(a_set("a"), a_set("b", vars={"x": 1})))
    assert (await again.run(resume_from=host.checkpoints[0]))["x"] == 1


def test_a_foreign_record_is_refused() -> None:
    """[GR-042] A checkpoint of another version, or with unknown fields, is not half read."""
    good = a_checkpoint().to_json()
    with pytest.raises(ValueError, match="version 9"):
        Checkpoint.from_json({**good, "v": 9})
    with pytest.raises(ValueError, match="not a checkpoint"):
        Checkpoint.from_json({**good, "other": 1})
