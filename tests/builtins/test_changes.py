"""Changes of files that go wrong half way."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, tree
from tests.warm import Warm
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.places import Folder

pytestmark = pytest.mark.anyio

REPLACE = Folder.replace
PATCH = """\
*** Begin Patch
*** Update File: a.txt
*** Move to: made/on/the/way/a.txt
@@
-a
+A
*** Add File: new/n.txt
+n
*** Delete File: b.txt
*** Update File: c.sh
@@
-c
+C
*** Update File: d.txt
@@
-d
+D
*** End Patch"""


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder: kind and mode, number, content."""
    found = {path: path.lstat() for path in root.rglob("*")}
    return {
        str(path.relative_to(root)): (one.st_mode, one.st_ino, path.read_bytes() if path.is_file() else b"")
        for path, one in found.items()
    }


def project(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """The files that `PATCH` changes."""
    tree(root, {"a.txt": "a\n", "b.txt": "b\n", "c.sh": "c\n", "d.txt": "d\n"})
    (root / "c.sh").chmod(0o750)
    return snapshot(root)


def at_replacement(number: int, act: Callable[[Folder, str], None]) -> Callable[[Folder, str, str], None]:
    """`Folder.replace` that lets something happen before one of its calls, counted from 1."""
    calls = 0

    def replace(self: Folder, name: str, onto: str) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            act(self, onto)
        REPLACE(self, name, onto)

    return replace


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_patch_that_fails_half_way_leaves_everything_as_it_was(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-132] Content, permissions, even the very files; folders that were made go again, no draft stays."""
    before = project(tmp_path)
    hindered: list[Path] = []

    def hinder(folder: Folder, name: str) -> None:
        """A folder comes in the way: nothing can be renamed onto it."""
        target = folder.path / name
        target.unlink(missing_ok=True)
        target.mkdir()
        hindered.append(target)

    monkeypatch.setattr(Folder, "replace", at_replacement(number, hinder))
    with pytest.raises(ToolError, match=r"^no file was changed: .* was left as it was: Is a directory"):
        await call("apply_patch", tmp_path, patchText=PATCH)
    (target,) = hindered
    left = snapshot(tmp_path)
    for name in (str(target.relative_to(tmp_path)), *map(str, target.relative_to(tmp_path).parents)):
        left.pop(name, None)
        before.pop(name, None)
    assert left == before
    assert not [name for name in left if "toolnexus" in name]


async def test_without_the_fault_the_same_patch_is_applied(tmp_path: Path) -> None:
    """[BT-132] So the faults above are what stops it; no second name of a file is left."""
    project(tmp_path)
    await call("apply_patch", tmp_path, patchText=PATCH)
    files = {name: data for name, (mode, _, data) in snapshot(tmp_path).items() if stat.S_ISREG(mode)}
    assert files == {"made/on/the/way/a.txt": b"A\n", "new/n.txt": b"n\n", "c.sh": b"C\n", "d.txt": b"D\n"}
    assert stat.S_IMODE((tmp_path / "c.sh").stat().st_mode) == 0o750
    assert all((tmp_path / name).stat().st_nlink == 1 for name in files)


@pytest.mark.parametrize("number", [1, 4])
async def test_where_no_file_has_two_names_copies_are_kept(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-132] On such file systems what was there comes back as well, with its permissions."""
    before = project(tmp_path)

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    def fail(folder: Folder, name: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Folder, "link", no_links)
    monkeypatch.setattr(Folder, "replace", at_replacement(number, fail))
    with pytest.raises(ToolError, match=r"^no file was changed: .*: Input/output error"):
        await call("apply_patch", tmp_path, patchText=PATCH)
    assert {name: (mode, data) for name, (mode, _, data) in snapshot(tmp_path).items()} == {
        name: (mode, data) for name, (mode, _, data) in before.items()
    }
    monkeypatch.setattr(Folder, "replace", REPLACE)
    moved = "*** Begin Patch\n*** Update File: c.sh\n*** Move to: x/c.sh\n*** End Patch"
    await call("apply_patch", tmp_path, patchText=moved)
    assert (tmp_path / "x" / "c.sh").read_text() == "c\n"
    assert stat.S_IMODE((tmp_path / "x" / "c.sh").stat().st_mode) == 0o750
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt", "d.txt", "x"]


async def test_files_with_two_names_leave_no_draft(tmp_path: Path) -> None:
    """[BT-132] Also where a file is moved onto another name of itself."""
    tree(tmp_path, {"a.txt": "a\n"})
    os.link(tmp_path / "a.txt", tmp_path / "b.txt")
    lines = "*** Delete File: b.txt\n*** Update File: a.txt\n*** Move to: b.txt"
    await call("apply_patch", tmp_path, patchText=f"*** Begin Patch\n{lines}\n*** End Patch")
    assert os.listdir(tmp_path) == ["b.txt"]
    assert (tmp_path / "b.txt").read_text() == "a\n"
    os.link(tmp_path / "b.txt", tmp_path / "c.txt")
    await call("edit", tmp_path, path="b.txt", oldString="a", newString="x")
    assert sorted(os.listdir(tmp_path)) == ["b.txt", "c.txt"]
    assert (tmp_path / "c.txt").read_text() == "a\n"


async def test_what_cannot_be_put_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-133] With the place where its old content is."""
    tree(tmp_path, {"a.txt": "a\n", "b.txt": "b\n"})
    calls = 0

    def broken(self: Folder, name: str, onto: str) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.EIO, "Input/output error")
        REPLACE(self, name, onto)

    monkeypatch.setattr(Folder, "replace", broken)
    patch = "*** Begin Patch\n*** Update File: a.txt\n-a\n+A\n*** Update File: b.txt\n-b\n+B\n*** End Patch"
    with pytest.raises(ToolError) as caught:
        await call("apply_patch", tmp_path, patchText=patch)
    (kept,) = [name for name in os.listdir(tmp_path) if name.startswith(".toolnexus-")]
    assert str(caught.value) == (
        "'b.txt' was left as it was: Input/output error; and this could not be put back: "
        f"'a.txt' (Input/output error, its old content is in {kept!r} beside it)"
    )
    assert (tmp_path / kept).read_text() == "a\n"
    assert (tmp_path / "b.txt").read_text() == "b\n"


CALL = """\
import asyncio, json, resource, sys
from pathlib import Path
from typing import Any
from tests.builtins.helpers import call
from toolnexus.errors import ToolError
from toolnexus.tools.builtin import {name}
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    asyncio.run(call("{name}", Path(sys.argv[1]), **json.loads(sys.argv[2])))
except ToolError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of resources are a thing of POSIX")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write", {"path": "b.txt", "content": "x" * 2_000}),
        ("edit", {"path": "b.txt", "oldString": "b", "newString": "x" * 2_000}),
        (
            "apply_patch",
            {
                "patchText": "*** Begin Patch\n*** Update File: a.txt\n-a\n+A\n*** Add File: n/n\n+n\n"
                "*** Update File: b.txt\n-b\n+" + "x" * 2_000 + "\n*** End Patch"
            },
        ),
    ],
)
def test_a_write_that_really_fails_leaves_the_old_files(
    warm: Warm, name: str, arguments: dict[str, str], tmp_path: Path
) -> None:
    """[BT-132] The system refuses to write more in mid-file: nothing is half written, no draft is left."""
    tree(tmp_path, {"a.txt": "a\n", "b.txt": "b\n"})
    before = snapshot(tmp_path)
    done = warm.run(CALL.format(name=name), str(tmp_path), json.dumps(arguments))
    assert "'b.txt' was left as it was: File too large" in done.stdout, done.stderr
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["write", "edit"])
async def test_a_folder_that_goes_meanwhile_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-132] The file is not written somewhere else."""
    tree(tmp_path, {"in/a.txt": "a\n"})

    def vanish(_: int) -> None:
        shutil.rmtree(tmp_path / "in")

    monkeypatch.setattr(os, "fsync", vanish)
    more: dict[str, Any] = {"content": "x"} if name == "write" else {"oldString": "a", "newString": "b"}
    with pytest.raises(ToolError, match=r"'in/a.txt' was left as it was"):
        await call(name, tmp_path, path="in/a.txt", **more)
    assert os.listdir(tmp_path) == []


async def test_a_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-109] What a patch adds is new, or it is an error."""

    def appear(_: int) -> None:
        (tmp_path / "a.txt").write_text("theirs")

    monkeypatch.setattr(os, "fsync", appear)
    with pytest.raises(ToolError, match=r"'a.txt' was left as it was: somebody else has changed it"):
        await call(
            "apply_patch", tmp_path, patchText="*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"
        )
    assert (tmp_path / "a.txt").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["a.txt"]


async def test_nobody_else_may_read_a_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-105] Not even for the moment in which it is written."""
    tree(tmp_path, {"secret": "old"})
    (tmp_path / "secret").chmod(0o600)
    seen: list[int] = []
    opened = Folder.open

    def watched(self: Folder, name: str, flags: int, mode: int = 0o600) -> int:
        descriptor = opened(self, name, flags, mode)
        if name.startswith(".toolnexus"):
            seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(Folder, "open", watched)
    await call("edit", tmp_path, path="secret", oldString="old", newString="new")
    assert seen == [0o600]
