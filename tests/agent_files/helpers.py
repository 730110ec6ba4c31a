"""Files of agents for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from toolnexus import Agent, ConfigError
from toolnexus.agents.files import AgentFiles, read_agents

REVIEWER = dedent(
    """\
    ---
    name: reviewer
    description: Reads a change and says what is wrong with it. Use it after every change.
    tools: Read, Grep, Glob
    model: sonnet
    color: purple
    ---

    You review changes.

    1. Read the files that changed.
    2. Name what is wrong, with file and line.
    """
)


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` below `folder`."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def header(*lines: str, body: str = "Do it.", name: str = "x") -> str:
    """A file with `lines` in its header, below a name and a description."""
    return "\n".join(["---", f"name: {name}", "description: What it does.", *lines, "---", body, ""])


def read(folder: Path, text: str, models: Mapping[str, str] | None = None) -> tuple[Agent, list[str]]:
    """The agent of one file with this text, and what is said of it, without the path."""
    files = read_agents([write(folder, {"x.md": text})], models=models or {})
    (agent,) = files.agents
    return agent, said(files, folder)


def said(files: AgentFiles, folder: Path) -> list[str]:
    return [line.removeprefix(f"{folder}/").removeprefix("x.md: ") for line in files.report]


def wrong(folder: Path, text: str) -> list[str]:
    """The lines of the error that one file with this text is."""
    try:
        read_agents([write(folder, {"x.md": text})])
    except ConfigError as error:
        return [line.removeprefix(f"{folder}/x.md: ") for line in str(error).splitlines()]
    raise AssertionError("it was read")
