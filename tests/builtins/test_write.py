"""The builtin `write`."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, output, tree
from toolnexus.errors import ToolError
from toolnexus.tools.builtin import turns, write

pytestmark = pytest.mark.anyio


async def test_it_says_how_many_bytes_it_wrote(tmp_path: Path) -> None:
    """[BT-30] The content is written as UTF-8, byte for byte; the path is named as it was given."""
    result = await call("write", tmp_path, path="./a.txt", content="ä\r\nb")
    assert result.output == "Wrote 5 bytes to ./a.txt"
    assert result.metadata == {"bytes": 5}
    assert (tmp_path / "a.txt").read_bytes() == "ä\r\nb".encode()


async def test_folders_are_made(tmp_path: Path) -> None:
    """[BT-31] Missing folders above the file are made."""
    await call("write", tmp_path, path="a/b/c.txt", content="")
    assert (tmp_path / "a/b/c.txt").read_bytes() == b""


async def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    """[BT-32] Permissions survive; a new file gets those that the umask leaves."""
    tree(tmp_path, {"run.sh": "old"})
    (tmp_path / "run.sh").chmod(0o755)
    await call("write", tmp_path, path="run.sh", content="new")
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o755
    await call("write", tmp_path, path="new.txt", content="new")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o666 & ~umask


async def test_a_link_inside_the_root_is_written_through(tmp_path: Path) -> None:
    """[BT-33] The target is replaced, the link stays a link; a dangling one gets its target."""
    tree(tmp_path, {"real.txt": "old"})
    (tmp_path / "link.txt").symlink_to("real.txt")
    (tmp_path / "dangling.txt").symlink_to("made.txt")
    await call("write", tmp_path, path="link.txt", content="new")
    await call("write", tmp_path, path="dangling.txt", content="new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == (tmp_path / "made.txt").read_text() == "new"


async def test_what_cannot_be_encoded_changes_nothing(tmp_path: Path) -> None:
    """[BT-34] A lone surrogate is an error that says where; the file is as it was."""
    tree(tmp_path, {"a.txt": "old"})
    with pytest.raises(ToolError, match=r"no file was changed: character 3 \('\\ud800'\) of content"):
        await call("write", tmp_path, path="a.txt", content="ab\ud800")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


async def test_a_write_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-35] The file is replaced at once or not at all; no draft is left, and no folder made for it."""
    tree(tmp_path, {"a.txt": "old"})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for path in ("a.txt", "made/for/it.txt"):
        with pytest.raises(ToolError, match="was left as it was: No space left on device"):
            await call("write", tmp_path, path=path, content="new")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


async def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """[BT-36] A directory, and a path below a file, are errors."""
    tree(tmp_path, {"a.txt": "old", "folder/x": ""})
    with pytest.raises(ToolError, match="'folder' is a directory"):
        await call("write", tmp_path, path="folder", content="new")
    with pytest.raises(ToolError, match="was left as it was"):
        await call("write", tmp_path, path="a.txt/x", content="new")
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize("tool", ["write", "edit", "apply_patch"])
async def test_a_read_only_file_is_not_changed(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-36] Changing a file needs the right to write it, not only to its folder."""
    tree(tmp_path, {"a.txt": "old"})
    arguments: dict[str, dict[str, Any]] = {
        "write": {"path": "a.txt", "content": "new"},
        "edit": {"path": "a.txt", "oldString": "old", "newString": "new"},
        "apply_patch": {"patchText": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"},
    }

    def refused(path: str, mode: int, *, dir_fd: int | None = None) -> bool:  # the superuser may write all
        assert (os.path.basename(path), mode) == ("a.txt", os.W_OK)
        return False

    monkeypatch.setattr(os, "access", refused)
    with pytest.raises(ToolError, match=r"'a.txt' was left as it was: it is read-only"):
        await call(tool, tmp_path, **arguments[tool])
    assert (tmp_path / "a.txt").read_text() == "old"


async def test_a_write_that_waits_too_long_for_its_turn_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-37] It ends with an error when its time is up."""
    monkeypatch.setattr(write, "_LIMITS", {"seconds": 0.1})
    with turns.turn(tmp_path / "a.txt"):
        with pytest.raises(ToolError, match=r"stopped after 0.1 s; the file was left as it was"):
            async with asyncio.timeout(5):
                await call("write", tmp_path, path="a.txt", content="x")
    with turns.turn(tmp_path / "a.txt"):
        assert os.listdir(tmp_path) == []


async def test_writes_to_one_file_take_turns(tmp_path: Path) -> None:
    """[BT-37] Many writes at once leave the whole content of one of them, and no draft."""
    contents = [f"{n}" * 100_000 for n in range(8)]
    async with asyncio.timeout(30):
        await asyncio.gather(
            *[call("write", tmp_path, path="a.txt", content=content) for content in contents]
        )
    assert (tmp_path / "a.txt").read_text() in contents
    assert os.listdir(tmp_path) == ["a.txt"]
    assert not turns._turns


async def test_only_one_change_of_a_file_runs_at_a_time(tmp_path: Path) -> None:
    """[BT-37] Whoever changes a file holds its turn; other files are free."""
    with turns.turn(tmp_path / "a.txt"):
        waiting = asyncio.create_task(call("write", tmp_path, path="a.txt", content="x"))
        await output("write", tmp_path, path="b.txt", content="x")
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert not (tmp_path / "a.txt").exists()
    async with asyncio.timeout(5):
        await waiting
    assert (tmp_path / "a.txt").read_text() == "x"
