"""read, grep and glob on whatever a folder may hold: bounded, clear, and never in the loop's way."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, lively_loop, no_ripgrep, output, tree
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.tools.builtin import grep, read, search
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.globs import Glob
from toolnexus.tools.builtin.walk import Skipped, walk

pytestmark = pytest.mark.anyio

WITH_RIPGREP = search.ripgrep() is not None
ENGINES = ["python", pytest.param("ripgrep", marks=pytest.mark.skipif(not WITH_RIPGREP, reason="no ripgrep"))]
GIGABYTE = 1 << 30
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("read", {}),
    ("grep", {"pattern": "x"}),
    ("glob", {"pattern": "*"}),
]
"""What one may ask of a path."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with both engines."""
    if request.param == "python":
        monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    return request.param


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a gigabyte of text: some lines, one without end, a last one. For all who only read it,
    because the system takes seconds to fill in a hole."""
    folder = tmp_path_factory.mktemp("huge")
    tree(folder, {"a.txt": "a needle\n", "text": LINES + b"x" * 9_000})
    grow(folder / "text", b"\nlast\n")
    return folder


LINES = b"one\ntwo\n" + b"x\n" * 5_000 + b"needle\n"


def grow(file: Path, end: bytes, size: int = GIGABYTE) -> None:
    """Make it so many bytes with `end` at its end."""
    with open(file, "r+b") as there:
        there.seek(size - len(end))
        there.write(end)


@pytest.mark.exhaustive
async def test_tens_of_thousands_of_files_are_searched_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-220] So many files, and rules to ignore others, are listed and searched well within the limit."""
    rules = [f"*.ext{n}\nname{n}/\n/top{n}/**/x\n" for n in range(40)]
    tree(tmp_path, {"seed-0": "a needle\n", "seed-1": "hay\n", ".gitignore": "".join(rules), "d/a.ext7": ""})
    for n in range(20_000):
        os.link(tmp_path / f"seed-{n % 2}", tmp_path / "d" / f"{n:05}")
    async with lively_loop(0.5):
        result = await call("glob", tmp_path, pattern="**/*", limit=2)
        note = (
            "[the first 2 of 20002 files: narrow the pattern or raise the limit]\n"
            "[1 ignored file skipped (d/a.ext7)]"
        )
        assert result.output == f"d/00000\nd/00001\n{note}"
        for engine in (search.ripgrep, no_ripgrep):
            monkeypatch.setattr(search, "ripgrep", engine)
            found = await output("grep", tmp_path, pattern="needle", limit=2)
            assert found.startswith("d/00000:1:a needle\nd/00002:1:a needle\n[the first 2 matching lines")


def test_a_hostile_ignore_file_is_no_trap(tmp_path: Path) -> None:
    """[BT-221] A .gitignore of a megabyte of patterns stops the walk with the clock, not the interpreter."""
    tree(tmp_path, {".gitignore": "*a*b*c*\n" * 120_000, **{f"f{n}": "" for n in range(100)}})
    started = time.process_time()
    with pytest.raises(ToolError, match=r"stopped after 0.1 s"):
        list(walk(tmp_path, tmp_path, Glob("**"), Skipped(), Clock(0.1, "")))
    assert time.process_time() - started < 2


def test_an_ignore_file_that_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """[BT-221] As for git, a .gitignore that is a link, a folder or a FIFO says nothing, and nobody waits."""
    tree(tmp_path, {"link/a": "", "folder/.gitignore/x": "", "folder/a": "", "fifo/a": "", "rules": "*\n"})
    (tmp_path / "link" / ".gitignore").symlink_to(tmp_path / "rules")
    os.mkfifo(tmp_path / "fifo" / ".gitignore")
    found = sorted(walk(tmp_path, tmp_path, Glob("**"), Skipped(), Clock(5, "")))
    assert found == ["fifo/a", "folder/a", "link/a", "rules"]


@pytest.mark.exhaustive
async def test_a_huge_file_is_no_burden(engine: str, huge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-222] A gigabyte is searched line by line, and a line without end does no harm."""
    monkeypatch.setattr(grep, "_LIMITS", {**grep._LIMITS, "seconds": 60})  # a busy machine is no failure
    async with lively_loop(0.5):
        lines = (await output("grep", huge, pattern="needle")).split("\n")
    assert lines[:2] == ["a.txt:1:a needle", "text:5003:needle"]
    assert lines[2:] == (["[1 overlong line skipped (text)]"] if engine == "python" else [])


def test_a_search_needs_little_memory(tmp_path: Path) -> None:
    """[BT-222] Neither engine holds a large file in memory."""
    tree(tmp_path, {"text": LINES + b"x" * 9_000})
    grow(tmp_path / "text", b"\nlast\n", GIGABYTE // 4)
    job = json.dumps(
        {
            "pattern": "nowhere",
            "base": str(tmp_path),
            "files": ["text"],
            "limit": 9,
            "width": 9,
            "sniff": search._LIMITS["binarySniffBytes"],
        }
    )
    commands = [[sys.executable, "-I", "-S", str(search._CHILD)]]
    if program := search.ripgrep():
        commands.append([program, *search._FLAGS, *search._MAPPED, "-l", "--regexp=nowhere", "--", "text"])
    for command in commands:
        done = subprocess.run(  # data: what is not mapped from a file
            ["/bin/sh", "-c", 'ulimit -d 100000 && exec "$0" "$@"', *command],
            cwd=tmp_path,
            input=job,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "" and done.returncode in (0, 1), done.stderr


async def test_a_huge_file_is_read_in_parts(
    huge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-223] Of a gigabyte a window is read at once; a line without end is cut; zeros are a binary file."""
    monkeypatch.setattr(read, "_LIMITS", {**read._LIMITS, "seconds": 60})
    (tmp_path / "zeros").touch()
    grow(tmp_path / "zeros", b"\n")
    async with lively_loop(0.5):
        assert await output("read", huge, path="text", limit=2) == "one\ntwo"
        with pytest.raises(ToolError, match="'zeros' is a binary file"):
            await call("read", tmp_path, path="zeros")
        text = await output("read", huge, path="text", offset=5_004)
    size = GIGABYTE - len(LINES) - len("\nlast\n")
    assert text.startswith("x" * 9_000 + "\0") and len(text) < 25_000
    assert text.endswith(f" [… line cut, it has {size + 1} bytes]\nlast\n")


async def test_what_is_no_file_is_named_and_not_waited_for(engine: str, tmp_path: Path) -> None:
    """[BT-224] A FIFO in the tree is left out and said; named outright it is an error at once."""
    tree(tmp_path, {"a.txt": "needle\n"})
    os.mkfifo(tmp_path / "pipe")
    async with asyncio.timeout(5):
        note = "[1 special file skipped (pipe)]"
        assert await output("grep", tmp_path, pattern="needle") == f"a.txt:1:needle\n{note}"
        assert await output("glob", tmp_path, pattern="*") == f"a.txt\n{note}"
        assert await output("glob", tmp_path, pattern="*.txt") == "a.txt"
        for name, arguments in ASKED[:2]:
            with pytest.raises(ToolError, match="'pipe' is a FIFO"):
                await call(name, tmp_path, path="pipe", **arguments)


async def test_a_fifo_that_comes_in_between_is_not_waited_for(engine: str, tmp_path: Path) -> None:
    """[BT-224] What became a FIFO after it was listed holds a search until its time is up, at most."""
    os.mkfifo(tmp_path / "pipe")
    async with lively_loop(0.5), asyncio.timeout(5):
        if engine == "ripgrep":
            with pytest.raises(ToolError, match=r"stopped after 0\.3 s"):
                await search.search("x", ["pipe"], tmp_path, 1, Clock(0.3, ""))
        else:
            found = await search.search("x", ["pipe"], tmp_path, 1, Clock(5, ""))
            assert (found.hits, found.unreadable) == ([], ["pipe"])
    with ExitStack() as held:
        assert search._sorted_out(["pipe"], tmp_path, Clock(1, ""), held) == ({}, [])


async def test_links_in_a_circle_end_nowhere(engine: str, tmp_path: Path) -> None:
    """[BT-225] Links are not followed, so no circle of them is walked; named outright it is an error."""
    tree(tmp_path, {"d/a.txt": "needle\n"})
    (tmp_path / "d" / "up").symlink_to("..")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    note = "[3 symbolic links skipped (d/up, one, two)]"
    assert await output("grep", tmp_path, pattern="needle") == f"d/a.txt:1:needle\n{note}"
    assert await output("glob", tmp_path, pattern="**/*.txt") == "d/a.txt"
    assert await output("glob", tmp_path, pattern="**/*", path="d/up/d/up/d") == (
        "d/a.txt\n[1 symbolic link skipped (d/up)]".replace("(d/up)", "(up)")
    )
    for name, arguments in ASKED:
        with pytest.raises(ToolError, match="one"):
            await call(name, tmp_path, path="one", **arguments)


NASTY = {
    ".gitignore": "*.log\n!keep.log\n/build/\n**/tmp\nsub/*.txt\n",
    "a.log": "needle ignored\n",
    "keep.log": "needle kept\n",
    "build/x": "needle built\n",
    "deep/er/tmp/x": "needle temporary\n",
    "deep/er/y": "needle\r\nNEEDLE\r\n\r\nneedle at the end",
    "deep/.hidden/x": "needle hidden\n",
    "sub/.gitignore": "!yes.txt\n",
    "sub/yes.txt": "a needle\n",
    "sub/no.txt": "a needle\n",
    "-e": "needle dash\n",
    "a b:c;d": "needle: 1:2\n",
    'it\'s "quoted" $(x)': "needle\n",
    "[set]*?": "needle\n",
    "umlaut-ä-\u0308": "n\u00e4del needle\n",
    "empty": "",
    "line-ends": "\n\n\nneedle\n\n",
    "cr-only": "one needle\rtwo needle\rthree",
    "latin1": b"n\xe4del needle \xff\xfe\n\xc3\x28 needle\n",
    "surrogate": b"\xed\xa0\x80 needle\n",
    "bom8": b"\xef\xbb\xbfneedle\n",
    "bom16": "needle\nhay\n".encode("utf-16"),
    "bom16be": b"\xfe\xff" + "needle\n".encode("utf-16-be"),
    "nul-early": b"needle\0\nneedle\n",
    "nul-late": b"y" * 9_000 + b"\nneedle \0 after\n",
    "nul-only": b"\0" * 100,
    "long": "x" * 3_000 + "needle" + "y" * 3_000 + "\nneedle\n",
    "tabs": "\tneedle\t\n\x0bneedle\x0c\n\x1b[31mneedle\x1b[0m\n",
    "digits": "٣ needle 3\nnéedle\nNeEdLe\n\u017f \u212a\n",
    "words": "needle_x needle-x xneedle\n\u00a0needle\u2003\n",
}
PATTERNS = [
    "needle",
    "^needle",
    "needle$",
    r"\bneedle\b",
    "(?i)NEEDLE",
    r"\d",
    r"\w+ \w+",
    r"\s$",
    "^$",
    "^",
    "[^a-z]needle",
    "n.{4}e",
    "é|ä",
    r"\x00",
    "(?i)k|s",
    "needle.*needle",
    r"[[:cntrl:]]",
    r"a[^\n]*z|[\r\n\t]needle",
    r"needle\z",
    r"\W\W",
    "^two|needle$",
]


@pytest.mark.skipif(not WITH_RIPGREP, reason="no ripgrep here")
async def test_both_engines_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-226] On a tree of odd names, encodings and rules the answers are equal to the last byte."""
    tree(tmp_path, NASTY)
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("needle\n")
    (tmp_path / os.fsdecode(b"d\xff")).mkdir()
    (tmp_path / os.fsdecode(b"d\xff") / os.fsdecode(b"\xfe")).write_text("needle\n")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "line\nbreak").write_text("needle\n")
    os.mkfifo(tmp_path / "pipe")

    async def answers() -> list[ToolResult]:
        return [await call("grep", tmp_path, pattern=pattern, limit=1000) for pattern in PATTERNS]

    by_ripgrep = await answers()
    monkeypatch.setattr(search, "ripgrep", no_ripgrep)
    for pattern, one, other in zip(PATTERNS, by_ripgrep, await answers(), strict=True):
        assert other.output.split("\n") == one.output.split("\n"), pattern
        assert other.metadata == one.metadata
    assert by_ripgrep[0].metadata["count"] > 25


async def test_many_searches_at_once_leave_the_loop_alone(engine: str, tmp_path: Path) -> None:
    """[BT-227] Twenty searches and listings at the same time: the loop runs on, and each answer is whole."""
    tree(tmp_path, {f"{n // 50:02}/{n:04}": f"needle {n}\n" for n in range(1_000)})
    async with lively_loop(0.5), asyncio.timeout(60):
        searches = [output("grep", tmp_path, pattern=f"needle {n}$") for n in range(10)]
        listings = [output("glob", tmp_path, pattern=f"**/{n:04}") for n in range(10)]
        *found, last = await asyncio.gather(*searches, *listings, output("glob", tmp_path, pattern="**"))
    assert found == [f"00/{n:04}:1:needle {n}" for n in range(10)] + [f"00/{n:04}" for n in range(10)]
    assert "of 1000 files" in last


async def test_a_regular_expression_that_explodes_is_bounded(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-228] Patterns that backtrack, nest or repeat without measure end in time, one way or the other."""
    monkeypatch.setattr(grep, "_LIMITS", {**grep._LIMITS, "seconds": 0.2})
    tree(tmp_path, {"a.txt": "a" * 60 + "b\n"})
    async with lively_loop(0.5), asyncio.timeout(20):
        for pattern in (
            "(a*)*$",
            "(a|a)*$",
            "(a|aa)+$",
            "((a{1,1000}){1,1000}){1,1000}$",
            "(" * 500 + ")" * 500,
        ):
            try:
                answer = await output("grep", tmp_path, pattern=pattern)
            except ToolError as error:
                answer = str(error)
            assert answer.startswith(
                ("No line matches", "stopped after 0.2 s", "invalid regex", "a.txt:1:")
            ), answer
