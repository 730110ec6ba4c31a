"""What is read back, and what subjects are made of, when it is not what was expected."""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.graph.kernel.worlds import Recorder, World, a_set, fork, line
from toolnexus import StoreError, user
from toolnexus.graph import (
    Board,
    BuildOptions,
    Checkpoint,
    CheckpointStore,
    FileCheckpoints,
    GraphDefinition,
    GraphError,
    GraphRunError,
    MemoryCheckpoints,
    ParallelOptions,
    Registry,
    SqliteCheckpoints,
)

pytestmark = pytest.mark.anyio
GOOD: Mapping[str, Any] = {"exec_id": "r", "steps": ["a"], "iteration": 1, "board": {"vars": {}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exec_id": 5}, "id of a run, not 5"),
        ({"steps": "a"}, "list of ids, not 'a'"),
        ({"steps": [["a"]]}, "list of ids"),
        ({"steps": None}, "list of ids, not None"),
        ({"iteration": -1}, "a count, not -1"),
        ({"iteration": "1"}, "a count, not '1'"),
        ({"iteration": True}, "a count, not True"),
        ({"board": []}, "a table, not list"),
        ({"board": {"vars": [1]}}, "vars of a board are a table, not list"),
        ({"board": {"channels": {"m": 1}}}, "not a board"),
        ({"board": {"vars": {"x": float("nan")}}}, "nan is not JSON"),
    ],
)
async def test_a_record_of_another_shape_is_no_checkpoint(
    change: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    """[GR-606] It is refused where it is read, by stores as theirs."""
    with pytest.raises(ValueError, match=message):
        Checkpoint.from_json({**GOOD, **change})
    store = FileCheckpoints(tmp_path)
    await store.save(Checkpoint.from_json(GOOD))
    (file,) = tmp_path.glob("*.json")
    file.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(StoreError, match=message):
        await store.load("r")


@pytest.mark.parametrize("record", [[], None, "x", 1])
def test_a_record_that_is_no_table_is_no_checkpoint(record: Any) -> None:
    """[GR-606] Whatever it is."""
    with pytest.raises(ValueError, match="a checkpoint is a table"):
        Checkpoint.from_json(record)


@pytest.mark.parametrize("store", ["files", "sqlite", "memory"])
async def test_what_a_board_takes_a_store_keeps(store: str, tmp_path: Path) -> None:
    """[GR-609] Any text, halves of surrogate pairs too; a number nobody could write is refused when set."""
    kept: CheckpointStore = MemoryCheckpoints()
    if store != "memory":
        kept = FileCheckpoints(tmp_path) if store == "files" else SqliteCheckpoints(tmp_path / "c.db")
    odd = "\ud83d \u2028 \x00 \U0001f642"
    board = Board({odd: odd, "n": 10**3999, "z": -0.0}, {odd: [user(odd)]})
    with pytest.raises(GraphRunError, match=r"vars\.x\[0\]: a number of more than 4,000 digits is not JSON"):
        board["x"] = [10**4000]
    await kept.save(Checkpoint(exec_id="r 1", steps=[odd], board=board.snapshot()))
    found = await kept.load("r 1")
    assert found is not None and found.board is not None
    assert found.board.to_json() == board.snapshot().to_json() and list(found.steps) == [odd]
    assert await kept.list() == ["r 1"]


async def test_no_subject_is_longer_than_a_kilobyte() -> None:
    """[GR-607] Long names are cut, and stay apart; payloads have them whole."""
    ids = ["é" * 3000 + end for end in "ab"]
    host = Recorder()
    graph = World().graph(line(*[a_set(id) for id in ids]))
    await graph.run(host=host, run_id="r" * 3000, agent_id="a" * 3000)
    full = [len(f"agent.run.{graph.nodes[ids[0]].actor}.{s}".encode()) for s, _ in host.events]
    assert max(full) <= 1024
    assert len({subject for subject in host.subjects if subject.endswith(".complete")}) == 2
    assert [p["node_id"] for s, p in host.events if s.endswith(".complete")] == ids


def test_a_wrong_shape_is_told_in_plain_words() -> None:
    """[GR-608] A text, a list, a table: no words of Python."""
    text = "name: 5\nentry: a\nnodes:\n  - {id: a, type: set, config: }\n  - 3\nedges:\n"
    with pytest.raises(GraphError) as caught:
        GraphDefinition.from_text(text)
    assert [str(issue) for issue in caught.value.issues] == [
        "line 1: name: it must be text",
        "line 4: nodes[0].config: it must be a table",
        "line 5: nodes[1]: it must be a table",
        "line 6: edges: it must be a list",
    ]


@pytest.mark.parametrize("strategy", ["first_write_wins", "last_write_wins"])
async def test_what_several_branches_wrote_is_in_the_log(
    strategy: Literal["first_write_wins", "last_write_wins"], caplog: pytest.LogCaptureFixture
) -> None:
    """[GR-618] By name, for whoever looks why a value is not there."""
    caplog.set_level(logging.DEBUG, "toolnexus.graph")
    branches = [a_set("b", vars={"x": 1, "y": 1}), a_set("c", vars={"x": 2}), a_set("d", vars={"z": 1})]
    options = BuildOptions(parallel=ParallelOptions(enabled=True, merge_strategy=strategy))
    board = await World().graph(fork(*branches), options).run()
    assert board["x"] == (1 if strategy == "first_write_wins" else 2)
    (told,) = [r.getMessage() for r in caplog.records if r.levelno == logging.DEBUG]
    assert told == f"several branches wrote ['x']; the {strategy.partition('_')[0]} counts"


def test_the_work_of_a_node_is_async() -> None:
    """[GR-619] A plain function is refused where it is registered, before it did anything."""
    registry = Registry()

    def plain(ctx: Any, board: Any, config: Any) -> Any:
        raise AssertionError

    with pytest.raises(GraphError, match=r"node type 'x' plain\(\) must be async: write async def"):
        registry.node_type("x")(plain)
    assert registry.names() == []


def test_lines_are_found_once_for_what_aliases_repeat() -> None:
    """[GR-608] A document full of aliases is told what is wrong as fast as any."""
    rows = [f"      a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 5)]
    text = "name: g\nentry: a\nnodes:\n  - id: a\n    type: set\n    config:\n      a0: &a0 [1]\n"
    began = time.process_time()
    with pytest.raises(GraphError) as caught:
        GraphDefinition.from_text(text + "".join(rows) + "zz: 1\n")
    (issue,) = caught.value.issues
    assert str(issue).startswith("line 12: zz: unknown field")
    assert time.process_time() - began < 2
