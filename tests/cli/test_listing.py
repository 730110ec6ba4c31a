"""`toolnexus tools` and `toolnexus agents`: what there is, without asking anybody."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.helpers import ROOT, cli
from tests.mcp.conftest import official_stdio
from toolnexus.cli.notes import noting
from toolnexus.tools.mcp_config import ServerConfig

__all__ = ["official_stdio"]

SERVERS = ROOT / "tests" / "servers"
SERVER = {"command": sys.executable, "args": [str(SERVERS / "rough_mcp.py")]}
MISSING = {"command": "no-such-program-anywhere"}
SKILL = "---\nname: pdf\ndescription: Reads PDF files.\n---\nRead them.\n"


def test_tools_are_listed_by_source(tmp_path: Path, official_stdio: Callable[..., ServerConfig]) -> None:
    """[CLI-80] Builtins, servers and skills, each with what it is for; no model is needed."""
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"calc": SERVER}}))
    (tmp_path / "skills" / "pdf").mkdir(parents=True)
    (tmp_path / "skills" / "pdf" / "SKILL.md").write_text(SKILL)
    done = cli(tmp_path, "tools", "--mcp", "mcp.json", "--skills", "skills", "--builtins", "read")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.index("mcp calc") < lines.index("builtin")
    assert any(line.split()[:1] == ["calc_echo"] for line in lines)
    assert any(line.startswith("  read  Read") for line in lines)
    assert "  pdf  Reads PDF files." in lines
    program, *arguments = official_stdio().command
    official = {"command": program, "args": arguments}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"calc": official}}))
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
    missing = done.stderr.splitlines()
    assert len(missing) == 2 and all(line.startswith("missing: ") for line in missing)
    assert "server 'gone': failed" in missing[0] and "no-such-program-anywhere" in missing[0]
    assert "bad" in missing[1] and "missing-name" in missing[1]
    assert "  read" in done.stdout


def test_a_thread_that_goes_on_is_no_note(capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-98] Ctrl-C while something is loaded or connected leaves one line."""
    with noting():
        logging.getLogger("toolnexus.threads").warning("import_module was given up")
        logging.getLogger("toolnexus.mcp").warning("a key changes nothing")
    assert capsys.readouterr().err == "note: a key changes nothing\n"


def test_the_reason_says_what_to_check(tmp_path: Path) -> None:
    """[CLI-97] Of a program that is not there, one that ends without a word, and an address."""
    servers = {
        "gone": MISSING,
        "mute": {"command": "true"},
        "away": {"url": "http://127.0.0.1:9/mcp"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    done = cli(tmp_path, "tools", "--mcp", "mcp.json")
    said = {line.split("'")[1]: line for line in done.stderr.splitlines() if line.startswith("missing: ")}
    assert said["gone"].endswith("check its command")
    assert said["mute"].endswith("it said nothing: check its command and args")
    assert said["away"].endswith("check that it runs there")


def test_a_misnamed_skill_is_missing_and_a_shadowed_one_a_note(tmp_path: Path) -> None:
    """[CLI-80] The one is nowhere; the name of the other is there, so nothing is missing."""
    for folder, file in (("a/pdf", "SKILL.md"), ("b/pdf", "SKILL.md"), ("c/csv", "skill.md")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).write_text(SKILL)
    shadowed = cli(tmp_path, "tools", "--skills", "a", "--skills", "b")
    assert shadowed.returncode == 0
    assert [line for line in shadowed.stderr.splitlines() if "(duplicate-name)" in line] == [
        f"note: skill {tmp_path}/b/pdf/SKILL.md: 'pdf' is already taken by {tmp_path}/a/pdf/SKILL.md"
        " (duplicate-name)"
    ]
    misnamed = cli(tmp_path, "tools", "--skills", "a", "--skills", "c")
    assert misnamed.returncode == 3
    assert f"missing: skill {tmp_path}/c/csv/skill.md: not loaded" in misnamed.stderr


def test_every_warning_is_one_line_said_once(tmp_path: Path) -> None:
    """[CLI-89] As a note without what could steer the terminal, whichever command it is."""
    server: dict[str, object] = {**SERVER, "sandbox": {}, "frob\u001b[31m": 1}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"calc": server}, "sandbox": 1}))
    (tmp_path / "skills" / "odd").mkdir(parents=True)
    (tmp_path / "skills" / "odd" / "SKILL.md").write_text(SKILL)
    sources = ("--mcp", "mcp.json", "--skills", "skills")
    asking = ("--base-url", "http://127.0.0.1:9/v1", "--model", "openai:m")
    for command in (("tools",), ("agents",), ("run", "hello", *asking), ("chat", *asking)):
        said = [
            line
            for line in cli(tmp_path, *command, *sources).stderr.splitlines()
            if "odd" in line or "mcp" in line
        ]
        assert sum("name-mismatch" in line for line in said) == 1, said
        assert sum("the servers run without a sandbox" in line for line in said) == 1, said
        assert sum("frob" in line for line in said) == 1, said
        assert all(line.startswith("note: ") and "\u001b" not in line for line in said), said


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
    assert "  tools   glob, grep, read" in plain.stdout and "  agents  none" in plain.stdout
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reader.md").write_text(AGENT)
    done = cli(tmp_path, "agents", "--agents", "agents", "--json")
    assert done.returncode == 0, done.stderr
    (agent,) = json.loads(done.stdout)["agents"]
    assert agent["name"] == "reader" and agent["model"] is None and agent["agents"] == []
    assert sorted(agent["tools"]) == ["grep", "read"]
    assert "note: " in done.stderr and "WebSearch" in done.stderr


def test_agents_are_listed_with_whom_they_may_call(tmp_path: Path) -> None:
    """[CLI-81] In text and JSON; nobody where `task` is not offered."""
    document = {
        "agents": {
            "lead": {"agents": ["a*"]},
            "ask": {"agents": {"lead": False}},
            "alone": {"tools": ["read"]},
        }
    }
    (tmp_path / "c.json").write_text(json.dumps(document))
    plain = cli(tmp_path, "agents", "--config", "c.json")
    assert [line.split()[1:] for line in plain.stdout.splitlines() if line.startswith("  agents")] == [
        ["none"],
        ["alone,", "ask"],
        ["alone,", "ask"],
    ]
    found = json.loads(cli(tmp_path, "agents", "--config", "c.json", "--json").stdout)["agents"]
    assert {a["name"]: a["agents"] for a in found} == {
        "alone": [],
        "ask": ["alone", "ask"],
        "lead": ["alone", "ask"],
    }


def test_looking_needs_no_key_and_no_variable_of_a_model(tmp_path: Path) -> None:
    """[CLI-90] Neither for the client nor for its agents, and each model is named."""
    document = {
        "model": "openai:${SOME_MODEL}",
        "api_key": "${SOME_KEY}",
        "allowed_models": ["anthropic:x"],
        "agents": {
            "one": {"model": "anthropic:claude-x", "tools": ["read"]},
            "two": {"model": {"name": "openai:gpt-x", "api_key": "${OTHER_KEY}"}, "tools": ["glob"]},
        },
    }
    (tmp_path / "c.json").write_text(json.dumps(document))
    (tmp_path / "reader.md").write_text(AGENT.replace("inherit", "haiku"))
    tools = cli(tmp_path, "tools", "--config", "c.json")
    assert tools.returncode == 0, tools.stderr
    agents = cli(tmp_path, "agents", "--config", "c.json", "--json")
    assert agents.returncode == 0, agents.stderr
    found = {a["name"]: a["model"] for a in json.loads(agents.stdout)["agents"]}
    assert found == {"one": "anthropic:claude-x", "two": "openai:gpt-x"}
    files = ("agents", "--json", "--agents", "reader.md", "--agent-model", "haiku=anthropic:claude-h")
    (agent,) = json.loads(cli(tmp_path, *files).stdout)["agents"]
    assert agent["model"] == "anthropic:claude-h"
    document["agents"] = {"one": {"model": "opanai:x"}}
    (tmp_path / "c.json").write_text(json.dumps(document))
    wrong = cli(tmp_path, "agents", "--config", "c.json")
    assert wrong.returncode == 2 and "did you mean 'openai'" in wrong.stderr


def test_missing_builtins_are_told_with_the_option_that_has_them(tmp_path: Path) -> None:
    """[CLI-91] All of them, with the file of the agent, and as the option to paste."""
    (tmp_path / "fixer.md").write_text(AGENT.replace("Read, Grep, WebSearch", "Read, Bash, Edit"))
    done = cli(tmp_path, "agents", "--agents", "fixer.md")
    assert done.returncode == 2
    assert f"agent 'reader' ({tmp_path}/fixer.md): tools: there is no 'bash', 'edit'" in done.stderr
    options = done.stderr.splitlines()[-1].strip("()").split()
    assert options == ["--builtins", "read,grep,glob,question,bash,edit"]
    assert cli(tmp_path, "agents", "--agents", "fixer.md", *options).returncode == 0
    (tmp_path / "c.toml").write_text('builtins = ["read"]\n')
    named = cli(tmp_path, "agents", "--config", "c.toml", "--agents", "fixer.md")
    assert named.returncode == 2 and "add to builtins" in named.stderr and "--builtins" not in named.stderr


def test_an_agent_with_a_tool_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """[CLI-81] The list never shows an agent that could not run."""
    document = {"builtins": ["read"], "agents": {"a": {"description": "A.", "tools": ["raed"]}}}
    (tmp_path / "toolnexus.json").write_text(json.dumps(document))
    done = cli(tmp_path, "agents", "--config", "toolnexus.json")
    assert done.returncode == 2
    assert "did you mean 'read'" in done.stderr and "Traceback" not in done.stderr
