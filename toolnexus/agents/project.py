"""What a project folder has for agents, whatever host it was written for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolnexus.agents.files import read_agents
from toolnexus.agents.hosts import places_in
from toolnexus.core.options import expect
from toolnexus.engine.agent import Agent
from toolnexus.errors import ConfigError
from toolnexus.tools.instructions import find_instructions
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import ServerConfig, mcp_report, read_mcp_config
from toolnexus.tools.mcp_document import read_document

SERVER_FILES: Mapping[str, str | None] = {
    ".mcp.json": None,
    ".vscode/mcp.json": None,
    ".cursor/mcp.json": None,
    ".codex/config.toml": "mcp_servers",
    ".gemini/settings.json": "mcpServers",
    "opencode.json": "mcp",
    "opencode.jsonc": "mcp",
    ".opencode/opencode.json": "mcp",
    ".opencode/opencode.jsonc": "mcp",
}
"""Where a project has MCP servers, and under which key of a file that has more than those."""
SKILL_FOLDERS = (".agents/skills", ".claude/skills")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What a project folder has."""

    folder: Path
    agents: tuple[Agent, ...]
    servers: tuple[ServerConfig, ...]
    skills: tuple[Path, ...]
    """Folders of skills."""
    instructions: Path | None
    """The nearest `AGENTS.md` or `CLAUDE.md`."""
    withheld: tuple[Path, ...]
    """What may start programs and was not loaded, since the folder is not trusted."""
    report: tuple[str, ...]
    """What was not carried over, a line each."""

    def options(self) -> dict[str, Any]:
        """For `Client(model=…, **project.options())`; new objects each time."""
        out: dict[str, Any] = {"workdir": self.folder}
        if self.agents:
            out["agents"] = list(self.agents)
        if self.servers:
            out["mcp"] = [McpSource(server) for server in self.servers]
        if self.skills:
            out["skills"] = list(self.skills)
        if self.instructions is not None:
            out["instructions"] = self.instructions
        return out


def load_project(folder: str | Path = ".", *, trust: bool = False, models: Mapping[str, str] = {}) -> Project:
    """The agents, MCP servers, skills and instructions that the hosts of a project folder have there.

    Whoever wrote the folder decides what its servers and skills run. So these are loaded only with
    `trust=True`; without, they are in `withheld` and in the report, and nothing of the folder starts
    a program. Agents and instructions are text: they give nothing that the client has not. `models`
    is that of `load_agents`.

    Raises `ConfigError` for what is no folder, and for files that are wrong.
    """
    expect("folder", folder, (str, Path), "give the path of a folder")
    expect("trust", trust, bool, "give True once you trust whoever wrote the folder")
    place = Path(os.path.abspath(os.path.expanduser(folder)))
    if not os.path.isdir(place):
        raise ConfigError(f"project {str(folder)[:200]!r} is no folder; give the path of one")
    files = [place / name for name, key in SERVER_FILES.items() if _has_servers(place / name, key)]
    skills = [path for name in SKILL_FOLDERS if (path := place / name).is_dir()]
    found = read_agents([place], models=models) if places_in(place) else None
    report = [*found.report] if found is not None else []
    withheld: tuple[Path, ...] = ()
    servers: list[ServerConfig] = []
    if trust:
        servers = _servers(files, place, report)
    else:
        withheld = (*files, *skills)
        report += [f"{path}: not loaded: it may start programs, and nobody trusts it" for path in withheld]
    return Project(
        folder=place,
        agents=found.agents if found is not None else (),
        servers=tuple(servers),
        skills=tuple(skills) if trust else (),
        instructions=next(iter(find_instructions(place)), None),
        withheld=withheld,
        report=tuple(report),
    )


def _has_servers(path: Path, key: str | None) -> bool:
    if not path.is_file():
        return False
    return key is None or bool(read_document(path, []).get(key))


def _servers(files: list[Path], folder: Path, report: list[str]) -> list[ServerConfig]:
    """The servers of all files; of a name that several have, the first."""
    out: dict[str, ServerConfig] = {}
    for path in files:
        found = read_mcp_config(path, folder)
        for server in found.servers:
            first = out.setdefault(server.name, server)
            if first is not server and _means(first) != _means(server):
                report.append(f"{path}: server {server.name!r} is left out: that of {first.source} is taken")
        report += dict.fromkeys(
            [*mcp_report(found.servers), *[note.text for note in found.notes if note.serious]]
        )
    return list(out.values())


def _means(server: ServerConfig) -> tuple[Any, ...]:
    return server.enabled, server.command, server.url, dict(server.env), dict(server.headers)
