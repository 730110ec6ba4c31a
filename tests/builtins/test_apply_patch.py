"""The builtin `apply_patch`: what a patch does to files."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
from pathlib import Path

import pytest

from tests.builtins.helpers import call, lively_loop, output, tree
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.tools.builtin import apply_patch, turns
from toolnexus.tools.builtin.loader import definition

pytestmark = pytest.mark.anyio

BOM = b"\xef\xbb\xbf"


async def applied(root: Path, *lines: str) -> ToolResult:
    """The result of a patch with these lines between its first and last one."""
    return await call("apply_patch", root, patchText="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


async def refused(root: Path, *lines: str) -> str:
    """The error of a patch, which leaves all files as they were."""
    before = contents(root)
    with pytest.raises(ToolError) as caught:
        await applied(root, *lines)
    assert contents(root) == before
    return str(caught.value)


def contents(root: Path) -> dict[str, bytes | None]:
    """Every file below a folder with what it holds, and every folder."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


async def updated(root: Path, before: str | bytes, *lines: str) -> bytes:
    """What `a.txt` with `before` holds after a patch that updates it."""
    tree(root, {"a.txt": before})
    await applied(root, "*** Update File: a.txt", *lines)
    return (root / "a.txt").read_bytes()


async def test_it_says_how_many_operations_it_made_and_on_which_files(tmp_path: Path) -> None:
    """[BT-120] Paths as they were given, each operation in one list; a moved file by its new path."""
    tree(tmp_path, {"old.txt": "x\n", "b.txt": "b\n", "c.txt": "c\n"})
    result = await applied(
        tmp_path,
        *("*** Add File: ./new.txt", "+1"),
        *("*** Update File: b.txt", "@@", "-b", "+B"),
        *("*** Update File: c.txt", "*** Move to: d/c.txt", "@@", "-c", "+C"),
        "*** Delete File: old.txt",
    )
    assert result.output == "Applied patch: 4 file operations"
    assert result.metadata == {
        "added": ["./new.txt"],
        "updated": ["b.txt", "d/c.txt"],
        "deleted": ["old.txt"],
    }
    assert contents(tmp_path) == {"b.txt": b"B\n", "d": None, "d/c.txt": b"C\n", "new.txt": b"1\n"}


async def test_an_added_file_ends_with_a_line_end(tmp_path: Path) -> None:
    """[BT-121] Each of its lines does; without lines it is empty, and missing folders are made."""
    await applied(tmp_path, "*** Add File: a/b/c.txt", "+one", "+", "+ two", "++3", "*** Add File: empty", "")
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"one\n\n two\n+3\n"
    assert (tmp_path / "empty").read_bytes() == b""


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (["@@", " a", "-b", "+B", " c"], "a\nB\nc\nd\ne\n"),
        ([" a", "-b", "+B"], "a\nB\nc\nd\ne\n"),
        (["@@", "-a", "@@", "-e", "+E", "+F"], "b\nc\nd\nE\nF\n"),
        (["@@", " d", "-e", "@@", "-a", "+A"], "A\nb\nc\nd\n"),
        (["@@", "-a", "+A", " b", "@@", " b", "-c", "+C"], "A\nb\nC\nd\ne\n"),
        (["@@", "-a", " b", "-c", " d", "+D", " e"], "b\nd\nD\ne\n"),
        (["@@", "+0", " a"], "0\na\nb\nc\nd\ne\n"),
        (["@@", " e", "+f"], "a\nb\nc\nd\ne\nf\n"),
        (["@@", "-a", "-b", "-c", "-d", "-e"], ""),
        (["@@", "+B", "-b"], "a\nB\nc\nd\ne\n"),
        (["@@ -2,1 +2,1 @@ ignored", "-b", "+B"], "a\nB\nc\nd\ne\n"),
    ],
)
async def test_hunks_change_the_lines_that_they_name(lines: list[str], after: str, tmp_path: Path) -> None:
    """[BT-121] Context stays, `-` goes, `+` comes; hunks need no order and may share context."""
    assert await updated(tmp_path, "a\nb\nc\nd\ne\n", *lines) == after.encode()


async def test_a_blank_line_is_context_and_may_lack_its_space(tmp_path: Path) -> None:
    """[BT-121] At the end of a hunk it is only decoration."""
    assert await updated(tmp_path, "a\n\nb\n", "@@", " a", "", "-b", "+c", "") == b"a\n\nc\n"


CODE = """\
import os

class First:
    def start(self):
        x = 1
        return x

    def stop(self):
        x = 1
        return x

class Second:
    def start(
        self,
    ):
        x = 1
        return x


def start():
    x = 1
"""


@pytest.mark.parametrize(
    ("anchors", "line"),
    [
        (["@@ class First:", "@@ def start(self):"], 5),
        (["@@ class First", "@@     def stop"], 9),
        (["@@     def stop(self):"], 9),
        (["@@ class Second:"], 16),
        (["@@ class Second:", "@@ def start("], 16),
    ],
)
async def test_anchors_lead_to_the_place(anchors: list[str], line: int, tmp_path: Path) -> None:
    """[BT-122] A line, one that differs in white space, or the beginning of one; its block is searched."""
    after = await updated(tmp_path, CODE, *anchors, "-        x = 1", "+        x = 2")
    lines = CODE.splitlines()
    lines[line - 1] = "        x = 2"
    assert after.decode().splitlines() == lines


@pytest.mark.parametrize(("anchor", "line"), [("[a]", 2), ("[b]", 4)])
async def test_an_anchor_that_opens_no_block_leads_to_the_first_place_below(
    anchor: str, line: int, tmp_path: Path
) -> None:
    """[BT-122] As in files without indentation."""
    after = await updated(tmp_path, "[a]\nx=1\n[b]\nx=1\n", f"@@ {anchor}", "-x=1", "+x=2")
    assert [number for number, text in enumerate(after.split(b"\n"), 1) if text == b"x=2"] == [line]


async def test_the_line_of_an_anchor_may_be_repeated_as_context(tmp_path: Path) -> None:
    """[BT-122] Then the hunk begins there."""
    assert await updated(tmp_path, "def f():\n    x\n", "@@ def f():", " def f():", "-    x", "+    y") == (
        b"def f():\n    y\n"
    )


async def test_an_anchor_keeps_the_hunk_in_its_block(tmp_path: Path) -> None:
    """[BT-122] What matches only elsewhere is refused, and the error says where it is."""
    tree(tmp_path, {"a.py": "def f():\n    y\ndef g():\n    x\n"})
    error = await refused(tmp_path, "*** Update File: a.py", "@@ def f():", "-    x", "+    z")
    assert error.endswith("does not match below 'def f():': the lines '    x' are only at line 4")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["@@", " b", "-x"], "does not have the lines 'b', 'x'; its first line is at line 2, but line 3"),
        (["@@", "-  a"], "with other spaces, tabs or line breaks it is at line 1: 'a'"),
        (["@@ zebrazz", "-a"], "its anchor 'zebrazz' was not found; the nearest line is line 4: 'zebras'"),
        (["@@", "-a", "+A", "@@", "-a", "+B"], "hunk 2 of 'a.txt' (line 6 of the patch)"),
        (["@@", "-a", "+A", "@@", "-a", "+B"], "at line 1, where an earlier hunk changes them"),
        (["@@", " a", "+x", "@@", "+y", " b"], "at line 2, where an earlier hunk changes them"),
        (["@@ a", "+x", "@@ a", "+y"], "does not match: an earlier hunk has new lines for the same place"),
        (["@@", "-a", "*** End of File"], "at line 1, which is not the end of the file"),
    ],
)  # fmt: skip
async def test_a_hunk_that_does_not_match_says_what_is_there(
    lines: list[str], told: str, tmp_path: Path
) -> None:
    """[BT-123] Which file, which hunk, what was looked for, and what comes nearest."""
    tree(tmp_path, {"a.txt": "a\nb\nc\nzebras\n"})
    error = await refused(tmp_path, "*** Update File: a.txt", *lines)
    assert error.startswith("no file was changed: hunk ") and " of 'a.txt' (line " in error
    assert "does not match" in error and told in error


@pytest.mark.parametrize(
    ("before", "lines", "numbers"),
    [
        ("x\ny\nx\n", ["@@", "-x", "+z"], "1, 3"),
        ("x\nx\nx\n", ["@@", " x", "+y", " x"], "1, 2"),
        ("f\n    x\n    x\n", ["@@ f", "-    x"], "2, 3"),
        ("f\n    x\nf\n    x\n", ["@@ f", "-    x"], "2, 4"),
        ("[a]\nx\nx\n", ["@@ [a]", "-x"], "2, 3"),
        ("[a]\nx\n[b]\nx\n", ["@@ x", "-x", "+y"], "2, 4"),
        ("x\n" * 30, ["@@", "-x"], "20 and more"),
    ],
)
async def test_a_hunk_that_matches_twice_is_never_guessed_at(
    before: str, lines: list[str], numbers: str, tmp_path: Path
) -> None:
    """[BT-124] The error gives the lines."""
    tree(tmp_path, {"a.txt": before})
    error = await refused(tmp_path, "*** Update File: a.txt", *lines)
    assert "is not unique: it matches at lines" in error and numbers in error


async def test_equal_lines_are_told_apart_by_the_hunks_before(tmp_path: Path) -> None:
    """[BT-124] What an earlier hunk changes is no place for a later one."""
    after = await updated(
        tmp_path, "f\n    x\ng\n    x\n", "@@ g", "-    x", "+    y", "@@", "-    x", "+    z"
    )
    assert after == b"f\n    z\ng\n    y\n"


async def test_too_many_lines_like_an_anchor_are_an_error(tmp_path: Path) -> None:
    """[BT-124] It says so."""
    tree(tmp_path, {"a.txt": "}\n" * 60 + "x\n"})
    assert "more than 50 lines are like '}'" in await refused(
        tmp_path, "*** Update File: a.txt", "@@ }", "-x"
    )


async def test_end_of_file_is_a_place(tmp_path: Path) -> None:
    """[BT-125] Lines before the mark are the last ones; new lines alone are put there."""
    assert await updated(tmp_path, "x\ny\nx\n", "@@", "-x", "+z", "*** End of File") == b"x\ny\nz\n"
    assert await updated(tmp_path, "x\n", "@@", "+y", "*** End of File") == b"x\ny\n"
    assert await updated(tmp_path, "x", "@@", "+y", "*** End of File") == b"x\ny"
    assert await updated(tmp_path, "", "@@", "+y") == b"y\n"


async def test_new_lines_alone_need_a_place(tmp_path: Path) -> None:
    """[BT-126] Below their anchor; without one, or with several, it is an error."""
    assert await updated(tmp_path, "a\nb\n", "@@ a", "+x", "+y") == b"a\nx\ny\nb\n"
    tree(tmp_path, {"a.txt": "a\nb\na\n"})
    assert "has only new lines and does not say where" in await refused(
        tmp_path, "*** Update File: a.txt", "@@", "+x"
    )
    assert "is not unique: it matches at lines 2, 4" in await refused(
        tmp_path, "*** Update File: a.txt", "@@ a", "+x"
    )


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("a\nb\n", ["@@", "-a", "+A"]),
        ("a\nb\n", ["@@", " a", "+x"]),
        ("a\nb\n", ["@@", "+x", " b"]),
        ("a\nb\n", ["@@", " a", "+x", " b"]),
        ("a\nb\n", ["@@", "-a", "+a", "+x"]),
        ("a\nb\n", ["@@ a", "+x"]),
        ("a\nb\n", ["@@", "+x", "*** End of File"]),
        ("a\nb", ["@@", "+x", "*** End of File"]),
        ("a\nb\n", ["@@", "-a"]),
        ("def f():\n    x\ndef g():\n    x\n", ["@@ def f():", "-    x", "+    y"]),
        ("def f():\n    x\ndef g():\n    x\n", ["@@ def f():", "-    x"]),
        ("void f()\n{\n    x\n}\nvoid g()\n{\n    x\n}\n", ["@@ void f()", "-    x"]),
        ("[a]\nx\n[b]\nx\n", ["@@ [a]", "-x", "+y"]),
        ("[a]\nx\n[b]\nx\n", ["@@ [a]", "-x"]),
        ("[a]\nx\n[b]\nx\n", ["@@ [a]", " x", "+y"]),
    ],
)
async def test_applying_a_patch_twice_is_an_error(before: str, lines: list[str], tmp_path: Path) -> None:
    """[BT-127] Also one that only adds lines, and one whose old lines stand further down as well."""
    assert await updated(tmp_path, before, *lines) != before.encode()
    error = await refused(tmp_path, "*** Update File: a.txt", *lines)
    assert "hunk 1 of 'a.txt'" in error


async def test_operations_twice_are_errors_as_well(tmp_path: Path) -> None:
    """[BT-127] Adding, deleting and moving."""
    tree(tmp_path, {"b": "", "c": ""})
    for lines, told in (
        (["*** Add File: a", "+x"], "'a' exists already; change it with"),
        (["*** Delete File: b"], "'b' does not exist"),
        (["*** Update File: c", "*** Move to: d"], "'c' does not exist"),
    ):
        await applied(tmp_path, *lines)
        assert told in await refused(tmp_path, *lines)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["*** Add File: a.txt", "+x"], "'a.txt' exists already"),
        (["*** Update File: a.txt", "*** Move to: b.txt"], "'b.txt' exists already"),
        (["*** Update File: a.txt", "*** Move to: ./a.txt"], "'./a.txt' exists already"),
        (["*** Update File: nothing", "@@", "-x"], "'nothing' does not exist"),
        (["*** Delete File: a.tx"], "'a.tx' does not exist; did you mean 'a.txt'"),
        (["*** Delete File: folder"], "'folder' is a directory"),
        (["*** Update File: a.txt", "*** Move to: folder"], "'folder' is a directory"),
        (["*** Add File: a.txt/x", "+x"], "'a.txt/x' was left as it was: 'a.txt' is not a directory"),
        (
            ["*** Delete File: a.txt", "*** Delete File: ./a.txt"],
            "'./a.txt' was deleted or moved by the patch before line 3",
        ),
        (
            ["*** Update File: a.txt", "*** Move to: n", "*** Update File: a.txt", "-a"],
            "moved by the patch before line 4",
        ),
        (["*** Add File: n", "+x", "*** Add File: n", "+x"], "'n' exists already"),
        (["*** Add File: n", "+x", "*** Add File: n/m", "+x"], "'n' cannot be a file and hold 'n/m'"),
        (["*** Add File: n", "+x", "*** Delete File: b.txt", "*** Delete File: no"], "'no' does not exist"),
    ],
)
async def test_what_is_in_the_way_is_never_overwritten(lines: list[str], told: str, tmp_path: Path) -> None:
    """[BT-128] Existing targets, missing sources, folders; nothing else of the patch is done, either."""
    tree(tmp_path, {"a.txt": "a\n", "b.txt": "b\n", "folder/x": ""})
    assert told in await refused(tmp_path, *lines)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (["*** Delete File: a", "*** Add File: a", "+x"], {"a": b"x\n", "b": b"b\n"}),
        (["*** Update File: a", "-a", "+1", "*** Update File: a", "-1", "+2"], {"a": b"2\n", "b": b"b\n"}),
        (
            ["*** Add File: n", "+x", "*** Update File: n", "-x", "+y"],
            {"a": b"a\n", "b": b"b\n", "n": b"y\n"},
        ),
        (["*** Add File: n", "+x", "*** Delete File: n"], {"a": b"a\n", "b": b"b\n"}),
        (
            ["*** Update File: a", "*** Move to: n", "*** Add File: a", "+x"],
            {"a": b"x\n", "b": b"b\n", "n": b"a\n"},
        ),
        (["*** Delete File: b", "*** Update File: a", "*** Move to: b", "-a", "+A"], {"b": b"A\n"}),
        (
            [
                *("*** Update File: a", "*** Move to: t"),
                *("*** Update File: b", "*** Move to: a"),
                *("*** Update File: t", "*** Move to: b"),
            ],
            {"a": b"b\n", "b": b"a\n"},
        ),
        (
            ["*** Update File: a", "*** Move to: t", "*** Update File: t", "*** Move to: a"],
            {"a": b"a\n", "b": b"b\n"},
        ),
    ],
)  # fmt: skip
async def test_operations_follow_each_other(
    lines: list[str], after: dict[str, bytes], tmp_path: Path
) -> None:
    """[BT-128] Each finds what the ones before left: delete and add replaces, moves may swap."""
    tree(tmp_path, {"a": "a\n", "b": "b\n"})
    (tmp_path / "a").chmod(0o755)
    await applied(tmp_path, *lines)
    assert contents(tmp_path) == after
    if lines[0] == "*** Delete File: a":
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        (b"a\r\nb\r\nc\r\n", ["@@", " a", "-b", "+B", "+C"], b"a\r\nB\r\nC\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", ["@@", " a", "-b", "+B", " c", "+d"], b"a\r\nB\nc\r\nd\r\n"),
        (b"a\r\nb\n", ["@@", "-a", "-b", "+A", "+B", "+C"], b"A\r\nB\nC\n"),
        (b"a\r\nb", ["@@", "-b", "+B", "+C"], b"a\r\nB\r\nC"),
        (b"a\r\nb", ["@@", " b", "+C"], b"a\r\nb\r\nC"),
        (b"a\nb", ["@@", "-a", "+A"], b"A\nb"),
        (b"a\nb", ["@@", "-b"], b"a\n"),
        (b"a", ["@@", "-a", "+b"], b"b"),
        (b"a", ["@@", " a", "+"], b"a\n\n"),
        (b"caf\xe9\nx\n", ["@@", "-x", "+y"], b"caf\xe9\ny\n"),
        (BOM + b"a\r\nb\r\n", ["@@", "-a", "+A"], BOM + b"A\r\nb\r\n"),
        (BOM, ["@@", "+x"], BOM + b"x\n"),
        (b"a\rb\nc\n", ["@@", "-c", "+d"], b"a\rb\nd\n"),
    ],
)
async def test_only_the_bytes_asked_for_change(
    before: bytes, lines: list[str], after: bytes, tmp_path: Path
) -> None:
    """[BT-131] Line ends, a missing last one, byte order mark and bytes that are no UTF-8 stay."""
    assert await updated(tmp_path, before, *lines) == after


async def test_permissions_stay_and_updates_go_through_links(tmp_path: Path) -> None:
    """[BT-131] Also when the file moves."""
    tree(tmp_path, {"run.sh": "old\n", "tool.sh": "x\n"})
    for name in ("run.sh", "tool.sh"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "link").symlink_to("run.sh")
    await applied(
        tmp_path,
        *("*** Update File: link", "-old", "+new"),
        *("*** Update File: tool.sh", "*** Move to: bin/tool.sh", "-x", "+y"),
    )
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "run.sh").read_text() == "new\n"
    for name in ("run.sh", "bin/tool.sh"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o755


async def test_a_link_is_not_deleted_or_moved_in_place_of_its_file(tmp_path: Path) -> None:
    """[BT-131] The error names the file that was perhaps meant."""
    tree(tmp_path, {"real.txt": "a\n"})
    (tmp_path / "link").symlink_to("real.txt")
    for lines in (["*** Delete File: link"], ["*** Update File: link", "*** Move to: b", "-a", "+b"]):
        error = await refused(tmp_path, *lines)
        assert "'link' is a symbolic link; name the file itself: 'real.txt'" in error
    assert (tmp_path / "link").is_symlink()


async def test_what_is_no_text_can_be_moved_and_deleted_only(tmp_path: Path) -> None:
    """[BT-131] Whatever it holds and however large it is; without hunks nobody looks into it."""
    wide = "a\n".encode("utf-16")
    tree(tmp_path, {"a.bin": b"\0" * 100, "b.txt": wide, "c.bin": b"\0"})
    assert "'a.bin' is a binary file" in await refused(tmp_path, "*** Update File: a.bin", "-x")
    assert "'b.txt' is UTF-16" in await refused(tmp_path, "*** Update File: b.txt", "-a")
    number = (tmp_path / "a.bin").stat().st_ino
    await applied(
        tmp_path,
        *("*** Update File: a.bin", "*** Move to: d/a.bin"),
        *("*** Update File: b.txt", "*** Move to: d/b.txt", "*** Delete File: c.bin"),
    )
    assert contents(tmp_path) == {"d": None, "d/a.bin": b"\0" * 100, "d/b.txt": wide}
    assert (tmp_path / "d/a.bin").stat().st_ino == number


async def test_two_spellings_of_one_file_are_refused(tmp_path: Path) -> None:
    """[BT-128] As two names of one file look where case does not count."""
    tree(tmp_path, {"a.txt": "x\ny\n"})
    os.link(tmp_path / "a.txt", tmp_path / "A.TXT")
    error = await refused(tmp_path, "*** Update File: a.txt", "-x", "*** Update File: A.TXT", "-y")
    assert "'A.TXT' and 'a.txt' are one file here" in error


async def test_size_and_number_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-134] Of the patch, of its files, of one file and of all together."""
    limits = {"maxPatchBytes": 2_000, "maxFiles": 3, "maxFileBytes": 300, "maxTotalBytes": 500}
    monkeypatch.setattr(apply_patch, "_LIMITS", {**definition("apply_patch").limits, **limits})
    tree(tmp_path, {"big": "x\n" * 200, "a": "a\n" + "x\n" * 140, "b": "a\n" + "x\n" * 140, "c": "c\n"})
    change = ("@@", "-a", "+b")
    for lines, told in (
        (["*** Add File: n", "+" + "x" * 2_000], "a patch has at most 2000 bytes, this one has 20"),
        ([f"*** Delete File: {n}" for n in "abcd"], "a patch has at most 3 files, this one has 4"),
        (["*** Update File: big", "-x"], "'big' has more than 300 bytes"),
        (["*** Update File: c", "-c", "+" + "x" * 300], "'c' would have more than 300 bytes"),
        (["*** Update File: a", *change, "*** Update File: b", *change], "more than 500 bytes together"),
    ):
        assert told in await refused(tmp_path, *lines)


async def test_time_is_bounded_and_the_loop_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-134] A patch with thousands of hunks ends with an error when its time is up; nothing is changed."""
    monkeypatch.setattr(apply_patch, "_LIMITS", {**definition("apply_patch").limits, "seconds": 0.2})
    tree(tmp_path, {"a.txt": "".join(f"line {n}\n" for n in range(100_000))})
    hunks = [f"@@\n-line {n}\n+LINE {n}" for n in range(30_000, 50_000)]
    async with lively_loop(0.5), asyncio.timeout(10):
        error = await refused(tmp_path, "*** Update File: a.txt", *hunks)
    assert "stopped after 0.2 s; no file was changed" in error
    async with asyncio.timeout(10):
        while turns._turns:
            await asyncio.sleep(0.01)


async def test_patches_of_the_same_files_never_wait_for_each_other_in_a_circle(tmp_path: Path) -> None:
    """[BT-135] Turns are taken in one order, whatever order the patches name their files in."""
    names = ["a", "B", "c/d", "e"]
    tree(tmp_path, {name: "".join(f"{n}\n" for n in range(24)) for name in names})
    orders = list(itertools.permutations(names))
    async with asyncio.timeout(60):
        await asyncio.gather(
            *[
                applied(tmp_path, *[f"*** Update File: {name}\n-{n}\n+{n}!" for name in order])
                for n, order in enumerate(orders)
            ]
        )
    for name in names:
        assert (tmp_path / name).read_text() == "".join(f"{n}!\n" for n in range(24))
    assert not turns._turns


async def test_a_patch_waits_for_the_turns_of_all_its_files(tmp_path: Path) -> None:
    """[BT-135] The source and the target of a move, too."""
    tree(tmp_path, {"a": "x\n"})
    with turns.turn(tmp_path / "b"):
        waiting = asyncio.create_task(applied(tmp_path, "*** Update File: a", "*** Move to: b"))
        await output("write", tmp_path, path="c", content="x")
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert (tmp_path / "a").exists()
    async with asyncio.timeout(5):
        await waiting
    assert (tmp_path / "b").read_text() == "x\n"
