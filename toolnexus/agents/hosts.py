"""Which host a file of agents was written for: known by its place and by the end of its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolnexus.agents.claude import read_claude_agent
from toolnexus.agents.codex import read_codex_agent
from toolnexus.agents.cursor import read_cursor_agent
from toolnexus.agents.format import AgentFormat
from toolnexus.agents.gemini import read_gemini_agent
from toolnexus.agents.opencode import read_opencode_agent, read_opencode_document
from toolnexus.agents.vscode import read_vscode_agent

ENDINGS = ".md, .toml or .json"
_BY_FOLDER: Mapping[str, AgentFormat] = {
    ".claude": read_claude_agent,
    ".opencode": read_opencode_agent,
    ".github": read_vscode_agent,
    ".copilot": read_vscode_agent,
    ".cursor": read_cursor_agent,
    ".gemini": read_gemini_agent,
}
"""The format of Markdown, by the nearest folder of a host above it."""
_IN_CONFIG = {"opencode": ".opencode", "gemini-cli": ".gemini"}
"""Folders below `~/.config`."""
_CODEX = ".codex"
_FOLDERS = ("agents", "agent")
_DOCUMENTS = ("opencode.json", "opencode.jsonc")
PLACES = (
    ".claude/agents",
    ".opencode/agents",
    ".opencode/agent",
    *_DOCUMENTS,
    *[f".opencode/{name}" for name in _DOCUMENTS],
    ".github/agents",
    ".cursor/agents",
    f"{_CODEX}/agents",
    ".gemini/agents",
)
"""Where a project has agents."""


def places_in(folder: Path) -> list[Path]:
    """Where the project in `folder` has agents; none for a folder that is no project."""
    return [place for name in PLACES if (place := folder / name).exists()]


def format_of(path: Path, *, named: bool) -> AgentFormat | None:
    """The format of a file; None for one that holds no agents. `named`: its path was given outright."""
    ending, host = path.suffix.lower(), _host(path)
    if ending == ".toml":
        return read_codex_agent if named or host == _CODEX else None
    if ending in (".json", ".jsonc"):
        return read_opencode_document if named else None
    if ending != ".md" or (host == _CODEX and not named):
        return None
    if path.name.lower().endswith(".agent.md"):
        return read_vscode_agent
    return _BY_FOLDER.get(host, read_claude_agent)


def is_document(path: Path) -> bool:
    """Whether it is the document of a host, which has more than agents."""
    return path.name in _DOCUMENTS


def name_by_place(path: Path) -> str:
    """The path below the folder `agents` of its host, without its ending; elsewhere its name."""
    stem = path.name[: -len(path.suffix)].removesuffix(".agent")
    above = path.parts[:-1]
    hosts = (*_BY_FOLDER, *_IN_CONFIG)
    below = [n + 1 for n, part in enumerate(above) if n and part in _FOLDERS and above[n - 1] in hosts]
    return "/".join((*above[max(below) :], stem)) if below else stem


def _host(path: Path) -> str:
    """The nearest folder of a host above a file, `""` for none."""
    for part, above in zip(path.parts[-2::-1], (*path.parts[-3::-1], ""), strict=False):
        if part in _BY_FOLDER or part == _CODEX:
            return part
        if above == ".config" and part in _IN_CONFIG:
            return _IN_CONFIG[part]
    return ""
