"""The soak works; what it finds in half an hour is no test."""

import pytest

from benchmarks import soak
from benchmarks.soak import Left
from benchmarks.soak_works import Tally

KINDS = {
    *("ask", "stream", "left stream", "cancel", "resume", "graph"),
    *("over HTTP", "stream over HTTP", "left stream over HTTP", "cancel over HTTP"),
    *("served", "cancel of served"),
}


@pytest.mark.exhaustive
@pytest.mark.anyio
async def test_a_short_soak_does_every_kind_of_work_and_leaves_nothing() -> None:
    """[ROB-09] All answers are right, and no file, task or child is left."""
    tally, memory, before, after = await soak.soak(0, beside=2)
    assert tally.wrong == []
    assert tally.done.keys() == KINDS
    assert memory[-1][1] > 0
    assert (after.tasks, after.children) == (before.tasks, before.children)
    assert after.files <= before.files + 1  # the pipe of the loop's own watcher of children


@pytest.mark.parametrize(
    ("grown", "after", "says"),
    [
        (0, Left(1, 1, 1, 0), ""),
        (1, Left(1, 1, 1, 0), "memory grows by 600.00 MB"),
        (0, Left(1, 1, 1, 1), "left behind: Left(files=1, tasks=1, threads=1, children=1)"),
    ],
)
def test_growth_and_what_is_left_fail_the_soak(
    grown: int, after: Left, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[ROB-09] Memory that grows after the first quarter, and whatever is there that was not."""
    memory = [(float(t), 2**30 + t * 2**20 * grown) for t in range(41)]

    async def done(seconds: float, beside: int = 8) -> tuple[Tally, list[tuple[float, int]], Left, Left]:
        return Tally(), memory, Left(1, 1, 2, 0), after

    monkeypatch.setattr(soak, "soak", done)
    assert soak.main(["--minutes", "1"]) == (1 if says else 0)
    assert says in capsys.readouterr().err
