"""SkillDef: one skill as a value, and the text that a model gets of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_SAMPLE = 10
_LINE_END = re.compile(r"\s*\n\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDef:
    """A skill: given as data, or loaded from a folder.

    `content` is the instructions in Markdown. A skill without a description can be loaded by name
    but is not in the catalog.
    """

    name: str
    content: str
    description: str = ""
    resources: Sequence[str] = ()
    """Files beside it that the instructions may refer to."""
    base: str | None = None
    """URL that relative paths in `content` start from; None: `skill://name/`."""
    allowed_tools: tuple[str, ...] = ()
    """What its author wrote under `allowed-tools`. For the host to read; it grants nothing."""
    folder: Path | None = None
    """The folder that it was loaded from."""

    @property
    def url(self) -> str:
        """`base`, or the logical one."""
        return self.base or f"skill://{self.name}/"


def sample_size(sample_limit: int) -> int:
    """How many files a `sample_limit` shows: 0 the default of ten, n that many, -1 none."""
    return DEFAULT_SAMPLE if sample_limit == 0 else max(sample_limit, 0)


def render(skill: SkillDef, sample_limit: int = 0) -> str:
    """The text that the `skill` tool answers with."""
    lines = [
        f'<skill_content name="{skill.name}">',
        f"# Skill: {skill.name}",
        "",
        skill.content.strip(),
        "",
        f"Base directory for this skill: {skill.url}",
        "Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.",
    ]
    files = list(skill.resources)[: sample_size(sample_limit)]
    if files:
        lines += ["Note: file list is sampled.", "", "<skill_files>"]
        lines += [f"<file>{file}</file>" for file in files]
        lines.append("</skill_files>")
    lines.append("</skill_content>")
    return "\n".join(lines)


def catalog(skills: Sequence[SkillDef]) -> str:
    """What a system prompt says of `skills`, sorted by name; `""` when none has a description."""
    described = sorted((s for s in skills if s.description), key=lambda s: s.name)
    if not described:
        return ""
    lines = [
        "A skill holds instructions and files for one kind of task.",
        "When a task matches a description below, call the skill tool with that name before you begin.",
        "",
        "## Available Skills",
    ]
    lines += [f"- **{s.name}**: {_LINE_END.sub(' ', s.description.strip())}" for s in described]
    return "\n".join(lines)
