"""Glob patterns, what .gitignore excludes, and the builtin `glob`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builtins.helpers import call, git, output, tree
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.globs import Glob
from toolnexus.tools.builtin.places import Folder
from toolnexus.tools.builtin.walk import Skipped, walk

anyio = pytest.mark.anyio


def wants(glob: Glob, path: str, folder: bool = False) -> bool:
    """Whether a walk would show a file, or look into a folder."""
    *above, name = path.split("/")
    level = glob.top
    for one in above:
        if not level.wants(one, True):
            return False
        level = level.below(one)
    return level.wants(name, folder)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.py", ["a.py", "[x].py"], ["a.pyc", "src/a.py", ".py", ".a.py"]),
        ("**/*.py", ["a.py", "src/a.py", "a/b/c.py"], [".hid/a.py", "a/.b.py", "a.txt"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "a/src/b", "src/.a"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/x/y/test_.py"], ["test_a.py", "src/test_a/b.py"]),
        ("**", ["a", "a/b"], [".a", "a/.b"]),
        (".github/**", [".github/a", ".github/w/b"], ["github/a", ".github/.x"]),
        ("**/.*", [".a", "x/.b"], ["a", ".a/b"]),
        ("?", ["a", "ä"], ["ab", "."]),
        ("[a-c]x[!0-9]", ["axy", "cx."], ["dxy", "ax5", "axyz"]),
        ("[]x]", ["]", "x"], ["a"]),
        ("[^]x]", ["a"], ["]", "x"]),
        ("[z-a]", [], ["a", "z", "-"]),
        ("[a", ["[a"], ["a"]),
        ("a[b-]", ["ab", "a-"], ["ac"]),
        (r"\*\[a", ["*[a"], ["x[a"]),
        ("a\\", [], ["a", "a\\"]),
        ("*.{ts,tsx}", ["a.ts", "b.tsx"], ["a.t", "a.{ts,tsx}"]),
        ("{src,test/{a,b}}/*.c", ["src/x.c", "test/a/x.c", "test/b/x.c"], ["test/x.c"]),
        ("a{}b{c}", ["a{}b{c}"], ["ab"]),
        ("{a", ["{a"], ["a"]),
        ("./src//*.py", ["src/a.py"], ["a.py"]),
        ("a*b*c", ["abc", "aXbXc", "abbcbc"], ["ab", "acb"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
        ("x+(y)|$", ["x+(y)|$"], ["xx(y)"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    """[BT-40] `*`, `?` and sets stay in one name, `**` spans folders, braces choose, a dot is explicit."""
    glob = Glob(pattern)
    assert [path for path in matching if not wants(glob, path)] == []
    assert [path for path in others if wants(glob, path)] == []


def test_a_walk_enters_only_folders_that_can_hold_a_match() -> None:
    """[BT-40] `src/*/x` looks at nothing outside of src and nothing two levels below it."""
    glob = Glob("src/*/x")
    assert [f for f in ("src", "src/a", "lib", "src/a/b") if wants(glob, f, True)] == ["src", "src/a"]


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../b", "{a,/b}"])
def test_a_pattern_stays_below_its_folder(pattern: str) -> None:
    """[BT-41] An absolute pattern and `..` are errors that point to `path`."""
    with pytest.raises(ToolError, match="must stay below `path`"):
        Glob(pattern)


@pytest.mark.parametrize("pattern", ["{a,b}" * 9, "{a,b}" * 500, "{" * 500 + "a,b" + "}" * 500])
def test_braces_are_bounded(pattern: str) -> None:
    """[BT-41] A pattern that stands for more than 256 others is an error."""
    with pytest.raises(ToolError, match="use fewer braces"):
        Glob(pattern)


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "[a-z]*" * 60 + "!", "**/" * 60 + "b", "?*" * 60 + "b"])
def test_no_pattern_takes_long(pattern: str, tmp_path: Path) -> None:
    """[BT-42] Hostile patterns, also those of a .gitignore, cost time in proportion to their length."""
    path = "/".join(["a" * 200] * 20)
    started = time.process_time()
    assert not wants(Glob(pattern), path)
    tree(tmp_path, {".gitignore": pattern, "a" * 200 + "/" + "a" * 200: ""})
    assert len(list(walk(tmp_path, tmp_path, Glob("**"), Skipped(), Clock(10, "")))) == 1
    assert time.process_time() - started < 0.5


@anyio
async def test_paths_are_relative_to_the_root_and_sorted(tmp_path: Path) -> None:
    """[BT-43] `*.py` finds files at the top of `path` only; answers can be handed to read as they are."""
    tree(tmp_path, {"b.py": "", "a.py": "", "src/c.py": "", "src/a/d.py": "", "src/a.py": "", "x.txt": ""})
    assert await output("glob", tmp_path, pattern="*.py") == "a.py\nb.py"
    assert await output("glob", tmp_path, pattern="**/*.py") == "a.py\nb.py\nsrc/a.py\nsrc/a/d.py\nsrc/c.py"
    result = await call("glob", tmp_path, pattern="*.py", path="src")
    assert result.output == "src/a.py\nsrc/c.py"
    assert result.metadata == {"count": 2}


@anyio
async def test_folders_are_not_listed_and_links_not_followed(tmp_path: Path) -> None:
    """[BT-43] Only files are listed; a symbolic link is named as left out."""
    tree(tmp_path, {"src/a.py": ""})
    (tmp_path / "link").symlink_to("src")
    assert await output("glob", tmp_path, pattern="**/*") == "src/a.py\n[1 symbolic link skipped (link)]"
    assert await output("glob", tmp_path, pattern="*", path="link") == "src/a.py"


@anyio
async def test_the_limit_says_how_many_there_are(tmp_path: Path) -> None:
    """[BT-44] The first `limit` paths (100 unless given, at most 1,000), and the number of all."""
    tree(tmp_path, {f"{n:04}": "" for n in range(1_005)})
    for limit, shown in ((None, 100), (3, 3), (5_000, 1_000)):
        arguments: dict[str, Any] = {} if limit is None else {"limit": limit}
        result = await call("glob", tmp_path, pattern="*", **arguments)
        *paths, note = result.output.split("\n")
        assert paths == [f"{n:04}" for n in range(shown)]
        assert note == f"[the first {shown} of 1005 files: narrow the pattern or raise the limit]"
        assert result.metadata == {"count": shown}


@anyio
async def test_no_match_is_a_sentence_and_no_folder_an_error(tmp_path: Path) -> None:
    """[BT-45] Nothing found is no error; a `path` that is no directory is one."""
    tree(tmp_path, {"a.txt": "", "src/b.txt": ""})
    result = await call("glob", tmp_path, pattern="*.py", path="src")
    assert (result.output, result.is_error) == ("No file below 'src' matches '*.py'.", False)
    assert result.metadata == {"count": 0}
    with pytest.raises(ToolError, match=r"'a\.txt' is not a directory"):
        await call("glob", tmp_path, pattern="*", path="a.txt")
    with pytest.raises(ToolError, match="'scr' does not exist; did you mean 'src'"):
        await call("glob", tmp_path, pattern="*", path="scr")


@anyio
async def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    """[BT-46] Ignored and hidden entries that would match are counted and named; `.git` never."""
    tree(
        tmp_path,
        {
            ".gitignore": "build/\n*.log\n",
            "build/a.py": "",
            "a.py": "",
            "b.log": "",
            ".hidden/a.py": "",
            ".env": "",
            ".git/config": "",
        },
    )
    assert await output("glob", tmp_path, pattern="**/*") == (
        "a.py\n[1 hidden directory skipped (.hidden/); 1 hidden file skipped (.env); "
        "1 ignored directory skipped (build/); 1 ignored file skipped (b.log)]"
    )
    assert await output("glob", tmp_path, pattern="*.py") == "a.py"
    assert await output("glob", tmp_path, pattern=".e*") == ".env"
    assert await output("glob", tmp_path, pattern="*", path="build") == "build/a.py"
    assert await output("glob", tmp_path, pattern="*", path=".hidden") == ".hidden/a.py"


@anyio
async def test_a_name_that_is_no_utf8_can_be_shown(tmp_path: Path) -> None:
    """[BT-46] Every answer can be sent as text, and does nothing to a terminal; escapes are explained."""
    (tmp_path / os.fsdecode(b"gr\xfcn.txt")).write_text("x\n")
    (tmp_path / "a\x1b[31m\u202eb \u202fc").write_text("x\n")
    *shown, note = (await output("glob", tmp_path, pattern="*")).split("\n")
    assert shown == ["a\\x1b[31m\\u202eb \u202fc", "gr\\xfcn.txt"]
    assert note.startswith("[an escape such as \\x1b stands for") and "rename the file" in note
    *shown, note = (await output("grep", tmp_path, pattern="x")).split("\n")
    assert shown == ["a\\x1b[31m\\u202eb \u202fc:1:x", "gr\\xfcn.txt:1:x"]
    assert note.startswith("[an escape such as")


FILES = [
    "a",
    "b",
    "x y",
    "ab/a",
    "ab/b",
    "ab/c/a",
    "ab/c/ab",
    "c/a",
    "c/b",
    "c/ab/a",
    "c/c/c/b",
    "#a",
    "!b",
    "a.b",
]
ODD = re.compile(r"[^/*]\*\*|\*\*[^/*]")
"""Two stars inside a name: what git makes of them depends on the letters before."""
PIECES = ["a", "b", "ab", "c", "*", "**", "/", "**/", "/**", "!", "?"]
LINE = st.one_of(
    st.text(alphabet="abc/*?![]-#. \\", max_size=8),
    st.lists(st.sampled_from(PIECES), max_size=5).map("".join),
).filter(lambda line: not ODD.search(line.removeprefix("!")))


def test_ignore_files_mean_what_git_says(tmp_path: Path) -> None:
    """[BT-47] .gitignore files at any depth exclude exactly what git leaves out."""
    tree(tmp_path, dict.fromkeys(FILES, ""))
    git(tmp_path, "init", "--quiet")

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(top=st.lists(LINE, max_size=4), nested=st.lists(LINE, max_size=2))
    def agrees(top: list[str], nested: list[str]) -> None:
        tree(tmp_path, {".gitignore": "\n".join(top), "c/.gitignore": "\n".join(nested)})
        told = git(tmp_path, "ls-files", "-z", "--others", "--exclude-standard").split("\0")[:-1]
        found = walk(tmp_path, tmp_path, Glob("**"), Skipped(), Clock(10, ""))
        assert sorted(found) == sorted([name for name in told if not name.endswith(".gitignore")])

    agrees()


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        ("*\n!keep.txt\n", ["keep.txt"]),
        ("/a.txt\n", ["keep.txt", "src/a.txt", "src/b.log"]),
        ("src/*\n!src/b.log\n", ["a.txt", "keep.txt", "src/b.log"]),
        ("src\n!src/b.log\n", ["a.txt", "keep.txt"]),
        ("# a\n\n\\#x\na.txt  \r\n", ["keep.txt", "src/b.log"]),
        ("\ufeffa.txt", ["keep.txt", "src/b.log"]),
        ("**/src/**", ["a.txt", "keep.txt"]),
        ("!\n\\\n[\n", ["a.txt", "keep.txt", "src/a.txt", "src/b.log"]),
    ],
)
def test_what_lines_of_an_ignore_file_mean(ignore: str, left: list[str], tmp_path: Path) -> None:
    """[BT-47] Anchors, negation, comments, trailing blanks; a line that is no pattern is passed over."""
    tree(tmp_path, {"a.txt": "", "keep.txt": "", "src/a.txt": "", "src/b.log": "", ".gitignore": ignore})
    assert sorted(walk(tmp_path, tmp_path, Glob("**"), Skipped(), Clock(10, ""))) == left


def test_rules_of_the_folders_above_hold_up_to_the_repository(tmp_path: Path) -> None:
    """[BT-48] A search that starts in a folder knows the rules above it, as far as the repository reaches."""
    tree(
        tmp_path,
        {
            ".gitignore": "never.txt\n",
            "repo/.git/HEAD": "",
            "repo/.gitignore": "*.log\n/src/gen/\n",
            "repo/src/a.log": "",
            "repo/src/never.txt": "",
            "repo/src/gen/b.txt": "",
            "repo/src/gen/c.log": "",
        },
    )
    src = tmp_path / "repo" / "src"

    def found(start: Path) -> list[str]:
        return sorted(walk(start, tmp_path, Glob("**"), Skipped(), Clock(10, "")))

    assert found(src) == ["never.txt"]
    assert found(src / "gen") == ["b.txt", "c.log"]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-46] A folder below that cannot be read is left out and said."""
    tree(tmp_path, {"a": "", "closed/b": ""})
    entries = Folder.entries

    def closed(self: Folder) -> Generator[os.DirEntry[str]]:  # the superuser may list everything
        if self.path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return entries(self)

    monkeypatch.setattr(Folder, "entries", closed)
    skipped = Skipped()
    assert list(walk(tmp_path, tmp_path, Glob("**"), skipped, Clock(10, ""))) == ["a"]
    assert skipped.note() == "[1 unreadable directory skipped (closed/)]"


def test_a_walk_stops_when_its_time_is_up(tmp_path: Path) -> None:
    """[BT-49] A search of too many files ends with an error that says how to narrow it."""
    tree(tmp_path, {"a": ""})
    with pytest.raises(ToolError, match="stopped after 0 s; look elsewhere"):
        list(walk(tmp_path, tmp_path, Glob("**"), Skipped(), Clock(0, "look elsewhere")))
