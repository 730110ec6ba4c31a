"""From folders to skills. Everything here blocks on the disk: call it from a thread."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, cast

from toolnexus.errors import ConfigError
from toolnexus.tools.skills.definition import SkillDef, sample_size
from toolnexus.tools.skills.frontmatter import FrontMatter, read_front_matter

FILE = "SKILL.md"
MAX_DESCRIPTION = 1024
NOT_LOADED = ("missing-name", "malformed-frontmatter", "duplicate-name", "unreadable")

_PLAIN_NAME = re.compile(r"(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*")
_ALLOWED_TOOL = re.compile(r"[^\s,(]+(?:\([^)]*\))?")
_SKIPPED = (".git", "node_modules")
_UNSPEAKABLE = re.compile(r"[\n\ud800-\udfff]")
"""Names that no text can carry: a line break, bytes that are not UTF-8."""


class SkillIssue(TypedDict):
    """What is wrong with a skill, as plain data.

    `reason` of one that was not loaded: `missing-name`, `malformed-frontmatter`, `duplicate-name`,
    `unreadable`. Of a loaded one: `rescued-yaml`, `name-mismatch`, `invalid-name`,
    `missing-description`, `long-description`.
    """

    path: str
    reason: str
    detail: str


def load_skills(
    paths: str | Path | Iterable[str | Path], *, sample_limit: int = 0
) -> tuple[list[SkillDef], list[SkillIssue]]:
    """Every skill below `paths` (`**/SKILL.md`, links followed), and what was wrong.

    In the order of `paths`, then by path; the first of a name wins. `sample_limit` is how many
    files beside a skill are listed: 0 = 10, n, -1 = none. A file that cannot be used is an issue,
    never an exception. Raises `ConfigError` when one of `paths` is no folder.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    report: list[SkillIssue] = []
    found: list[SkillDef] = []
    seen: set[str] = set()
    for root in [skill_folder(path) for path in given]:
        for file in _skill_files(root, seen, report):
            skill = _load(Path(file), sample_limit, report)
            if skill is not None:
                found.append(skill)
    return first_of_each_name(found, report), report


def skill_folder(path: str | Path) -> Path:
    """`path` as an absolute folder. Raises `ConfigError` when there is none."""
    folder = Path(os.path.abspath(Path(path).expanduser()))
    if not str(path) or not folder.is_dir():
        state = "is no folder" if folder.exists() else "does not exist"
        raise ConfigError(f"skills: {str(path)!r} {state}; name a folder that holds skills")
    return folder


def first_of_each_name(skills: Iterable[SkillDef], report: list[SkillIssue]) -> list[SkillDef]:
    """The skills without those that an earlier one shadows, which are reported."""
    kept: dict[str, SkillDef] = {}
    for skill in skills:
        first = kept.setdefault(skill.name, skill)
        if first is not skill:
            detail = f"{skill.name!r} is already taken by {origin(first)}"
            report.append(SkillIssue(path=origin(skill), reason="duplicate-name", detail=detail))
    return list(kept.values())


def origin(skill: SkillDef) -> str:
    """Where a skill comes from, for people."""
    return str(skill.folder / FILE) if skill.folder is not None else skill.url


def reread(skill: SkillDef, folder: Path, sample_limit: int) -> SkillDef:
    """The skill of `folder` as it is on disk now.

    Name and description stay: they are in the system prompt. Raises `OSError` or `ValueError` when
    the file can no longer be read.
    """
    matter = _read(folder / FILE)
    resources = tuple(islice(_siblings(folder), sample_size(sample_limit)))
    return replace(skill, content=matter.body, resources=resources)


def _read(file: Path) -> FrontMatter:
    if not file.is_file():  # a pipe would block for ever
        raise OSError("not a regular file")
    return read_front_matter(file.read_bytes().decode("utf-8"))


def _load(file: Path, sample_limit: int, report: list[SkillIssue]) -> SkillDef | None:
    def note(reason: str, detail: str) -> None:
        report.append(SkillIssue(path=str(file), reason=reason, detail=detail))

    try:
        matter = _read(file)
    except UnicodeDecodeError as error:
        return note("unreadable", f"not UTF-8 at byte {error.start}")
    except OSError as error:
        return note("unreadable", _why(error))
    except ValueError as error:
        return note("malformed-frontmatter", str(error))
    name = matter.fields.get("name")
    if not isinstance(name, str) or not name.strip():
        return note("missing-name", "the front matter has no text under 'name'")
    folder = file.parent
    skill = SkillDef(
        name=" ".join(name.split()),
        content=matter.body,
        description=str(matter.fields.get("description", "")).strip(),
        resources=tuple(islice(_siblings(folder), sample_size(sample_limit))),
        base=folder.as_uri(),
        allowed_tools=_allowed_tools(matter.fields.get("allowed-tools")),
        folder=folder,
    )
    for key in matter.rescued:
        note("rescued-yaml", f"{key!r} is no valid YAML text and was taken as written; put it in quotes")
    for reason, detail in _doubts(skill):
        note(reason, detail)
    return skill


def _doubts(skill: SkillDef) -> Iterator[tuple[str, str]]:
    if not _PLAIN_NAME.fullmatch(skill.name):
        yield "invalid-name", f"{skill.name!r} is not 1 to 64 of a-z, 0-9 and single hyphens"
    if skill.folder is not None and skill.folder.name != skill.name:
        yield (
            "name-mismatch",
            f"the folder is {skill.folder.name!r}, the name {skill.name!r}; the name counts",
        )
    if not skill.description:
        yield "missing-description", "left out of the catalog; it can still be loaded by name"
    if (length := len(skill.description)) > MAX_DESCRIPTION:
        yield "long-description", f"{length} characters, {MAX_DESCRIPTION} are usual"


def _allowed_tools(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_ALLOWED_TOOL.findall(value))
    if not isinstance(value, list):
        return ()
    return tuple(v for v in cast("list[Any]", value) if isinstance(v, str))


def _skill_files(root: Path, seen: set[str], report: list[SkillIssue]) -> Iterator[str]:
    """The paths of all `SKILL.md` below `root`. Each folder is visited once, whatever links to it,
    and by its own path before any link: a skill is known by its place."""
    waiting, links = [str(root)], list[str]()
    while waiting or links:
        folder = waiting.pop() if waiting else links.pop(0)
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        try:
            entries = _in_path_order(folder)
        except OSError as error:
            report.append(SkillIssue(path=folder, reason="unreadable", detail=_why(error)))
            continue
        yield from (e.path for e in entries if e.name == FILE and not _holds(e.is_dir))
        below = [e for e in entries if _holds(e.is_dir)]
        waiting += [e.path for e in reversed(below) if not e.is_symlink()]
        links += [e.path for e in below if e.is_symlink()]


def _siblings(folder: Path) -> Iterator[str]:
    """The files of a skill in code-point order of their relative paths, every `SKILL.md` left out.

    Lazy: a big folder is read only as far as it is asked for.
    """
    seen: set[str] = set()
    waiting: list[str | os.DirEntry[str]] = [str(folder)]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str) or _holds(entry.is_dir):
            path = os.fspath(entry)
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                with suppress(OSError):
                    waiting += reversed(_in_path_order(path))
        elif entry.name != FILE and _holds(entry.is_file) and not _UNSPEAKABLE.search(entry.name):
            yield entry.path


def _in_path_order(folder: str) -> list[os.DirEntry[str]]:
    """Its entries, so sorted that walking them in depth gives whole paths in code-point order."""
    with os.scandir(folder) as entries:
        wanted = [e for e in entries if e.name not in _SKIPPED]
    return sorted(wanted, key=lambda e: e.name + "/" if _holds(e.is_dir) else e.name)


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except OSError:  # a link to itself
        return False


def _why(error: OSError) -> str:
    return error.strerror or str(error)
