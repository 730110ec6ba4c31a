"""Paths that change between the moment they are checked and the moment they are used."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, output, tree
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin import apply_patch, changes, edit, places, read, write
from toolnexus.tools.builtin.paths import resolve
from toolnexus.tools.builtin.turns import turn

pytestmark = pytest.mark.anyio


def patch(*lines: str) -> dict[str, Any]:
    return {"patchText": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


CALLS: list[tuple[Any, dict[str, Any]]] = [
    (read, {"path": "in/sub/a.txt"}),
    (write, {"path": "in/sub/a.txt", "content": "new"}),
    (write, {"path": "in/sub/new.txt", "content": "new"}),
    (write, {"path": "in/sub/more/new.txt", "content": "new"}),
    (edit, {"path": "in/sub/a.txt", "oldString": "old", "newString": "new"}),
    (apply_patch, patch("*** Update File: in/sub/a.txt", "-old", "+new")),
    (apply_patch, patch("*** Add File: in/sub/new.txt", "+new")),
    (apply_patch, patch("*** Add File: in/sub/more/new.txt", "+new")),
    (apply_patch, patch("*** Delete File: in/sub/a.txt")),
    (apply_patch, patch("*** Update File: in/sub/a.txt", "*** Move to: b.txt")),
    (apply_patch, patch("*** Update File: b.txt", "*** Move to: in/sub/b.txt")),
]


def world(folder: Path) -> Path:
    """A root, and beside it a folder that looks like the one inside and must not be touched."""
    tree(folder, {"root/in/sub/a.txt": "old\n", "root/b.txt": "b\n", "outside/sub/a.txt": "old secret\n"})
    return folder / "root"


def outside(root: Path) -> list[tuple[str, int, bytes]]:
    """Everything in the folder beside the root."""
    found = sorted((root.parent / "outside").rglob("*"))
    return [
        (str(path), path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in found
    ]


def swap_folder(root: Path) -> None:
    (root / "in").rename(root / "away")
    (root / "in").symlink_to(root.parent / "outside")


def swap_inner(root: Path) -> None:
    (root / "in/sub").rename(root / "in/away")
    (root / "in/sub").symlink_to(root.parent / "outside/sub")


def swap_file(root: Path) -> None:
    (root / "in/sub/a.txt").unlink()
    (root / "in/sub/a.txt").symlink_to(root.parent / "outside/sub/a.txt")


@pytest.mark.parametrize("swap", [swap_folder, swap_inner, swap_file])
@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_path_that_becomes_a_link_after_the_check_leads_nowhere(
    tool: Any,
    arguments: dict[str, Any],
    swap: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-140] A folder on the way or the file itself: nothing outside of the root is read or changed."""
    root = world(tmp_path)
    before = outside(root)
    swapped = False

    def checked(path: str, ctx: ToolContext, *, reading: bool = False) -> Path:
        nonlocal swapped
        target = resolve(path, ctx, reading=reading)
        if not swapped and "sub" in path:
            swapped = True
            swap(root)
        return target

    monkeypatch.setattr(tool, "resolve", checked)
    name = tool.__name__.rpartition(".")[2]
    try:
        assert "secret" not in (await call(name, root, **arguments)).output
    except ToolError as error:
        assert "outside" not in str(error)
    else:  # a new file in a folder that was left as it was
        assert swap is swap_file and "a.txt" not in str(arguments)
    assert swapped
    assert outside(root) == before


@pytest.mark.parametrize("swap", [swap_folder, swap_inner])
@pytest.mark.parametrize(("tool", "arguments"), CALLS[1:8] + CALLS[10:])
async def test_a_path_that_becomes_a_link_while_a_draft_is_written_leads_nowhere(
    tool: Any,
    arguments: dict[str, Any],
    swap: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-140] What goes on goes on in the folder that was there, wherever it is called now."""
    root = world(tmp_path)
    before = outside(root)
    swapped = False
    compare = changes._Step.compare

    def compared(self: Any) -> None:
        nonlocal swapped
        if not swapped:
            swapped = True
            swap(root)
        compare(self)

    monkeypatch.setattr(changes._Step, "compare", compared)
    await call(tool.__name__.rpartition(".")[2], root, **arguments)
    assert swapped
    assert outside(root) == before
    assert not [path for path in root.rglob(".toolnexus-*")]


async def test_links_that_come_and_go_all_the_time_lead_nowhere(tmp_path: Path) -> None:
    """[BT-140] A thread swaps the folder as fast as it can while files in it are written and read."""
    root = world(tmp_path)
    before = outside(root)
    stop = threading.Event()

    def swapping() -> None:
        for n in range(100_000):
            if stop.is_set():
                return
            os.rename(root / "in", root / "away")
            with suppress(OSError):  # a call may be quick enough to make the folder again
                os.symlink(root.parent / "outside", root / "in")
                os.unlink(root / "in")
            while (root / "away").exists():
                with suppress(OSError):
                    os.rename(root / "away", root / "in")
                    break
                with suppress(OSError):
                    os.rename(root / "in", root / f"made-{n}")

    swapper = threading.Thread(target=swapping)
    swapper.start()
    ends, rounds, end = {"done": 0, "refused": 0}, 0, time.monotonic() + 1.5
    try:
        async with asyncio.timeout(30):
            while rounds < 5 or (rounds < 25 and time.monotonic() < end):
                n, rounds = rounds, rounds + 1
                calls: list[tuple[str, dict[str, Any]]] = [
                    ("write", {"path": "in/sub/a.txt", "content": f"{n}"}),
                    ("edit", {"path": "in/sub/a.txt", "oldString": f"{n}", "newString": f"x{n}"}),
                    ("apply_patch", patch(f"*** Add File: in/sub/n{n}", "+new")),
                    ("read", {"path": "in/sub/a.txt"}),
                ]
                for name, more in calls:
                    try:
                        assert "secret" not in (await call(name, root, **more)).output
                        ends["done"] += 1
                    except ToolError:
                        ends["refused"] += 1
    finally:
        stop.set()
        swapper.join(10)
    assert outside(root) == before
    assert ends["done"] + ends["refused"] == 4 * rounds


@pytest.mark.parametrize("tool", ["read", "edit", "grep", "glob"])
async def test_suggestions_for_a_missing_path_never_come_from_outside(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-141] The names near to it are looked up without following a link."""
    root = world(tmp_path)
    tree(root.parent, {"outside/secret-1.txt": ""})
    module: Any = __import__(f"toolnexus.tools.builtin.{tool}", fromlist=[tool])
    owner: Any = (
        module if hasattr(module, "resolve") else __import__(module.directory.__module__, fromlist=["x"])
    )

    def checked(path: str, ctx: ToolContext, *, reading: bool = False) -> Path:
        target = resolve(path, ctx, reading=reading)
        if not (root / "in").is_symlink():
            swap_folder(root)
        return target

    monkeypatch.setattr(owner, "resolve", checked)
    more: dict[str, dict[str, Any]] = {"read": {}, "edit": {"oldString": "x", "newString": "y"}}
    with pytest.raises(ToolError) as caught:
        await call(tool, root, path="in/secret.txt", **more.get(tool, {"pattern": "x"}))
    assert "secret-1" not in str(caught.value)


def test_all_spellings_of_a_file_have_one_turn(tmp_path: Path) -> None:
    """[BT-142] Where case or the composition of accents does not count they are the same file."""
    for one, other in (("a.txt", "A.TXT"), ("\u00e9", "e\u0301"), ("straße", "STRASSE")):
        free = threading.Event()

        def wait(name: str = other, free: threading.Event = free) -> None:
            with turn(tmp_path / name):
                free.set()

        with turn(tmp_path / one):
            thread = threading.Thread(target=wait)
            thread.start()
            assert not free.wait(0.02)
        thread.join(5)
        assert free.is_set()


def test_one_call_takes_the_turn_of_each_file_once(tmp_path: Path) -> None:
    """[BT-142] Also when it names a file twice; a turn is given back when the work fails."""
    with pytest.raises(ZeroDivisionError), turn(tmp_path / "a", tmp_path / "b", tmp_path / "A"):
        raise ZeroDivisionError
    with turn(tmp_path / "b", tmp_path / "a"):
        pass


async def test_where_folders_cannot_be_held_open_the_rest_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-143] As on Windows: paths are checked as before, changes are all or nothing."""
    monkeypatch.setattr(places, "BELOW", False)
    root = world(tmp_path)
    (root / "out").symlink_to(root.parent / "outside")
    await output("write", root, path="x/y/new.txt", content="1\n")
    await output("edit", root, path="x/y/new.txt", oldString="1", newString="2")
    done = patch(
        *("*** Update File: in/sub/a.txt", "*** Move to: z/a.txt", "-old", "+new"),
        *("*** Update File: b.txt", "*** Move to: z/b.txt", "*** Delete File: x/y/new.txt"),
    )
    await output("apply_patch", root, **done)
    assert await output("read", root, path="z/a.txt") == "new\n"
    assert (root / "z/b.txt").read_text() == "b\n"
    assert os.listdir(root / "x/y") == []
    refusals: list[tuple[str, dict[str, Any], str]] = [
        ("write", {"path": "out/sub/a.txt", "content": ""}, "outside of the root folder"),
        ("edit", {"path": "z/a.tx", "oldString": "x", "newString": "y"}, "did you mean 'a.txt'"),
        ("read", {"path": "z/a.txt/x"}, "'a.txt' is not a directory"),
        (
            "apply_patch",
            patch("*** Add File: n", "+x", "*** Add File: z/a.txt/x", "+x"),
            "no file was changed",
        ),
    ]
    for name, arguments, told in refusals:
        with pytest.raises(ToolError, match=told):
            await call(name, root, **arguments)
    assert not (root / "n").exists()
    shutil.rmtree(root / "z")
    assert sorted(os.listdir(root)) == ["in", "out", "x"]
