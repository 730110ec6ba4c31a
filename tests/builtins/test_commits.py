"""Changes of files that are slow once they are being made."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, tree, until
from toolnexus.errors import ToolError
from toolnexus.tools.builtin import apply_patch, bounded, edit, write
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.places import Folder
from toolnexus.tools.builtin.turns import turn

pytestmark = pytest.mark.anyio

FILES = 4
LIMIT = 30.0
"""Seconds, for which nobody waits: even a busy machine gets to the point where a disk is slow by then."""
PATCH = "\n".join(
    [
        "*** Begin Patch",
        *[line for n in range(FILES) for line in (f"*** Update File: f{n}", "-old", "+new")],
        "*** End Patch",
    ]
)
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (write, {"path": "f0", "content": "new\n"}),
    (edit, {"path": "f0", "oldString": "old", "newString": "new"}),
    (apply_patch, {"patchText": PATCH}),
]


def texts(root: Path) -> list[str]:
    return [(root / f"f{n}").read_text() for n in range(FILES)]


class SlowDisk:
    """The `stop`-th renaming waits until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: int = 0) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._left = stop
        replace: Callable[..., None] = Folder.replace

        def slow(folder: Folder, name: str, onto: str) -> None:
            if self._left == 0:
                self.reached.set()
                assert self.go_on.wait(10)
            self._left -= 1
            replace(folder, name, onto)

        monkeypatch.setattr(Folder, "replace", slow)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path, {f"f{n}": "old\n" for n in range(FILES)})


def at_most(tool: Any, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tool.__name__.rpartition(".")[2]
    monkeypatch.setattr(tool, "_LIMITS", {**definition(name).limits, "seconds": seconds})


def time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of the event loop go on by the limit at once."""
    loop = asyncio.get_running_loop()
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + LIMIT)


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_files_that_are_being_replaced_when_the_time_is_up_are_told_as_changed(
    tool: Any, arguments: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-235] Nobody is told that nothing was changed while it is being changed: the real end is awaited."""
    disk = SlowDisk(monkeypatch)
    at_most(tool, LIMIT, monkeypatch)
    async with asyncio.timeout(LIMIT + 10):
        calling = asyncio.create_task(call(tool.__name__.rpartition(".")[2], root, **arguments))
        await until(disk.reached.is_set)
        time_is_up(monkeypatch)
        await asyncio.sleep(0.01)
        disk.go_on.set()
        result = await calling
    assert not result.is_error and texts(root)[0] == "new\n"


async def test_who_cannot_wait_for_the_end_is_told_to_look_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-235] A disk that does not answer: the error claims nothing; what was renamed is put back later."""
    disk = SlowDisk(monkeypatch, stop=2)
    at_most(apply_patch, LIMIT, monkeypatch)
    monkeypatch.setattr(bounded, "_TO_END", 0.1)
    async with asyncio.timeout(LIMIT + 10):
        calling = asyncio.create_task(call("apply_patch", root, patchText=PATCH))
        await until(disk.reached.is_set)
        time_is_up(monkeypatch)
        with pytest.raises(ToolError, match="may have been changed; look at them again"):
            await calling
    assert texts(root) == ["new\n", "new\n", "old\n", "old\n"]
    disk.go_on.set()
    with turn(*[root / f"f{n}" for n in range(FILES)], clock=Clock(5, "")):
        assert texts(root) == ["old\n"] * FILES
    assert sorted(os.listdir(root)) == [f"f{n}" for n in range(FILES)]


async def test_a_cancel_between_two_files_puts_back_the_first_ones(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-235] When the cancel comes out, everything is as it was, and it stays so."""
    disk = SlowDisk(monkeypatch, stop=2)
    calling = asyncio.create_task(call("apply_patch", root, patchText=PATCH))
    async with asyncio.timeout(10):
        await until(disk.reached.is_set)
        calling.cancel()
        await asyncio.sleep(0.01)
        assert not calling.done(), "it waits a moment for what is being undone"
        disk.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await calling
    assert texts(root) == ["old\n"] * FILES
    assert sorted(os.listdir(root)) == [f"f{n}" for n in range(FILES)]


async def test_a_cancel_does_not_wait_for_ever(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-235] A disk that hangs holds no cancel; it finds the work given up when it answers again."""
    disk = SlowDisk(monkeypatch, stop=1)
    monkeypatch.setattr(bounded, "_TO_UNDO", 0.05)
    calling = asyncio.create_task(call("apply_patch", root, patchText=PATCH))
    async with asyncio.timeout(10):
        await until(disk.reached.is_set)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    disk.go_on.set()
    with turn(*[root / f"f{n}" for n in range(FILES)], clock=Clock(5, "")):
        assert texts(root) == ["old\n"] * FILES


def test_either_the_time_is_up_or_the_work_is_committed() -> None:
    """[BT-235] Whichever of the two is first decides, and the other one learns it."""
    late, early = Clock(10, "nothing was changed"), Clock(10, "nothing was changed")
    assert late.stop()
    with pytest.raises(ToolError, match="nothing was changed"):
        late.commit()
    early.commit()
    assert not early.stop()
    early.check()
    early.given_up = True
    with pytest.raises(ToolError):
        early.check()
    with pytest.raises(ToolError):
        Clock(0, "nothing was changed").commit()


async def test_a_clock_serves_several_pieces_of_work() -> None:
    """[BT-235] The end of one piece does not stop the next one; a failure is raised as it is."""
    clock = Clock(10, "")
    assert await in_time(clock, lambda: 1) == 1
    clock.check()
    with pytest.raises(ZeroDivisionError):
        await in_time(clock, lambda: 1 // 0)
