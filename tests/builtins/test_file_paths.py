"""Paths of files that are to be changed, in odd spellings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, output, tree
from toolnexus.errors import ToolError

pytestmark = pytest.mark.anyio


def patch(*lines: str) -> dict[str, Any]:
    return {"patchText": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


@pytest.mark.parametrize("end", ["/", "/.", "/./", "/..", "//"])
@pytest.mark.parametrize("name", ["file", "link", "new", "folder/link"])
async def test_a_path_that_ends_like_a_folder_is_no_file_to_change(
    end: str, name: str, tmp_path: Path
) -> None:
    """[BT-237] Such an end leads through a link, to a file that nobody named."""
    tree(tmp_path, {"file": "old\n", "folder/file": "old\n"})
    for folder in (tmp_path, tmp_path / "folder"):
        (folder / "link").symlink_to("file")
    path = name + end
    calls: list[tuple[str, dict[str, Any]]] = [
        ("write", {"path": path, "content": "new"}),
        ("edit", {"path": path, "oldString": "old", "newString": "new"}),
        ("apply_patch", patch(f"*** Delete File: {path}")),
        ("apply_patch", patch(f"*** Add File: {path}", "+new")),
        ("apply_patch", patch(f"*** Update File: {path}", "-old", "+new")),
        ("apply_patch", patch("*** Update File: file", f"*** Move to: {path}")),
    ]
    for tool, arguments in calls:
        with pytest.raises(ToolError, match=r"names a directory by its end; give the path of a file"):
            await call(tool, tmp_path, **arguments)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "link"]
    assert sorted(os.listdir(tmp_path / "folder")) == ["file", "link"]
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "file").read_text() == "old\n"


@pytest.mark.parametrize("path", ["gone/../link", "./link", "folder/../link", "way/../link", "to/link"])
async def test_a_link_is_seen_in_every_spelling(path: str, tmp_path: Path) -> None:
    """[BT-237] Whatever stands before its name, a link is neither deleted nor moved with its file."""
    tree(tmp_path, {"file": "old\n", "folder/deep/x": ""})
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "to").symlink_to(".")
    (tmp_path / "way").symlink_to("folder")
    for lines in ([f"*** Delete File: {path}"], [f"*** Update File: {path}", "*** Move to: moved"]):
        with pytest.raises(ToolError, match="is a symbolic link; name the file itself: 'file'"):
            await call("apply_patch", tmp_path, **patch(*lines))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "old\n"


async def test_a_path_has_a_longest_length(tmp_path: Path) -> None:
    """[BT-241] What no system call takes as a path is refused, also where it could be made."""
    path = "d/" * 2_500 + "x"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": path}),
        ("write", {"path": path, "content": ""}),
        ("grep", {"path": path, "pattern": "x"}),
        ("glob", {"path": path, "pattern": "*"}),
    ]
    for tool, arguments in calls:
        with pytest.raises(ToolError, match="is too long: a path has at most 4095 bytes"):
            await call(tool, tmp_path, **arguments)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["-", "--files", "-e"])
async def test_a_name_that_means_something_to_programs_is_a_name(name: str, tmp_path: Path) -> None:
    """[BT-57] `-` is no standard input to grep, named outright or found."""
    tree(tmp_path, {name: "needle\n", "a": "hay\n"})
    for more in ({}, {"path": name}, {"include": name}):
        assert await output("grep", tmp_path, pattern="needle", **more) == f"{name}:1:needle"


async def test_a_file_in_the_place_of_a_folder_and_the_other_way_round(tmp_path: Path) -> None:
    """[BT-128] A patch cannot do it, and says how it can be done; nothing is changed."""
    tree(tmp_path, {"q": "q\n", "dd/only": "1\n"})
    with pytest.raises(
        ToolError, match=r"'q/r' needs a directory where 'q' is a file .* in a patch of its own"
    ):
        await call("apply_patch", tmp_path, **patch("*** Delete File: q", "*** Add File: q/r", "+x"))
    with pytest.raises(ToolError, match=r"'dd' is a directory, and a patch puts no file in its place"):
        await call("apply_patch", tmp_path, **patch("*** Delete File: dd/only", "*** Add File: dd", "+x"))
    assert (tmp_path / "q").read_text() == "q\n" and (tmp_path / "dd" / "only").read_text() == "1\n"
    await output("apply_patch", tmp_path, **patch("*** Delete File: q"))
    await output("apply_patch", tmp_path, **patch("*** Add File: q/r", "+x"))
