"""docs/approvals.md: what it shows runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from toolnexus.cli.parser import make_parser
from toolnexus.testing import ScriptedEndpoint, Turn

PAGE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^```\n(toolnexus .*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def bash(*commands: str) -> Turn:
    return Turn(calls=[{"name": "bash", "args": {"command": command}} for command in commands])


TWO = Turn(calls=[{"name": "open_page", "args": {"place": place}} for place in ("prices", "terms")])
PAY = Turn(calls=[{"name": "pay", "args": {"to": "Ann", "amount": 5}}])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLNEXUS_MODEL", raising=False)
    return tmp_path


def test_the_programs_of_the_page_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[PERM-21] As they stand, one after the other, and do what the page says."""
    shown: list[str] = []
    turns = [
        [bash("mkdir notes", "git push", "ls"), Turn(text="It is there.")],
        [bash("mkdir a", "mkdir b")],
        [Turn(text="One of them.")],
        [PAY, Turn(text="Paid.")],
        [TWO, Turn(text="Both are open.")],
    ]
    for program, script in zip(PROGRAMS, turns, strict=True):
        with ScriptedEndpoint(script) as endpoint:
            monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
            exec(compile(program, "approvals.md", "exec"), {"__name__": "__main__"})
            said = [m for m in endpoint.requests[-1].body["messages"] if m["role"] == "tool"]
            shown.append(capsys.readouterr().out + "".join(f"[{m['content']}]" for m in said))
    rules, waiting, resumed, paid, relayed = shown
    assert "main wants bash {'command': 'mkdir notes'}" in rules and "It is there." in rules
    assert "denied: 'bash' may not be called so (permissions: 'bash(git push*)')" in rules
    assert "declined: run bash with" in rules and (here / "notes").is_dir()
    assert waiting.startswith("pending\n") and waiting.count("'kind': 'approval'") == 2
    assert resumed.startswith("pending 1\ndone One of them.\n")
    assert not (here / "a").exists() and (here / "b").is_dir()
    assert paid == "Paid.\n[paid Ann 5]"
    assert relayed == "Both are open.\n[prices is open][terms is open]"


def test_the_commands_of_the_page_are_commands() -> None:
    """[PERM-21] With options that there are."""
    (lines,) = COMMANDS
    parsed = [make_parser().parse_args(shlex.split(line)[1:]) for line in lines.splitlines()]
    assert [options.command for options in parsed] == ["run", "resume"]
