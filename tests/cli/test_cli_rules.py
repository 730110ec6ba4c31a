"""`--allow`, `--ask` and `--deny`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolnexus.cli.main import main
from toolnexus.testing import ScriptedEndpoint, Turn

RULES = 'builtins = ["bash"]\npermissions = { bash = "deny", "bash(echo *)" = "deny" }\n'


def bash(*commands: str) -> Turn:
    return Turn(calls=[{"name": "bash", "args": {"command": command}} for command in commands])


def results(endpoint: ScriptedEndpoint) -> list[str]:
    return [m["content"] for m in endpoint.requests[-1].body["messages"] if m["role"] == "tool"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.delenv("TOOLNEXUS_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(endpoint: ScriptedEndpoint, *options: str) -> tuple[int, str]:
        code = main(["run", "go", "--model", "openai:t", "--base-url", endpoint.url, *options])
        return code, capsys.readouterr().err

    return run


def test_rules_can_be_given_at_the_command_line(run: Any) -> None:
    """[CLI-105] Each may be repeated, the most specific holds, of the same rule given twice the stricter;
    who is to be asked and sits at no terminal declines; what is no rule is exit 2."""
    commands = ("echo a", "echo b", "pwd", "ls")
    with ScriptedEndpoint([bash(*commands), Turn(text="ok")]) as endpoint:
        rules = ["--allow", "bash(echo *)", "--deny", "bash(echo b)", "--allow", "bash(pwd)"]
        rules += ["--ask", "bash(pwd)", "--deny", "bash"]
        code, said = run(endpoint, "--builtins", "bash", *rules)
        first, second, third, fourth = results(endpoint)
    assert code == 0 and first == "a\n"
    assert second.startswith("denied:") and fourth.startswith("denied:")
    assert third.startswith("declined:") and "declined, because nobody is at a terminal" in said
    with ScriptedEndpoint([]) as endpoint:
        code, said = run(endpoint, "--ask", "ba sh")
    assert (code, said) == (2, "toolnexus: --ask: 'ba sh' is no rule; write a tool, or tool(pattern)\n")


def test_they_are_added_to_those_of_the_document(run: Any, tmp_path: Path) -> None:
    """[CLI-106] Each in the place of the same rule; the others stay."""
    (tmp_path / "c.toml").write_text(RULES)
    with ScriptedEndpoint([bash("echo a", "ls"), Turn(text="ok")]) as endpoint:
        run(endpoint, "--config", "c.toml", "--allow", "bash(echo *)")
        first, second = results(endpoint)
    assert first == "a\n" and second.startswith("denied:")


def test_a_replay_knows_the_rules(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-105] What they deny is not offered, so they belong to the record."""
    with ScriptedEndpoint([bash("ls"), Turn(text="ok")]) as endpoint:
        options = ["--builtins", "bash,read", "--deny", "bash", "--record", "r.jsonl"]
        assert run(endpoint, *options)[0] == 0
        offered = [t["function"]["name"] for t in endpoint.requests[0].body["tools"]]
        assert "read" in offered and "bash" not in offered
    assert main(["replay", "r.jsonl"]) == 0
    assert capsys.readouterr().out == "ok\n"
