"""Folders that are swapped for links while grep, glob and bash are at work."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, no_ripgrep, output, tree
from toolnexus.errors import ToolError
from toolnexus.tools.builtin import bash, grep, places, search, walk

pytestmark = pytest.mark.anyio

ENGINES = [
    pytest.param("ripgrep", marks=pytest.mark.skipif(search.ripgrep() is None, reason="no ripgrep here")),
    "python",
]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    return request.param


def world(folder: Path) -> Path:
    """A root, and beside it a folder that looks like one inside and must not be seen."""
    tree(
        folder,
        {
            "root/in/sub/a.txt": "plain\n",
            "outside/sub/a.txt": "a secret\n",
            "outside/sub/secret.txt": "a secret\n",
        },
    )
    return folder / "root"


def swap(root: Path) -> None:
    (root / "in").rename(root / "away")
    (root / "in").symlink_to(root.parent / "outside")


def swapping_before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, root: Path) -> Callable[[], bool]:
    """Swap the folder just before `owner.name` is called for the first time; says whether that was so."""
    real = getattr(owner, name)
    swapped = False

    def first(*given: Any, **named: Any) -> Any:
        nonlocal swapped
        if not swapped:
            swapped = True
            swap(root)
        return real(*given, **named)

    monkeypatch.setattr(owner, name, first)
    return lambda: swapped


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("grep", {"pattern": "secret|plain"}),
    ("grep", {"pattern": "secret|plain", "path": "in"}),
    ("grep", {"pattern": "secret|plain", "path": "in/sub"}),
    ("grep", {"pattern": "secret|plain", "path": "in/sub/a.txt"}),
    ("glob", {"pattern": "**"}),
    ("glob", {"pattern": "**", "path": "in"}),
]
MOMENTS: list[tuple[Any, str]] = [
    (grep, "deepest"),
    (walk, "descent_from"),
    (places.Folder, "inner"),
    (search, "_large"),
    (search, "_sorted_out"),
    (search, "_run"),
]


@pytest.mark.parametrize(("tool", "arguments"), ASKED)
@pytest.mark.parametrize("moment", range(len(MOMENTS)))
async def test_a_folder_that_becomes_a_link_at_any_moment_shows_nothing_from_outside(
    engine: str,
    tool: str,
    arguments: dict[str, Any],
    moment: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-234] Before the walk, in it, before the search and in it: what is behind the link is not shown."""
    root = world(tmp_path)
    swapping_before(monkeypatch, *MOMENTS[moment], root)
    try:
        result = await call(tool, root, **arguments)
    except ToolError as error:
        assert "secret" not in str(error).replace(arguments["pattern"], "")
    else:
        assert "secret" not in result.output.replace(arguments["pattern"], "")


@contextmanager
def swapping_all_the_time(root: Path) -> Generator[None]:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with suppress(OSError):
                os.rename(root / "in", root / "away")
                os.symlink(root.parent / "outside", root / "in")
                stop.wait(0.0003)
                os.unlink(root / "in")
                os.rename(root / "away", root / "in")
                stop.wait(0.0003)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


async def test_links_that_come_and_go_show_nothing_from_outside(engine: str, tmp_path: Path) -> None:
    """[BT-234] A thread swaps the folder as fast as it can while it is searched, listed and started in."""
    root = world(tmp_path)
    calls: list[tuple[str, dict[str, Any]]] = [
        *ASKED,
        ("bash", {"command": "cat a.txt", "workdir": "in/sub"}),
    ]
    found = 0
    with swapping_all_the_time(root):
        async with asyncio.timeout(30):
            for name, arguments in calls * 8:
                with suppress(ToolError):
                    text = (await call(name, root, **arguments)).output
                    assert "a secret" not in text and "secret.txt" not in text
                    found += "plain" in text or "a.txt" in text
    assert found


async def test_a_command_does_not_start_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-234] `workdir` is entered as the folder that was checked, or the command is not started."""
    root = world(tmp_path)
    swapped = swapping_before(monkeypatch, bash, "folder_at", root)
    with pytest.raises(ToolError, match=r"the command cannot be started: .*'in' is not a directory"):
        await call("bash", root, command="cat a.txt", workdir="in/sub")
    assert swapped()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="folders are entered by descriptor on Linux")
async def test_a_command_starts_in_the_folder_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-234] Swapped after it was opened, it is still the folder that the command starts in."""
    root = world(tmp_path)
    swapped = swapping_before(monkeypatch, bash, "Process", root)
    result = await call("bash", root, command="cat a.txt", workdir="in/sub")
    assert (result.output, swapped()) == ("plain\n", True)


async def test_deep_folders_are_searched_with_few_of_them_open(engine: str, tmp_path: Path) -> None:
    """[BT-234] A way of hundreds of folders is no reason to hold each of them open, or to stop."""
    names = [f"{n}" for n in range(300)]
    deep = tmp_path.joinpath(*names)
    tree(tmp_path, {"/".join([*names, "a.txt"]): "needle\n", "/".join([*names[:40], "b.txt"]): "needle\n"})
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    lines = (await output("grep", tmp_path, pattern="needle")).split("\n")
    assert sorted(lines) == sorted(
        [f"{(deep / 'a.txt').relative_to(tmp_path)}:1:needle", f"{'/'.join(names[:40])}/b.txt:1:needle"]
    )
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 8
