"""From folders to skills, and the report of what was wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.skills.helpers import reasons, write_skill
from toolnexus.errors import ConfigError
from toolnexus.tools.skills import SkillDef, load_skills


def test_every_skill_below_the_folders_is_found(tmp_path: Path) -> None:
    """[SK-05] `SKILL.md` at any depth, in the folder itself and inside another skill."""
    write_skill(tmp_path / "a" / "pdf")
    write_skill(tmp_path / "a" / "deep" / "er" / "csv")
    write_skill(tmp_path / "a" / "pdf" / "forms")
    write_skill(tmp_path / "b")
    write_skill(tmp_path / "a" / "node_modules" / "not-ours")
    write_skill(tmp_path / "a" / ".git" / "not-ours")
    skills, report = load_skills([tmp_path / "a", str(tmp_path / "b")])
    assert [s.name for s in skills] == ["csv", "pdf", "forms", "b"]
    assert report == []


def test_a_loaded_skill_is_a_whole_value(tmp_path: Path) -> None:
    """[SK-05] Name, description, body, base URL, files, allowed tools and folder."""
    folder = write_skill(
        tmp_path / "my skills" / "pdf",
        "name: pdf\ndescription: About PDFs.\nallowed-tools: Read Bash(git add:*), Grep\nlicense: MIT",
        "\n# Steps\n",
        run_py="x",
    )
    (skill,), report = load_skills(tmp_path)
    assert skill == SkillDef(
        name="pdf",
        content="\n# Steps\n",
        description="About PDFs.",
        resources=(str(folder / "run.py"),),
        base=f"file://{tmp_path}/my%20skills/pdf",
        allowed_tools=("Read", "Bash(git add:*)", "Grep"),
        folder=folder,
        root=folder,
        file=folder / "SKILL.md",
    )
    assert report == []


@pytest.mark.parametrize("written", ["[Read, 'Bash(git:*)']", "\n- Read\n- Bash(git:*)", "Read Bash(git:*)"])
def test_allowed_tools_are_read_from_a_list_or_a_string(tmp_path: Path, written: str) -> None:
    """[SK-06] Both spellings that are in use give the same tuple."""
    write_skill(tmp_path / "pdf", f"name: pdf\ndescription: d\nallowed-tools: {written}")
    (skill,), report = load_skills(tmp_path)
    assert skill.allowed_tools == ("Read", "Bash(git:*)")
    assert report == []


def test_what_cannot_be_loaded_is_reported_with_path_and_reason_and_the_rest_loads(tmp_path: Path) -> None:
    """[SK-07] missing-name, malformed-frontmatter, unreadable, duplicate-name; nothing aborts."""
    write_skill(tmp_path / "a-good")
    write_skill(tmp_path / "b-nameless", "description: no name")
    (tmp_path / "c-plain").mkdir()
    (tmp_path / "c-plain" / "SKILL.md").write_text("# no header\n")
    write_skill(tmp_path / "d-listed", "name:\n  - x\ndescription: d")
    write_skill(tmp_path / "e-broken", "name: x: y")
    (tmp_path / "f-binary").mkdir()
    (tmp_path / "f-binary" / "SKILL.md").write_bytes(b"---\nname: x\xff\n---\n")
    (tmp_path / "g-dangling").mkdir()
    (tmp_path / "g-dangling" / "SKILL.md").symlink_to("nowhere")
    (tmp_path / "h-pipe").mkdir()
    os.mkfifo(tmp_path / "h-pipe" / "SKILL.md")
    write_skill(tmp_path / "i-twin", "name: a-good\ndescription: second")
    skills, report = load_skills(tmp_path)
    assert [(s.name, s.description) for s in skills] == [("a-good", "About a-good.")]
    lost = [(Path(i["path"]).parent.name, i["reason"]) for i in report if i["reason"] != "name-mismatch"]
    assert lost == [
        ("b-nameless", "missing-name"),
        ("c-plain", "missing-name"),
        ("d-listed", "missing-name"),
        ("e-broken", "malformed-frontmatter"),
        ("f-binary", "unreadable"),
        ("g-dangling", "unreadable"),
        ("h-pipe", "unreadable"),
        ("i-twin", "duplicate-name"),
    ]
    assert all(Path(i["path"]).name == "SKILL.md" and i["detail"] for i in report)
    assert str(tmp_path / "a-good" / "SKILL.md") in report[-1]["detail"]


@pytest.mark.parametrize(
    ("folder", "header", "reason"),
    [
        ("pdf-tools", "name: pdf\ndescription: d", "name-mismatch"),
        ("pdf", "name: pdf\ndescription: Use when: asked", "rescued-yaml"),
        ("pdf", "name: pdf", "missing-description"),
        ("pdf", "name: pdf\ndescription: " + "x" * 1068, "long-description"),
        ("My_Skill", "name: My_Skill\ndescription: d", "invalid-name"),
        ("a--b", "name: a--b\ndescription: d", "invalid-name"),
        ("x" * 65, "name: " + "x" * 65 + "\ndescription: d", "invalid-name"),
    ],
)
def test_a_doubtful_skill_loads_with_one_warning(
    tmp_path: Path, folder: str, header: str, reason: str
) -> None:
    """[SK-08] Its name counts, not its folder's; every doubt is in the report under its own word."""
    write_skill(tmp_path / folder, header)
    (skill,), report = load_skills(tmp_path)
    assert skill.name == header.split("\n")[0].removeprefix("name: ")
    assert reasons(report) == [reason]


def test_yaml_1_1_names_stay_text(tmp_path: Path) -> None:
    """[SK-01] A skill called `no` or `12:30` is called that."""
    write_skill(tmp_path / "no", "name: no\ndescription: 12:30")
    (skill,), _ = load_skills(tmp_path)
    assert (skill.name, skill.description) == ("no", "12:30")


def test_the_first_root_wins_a_name(tmp_path: Path) -> None:
    """[SK-09] Of two roots that hold one name the first given wins; the shadowed one is reported."""
    write_skill(tmp_path / "user" / "pdf", "name: pdf\ndescription: of the user")
    write_skill(tmp_path / "project" / "pdf", "name: pdf\ndescription: of the project")
    (skill,), report = load_skills([tmp_path / "project", tmp_path / "user"])
    assert skill.description == "of the project"
    assert [(i["path"], i["reason"]) for i in report] == [
        (str(tmp_path / "user" / "pdf" / "SKILL.md"), "duplicate-name")
    ]


def test_overlapping_roots_are_no_duplicates(tmp_path: Path) -> None:
    """[SK-09] One file reached through two roots is one skill."""
    write_skill(tmp_path / "all" / "pdf")
    skills, report = load_skills([tmp_path / "all", tmp_path / "all" / "pdf", tmp_path])
    assert [s.name for s in skills] == ["pdf"]
    assert report == []


def test_links_are_followed_and_cycles_end(tmp_path: Path) -> None:
    """[SK-10] A linked folder is searched, a cycle visited once, a link to itself passed over."""
    elsewhere = write_skill(tmp_path / "elsewhere" / "pdf", run_sh="x")
    root = tmp_path / "root"
    write_skill(root / "z-real")
    (root / "pdf").symlink_to(elsewhere)
    (root / "a-link").symlink_to(root / "z-real")
    (root / "z-real" / "up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (elsewhere / "loop").symlink_to(elsewhere)
    (elsewhere / "eternal.txt").symlink_to(elsewhere / "eternal.txt")
    skills, report = load_skills(root)
    assert [(s.name, s.folder) for s in skills] == [("z-real", root / "z-real"), ("pdf", root / "pdf")]
    assert report == []
    assert list(skills[1].resources) == [str(root / "pdf" / "run.sh")]


@pytest.mark.parametrize("path", ["nowhere", "file.md", ""])
def test_a_path_that_is_no_folder_is_a_config_error_that_names_it(tmp_path: Path, path: str) -> None:
    """[SK-11] A user's mistake is found while building, not skipped."""
    (tmp_path / "file.md").write_text("x")
    with pytest.raises(ConfigError, match=repr(str(tmp_path / path)) if path else "''"):
        load_skills(str(tmp_path / path) if path else "")


def test_a_relative_path_starts_at_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[SK-11] Relative paths and `~` work; what comes out is absolute."""
    write_skill(tmp_path / "skills" / "pdf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("skills", "./skills/../skills", "~/skills"):
        (skill,), _ = load_skills(path)
        assert skill.folder == tmp_path / "skills" / "pdf"


def test_the_files_are_the_first_in_code_point_order_of_their_relative_paths(tmp_path: Path) -> None:
    """[SK-12] `a-b` before `a/b`, `Z` before `a`, whole paths compared, `SKILL.md` never listed."""
    folder = write_skill(tmp_path / "pdf")
    names = [
        "a/b.txt",
        "a-b.txt",
        "a.txt",
        "Z.txt",
        "é.txt",
        "\U0001f600.txt",
        "\uff5e.txt",
        "10",
        "9",
    ]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("---\nname: nested\ndescription: d\n---\n")
    (folder / "empty").mkdir()
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "x.js").write_text("x")
    (folder / "two\nlines").write_text("x")
    if sys.platform == "linux":  # elsewhere such a name cannot be made
        (folder / os.fsdecode(b"caf\xe9")).write_text("x")
    write_skill(folder / "nested", "nested")
    (folder / "nested" / "its-own.txt").write_text("x")
    skill = next(s for s in load_skills(tmp_path, sample_limit=100)[0] if s.name == "pdf")
    relative = [os.path.relpath(file, folder) for file in skill.resources]
    assert relative == sorted(names), "a nested skill's folder is its own"
    assert relative[:5] == ["10", "9", "Z.txt", "a-b.txt", "a.txt"]


@pytest.mark.parametrize(("sample_limit", "listed"), [(0, 10), (3, 3), (50, 12), (-1, 0)])
def test_the_sample_limit_says_how_many_files_are_listed(
    tmp_path: Path, sample_limit: int, listed: int
) -> None:
    """[SK-12] 0 is ten, n is n, -1 is none."""
    write_skill(tmp_path / "pdf", **{f"f{n:02}_txt": "x" for n in range(12)})
    (skill,), _ = load_skills(tmp_path, sample_limit=sample_limit)
    assert [Path(f).name for f in skill.resources] == [f"f{n:02}.txt" for n in range(listed)]
