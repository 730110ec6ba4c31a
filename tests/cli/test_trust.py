"""`--project` and `toolnexus trust`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cli.helpers import ROOT, Terminal, cli
from tests.warm import Warm

AGENT = "---\nname: helper\ndescription: Helps.\ntools: read\n---\nHelp."


def project(folder: Path) -> Path:
    """A folder whose server is a real one."""
    place = folder / "repo"
    server = {"command": sys.executable, "args": [str(ROOT / "tests" / "servers" / "rough_mcp.py")]}
    (place / ".claude" / "agents").mkdir(parents=True)
    (place / ".claude" / "agents" / "helper.md").write_text(AGENT)
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"rough": server}}))
    return place


def test_without_a_terminal_an_untrusted_folder_is_refused(tmp_path: Path) -> None:
    """[TRUST-04] With what it has and the command to trust it; once trusted its servers start."""
    place = project(tmp_path)
    refused = cli(tmp_path, "tools", "--project", "repo")
    assert refused.returncode == 2
    assert ".mcp.json" in refused.stderr and f"toolnexus trust {place}" in refused.stderr
    assert cli(tmp_path, "trust", "repo").stdout == f"trusted: {place}\n"
    kept = tmp_path / "config" / "toolnexus" / "trusted"
    assert len(kept.read_text().split()) == 1 and "repo" not in kept.read_text()
    listed = cli(tmp_path, "tools", "--project", "repo")
    assert (listed.returncode, "rough_" in listed.stdout) == (0, True), listed.stderr
    assert cli(tmp_path, "trust", "--forget", "repo").stdout == f"no longer trusted: {place}\n"
    assert cli(tmp_path, "tools", "--project", "repo").returncode == 2


def test_at_a_terminal_the_person_is_asked_once(warm: Warm, tmp_path: Path) -> None:
    """[TRUST-05] No goes on without what starts programs; yes is kept."""
    project(tmp_path)
    command = ["agents", "--project", "repo"]
    for answer, says in (("n", "not loaded: it may start programs"), ("y", "1 agent")):
        with Terminal(warm, tmp_path, command) as terminal:
            terminal.expect("Do you trust whoever wrote them? [y/N]")
            terminal.send(f"{answer}\n")
            terminal.expect(says)
            terminal.expect("helper")
            assert terminal.wait() == 0
    with Terminal(warm, tmp_path, command) as terminal:
        assert terminal.wait() == 0
        assert "trust" not in terminal.output and "helper" in terminal.output


def test_what_is_no_folder_is_not_trusted(tmp_path: Path) -> None:
    """[TRUST-04] A typing error is told."""
    done = cli(tmp_path, "trust", "nowhere")
    assert (done.returncode, "'nowhere' is no folder" in done.stderr) == (2, True)
    assert "'nowhere' is no folder" in cli(tmp_path, "agents", "--project", "nowhere").stderr
