"""The text of a patch: its wrappings, its line ends, and what is wrong in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.builtins.helpers import call, tree
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.patch_grammar import Hunk, Operation, parse

pytestmark = pytest.mark.anyio

PATCH = "*** Begin Patch\n*** Update File: a b.txt\n@@\n-x\n+y\n*** Add File: n\n+z\n*** End Patch"
PARSED = [
    Operation("update", "a b.txt", 2, hunks=(Hunk(1, 3, (), (("-", b"x"), ("+", b"y")), False),)),
    Operation("add", "n", 6, content=b"z\n"),
]


def shifted(operations: list[Operation], lines: int) -> list[tuple[object, ...]]:
    """Operations without their line numbers, these counted from another line."""
    return [
        (one.kind, one.path, one.line + lines, one.content, [hunk.lines for hunk in one.hunks])
        for one in operations
    ]


def test_the_grammar_is_read_line_by_line() -> None:
    """[BT-129] Anchors, moves, the end of the file and blank lines."""
    text = (
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ one\n@@   two\n x\n\n-y\n\n@@\n+z\n"
        "*** End of File\n\n*** Delete File: c\n\n*** End Patch"
    )
    first = Hunk(1, 4, (b"one", b"  two"), ((" ", b"x"), (" ", b""), ("-", b"y")), False)
    second = Hunk(2, 10, (), (("+", b"z"),), True)
    assert parse(text) == [
        Operation("update", "a", 2, move_to="b", hunks=(first, second)),
        Operation("delete", "c", 14),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("", "\n\n"),
        ("\n \n", ""),
        ("```\n", "\n```"),
        ("```diff\n", "\n```\n"),
        ("~~~~ \n", "\n~~~~"),
        ("<<'EOF'\n", "\nEOF\n"),
        ("apply_patch <<EOF\n", "\nEOF"),
        ('cat << "PATCH"\n', "\nPATCH"),
        ("```bash\napply_patch <<'EOF'\n", "\nEOF\n```"),
    ],
)
def test_wrappings_are_taken_off(before: str, after: str) -> None:
    """[BT-129] A Markdown fence and a shell here-document; lines are counted in the whole text."""
    assert shifted(parse(before + PATCH + after), 0) == shifted(PARSED, before.count("\n"))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("```\n", "", "line 1 of the patch is '```'; a patch starts with the line '*** Begin Patch'"),
        ("", "\n```", "line 9 of the patch is '```'; nothing follows '*** End Patch'"),
        ("<<A\n", "\nB", "line 1 of the patch is '<<A'"),
        ("Here it is:\n", "", "line 1 of the patch is 'Here it is:'"),
        ("", "\nDone.", "line 9 of the patch is 'Done.'"),
        ("", "\n" + PATCH, "put all files into one patch"),
    ],
)
def test_other_text_around_a_patch_is_an_error(before: str, after: str, told: str) -> None:
    """[BT-129] What is no whole wrapping might be anything."""
    with pytest.raises(ToolError) as caught:
        parse(before + PATCH + after)
    assert told in str(caught.value)


async def test_line_ends_of_the_patch_are_not_those_of_the_files(tmp_path: Path) -> None:
    """[BT-129] A patch sent with CRLF changes a file with LF, adds one with LF, and finds its paths."""
    tree(tmp_path, {"a b.txt": "w\nx\n"})
    await call("apply_patch", tmp_path, patchText=PATCH.replace("\n", "\r\n") + "\r\n")
    assert (tmp_path / "a b.txt").read_bytes() == b"w\ny\n"
    assert (tmp_path / "n").read_bytes() == b"z\n"


async def test_single_lines_with_crlf_in_a_patch_match_any_file(tmp_path: Path) -> None:
    """[BT-129] As they come from a file that was read; an added file gets them as they are."""
    tree(tmp_path, {"a": b"x\r\ny\r\n", "b": b"x\ny\n"})
    hunk = "@@\n x\r\n-y\r\n+z\r\n"
    update = f"*** Update File: a\n{hunk}*** Update File: b\n{hunk}"
    patch = f"*** Begin Patch\n{update}*** Add File: n\n+x\r\n*** End Patch"
    await call("apply_patch", tmp_path, patchText=patch)
    assert (tmp_path / "a").read_bytes() == b"x\r\nz\r\n"
    assert (tmp_path / "b").read_bytes() == b"x\nz\n"
    assert (tmp_path / "n").read_bytes() == b"x\r\n"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "the patch is empty; between its first and last line may stand: '*** Add File: PATH'"),
        (["*** Delete file: a"], "line 2: '*** Delete file: a'; here may stand: '*** Add File"),
        (["@@", "-x"], "line 2: '@@'; here may stand"),
        (["*** Add File:", "+x"], "line 2: '*** Add File:'; a path must follow the colon"),
        (["*** Add File: n", "+x", "y"], "line 4: 'y'; each line of an added file starts"),
        (["*** Delete File: a", "-x"], "line 3: '-x'; a deleted file has no lines"),
        (["*** Update File: a"], "line 2: '*** Update File: a'; nothing is to be done there"),
        (["*** Update File: a", "@@", " x"], "line 3: '@@'; hunk 1, which begins here, changes nothing"),
        (["*** Update File: a", "-x", "+x"], "hunk 1, which begins here, changes nothing"),
        (["*** Update File: a", "@@ x"], "line 3: '@@ x'; below it stand the lines of the hunk"),
        (["*** Update File: a", "@@", "-x", "@@ y"], "line 5: '@@ y'; below it stand"),
        (["*** Update File: a", "@@", "-x", "y"], "line 5: 'y'; here may stand: a line of a hunk"),
        (["*** Update File: a", "@@", "-x", "\ty"], "line 5: '\\ty'; here may stand"),
        (["*** Update File: a", "-x", "*** Move to: b"], "line 4: '*** Move to: b'; here may stand"),
        (["*** Update File: a", "*** Move to: ", "-x"], "line 3: '*** Move to: '; a path must"),
        (["*** Update File: a", "*** End of File"], "line 3: '*** End of File'; hunk 1"),
        (["*** Update File: a", "-x", "*** End of File", "-y"], "line 4: '*** End of File'"),
    ],
)  # fmt: skip
async def test_a_malformed_patch_says_which_line_and_what_may_stand_there(
    lines: list[str], told: str, tmp_path: Path
) -> None:
    """[BT-130] No file is looked at, let alone changed."""
    tree(tmp_path, {"a": "x\n"})
    with pytest.raises(ToolError) as caught:
        await call("apply_patch", tmp_path, patchText="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))
    assert told in str(caught.value).replace(" of the patch is ", ": ")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "x\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the patch is empty; it starts with '*** Begin Patch'"),
        ("--- a\n+++ b\n", "line 1 of the patch is '--- a'; a patch starts with"),
        (PATCH.removesuffix("\n*** End Patch"), "line 7 of the patch is '+z'; a patch ends with the line"),
        ("*** Begin Patch", "line 1 of the patch is '*** Begin Patch'; a patch ends with"),
        (PATCH.replace("+y", "+\ud800"), "character 49 ('\\ud800') of patchText cannot be written as UTF-8"),
        ("x" * 1_000, "…'; a patch starts"),
    ],
)
async def test_a_patch_that_is_not_whole_is_an_error(text: str, told: str, tmp_path: Path) -> None:
    """[BT-130] One that was cut off is not applied as far as it goes."""
    tree(tmp_path, {"a b.txt": "x\n"})
    with pytest.raises(ToolError) as caught:
        await call("apply_patch", tmp_path, patchText=text)
    assert told in str(caught.value)
    assert (tmp_path / "a b.txt").read_text() == "x\n"
