"""`toolnexus tools` and `toolnexus agents`: what there is, without asking anybody."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cli.helpers import ROOT, cli

SERVER = {"command": sys.executable, "args": [str(ROOT / "tests" / "servers" / "sdk_mcp.py")]}
MISSING = {"command": "no-such-program-anywhere"}
SKILL = "---\nname: pdf\ndescription: Reads PDF files.\n---\nRead them.\n"


def test_tools_are_listed_by_source(tmp_path: Path) -> None:
    """[CLI-80] Builtins, servers and skills, each with what it is for; no model is needed."""
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"calc": SERVER}}))
    (tmp_path / "skills" / "pdf").mkdir(parents=True)
    (tmp_path / "skills" / "pdf" / "SKILL.md").write_text(SKILL)
    done = cli(tmp_path, "tools", "--mcp", "mcp.json", "--skills", "skills", "--builtins", "read")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.index("mcp calc") < lines.index("builtin")
    assert any(line.split()[:1] == ["calc_add"] for line in lines)
    assert any(line.startswith("  read  Read") for line in lines)
    assert "  pdf  Reads PDF files." in lines
    as_json = cli(tmp_path, "tools", "--json", "--mcp", "mcp.json", "--no-builtins")
    found = json.loads(as_json.stdout)
    add = next(t for t in found["tools"] if t["name"] == "calc_add")
    assert add["source"] == "mcp" and add["original_name"] == "add"
    assert set(add["input_schema"]["properties"]) == {"a", "b"}
    assert found["mcp"]["calc"]["status"] == "connected" and found["missing"] == []


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    """[CLI-80] Exit 3 and a line with the reason; the good ones are listed all the same."""
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"gone": MISSING}}))
    (tmp_path / "skills" / "bad").mkdir(parents=True)
    (tmp_path / "skills" / "bad" / "SKILL.md").write_text("---\ndescription: nameless\n---\n")
    done = cli(tmp_path, "tools", "--mcp", "mcp.json", "--skills", "skills")
    assert done.returncode == 3
    missing = [line for line in done.stderr.splitlines() if line.startswith("missing: ")]
    assert "server 'gone': failed" in missing[0] and "no-such-program-anywhere" in missing[0]
    assert "bad" in missing[1] and "missing-name" in missing[1]
    assert "  read" in done.stdout


AGENT = """---
name: reader
description: Reads and tells.
tools: Read, Grep, WebSearch
model: inherit
---
You read.
"""


def test_agents_are_listed_with_what_they_would_get(tmp_path: Path) -> None:
    """[CLI-81] Those of the options alone, or those of files, whose losses are notes."""
    plain = cli(tmp_path, "agents")
    assert plain.returncode == 0, plain.stderr
    assert "explore  Finds things out" in plain.stdout
    assert "  tools  glob, grep, read" in plain.stdout
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reader.md").write_text(AGENT)
    done = cli(tmp_path, "agents", "--agents", "agents", "--json")
    assert done.returncode == 0, done.stderr
    (agent,) = json.loads(done.stdout)["agents"]
    assert agent["name"] == "reader" and agent["model"] is None
    assert sorted(agent["tools"]) == ["grep", "read"]
    assert "note: " in done.stderr and "WebSearch" in done.stderr


def test_an_agent_with_a_tool_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """[CLI-81] The list never shows an agent that could not run."""
    document = {"builtins": ["read"], "agents": {"a": {"description": "A.", "tools": ["raed"]}}}
    (tmp_path / "toolnexus.json").write_text(json.dumps(document))
    done = cli(tmp_path, "agents", "--config", "toolnexus.json")
    assert done.returncode == 2
    assert "did you mean 'read'" in done.stderr and "Traceback" not in done.stderr
