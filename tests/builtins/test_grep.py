"""The builtin `grep`, with ripgrep and without."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, lively_loop, no_ripgrep, output, tree, until
from toolnexus.errors import ToolError
from toolnexus.tools.builtin import grep, search

pytestmark = pytest.mark.anyio

ENGINES = [
    pytest.param("ripgrep", marks=pytest.mark.skipif(search.ripgrep() is None, reason="no ripgrep here")),
    "python",
]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with both engines."""
    if request.param == "python":
        monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    return request.param


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tree(
        tmp_path,
        {
            ".gitignore": "build/\n*.log\n",
            "build/out.py": "needle in build\n",
            "debug.log": "needle in a log\n",
            ".env": "needle hidden\n",
            "a.py": "one\nneedle here\nNeedle there\n",
            "a/b.py": "needle deep\r\nlast needle",
            "a/b/c.txt": "a needle: with:colons\n",
            "data.bin": b"needle\0needle\n",
            "late.txt": b"x" * 9_000 + b"\n\0needle after a zero byte\n",
            "bom.txt": b"\xef\xbb\xbfneedle after a mark\n",
            "wide.txt": "needle".encode("utf-16"),
            "latin.txt": b"n\xfcx needle\n",
            "empty.txt": "",
        },
    )


HITS = """\
a.py:2:needle here
a/b.py:1:needle deep
a/b.py:2:last needle
a/b/c.txt:1:a needle: with:colons
bom.txt:1:needle after a mark
late.txt:2:\0needle after a zero byte
latin.txt:1:n\ufffdx needle"""
NOTE = (
    "[1 hidden file skipped (.env); 1 ignored directory skipped (build/); "
    "1 ignored file skipped (debug.log); 2 matching binary files skipped (data.bin, wide.txt)]"
)


async def test_hits_are_sorted_and_what_was_left_out_is_said(engine: str, project: Path) -> None:
    """[BT-50] `path:line:text` by path and line; ignored, hidden and binary files are named, not searched."""
    result = await call("grep", project, pattern="needle")
    assert result.output == f"{HITS}\n{NOTE}"
    assert result.metadata == {"count": 7}


async def test_what_is_named_outright_is_searched(engine: str, project: Path) -> None:
    """[BT-51] An ignored or hidden path is searched when `path` names it."""
    assert await output("grep", project, pattern="needle", path="build") == "build/out.py:1:needle in build"
    assert await output("grep", project, pattern="needle", path="debug.log") == "debug.log:1:needle in a log"
    assert await output("grep", project, pattern="needle", path=".env") == ".env:1:needle hidden"


async def test_a_word_only_in_an_ignored_folder_is_not_found_without_a_word(
    engine: str, tmp_path: Path
) -> None:
    """[BT-51] No hit is a sentence that says how many files were searched, and what was not."""
    tree(tmp_path, {".gitignore": "build/\n", "build/a": "needle\n", "b": "hay\n"})
    result = await call("grep", tmp_path, pattern="needle")
    assert result.output == (
        "No line matches 'needle' (1 file searched).\n[1 ignored directory skipped (build/)]"
    )
    assert (result.is_error, result.metadata) == (False, {"count": 0})


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("*.py", ["a.py:2", "a/b.py:1", "a/b.py:2"]),
        ("a/*.py", ["a/b.py:1", "a/b.py:2"]),
        ("**/*.{txt,log}", ["a/b/c.txt:1", "bom.txt:1", "late.txt:2", "latin.txt:1"]),
        (".e*", [".env:1"]),
    ],
)
async def test_include_chooses_files(engine: str, include: str, expected: list[str], project: Path) -> None:
    """[BT-52] Without a slash `include` is compared with the name, else with the path below `path`."""
    lines = (await output("grep", project, pattern="needle", include=include)).split("\n")
    assert [":".join(line.split(":")[:2]) for line in lines if not line.startswith("[")] == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^needle", ["a.py:2", "a/b.py:1", "bom.txt:1"]),
        ("deep$", ["a/b.py:1"]),
        ("(?i)NEEDLE THERE", ["a.py:3"]),
        (r"\bhere\b|with:", ["a.py:2", "a/b/c.txt:1"]),
        (r"n[[:alpha:]]{5} [h-t]", ["a.py:2"]),
        (r"^\w{3}$", ["a.py:1"]),
        ("(?P<x>h)(?<y>e)re", ["a.py:2", "a.py:3"]),
    ],
)
async def test_the_dialect_is_that_of_ripgrep(
    engine: str, pattern: str, expected: list[str], project: Path
) -> None:
    """[BT-53] Patterns are matched line by line, case-sensitive, line ends of any kind left out."""
    lines = (await output("grep", project, pattern=pattern)).split("\n")
    assert [":".join(line.split(":")[:2]) for line in lines if not line.startswith("[")] == expected


@pytest.mark.parametrize(
    ("pattern", "position", "what"),
    [
        ("foo(?=bar)", 4, "look-around is not supported"),
        ("a{", 2, "not a repetition"),
        ("ab(c", 3, "unclosed group"),
        ("a)b", 2, "closing parenthesis"),
        (r"(a)\1", 4, "backreferences are not supported"),
        ("x[z-a]", 3, "start is above its end"),
        (r"a\q", 2, "unknown escape"),
        ("*", 1, "repetition operator"),
        ("a\nb", 2, "cannot be searched for"),
        (r"a\nb", 2, "never spans lines"),
        ("a\0", 2, "cannot be searched for"),
        ("a\ud800", 2, "cannot be searched for"),
    ],
)
async def test_a_wrong_pattern_is_an_error_with_its_position(
    engine: str, pattern: str, position: int, what: str, tmp_path: Path
) -> None:
    """[BT-54] The error counts characters from 1, also when there is no file to search."""
    with pytest.raises(ToolError, match=f"at position {position}: .*{what}"):
        await call("grep", tmp_path, pattern=pattern)


async def test_a_pattern_has_a_bound(engine: str, tmp_path: Path) -> None:
    """[BT-54] A pattern of more than 10,000 characters is an error."""
    tree(tmp_path, {"a": "x\n"})
    assert await output("grep", tmp_path, pattern="x" + "y?" * 4_999) == "a:1:x"
    with pytest.raises(ToolError, match="at most 10000 characters"):
        await call("grep", tmp_path, pattern="x" * 10_001)


@pytest.mark.skipif(search.ripgrep() is None, reason="no ripgrep here")
async def test_what_only_ripgrep_can_judge_is_judged_by_it(tmp_path: Path) -> None:
    """[BT-54] With ripgrep its whole dialect is there, and its own errors have a position too."""
    tree(tmp_path, {"a": "abc äöü 12\n"})
    for pattern in (r"\p{L}{3} \p{L}", "(?x) a b c", "[a-z&&[^b]]c|a[b--c]", r"[[:^digit:]]"):
        assert await output("grep", tmp_path, pattern=pattern) == "a:1:abc äöü 12"
    with pytest.raises(ToolError, match=r"at position 2: Unicode property not found"):
        await call("grep", tmp_path, pattern=r"x\p{Foo}")


async def test_what_only_ripgrep_can_judge_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-54] Without ripgrep a pattern is either understood or refused, never misread."""
    monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    for pattern, position in ((r"a\pL", 2), ("(?x)a", 3), ("[a&&b]", 3), ("[a[^b]]", 3), ("(?-u)a", 4)):
        with pytest.raises(ToolError, match=f"position {position}: .* only where ripgrep is installed"):
            await call("grep", tmp_path, pattern=pattern)


async def test_the_limit_says_that_there_is_more(engine: str, tmp_path: Path) -> None:
    """[BT-55] The first `limit` hits (100 unless given, at most 1,000), and a note when there are more."""
    tree(tmp_path, {f"{n:02}.txt": "x\n" * 30 for n in range(50)})
    for limit, shown in ((None, 100), (31, 31), (5_000, 1_000)):
        arguments: dict[str, Any] = {} if limit is None else {"limit": limit}
        result = await call("grep", tmp_path, pattern="x", **arguments)
        *lines, note = result.output.split("\n")
        assert lines == [f"{n:02}.txt:{i}:x" for n in range(50) for i in range(1, 31)][:shown]
        assert note.startswith(f"[the first {shown} matching lines, there are more")
        assert result.metadata == {"count": shown}
    assert "there are more" not in await output("grep", tmp_path, pattern="x", path="00.txt", limit=30)


async def test_a_long_line_is_cut(engine: str, tmp_path: Path) -> None:
    """[BT-56] Of a line 500 characters are shown, however long it is."""
    tree(tmp_path, {"a.txt": "ä" * 600 + "\n" + "ü" * 1_000_000 + "needle\nö" + "\n" + "e" * 500})
    assert await output("grep", tmp_path, pattern="[äüöe]") == "\n".join(
        [
            f"a.txt:1:{'ä' * 500} [… line cut]",
            f"a.txt:2:{'ü' * 500} [… line cut]",
            "a.txt:3:ö",
            f"a.txt:4:{'e' * 500}",
        ]
    )


async def test_many_files_fit(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-57] More files than one command line takes are searched in the same order."""
    monkeypatch.setattr(search, "_ARGUMENTS", 200)
    tree(tmp_path, {f"{n:02}.txt": f"needle {n}\n" for n in range(40)})
    expected = [f"{n:02}.txt:1:needle {n}" for n in range(40)]
    assert (await output("grep", tmp_path, pattern="needle")).split("\n") == expected
    assert (await output("grep", tmp_path, pattern="needle", limit=25)).split("\n")[:-1] == expected[:25]


async def test_names_are_no_options(engine: str, tmp_path: Path) -> None:
    """[BT-57] File names and patterns with a leading dash are what they are."""
    tree(tmp_path, {"-v": "--files\n", "--pre=x": "hay\n", "a b:c": "--files\n"})
    assert await output("grep", tmp_path, pattern="--files") == "-v:1:--files\na b:c:1:--files"


async def test_the_environment_does_not_change_the_search(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-57] Nobody's ripgrep configuration, and no Python variable, has a say."""
    tree(tmp_path, {"conf": "--invert-match\n", "a.txt": "x\ny\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "conf"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    tree(tmp_path, {"re.py": "raise SystemExit('wrong module')\n"})
    assert await output("grep", tmp_path, pattern="x", path="a.txt") == "a.txt:1:x"


async def test_a_name_with_a_line_break_is_said_not_shown(engine: str, tmp_path: Path) -> None:
    """[BT-57] An answer has one hit a line, so a name that breaks the line is left out."""
    tree(tmp_path, {"a\nb": "x\n", "c": "x\n"})
    assert await output("grep", tmp_path, pattern="x") == "c:1:x\n[1 unprintable name skipped (a\\x0ab)]"
    with pytest.raises(ToolError, match="line break in its name"):
        await call("grep", tmp_path, pattern="x", path="a\nb")


async def test_a_search_that_is_killed_is_no_empty_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-59] When the system kills the search, for its memory say, that is an error."""
    monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    tree(tmp_path, {"a.txt": "a" * 40 + "b\n"})
    searching = asyncio.create_task(call("grep", tmp_path, pattern="(a+)+$"))
    await until(lambda: len(_children()) == 1)
    os.kill(int(_children()[0]), signal.SIGKILL)
    async with asyncio.timeout(5):
        with pytest.raises(ToolError, match="killed by signal 9"):
            await searching


async def test_a_file_that_cannot_be_read_is_named(engine: str, tmp_path: Path) -> None:
    """[BT-50] A file that vanishes or is closed to us is left out and said."""
    tree(tmp_path, {"a.txt": "x\n"})
    clock = search.Clock(10, "")
    found = await search.search("x", ["a.txt", "gone.txt"], tmp_path, 10, clock)
    assert [hit.file for hit in found.hits] == ["a.txt"]
    assert found.unreadable == ["gone.txt"]


async def test_a_catastrophic_pattern_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-58] A pattern that backtracks for ever is stopped; the loop runs on meanwhile."""
    monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    monkeypatch.setattr(grep, "_LIMITS", {**grep._LIMITS, "seconds": 1})
    tree(tmp_path, {"a.txt": "a" * 40 + "b\n"})
    started = time.monotonic()
    async with lively_loop():
        with pytest.raises(ToolError, match="stopped after 1 s; choose a smaller `path`"):
            await call("grep", tmp_path, pattern="(a+)+$")
    assert time.monotonic() - started < 10


@pytest.mark.skipif(search.ripgrep() is None, reason="no ripgrep here")
async def test_ripgrep_does_not_backtrack(tmp_path: Path) -> None:
    """[BT-58] The same pattern is harmless where ripgrep is installed."""
    tree(tmp_path, {"a.txt": "a" * 40 + "b\n"})
    async with lively_loop(), asyncio.timeout(5):
        assert "No line matches" in await output("grep", tmp_path, pattern="(a+)+$")


async def test_a_cancelled_search_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-59] Cancelling the call kills the search."""
    monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    tree(tmp_path, {"a.txt": "a" * 40 + "b\n"})
    searching = asyncio.create_task(call("grep", tmp_path, pattern="(a+)+$"))
    await until(lambda: len(_children()) == 1)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert not _children()


def _children() -> list[str]:
    """Our child processes, also those that ended and wait to be reaped."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [pid for task in tasks for pid in task.read_text().split()]
