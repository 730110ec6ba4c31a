"""Where file tools may go."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, output, tree
from toolnexus.errors import ToolError
from toolnexus.runtime.spill import Spill
from toolnexus.tools.builtin.host import READ_ROOTS

pytestmark = pytest.mark.anyio

ARGUMENTS: dict[str, dict[str, Any]] = {
    "read": {},
    "write": {"content": "x"},
    "edit": {"oldString": "secret", "newString": "x"},
    "grep": {"pattern": "secret"},
    "glob": {"pattern": "**/*"},
}


PATCHES = {
    "added": "*** Add File: {}\n+x",
    "updated": "*** Update File: {}\n-secret\n+x",
    "deleted": "*** Delete File: {}",
    "moved": "*** Update File: {}\n*** Move to: here.txt",
    "moved to": "*** Update File: in/a.txt\n*** Move to: {}",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root folder, beside it a folder that is none of the model's business."""
    tree(tmp_path, {"outside/secret.txt": "secret\n", "root/in/a.txt": "inside\n"})
    root = tmp_path / "root"
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "alias").symlink_to("in")
    return root


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize(
    "path", ["../outside", "/etc", "out", "file", "up/outside", "in/../../outside", "out/new/x", "up"]
)
async def test_no_path_leads_out_of_the_root(tool: str, path: str, root: Path) -> None:
    """[BT-10] Symbolic links and `..` are resolved first; the error names the root."""
    with pytest.raises(ToolError, match="outside of the root folder") as caught:
        await call(tool, root, path=path, **ARGUMENTS[tool])
    assert str(root) in str(caught.value)
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret\n"


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
@pytest.mark.parametrize(
    "path", ["../outside/secret.txt", "/etc/passwd", "out/secret.txt", "file", "up/x", "up"]
)
async def test_no_path_of_a_patch_leads_out_of_the_root(patch: str, path: str, root: Path) -> None:
    """[BT-10] Wherever in the patch it stands, and nothing else of the patch is applied."""
    text = f"*** Begin Patch\n*** Add File: n\n+n\n{patch.format(path)}\n*** End Patch"
    with pytest.raises(ToolError, match="outside of the root folder"):
        await call("apply_patch", root, patchText=text)
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret\n"
    assert sorted(os.listdir(root)) == ["alias", "file", "in", "loop", "out", "up"]
    assert (root / "in" / "a.txt").read_text() == "inside\n"


async def test_links_and_absolute_paths_inside_the_root_work(root: Path) -> None:
    """[BT-10] A path may be relative to the root or absolute, and may use links that stay inside."""
    for path in ("in/a.txt", "./in/../in/a.txt", "alias/a.txt", str(root / "in" / "a.txt")):
        assert await output("read", root, path=path) == "inside\n"


async def test_the_root_itself_may_be_a_link(root: Path) -> None:
    """[BT-10] The root is resolved as well, so a linked working directory is no way out and no obstacle."""
    (root.parent / "link").symlink_to(root)
    assert await output("read", root.parent / "link", path="in/a.txt") == "inside\n"
    assert await output("glob", root.parent / "link", pattern="in/*") == "in/a.txt"


async def test_saved_outputs_and_the_hosts_folders_are_for_reading_only(root: Path) -> None:
    """[BT-11] read, grep and glob may use the folder of long outputs and `READ_ROOTS`; write may not."""
    spill = Spill()
    saved = spill.write("needle\n")
    extra = tree(root.parent / "skills", {"pdf/notes.md": "needle\n"})
    host = {READ_ROOTS: (extra,)}
    try:
        for path in (str(saved), str(extra / "pdf" / "notes.md")):
            assert (await call("read", root, host=host, spill=spill, path=path)).output == "needle\n"
            found = await call("grep", root, host=host, spill=spill, path=path, pattern="needle")
            assert found.output == f"{path}:1:needle"
            with pytest.raises(ToolError, match="outside of the root folder"):
                await call("write", root, host=host, spill=spill, path=path, content="x")
        listed = await call("glob", root, host=host, path=str(extra), pattern="**/*")
        assert listed.output == f"{extra}/pdf/notes.md"
    finally:
        spill.close()


@pytest.mark.parametrize("tool", ["read", "write", "edit", "grep"])
async def test_only_regular_files_are_opened(tool: str, tmp_path: Path) -> None:
    """[BT-12] A FIFO, a socket and a device are refused at once, never waited for."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        async with asyncio.timeout(5):
            for path in ("fifo", "socket"):
                with pytest.raises(ToolError, match=f"'{path}' is a FIFO, a socket"):
                    await call(tool, tmp_path, path=path, **ARGUMENTS[tool])


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
async def test_a_patch_touches_only_regular_files(patch: str, tmp_path: Path) -> None:
    """[BT-12] A FIFO is not opened, not deleted and not replaced."""
    tree(tmp_path, {"in/a.txt": "x"})
    os.mkfifo(tmp_path / "fifo")
    async with asyncio.timeout(5):
        with pytest.raises(ToolError, match="'fifo' is a FIFO, a socket"):
            text = f"*** Begin Patch\n{patch.format('fifo')}\n*** End Patch"
            await call("apply_patch", tmp_path, patchText=text)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "in"]


async def test_a_device_is_refused() -> None:
    """[BT-12] Also below a root that holds devices."""
    with pytest.raises(ToolError, match="'zero' is a FIFO, a socket, a device"):
        await call("read", Path("/dev"), path="zero")


async def test_a_fifo_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    """[BT-12] A search never opens what is no regular file."""
    os.mkfifo(tmp_path / "fifo")
    tree(tmp_path, {"a.txt": "x\n"})
    async with asyncio.timeout(5):
        assert (await output("grep", tmp_path, pattern="x")).startswith("a.txt:1:x")
        assert (await output("glob", tmp_path, pattern="*")).startswith("a.txt")


async def test_a_tilde_is_an_ordinary_name(tmp_path: Path) -> None:
    """[BT-13] `~` is not expanded."""
    await call("write", tmp_path, path="~/a.txt", content="x")
    assert (tmp_path / "~" / "a.txt").read_text() == "x"


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
async def test_what_cannot_be_a_path_is_an_error(tool: str, path: str, tmp_path: Path) -> None:
    """[BT-13] A path that the system cannot take is refused with its reason."""
    with pytest.raises(ToolError, match="is no path"):
        await call(tool, tmp_path, path=path, **ARGUMENTS[tool])


@pytest.mark.parametrize("tool", ["read", "edit", "grep", "glob"])
async def test_a_missing_path_names_its_nearest_neighbours(tool: str, root: Path) -> None:
    """[BT-14] Where the path stops existing, names that it may have meant are given."""
    tree(root, {"src/main.py": "", "src/maine.py": "", "src/other.py": ""})
    with pytest.raises(
        ToolError, match=r"'src/mian.py' does not exist; did you mean 'main.py' or 'maine.py'\?"
    ):
        await call(tool, root, path="src/mian.py", **ARGUMENTS[tool])
    with pytest.raises(ToolError, match=r"'sry/main.py' does not exist; did you mean 'src'\?"):
        await call(tool, root, path="sry/main.py", **ARGUMENTS[tool])
    with pytest.raises(ToolError, match=r"'src/main.py/x' does not exist: 'main.py' is not a directory"):
        await call(tool, root, path="src/main.py/x", **ARGUMENTS[tool])


async def test_a_link_in_a_circle_is_an_error(root: Path) -> None:
    """[BT-14] A link that leads to itself is refused, not followed."""
    for tool in ARGUMENTS:
        with pytest.raises(ToolError, match="'loop'"):
            await call(tool, root, path="loop", **ARGUMENTS[tool])


async def test_the_topmost_folder_is_a_folder_like_others(root: Path) -> None:
    """[BT-10] It has no name to look up above it."""
    for tool in ("read", "write", "edit"):
        with pytest.raises(ToolError, match=r"'/' (is|names) a directory"):
            await call(tool, Path("/"), path="/", **ARGUMENTS[tool])
    assert await output("read", Path("/"), path=str(root / "in" / "a.txt")) == "inside\n"
