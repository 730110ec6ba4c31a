"""SkillDef: one skill as a value, and the text that a model gets of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from toolnexus.core.unicode import encodable
from toolnexus.core.values import frozen

DEFAULT_SAMPLE = 10
MAX_SHOWN = 4096
"""Characters of a description that the catalog shows."""

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_BREAK = re.compile(rf"[{_CONTROL}]")
_UNSPEAKABLE = re.compile(rf"[{_CONTROL}\ud800-\udfff]")
_BLOCK_TAG = re.compile(r"<(?=\s*(?:/\s*)?skill_(?:content|files)\b)", re.I)
_FILE_TAG = re.compile(r"<(?=\s*(?:/\s*)?(?:skill_content|skill_files|file)\b)", re.I)
_ATTRIBUTE = str.maketrans({"<": "&lt;", ">": "&gt;", '"': "&quot;"})


@frozen(kw_only=True)
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
    """What its author wrote under `allowed-tools`. It gives no tool; with `pre_approve` of the host such
    calls pass, while the skill is loaded, where a rule asks."""
    folder: Path | None = None
    """The folder that it was loaded from."""
    root: Path | None = None
    """That folder with links resolved, as it was when the skill was loaded."""
    file: Path | None = None
    """Its `SKILL.md` with links resolved, as it was then."""

    @property
    def url(self) -> str:
        """`base`, or the logical one."""
        return self.base or f"skill://{self.name}/"


def sample_size(sample_limit: int) -> int:
    """How many files a `sample_limit` shows: 0 the default of ten, n that many, -1 none."""
    return DEFAULT_SAMPLE if sample_limit == 0 else max(sample_limit, 0)


def one_line(text: str) -> str:
    """`text` with a space for every line break or other control character, and the white space there."""
    return " ".join([part for piece in _BREAK.split(encodable(text)) if (part := piece.strip())])


def listable(file: str) -> bool:
    """Whether a line of the list can carry this path: no line break, nothing that is not UTF-8."""
    return not _UNSPEAKABLE.search(file)


def render(skill: SkillDef, sample_limit: int = 0) -> str:
    """The text that the `skill` tool answers with.

    A tag of the block itself inside of a skill is written with `&lt;`, so that nothing in a skill
    can end the block early or open a second one. All other text stays as it is.
    """
    lines = [
        f'<skill_content name="{one_line(skill.name).translate(_ATTRIBUTE)}">',
        f"# Skill: {_BLOCK_TAG.sub('&lt;', one_line(skill.name))}",
        "",
        _BLOCK_TAG.sub("&lt;", skill.content.strip()),
        "",
        f"Base directory for this skill: {_BLOCK_TAG.sub('&lt;', one_line(skill.url))}",
        "Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.",
    ]
    files = [file for file in skill.resources if listable(file)][: sample_size(sample_limit)]
    if files:
        lines += ["Note: file list is sampled.", "", "<skill_files>"]
        lines += [f"<file>{_FILE_TAG.sub('&lt;', file)}</file>" for file in files]
        lines.append("</skill_files>")
    lines.append("</skill_content>")
    return encodable("\n".join(lines))


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
    lines += [f"- **{s.name}**: {_shown(s.description)}" for s in described]
    return encodable("\n".join(lines))


def _shown(description: str) -> str:
    line = one_line(description)
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"
