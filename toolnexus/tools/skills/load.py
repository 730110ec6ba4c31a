"""From folders to skills. Everything here blocks on the disk: call it from a thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, cast

from toolnexus.core.unicode import encodable
from toolnexus.errors import ConfigError, ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.paths import open_file
from toolnexus.tools.front_matter import FrontMatter, read_front_matter
from toolnexus.tools.skills.definition import SkillDef, one_line, sample_size
from toolnexus.tools.skills.walk import FILE, siblings, skill_files

MAX_FILE = 1 << 20
"""Bytes of a `SKILL.md`; a larger one is not loaded."""
MAX_NAME = 256
MAX_DESCRIPTION = 1024
SECONDS = 30.0
"""For one folder of skills, or one provider."""

_PLAIN_NAME = re.compile(r"(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*")
_ALLOWED_TOOL = re.compile(r"[^\s,(]+(?:\([^)]*(?:\)|$))?")
"""A part of a tool whose bracket does not close stays a part, and names nothing."""
_MAX_ALLOWED_TOOLS = 4096
_MAX_DETAIL = 300


class SkillIssue(TypedDict):
    """What is wrong with a skill, as plain data.

    `reason` of one that was not loaded: `missing-name`, `malformed-frontmatter`, `duplicate-name`,
    `unreadable`. Of a loaded one: `rescued-yaml`, `repeated-key`, `name-mismatch`, `invalid-name`,
    `missing-description`, `long-description`. Of a place: `misnamed-file`, `no-skills`.
    """

    path: str
    reason: str
    detail: str


NOT_LOADED = ("missing-name", "malformed-frontmatter", "unreadable", "misnamed-file")
"""Reasons for which a skill that should be there is not. The name of a shadowed one (`duplicate-name`) is."""


def issue(path: str | Path, reason: str, detail: str) -> SkillIssue:
    """An entry of a report; both texts can be written as UTF-8, and the detail is a short line."""
    detail = one_line(detail)
    if len(detail) > _MAX_DETAIL:
        detail = detail[: _MAX_DETAIL - 1] + "…"
    return SkillIssue(path=encodable(str(path)), reason=reason, detail=detail)


class Search:
    """Folders searched one after the other: what was found so far, and what was wrong.

    Each gets `seconds`. One file that several folders lead to is found once.
    """

    def __init__(self, sample_limit: int, seconds: float = SECONDS) -> None:
        self.skills: list[SkillDef] = []
        self.report: list[SkillIssue] = []
        self._sample_limit = sample_limit
        self._seconds = seconds
        self._seen: set[str] = set()

    def below(self, top: Path) -> None:
        """Load every skill below `top`; whatever is wrong is reported."""
        clock = Clock(self._seconds, "the skills after that are missing")
        real = Path(os.path.realpath(top))
        found = any(Path(known).is_relative_to(real) for known in self._seen)
        try:
            for file in skill_files(top, self._seen, clock, self._doubt):
                found = True
                self._load(Path(file), clock)
        except ToolError as error:
            self._doubt(str(top), "unreadable", str(error))
        if not found:
            self._doubt(str(top), "no-skills", f"nothing below it is called {FILE!r}")

    def _doubt(self, path: str, reason: str, detail: str) -> None:
        self.report.append(issue(path, reason, detail))

    def _load(self, file: Path, clock: Clock) -> None:
        real = Path(os.path.realpath(file))
        try:
            skill, rescued, repeated = _skill(file, real, _read(real))
        except UnicodeDecodeError as error:
            return self._doubt(str(file), "unreadable", f"not UTF-8 at byte {error.start}")
        except (ToolError, OSError) as error:
            return self._doubt(str(file), "unreadable", str(error))
        except LookupError as error:
            return self._doubt(str(file), "missing-name", error.args[0])
        except ValueError as error:
            return self._doubt(str(file), "malformed-frontmatter", str(error))
        skill = replace(skill, resources=_sample(skill, self._sample_limit, clock))
        self.skills.append(skill)
        for key in rescued:
            detail = f"{key!r} is no valid YAML text and was taken as written; put it in quotes"
            self._doubt(str(file), "rescued-yaml", detail)
        for key in repeated:
            self._doubt(
                str(file), "repeated-key", f"{key!r} stands there more than once; the last one counts"
            )
        for reason, detail in _doubts(skill):
            self._doubt(str(file), reason, detail)


def load_skills(
    paths: str | Path | Iterable[str | Path], *, sample_limit: int = 0
) -> tuple[list[SkillDef], list[SkillIssue]]:
    """Every skill below `paths` (`**/SKILL.md`, links followed), and what was wrong.

    In the order of `paths`, then by path; the first of a name wins. `sample_limit` is how many
    files beside a skill are listed: 0 = 10, n, -1 = none. A file that cannot be used is an issue,
    never an exception. Each of `paths` gets 30 seconds. Raises `ConfigError` when one is no folder.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    search = Search(sample_limit)
    for top in [skill_folder(path) for path in given]:
        search.below(top)
    return first_of_each_name(search.skills, search.report), search.report


def skill_folder(path: str | Path) -> Path:
    """`path` as an absolute folder. Raises `ConfigError` when there is none."""
    try:
        folder = Path(os.path.abspath(Path(path).expanduser()))
        found, there = folder.is_dir(), folder.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, nobody's home
        raise ConfigError(f"skills: {str(path)!r} is no path of a folder: {error}") from None
    if not str(path) or not found:
        state = "is no folder" if there else "does not exist"
        raise ConfigError(f"skills: {str(path)!r} {state}; name a folder that holds skills")
    return folder


def first_of_each_name(skills: Iterable[SkillDef], report: list[SkillIssue]) -> list[SkillDef]:
    """The skills without those that an earlier one shadows, which are reported."""
    kept: dict[str, SkillDef] = {}
    for skill in skills:
        first = kept.setdefault(skill.name, skill)
        if first is not skill:
            detail = f"{skill.name!r} is already taken by {origin(first)}"
            report.append(issue(origin(skill), "duplicate-name", detail))
    return list(kept.values())


def origin(skill: SkillDef) -> str:
    """Where a skill comes from, for people."""
    return str(skill.folder / FILE) if skill.folder is not None else skill.url


def reread(skill: SkillDef, sample_limit: int, clock: Clock) -> SkillDef:
    """A skill of a folder as it is on disk now.

    Name and description stay: they are in the system prompt. Raises `ToolError`, `OSError` or
    `ValueError` when it can no longer be read, also when its file or folder has become a link:
    whoever may write there must not reach more through it.
    """
    folder, root, file = skill.folder, skill.root, skill.file
    if folder is None or root is None or file is None:
        return skill
    if os.path.realpath(folder) != str(root) or os.path.realpath(file) != str(file):
        raise OSError("it leads elsewhere since it was loaded")
    content = _read(file).body
    return replace(skill, content=content, resources=_sample(skill, sample_limit, clock))


def _sample(skill: SkillDef, sample_limit: int, clock: Clock) -> tuple[str, ...]:
    if skill.folder is None or skill.root is None:
        return tuple(skill.resources)
    return tuple(islice(siblings(skill.folder, skill.root, clock), sample_size(sample_limit)))


def _read(file: Path) -> FrontMatter:
    """The text at a place without links. Never waits: what is no regular file is refused."""
    with open_file(file, FILE) as stream:
        data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise OSError(f"larger than {MAX_FILE} bytes")
    if (at := data.find(b"\0")) >= 0:
        raise OSError(f"no text: a NUL at byte {at}")
    return read_front_matter(data.decode("utf-8"))


def _skill(file: Path, real: Path, matter: FrontMatter) -> tuple[SkillDef, tuple[str, ...], tuple[str, ...]]:
    """The skill of one file. Raises `LookupError` without a name, `ValueError` for an unusable one."""
    name = matter.fields.get("name")
    if not matter.fields:
        raise LookupError(
            "no front matter, or an empty one; begin with '---', 'name: …', 'description: …', '---'"
        )
    if not isinstance(name, str) or not (name := one_line(name)):
        raise LookupError("the front matter has no text under 'name'")
    if len(name) > MAX_NAME:
        raise ValueError(f"the name has {len(name)} characters; 64 are usual, {MAX_NAME} the most")
    folder = file.parent
    skill = SkillDef(
        name=" ".join(name.split()),
        content=matter.body,
        description=str(matter.fields.get("description", "")).strip(),
        base=folder.as_uri(),
        allowed_tools=_allowed_tools(matter.fields.get("allowed-tools")),
        folder=folder,
        root=Path(os.path.realpath(folder)),
        file=real,
    )
    return skill, matter.rescued, matter.repeated


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
        found = _ALLOWED_TOOL.findall(value[:_MAX_ALLOWED_TOOLS])
        return tuple(found[:-1] if len(value) > _MAX_ALLOWED_TOOLS else found)
    if not isinstance(value, list):
        return ()
    return tuple(v for v in cast("list[Any]", value) if isinstance(v, str))
