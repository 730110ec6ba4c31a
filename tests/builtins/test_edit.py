"""The builtin `edit`."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, lively_loop, output, tree
from toolnexus.client import Client
from toolnexus.core.messages import ToolResultPart
from toolnexus.errors import ToolError
from toolnexus.testing import ScriptedModel, reply
from toolnexus.testing import call as use
from toolnexus.tools.builtin import edit, turns
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.changes import Change
from toolnexus.tools.builtin.loader import definition

pytestmark = pytest.mark.anyio

BOM = b"\xef\xbb\xbf"


async def edited(root: Path, before: str | bytes, old: str, new: str, **more: Any) -> bytes:
    """What a file with `before` holds after one edit."""
    tree(root, {"a.txt": before})
    await call("edit", root, path="a.txt", oldString=old, newString=new, **more)
    return (root / "a.txt").read_bytes()


async def refused(root: Path, before: str | bytes, old: str, new: str = "new") -> str:
    """The error of an edit, which leaves the file as it was."""
    tree(root, {"a.txt": before})
    held = (root / "a.txt").read_bytes()
    with pytest.raises(ToolError) as caught:
        await call("edit", root, path="a.txt", oldString=old, newString=new)
    assert (root / "a.txt").read_bytes() == held
    assert os.listdir(root) == ["a.txt"]
    return str(caught.value)


async def test_it_says_how_many_texts_it_replaced(tmp_path: Path) -> None:
    """[BT-100] One replacement, two replacements; the path is named as it was given."""
    tree(tmp_path, {"a.txt": "one two two\n"})
    result = await call("edit", tmp_path, path="./a.txt", oldString="one", newString="1")
    assert (result.output, result.metadata) == ("Edited ./a.txt (1 replacement)", {"replacements": 1})
    result = await call("edit", tmp_path, path="a.txt", oldString="two", newString="three", replaceAll=True)
    assert (result.output, result.metadata) == ("Edited a.txt (2 replacements)", {"replacements": 2})
    assert (tmp_path / "a.txt").read_bytes() == b"1 three three\n"


async def test_an_empty_new_text_deletes_the_old_one(tmp_path: Path) -> None:
    """[BT-100] `newString` may be empty, and the file, too, in the end."""
    assert await edited(tmp_path, "a\nb\n", "b\n", "") == b"a\n"
    assert await edited(tmp_path, "all", "all", "") == b""


async def test_a_text_that_occurs_twice_is_not_guessed_at(tmp_path: Path) -> None:
    """[BT-101] The error names the line of each place; nothing is changed."""
    error = await refused(tmp_path, "x = 1\ny\nx = 1\n", "x = 1")
    assert error.startswith("oldString is not unique in 'a.txt', it is at lines 1, 3; give more")
    error = await refused(tmp_path, "x\n" * 500, "x")
    assert "at lines 1, 2, 3" in error and error.count(",") < 110 and "and more" in error


async def test_places_that_overlap_are_two(tmp_path: Path) -> None:
    """[BT-101] What fits at two offsets is ambiguous although it can be replaced only once."""
    assert "it is at lines 1, 2;" in await refused(tmp_path, "\n\n\n", "\n\n")
    assert await edited(tmp_path, "aaa", "aa", "b", replaceAll=True) == b"ba"


async def test_replace_all_does_not_look_at_what_it_wrote(tmp_path: Path) -> None:
    """[BT-101] The new text may hold the old one."""
    assert await edited(tmp_path, "a b a", "a", "aa", replaceAll=True) == b"aa b aa"


@pytest.mark.parametrize(
    ("before", "old", "hint"),
    [
        ("def f():\n\treturn 1\n", "def f():\n    return 1", "it is at lines 1-2: 'def f():', '\\treturn 1'"),
        ("a  b\n", "a b", "with other spaces, tabs or line breaks it is at line 1: 'a  b'"),
        ("one\ntwo\nthree\n", "one\ntwo\nfour", "its first 2 lines are at line 1, but line 3 is 'three'"),
        ("x\n  one\ntwo\n", "one\nfour", "its first line is at line 2, but line 3 is 'two', not 'four'"),
        ("one\ntwo", "two\nthree", "its first line is at line 2, where the file ends"),
        ("total = price * count\n", "total = prize * count", "the nearest line is line 1: 'total = price"),
        (b"caf\xe9 au lait\n", "caf\ufffd au lait", "bytes that are no UTF-8 look like \ufffd"),
        ("a\n", "", "oldString is empty"),
        ("", "x", "oldString was not found in 'a.txt'"),
    ],
)  # fmt: skip
async def test_a_text_that_is_not_there_gets_the_nearest_place(
    before: str | bytes, old: str, hint: str, tmp_path: Path
) -> None:
    """[BT-102] Other white space, a common beginning, a similar line; nothing is changed."""
    error = await refused(tmp_path, before, old)
    assert hint in error
    assert ("not found in 'a.txt'" in error) is bool(old)


async def test_an_edit_must_change_something(tmp_path: Path) -> None:
    """[BT-103] Equal texts and an empty old text are errors."""
    assert "are the same; nothing to change in 'a.txt'" in await refused(tmp_path, "a\n", "a", "a")
    assert "set the whole content with write" in await refused(tmp_path, "", "", "x")


async def test_what_is_no_unicode_text_is_refused(tmp_path: Path) -> None:
    """[BT-103] A lone surrogate is named with its place, in either text."""
    assert "character 2 ('\\ud800') of newString" in await refused(tmp_path, "a\n", "a", "a\ud800")
    assert "character 1 ('\\udce9') of oldString" in await refused(tmp_path, b"\xe9\n", "\udce9")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "y\nz", b"y\r\nz\r\nc\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny\r\nz", b"x\ny\nz\n"),
        (b"a\r\nb\r\n", "a", "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb\r\n", "\nb", "", b"a\r\n"),
        (b"a", "a", "x\r\ny", b"x\r\ny"),
        (b"a\rb\rc", "b", "x", b"a\rx\rc"),
        (b"a\r\r\nb\r\n", "b", "c\nd", b"a\r\r\nc\r\nd\r\n"),
    ],
)
async def test_line_ends_are_those_of_the_file(
    before: bytes, old: str, new: str, after: bytes, tmp_path: Path
) -> None:
    """[BT-104] Both texts may come with any line end; the file's own ones are matched and written."""
    assert await edited(tmp_path, before, old, new) == after


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\nc\r\nd\n", "b", "x\ny", b"a\r\nx\ny\nc\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "c", "x\ny", b"a\r\nb\nx\r\ny\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nB\nc\nd", b"a\r\nB\nc\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "A\nb\nnew\nc\nD", b"A\r\nb\nnew\nc\r\nD\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\n", "a\nc\n", b"a\r\nc\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\n", "x\ny\nz\n", b"x\r\ny\nz\nc\r\nd\n"),
    ],
)
async def test_mixed_line_ends_change_only_where_lines_change(
    before: bytes, old: str, new: str, after: bytes, tmp_path: Path
) -> None:
    """[BT-104] A line that stays keeps its own end; a new one gets that of the lines it replaces."""
    assert await edited(tmp_path, before, old, new) == after


async def test_each_replacement_follows_its_own_neighbourhood(tmp_path: Path) -> None:
    """[BT-104] With `replaceAll`, too."""
    after = await edited(tmp_path, b"a\r\nx\r\na\nx\n", "a\nx", "1\n2\n3", replaceAll=True)
    assert after == b"1\r\n2\r\n3\r\n1\n2\n3\n"


async def test_texts_that_differ_in_line_ends_only_are_meant_literally(tmp_path: Path) -> None:
    """[BT-104] So line ends can be changed on purpose."""
    assert await edited(tmp_path, b"a\r\nb\r\n", "a\r\n", "a\n") == b"a\nb\r\n"
    assert await edited(tmp_path, b"a\nb\n", "a\nb\n", "a\r\nb\r\n") == b"a\r\nb\r\n"
    assert "not found" in await refused(tmp_path, b"a\r\nb\r\n", "a\n", "a\r\n")


async def test_huge_changes_between_mixed_ends_stay_quick(tmp_path: Path) -> None:
    """[BT-104] Beyond some size only what is alike at both ends is compared."""
    before = b"head\r\n" + b"line\n" * 3_000 + b"tail\r\nrest\n"
    old = "head\n" + "line\n" * 3_000 + "tail\n"
    after = await edited(tmp_path, before, old, old.replace("line", "LINE"))
    assert after == before.replace(b"line", b"LINE")


async def test_bytes_that_are_no_utf8_survive(tmp_path: Path) -> None:
    """[BT-105] Latin-1 beside the change stays as it is, and a text in UTF-8 does not match it."""
    assert await edited(
        tmp_path, b"caf\xe9 \xff = 1\n", "= 1", "= 2 \u20ac"
    ) == "caf\udce9 \udcff = 2 €\n".encode("utf-8", "surrogateescape")
    assert "not found" in await refused(tmp_path, b"caf\xe9\n", "café")


async def test_a_byte_order_mark_stays(tmp_path: Path) -> None:
    """[BT-105] It is no part of the text, whether a model sends it or not."""
    assert await edited(tmp_path, BOM + b"a\n", "a", "b") == BOM + b"b\n"
    assert await edited(tmp_path, BOM + b"a\n", "\ufeffa", "\ufeffb") == BOM + b"b\n"
    assert await edited(tmp_path, BOM + b"a\n", "\ufeffa", "b") == BOM + b"b\n"
    assert await edited(tmp_path, BOM + b"a\n", "a\n", "") == BOM


async def test_a_missing_last_line_end_stays_missing(tmp_path: Path) -> None:
    """[BT-105] None is added, none is taken."""
    assert await edited(tmp_path, "a\nb", "a", "x") == b"x\nb"
    assert await edited(tmp_path, "a\nb", "b", "x\ny") == b"a\nx\ny"
    assert await edited(tmp_path, "a\nb\n", "b", "x") == b"a\nx\n"


async def test_permissions_stay_and_links_are_written_through(tmp_path: Path) -> None:
    """[BT-105] The file behind the link changes, with the mode it had; the link stays a link."""
    tree(tmp_path, {"bin/run.sh": "old"})
    (tmp_path / "bin" / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("bin/run.sh")
    await call("edit", tmp_path, path="link", oldString="old", newString="new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "bin" / "run.sh").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "bin" / "run.sh").stat().st_mode) == 0o755
    assert os.listdir(tmp_path / "bin") == ["run.sh"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only the superuser gives files away")
async def test_the_owner_stays(tmp_path: Path) -> None:
    """[BT-105] An edit by the superuser does not take the file from its owner."""
    tree(tmp_path, {"a.txt": "old"})
    os.chown(tmp_path / "a.txt", 1234, 4321)
    (tmp_path / "a.txt").chmod(0o4750)
    await call("edit", tmp_path, path="a.txt", oldString="old", newString="new")
    found = (tmp_path / "a.txt").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o4750)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("text".encode("utf-16"), "is UTF-16 or UTF-32 text; convert it to UTF-8"),
        (b"\xfe\xff" + "text".encode("utf-16-be"), "is UTF-16 or UTF-32 text"),
        ("text".encode("utf-32"), "is UTF-16 or UTF-32 text"),
        ("text".encode("utf-16-le"), "is a binary file"),
        (b"text\0", "is a binary file; only text can be changed"),
    ],
)
async def test_what_is_no_text_is_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    """[BT-106] UTF-16 and binary files are left alone, with the reason."""
    assert f"'a.txt' {reason}" in await refused(tmp_path, data, "t")


async def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    """[BT-106] The nearest names are given; nothing is made."""
    tree(tmp_path, {"src/main.py": "a"})
    with pytest.raises(ToolError, match=r"'src/mian.py' does not exist; did you mean 'main.py'\?"):
        await call("edit", tmp_path, path="src/mian.py", oldString="a", newString="b")
    with pytest.raises(ToolError, match="'src' is a directory"):
        await call("edit", tmp_path, path="src", oldString="a", newString="b")


async def test_size_is_bounded_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-106] A file that is too large, and one that would become so, are left alone."""
    monkeypatch.setattr(edit, "_LIMITS", {**definition("edit").limits, "maxFileBytes": 1_000})
    assert "has more than 1000 bytes" in await refused(tmp_path, "x" * 1_001, "x")
    assert "would have more than 1000 bytes" in await refused(tmp_path, "abc", "b", "x" * 1_000)
    tree(tmp_path, {"a.txt": "x" * 1_000})
    with pytest.raises(ToolError, match="would have more than 1000 bytes"):
        await call("edit", tmp_path, path="a.txt", oldString="x", newString="y" * 1_000_000, replaceAll=True)


async def test_edits_of_one_file_at_once_are_all_kept(tmp_path: Path) -> None:
    """[BT-107] Together with patches and through other names of the file."""
    count = 24
    tree(tmp_path, {"a.txt": "".join(f"<{n}>\n" for n in range(count))})
    (tmp_path / "link").symlink_to("a.txt")

    async def one(n: int) -> None:
        if n % 3 == 2:
            patch = f"*** Begin Patch\n*** Update File: ./a.txt\n-<{n}>\n+[{n}]\n*** End Patch"
            await call("apply_patch", tmp_path, patchText=patch)
        else:
            path = "a.txt" if n % 3 else "link"
            await call("edit", tmp_path, path=path, oldString=f"<{n}>", newString=f"[{n}]")

    async with asyncio.timeout(30):
        await asyncio.gather(*[one(n) for n in range(count)])
    assert (tmp_path / "a.txt").read_text() == "".join(f"[{n}]\n" for n in range(count))
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "link"]
    assert not turns._turns


async def test_a_model_may_change_one_file_several_times_in_one_turn(tmp_path: Path) -> None:
    """[BT-107] In a run of a client, too; what cannot be done is a failed result beside the others."""
    tree(tmp_path, {"a.txt": "one\r\ntwo\r\nthree\r\n"})
    patch = "*** Begin Patch\n*** Update File: a.txt\n-three\n+3\n*** Add File: b.txt\n+b\n*** End Patch"
    turn_of_calls = reply(
        use("edit", path="a.txt", oldString="one\n", newString="1\n"),
        use("edit", path="a.txt", oldString="two", newString="2"),
        use("apply_patch", patchText=patch),
        use("edit", path="a.txt", oldString="four", newString="4"),
        use("edit", path="a.txt", oldString="five"),
    )
    model = ScriptedModel([turn_of_calls, "done"])
    async with asyncio.timeout(30), Client(model=model, workdir=tmp_path, builtins=["edit", "a*"]) as client:
        result = await client.ask("go")
    found = [
        part for message in result.messages for part in message.parts if isinstance(part, ToolResultPart)
    ]
    assert [part.output for part in found[:3]] == [
        "Edited a.txt (1 replacement)",
        "Edited a.txt (1 replacement)",
        "Applied patch: 2 file operations",
    ]
    assert [part.is_error for part in found] == [False, False, False, True, True]
    assert "not found" in found[3].output and "newString: required" in found[4].output
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n2\r\n3\r\n"


async def test_an_edit_waits_for_its_turn_no_longer_than_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-108] What comes after that changes nothing."""
    tree(tmp_path, {"a.txt": "old"})
    monkeypatch.setattr(edit, "_LIMITS", {**definition("edit").limits, "seconds": 0.1})
    with turns.turn(tmp_path / "a.txt"):
        with pytest.raises(ToolError, match=r"stopped after 0.1 s; the file was left as it was"):
            async with asyncio.timeout(5):
                await call("edit", tmp_path, path="a.txt", oldString="old", newString="new")
    with turns.turn(tmp_path / "a.txt"):  # whoever waited has given up
        assert (tmp_path / "a.txt").read_text() == "old"


async def test_a_cancelled_edit_changes_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-108] The thread that goes on alone stops before it replaces the file, and tidies up."""
    tree(tmp_path, {"a.txt": "old"})
    reached, go_on = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        reached.set()
        assert go_on.wait(5)

    monkeypatch.setattr(os, "fsync", slow)
    task = asyncio.create_task(call("edit", tmp_path, path="a.txt", oldString="old", newString="new"))
    async with asyncio.timeout(5):
        while not reached.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    go_on.set()
    with turns.turn(tmp_path / "a.txt"):
        assert (tmp_path / "a.txt").read_text() == "old"
        assert os.listdir(tmp_path) == ["a.txt"]


async def test_the_loop_runs_on_during_a_large_edit(tmp_path: Path) -> None:
    """[BT-108] Megabytes, a hundred thousand places, and a text that is not found."""
    tree(tmp_path, {"a.txt": "some words in a line\r\n" * 100_000})
    async with lively_loop(0.5):
        await output(
            "edit", tmp_path, path="a.txt", oldString="a line\n", newString="a row\n", replaceAll=True
        )
        with pytest.raises(ToolError, match="its first line is at line 1, but line 2"):
            await call("edit", tmp_path, path="a.txt", oldString="some words in a row\nother", newString="x")
    assert (tmp_path / "a.txt").read_bytes() == b"some words in a row\r\n" * 100_000


async def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-109] A command or an editor that changed the file after it was read keeps its change."""
    tree(tmp_path, {"a.txt": "old"})
    commit = edit.commit

    def later(changes: list[Change], clock: Clock) -> None:
        time.sleep(0.01)
        (tmp_path / "a.txt").write_text("theirs")
        commit(changes, clock)

    monkeypatch.setattr(edit, "commit", later)
    with pytest.raises(ToolError, match=r"'a.txt' was left as it was: somebody else has changed it"):
        await call("edit", tmp_path, path="a.txt", oldString="old", newString="new")
    assert (tmp_path / "a.txt").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["a.txt"]
