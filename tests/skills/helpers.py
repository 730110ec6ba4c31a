"""Skill folders for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.tools.skills import SkillSet, SkillSource


def write_skill(folder: Path, header: str = "", body: str = "Do it.\n", **files: str) -> Path:
    """A `SKILL.md` in `folder`; the header is derived from the folder's name unless given.

    `files` are further ones: `scripts__run_sh="…"` is `scripts/run.sh`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header = header or f"name: {folder.name}\ndescription: About {folder.name}."
    (folder / "SKILL.md").write_bytes(f"---\n{header}\n---\n{body}".encode())
    for name, text in files.items():
        file = folder / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


async def opened(source: SkillSource | None) -> SkillSource:
    assert source is not None
    await source.open(lambda: None)
    return source


async def call(skills: SkillSource | SkillSet, name: str) -> ToolResult:
    """What the `skill` tool answers."""
    (tool,) = skills.tools
    arguments: dict[str, Any] = {"name": name}
    return await tool.execute(arguments, None)


def reasons(report: list[Any]) -> list[str]:
    return [issue["reason"] for issue in report]
