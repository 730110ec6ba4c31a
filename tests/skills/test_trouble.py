"""Every kind of trouble with a skill file: it loads, or the report says where and why."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.skills.helpers import opened, reasons, write_skill
from toolnexus.tools.skills import SkillDef, load_skills, skill_source

pytestmark = pytest.mark.anyio

LONG, X65 = "x" * 1025, "x" * 65
BOMB = "\n".join(
    ["name: s", "description: d", "a: &a [x, x, x, x, x, x, x, x, x, x]"]
    + [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    + ["allowed-tools: *i"]
)

# what is wrong, the file, the name and description that it loads with, the reasons in the report
LOADS: list[tuple[str, str | bytes, tuple[str, str], list[str]]] = [
    ("a missing description", "name: s", ("s", ""), ["missing-description"]),
    ("an empty description", "name: s\ndescription:", ("s", ""), ["missing-description"]),
    ("another name than the folder", "name: t\ndescription: d", ("t", "d"), ["name-mismatch"]),
    ("a name with capitals", "name: Pdf\ndescription: d", ("Pdf", "d"), ["invalid-name", "name-mismatch"]),
    ("a name with spaces", "name: a  b\ndescription: d", ("a b", "d"), ["invalid-name", "name-mismatch"]),
    ("a name with --", "name: a--b\ndescription: d", ("a--b", "d"), ["invalid-name", "name-mismatch"]),
    ("a long name", f"name: {X65}\ndescription: d", (X65, "d"), ["invalid-name", "name-mismatch"]),
    ("a name in lines", "name: |\n  a\n  b\ndescription: d", ("a b", "d"), ["invalid-name", "name-mismatch"]),
    ("a long description", f"name: s\ndescription: {LONG}", ("s", LONG), ["long-description"]),
    ("an unquoted colon", "name: s\ndescription: Use: now", ("s", "Use: now"), ["rescued-yaml"]),
    ("a leading bracket", "name: s\ndescription: [WIP] d", ("s", "[WIP] d"), ["rescued-yaml"]),
    ("a bracket around all", "name: s\ndescription: [d, e]", ("s", "[d, e]"), ["rescued-yaml"]),
    ("a leading brace", "name: s\ndescription: {a} d", ("s", "{a} d"), ["rescued-yaml"]),
    ("a leading asterisk", "name: s\ndescription: *d* e", ("s", "*d* e"), ["rescued-yaml"]),
    ("a leading backtick", "name: s\ndescription: `d` e", ("s", "`d` e"), ["rescued-yaml"]),
    ("a leading percent", "name: s\ndescription: % of d", ("s", "% of d"), ["rescued-yaml"]),
    ("a leading at", "name: s\ndescription: @d", ("s", "@d"), ["rescued-yaml"]),
    ("a tab after a colon", "name:\ts\ndescription:\td", ("s", "d"), []),
    ("an indenting tab", "name: s\ndescription: d\nmetadata:\n\tk: v", ("s", "d"), ["rescued-yaml"]),
    ("a description given twice", "name: s\ndescription: c\ndescription: d", ("s", "d"), ["repeated-key"]),
    ("a number as name", "name: 12\ndescription: d", ("12", "d"), ["name-mismatch"]),
    ("a bool as name", "name: no\ndescription: d", ("no", "d"), ["name-mismatch"]),
    ("a date as name", "name: 2026-01-31\ndescription: d", ("2026-01-31", "d"), ["name-mismatch"]),
    ("null as name", "name: null\ndescription: d", ("null", "d"), ["name-mismatch"]),
    ("unknown keys", "name: s\ndescription: d\nfoo: 1\nmetadata: {a: [b]}", ("s", "d"), []),
    ("allowed-tools of no use", "name: s\ndescription: d\nallowed-tools: {a: b}", ("s", "d"), []),
    ("a tag", "name: s\ndescription: !!python/object/apply:os.getcwd d", ("s", "d"), []),
    ("an anchor", "name: &n s\ndescription: *n", ("s", "s"), []),
    ("an anchor of its own", "name: s\ndescription: d\na: &a [*a]", ("s", "d"), ["rescued-yaml"]),
    ("nesting beside it", "name: s\ndescription: d\na: " + "[" * 60_000, ("s", "d"), ["rescued-yaml"]),
    ("a bomb of anchors", BOMB, ("s", "d"), []),
    ("CRLF", b"---\r\nname: s\r\ndescription: d\r\n---\r\nbody\r\n", ("s", "d"), []),
    ("CR alone", b"---\rname: s\rdescription: d\r---\rbody", ("s", "d"), []),
    ("a byte order mark", b"\xef\xbb\xbf---\nname: s\ndescription: d\n---\n", ("s", "d"), []),
    ("an empty body", b"---\nname: s\ndescription: d\n---", ("s", "d"), []),
    ("one line as header", "{name: s, description: d}", ("s", "d"), []),
]  # fmt: skip

# what is wrong, the file, the reason, what the detail says
REPORTED: list[tuple[str, str | bytes, str, str]] = [
    ("no front matter", b"# Title\n", "missing-name", "no front matter"),
    ("an empty file", b"", "missing-name", "no front matter"),
    ("an empty front matter", b"---\n---\nbody", "missing-name", "no front matter"),
    ("a missing name", "description: d", "missing-name", "no text under 'name'"),
    ("an empty name", "name: ''\ndescription: d", "missing-name", "no text under 'name'"),
    ("a list as name", "name: [a]\ndescription: d", "missing-name", "no text under 'name'"),
    ("a mapping as name", "name: {a: b}\ndescription: d", "missing-name", "no text under 'name'"),
    ("a broken name", "name: a: b\ndescription: d", "malformed-frontmatter", "line 2"),
    ("a name with an asterisk", "name: *a\ndescription: d", "malformed-frontmatter", "line 2"),
    ("a name given twice", "name: s\nname: t", "malformed-frontmatter", "'name' stands there more than once"),
    ("a name without end", f"name: {'n' * 257}", "malformed-frontmatter", "257 characters"),
    ("no closing fence", b"---\nname: s\ndescription: d\n", "malformed-frontmatter", "no closing line"),
    ("an open quote", 'name: s\ndescription: "d', "malformed-frontmatter", "line"),
    ("a list as front matter", "- name\n- s", "malformed-frontmatter", "no 'key: value' lines"),
    ("a text as front matter", "name and description", "malformed-frontmatter", "no 'key: value' lines"),
    ("several documents", "name: s\n...\ndescription: d", "malformed-frontmatter", "document start"),
    ("a directive", "%TAG !\nname: s", "malformed-frontmatter", "line 2"),
    ("endless nesting", "name: " + "[" * 60_000, "malformed-frontmatter", "depth"),
    ("a header without end", f"name: s\nn: {'n' * 65_536}", "malformed-frontmatter", "at most 65536"),
    ("bytes that are not UTF-8", b"---\nname: s\xff\n---\n", "unreadable", "not UTF-8 at byte 11"),
    ("UTF-16", "---\nname: s\n---\n".encode("utf-16"), "unreadable", "NUL"),
    ("a NUL in the header", b"---\nname: s\0\n---\n", "unreadable", "NUL at byte 11"),
    ("a NUL in the body", b"---\nname: s\n---\n\0", "unreadable", "NUL at byte 16"),
    ("a huge file", b"---\nname: s\n---\n" + b"x" * (1 << 20), "unreadable", "larger than 1048576 bytes"),
]  # fmt: skip


def place(root: Path, content: str | bytes) -> Path:
    """A skill folder `s` with that file; text is the header alone."""
    if isinstance(content, str):
        return write_skill(root / "s", content) / "SKILL.md"
    (root / "s").mkdir()
    (root / "s" / "SKILL.md").write_bytes(content)
    return root / "s" / "SKILL.md"


@pytest.mark.parametrize(
    ("content", "loaded", "why"), [case[1:] for case in LOADS], ids=[c[0] for c in LOADS]
)
def test_a_file_with_a_flaw_loads_and_the_report_names_each_flaw(
    tmp_path: Path, content: str | bytes, loaded: tuple[str, str], why: list[str]
) -> None:
    """[SK-34] Name and description come out as its author meant them, at once, with one entry per flaw."""
    file = place(tmp_path, content)
    began = time.monotonic()
    (skill,), report = load_skills(tmp_path)
    assert time.monotonic() - began < 5
    assert (skill.name, skill.description) == loaded
    assert reasons(report) == why
    assert all(entry["path"] == str(file) and entry["detail"] for entry in report)


@pytest.mark.parametrize(
    ("content", "reason", "says"), [case[1:] for case in REPORTED], ids=[c[0] for c in REPORTED]
)
def test_a_file_that_cannot_be_used_is_reported_and_its_neighbour_loads(
    tmp_path: Path, content: str | bytes, reason: str, says: str
) -> None:
    """[SK-34] One entry with its path, a typed reason and what is wrong; nothing raises."""
    file = place(tmp_path, content)
    write_skill(tmp_path / "neighbour")
    began = time.monotonic()
    (skill,), (entry,) = load_skills(tmp_path)
    assert time.monotonic() - began < 5
    assert skill.name == "neighbour"
    assert (entry["path"], entry["reason"]) == (str(file), reason)
    assert says in entry["detail"]
    assert len(entry["detail"]) <= 300 and "\n" not in entry["detail"]


def a_folder(file: Path) -> None:
    file.mkdir()


def a_dangling_link(file: Path) -> None:
    file.symlink_to("nowhere")


def a_link_to_itself(file: Path) -> None:
    file.symlink_to(file)


def a_pipe(file: Path) -> None:
    os.mkfifo(file)


def a_link_to_a_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def a_link_to_a_folder(file: Path) -> None:
    file.symlink_to(file.parent)


@pytest.mark.parametrize(
    "make", [a_folder, a_dangling_link, a_link_to_itself, a_pipe, a_link_to_a_device, a_link_to_a_folder]
)
async def test_what_is_called_skill_md_but_is_no_file_is_reported(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """[SK-34] A folder, a link to nowhere, a pipe that nobody writes to: reported, never waited for."""
    write_skill(tmp_path / "neighbour")
    (tmp_path / "s").mkdir()
    make(tmp_path / "s" / "SKILL.md")
    source = await opened(skill_source(tmp_path))
    assert source.skill_set.names == ["neighbour"]
    (entry,) = source.report
    assert (entry["path"], entry["reason"]) == (str(tmp_path / "s" / "SKILL.md"), "unreadable")
    assert entry["detail"]


def test_two_skills_of_one_name_are_the_first_one_and_an_entry(tmp_path: Path) -> None:
    """[SK-34] In two roots and one inside the other: the first wins, the others are named."""
    for folder in ("one/pdf", "one/pdf/inner", "two/pdf"):
        write_skill(tmp_path / folder, f"name: pdf\ndescription: {folder}")
    (skill,), report = load_skills([tmp_path / "two", tmp_path / "one"])
    assert skill.description == "two/pdf"
    lost = [entry for entry in report if entry["reason"] == "duplicate-name"]
    assert [Path(e["path"]).parent for e in lost] == [tmp_path / "one/pdf", tmp_path / "one/pdf/inner"]
    assert all(str(tmp_path / "two" / "pdf" / "SKILL.md") in entry["detail"] for entry in lost)


def test_nested_skills_and_a_cycle_of_links_load_once(tmp_path: Path) -> None:
    """[SK-34] A skill in a skill is a skill; a link up the tree ends."""
    write_skill(tmp_path / "outer")
    write_skill(tmp_path / "outer" / "inner")
    (tmp_path / "outer" / "inner" / "up").symlink_to(tmp_path)
    skills, report = load_skills(tmp_path)
    assert [skill.name for skill in skills] == ["outer", "inner"]
    assert report == []


def test_a_folder_without_a_skill_is_reported(tmp_path: Path) -> None:
    """[SK-42] Given, but nothing there: one entry that names it; roots inside each other are fine."""
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    write_skill(tmp_path / "full" / "pdf")
    _, report = load_skills([tmp_path / "empty", tmp_path / "full" / "pdf", tmp_path / "full"])
    assert [(entry["path"], entry["reason"]) for entry in report] == [(str(tmp_path / "empty"), "no-skills")]


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD"])
def test_a_skill_file_in_another_spelling_is_reported(tmp_path: Path, name: str) -> None:
    """[SK-42] Only `SKILL.md` is loaded; another spelling is named, unless it is a file of a skill."""
    write_skill(tmp_path / "good" / "notes").joinpath("SKILL.md").rename(tmp_path / "good" / "notes" / name)
    write_skill(tmp_path / "good")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).write_text("---\nname: s\n---\n")
    (skill,), (entry,) = load_skills(tmp_path)
    assert skill.name == "good"
    assert (entry["path"], entry["reason"]) == (str(tmp_path / "s" / name), "misnamed-file")


def test_a_path_that_is_not_utf_8_can_be_reported_and_written(tmp_path: Path) -> None:
    """[SK-34] Report, list and base are text that can be sent, whatever the folders are called."""
    try:
        folder = write_skill(tmp_path / os.fsdecode(b"caf\xe9"), "name: pdf\ndescription: d", a_txt="x")
    except OSError:
        pytest.skip("such a name cannot be made here")
    (skill,), (entry,) = load_skills(tmp_path)
    assert entry["path"] == f"{tmp_path}/caf\ufffd/SKILL.md"
    assert skill.resources == ()
    assert str(skill.base).endswith("/caf%E9")
    assert folder.name != "caf\ufffd"


def test_a_tree_of_any_depth_ends(tmp_path: Path) -> None:
    """[SK-34] Hundreds of folders in each other, and a skill at the bottom."""
    deep = tmp_path.joinpath(*["d"] * 500)
    write_skill(deep / "pdf")
    (skill,), report = load_skills(tmp_path)
    assert (skill.name, report) == ("pdf", [])


@pytest.mark.parametrize(
    "given",
    [
        {"name": "a", "content": None},
        {"name": "a", "content": "x", "description": None},
        {"name": "a", "content": "x", "resources": "a.md"},
        {"name": "a", "content": "x", "resources": [1]},
        {"name": "a", "content": "x", "base": 5},
        {"name": None, "content": "x"},
        {"name": " \n", "content": "x"},
    ],
)
async def test_data_of_a_wrong_type_is_reported(given: dict[str, Any]) -> None:
    """[SK-41] Whoever gives it: one entry, and the others are there."""

    def provider() -> Any:
        return [SkillDef(**given), SkillDef(name="good", content="x", description="d")]

    source = await opened(skill_source(provider))
    assert source.skill_set.names == ["good"]
    assert len(source.report) == 1 and source.report[0]["reason"] in ("unreadable", "missing-name")


def test_the_page_about_skills_names_every_reason() -> None:
    """[SK-34] Whatever the report says is explained there."""
    page = (Path(__file__).parents[2] / "docs" / "skills.md").read_text()
    seen = {reason for case in LOADS for reason in case[3]} | {case[2] for case in REPORTED}
    assert len(seen) == 9
    for reason in {*seen, "duplicate-name", "misnamed-file", "no-skills"}:
        assert f"`{reason}`" in page
