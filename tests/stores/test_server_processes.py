"""Many processes on one server that resume one run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.processes import Processes
from tests.stores.places import PostgresPlace, RedisPlace
from tests.warm import Warm

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")


@pytest.fixture(scope="module")
def processes(warm: Warm) -> Iterator[Processes]:
    started = Processes(warm, "psycopg", "redis.asyncio")
    yield started
    started.close()


def test_of_many_resumers_on_a_server_one_runs_and_a_dead_one_is_taken_over(
    place: PostgresPlace | RedisPlace, processes: Processes, tmp_path: Path
) -> None:
    """[ST-59] As on a file: what was approved happens once, also when the resumer is killed."""

    def run(*jobs: dict[str, Any]) -> list[list[Any]]:
        return processes.run(*[{"path": str(tmp_path / "x"), "store": place.address, **job} for job in jobs])

    run({"do": "give up"})
    ((status, _, ids),) = run({"do": "ask"})
    assert status == "pending"
    ann, bob = ids["pay ann?"], ids["pay bob?"]
    assert run({"do": "resume", "answers": {bob: True}, "kill": "after pay bob"}) == [["killed", 9]]
    assert run({"do": "resume"}) == [["pending", "pay ann?", {"pay ann?": ann}]]
    said = run(*[{"do": "resume", "answers": {ann: True}}] * 4)
    assert {status for status, *_ in said} <= {"done", "pending"}
    assert "end of main" in [text for _, text, _ in said]
    assert sorted((tmp_path / "x.log").read_text().split("\n")) == ["", "look", "pay ann", "pay bob"]
