"""Project folders: everything that hosts have there, and what of it waits for trust."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent_files.helpers import write
from toolnexus import Client, ConfigError, load_project
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ROUGH = Path(__file__).resolve().parents[1] / "servers" / "rough_mcp.py"
AGENT = "---\nname: helper\ndescription: Helps.\n---\nHelp."
SKILL = "---\nname: pdf\ndescription: PDFs.\n---\nDo."


def project(folder: Path, **servers: Any) -> Path:
    """A folder with an agent, a skill, instructions, and servers that note that they were started."""
    note = f"open({str(folder / 'started')!r}, 'a').write('x')"
    run = f"sys.argv = [{str(ROUGH)!r}]; runpy.run_path(sys.argv[0], run_name='__main__')"
    code = f"{note}; import runpy, sys; {run}"
    server = {"command": sys.executable, "args": ["-c", code]}
    return write(
        folder,
        {
            ".claude/agents/helper.md": AGENT,
            ".claude/skills/pdf/SKILL.md": SKILL,
            ".mcp.json": json.dumps({"mcpServers": {"rough": server, **servers}}),
            "AGENTS.md": "Use tabs.",
        },
    )


async def test_an_untrusted_folder_starts_nothing(tmp_path: Path) -> None:
    """[TRUST-01] Its text is there, its servers and skills are not, and the report says so."""
    found = load_project(project(tmp_path))
    assert [agent.name for agent in found.agents] == ["helper"]
    assert (found.servers, found.skills) == ((), ())
    assert found.withheld == (tmp_path / ".mcp.json", tmp_path / ".claude/skills")
    assert found.report == tuple(
        f"{path}: not loaded: it may start programs, and nobody trusts it" for path in found.withheld
    )
    model = ScriptedModel(["hi"])
    async with asyncio.timeout(30), Client(model=model, **found.options()) as client:
        await client.ask("go")
        assert (client.mcp_status(), client.skills) == ({}, [])
        assert "Use tabs." in (model.requests[0].system or "")
    assert not (tmp_path / "started").exists()


async def test_a_trusted_folder_brings_its_servers_and_skills(tmp_path: Path) -> None:
    """[TRUST-01] [TRUST-02] They run in the folder."""
    found = load_project(project(tmp_path), trust=True)
    assert (found.withheld, found.report) == ((), ())
    assert [server.cwd for server in found.servers] == [str(tmp_path)]
    async with asyncio.timeout(30), Client(model=ScriptedModel([]), **found.options()) as client:
        assert client.mcp_status()["rough"]["status"] == "connected"
        assert [skill.name for skill in client.skills] == ["pdf"]
    assert (tmp_path / "started").exists()


def test_the_servers_of_every_host_are_found(tmp_path: Path) -> None:
    """[TRUST-02] Of a name that two hosts have the first counts; the same twice is no finding."""
    same = {"command": "x", "args": ["1"]}
    write(
        tmp_path,
        {
            ".mcp.json": json.dumps({"mcpServers": {"a": same}}),
            ".vscode/mcp.json": json.dumps({"servers": {"a": same, "v": same}}),
            ".cursor/mcp.json": json.dumps({"mcpServers": {"a": {"command": "y"}}}),
            ".codex/config.toml": 'model = "m"\n[mcp_servers.c]\ncommand = "x"\n',
            ".gemini/settings.json": json.dumps({"theme": "Dark"}),
            "opencode.json": json.dumps({"mcp": {"o": {"type": "local", "command": ["x"]}}}),
            ".agents/skills/pdf/SKILL.md": SKILL,
        },
    )
    found = load_project(tmp_path, trust=True)
    assert [server.name for server in found.servers] == ["a", "v", "c", "o"]
    assert found.servers[0].command == ("x", "1")
    assert found.skills == (tmp_path / ".agents/skills",)
    left = (
        f"{tmp_path / '.cursor/mcp.json'}: server 'a' is left out: that of {tmp_path / '.mcp.json'} is taken"
    )
    assert [line for line in found.report if "not carried over" not in line] == [left]
    assert len(load_project(tmp_path).withheld) == 6


def test_a_folder_without_anything_is_an_empty_project(tmp_path: Path) -> None:
    """[TRUST-02] Nothing but the folder; what is no folder is an error, and so is a trust that is no bool."""
    found = load_project(tmp_path)
    assert found.options() == {"workdir": tmp_path}
    assert (found.withheld, found.report) == ((), ())
    for none in (tmp_path / "none", "x" * 10_000):
        with pytest.raises(ConfigError, match="is no folder; give the path of one"):
            load_project(none)
    anything: Any = "yes"
    with pytest.raises(ConfigError, match="trust"):
        load_project(tmp_path, trust=anything)


def test_hooks_and_commands_of_files_never_run(tmp_path: Path) -> None:
    """[TRUST-03] Trusted or not: what an agent file wants to run is told, and stays text."""
    ran = tmp_path / "ran"
    keys = f"hooks: {{Stop: 'touch {ran}'}}\nmcpServers: {{x: {{command: touch}}}}"
    text = f"---\nname: a\ndescription: d\n{keys}\n---\n!touch {ran}"
    found = load_project(write(tmp_path, {".claude/agents/a.md": text}), trust=True)
    assert [line.split(": ")[1] for line in found.report] == ["hooks", "mcpServers"]
    assert (found.servers, ran.exists()) == ((), False)


async def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[TRUST-01] As they stand there, with another folder."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    place = str(project(tmp_path))
    page = (Path(__file__).parents[2] / "docs" / "projects.md").read_text()
    first, second = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for program, servers in ((first, 0), (second, 1)):
        exec(program.replace("path/of/the/folder", place), names)
        assert len(names["project"].servers) == servers
    await names["client"].aclose()
