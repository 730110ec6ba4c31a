"""`toolnexus run --record` and `toolnexus replay`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import process
from tests.cli.test_config_commands import PNG
from tests.cli.test_run import QUESTION, Delegating
from tests.warm import Warm
from toolnexus.cli.main import main
from toolnexus.testing import ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests" / "servers" / "rough_mcp.py"
KEY = "sk-very-secret-0123456789"
LOOKING = Turn(text="so far", calls=[{"name": "glob", "args": {"pattern": "*"}}])


class Here:
    """The command in this process, in a folder of its own, where nothing names a model."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.said = ""
        """What the last command put on standard error."""

    def record(self, endpoint: ScriptedEndpoint, *arguments: str, style: str = "openai") -> tuple[int, str]:
        """Run and record; gives the exit code and the answer."""
        model = ["--model", f"{style}:tiny", "--base-url", endpoint.url, "--api-key-env", "MY_KEY"]
        done = self.run("run", *arguments, "--record", "run.jsonl", *model)
        assert KEY not in Path("run.jsonl").read_text()
        return done

    def replay(self, *arguments: str) -> tuple[int, str]:
        return self.run("replay", *(arguments or ["run.jsonl"]))

    def run(self, *arguments: str) -> tuple[int, str]:
        code = main(arguments)
        out, self.said = self._capsys.readouterr()
        return code, out


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    for name in ("TOOLNEXUS_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("toolnexus.cli.detect.LOCAL_SERVERS", ())
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    return Here(capsys)


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_a_recorded_run_is_played_offline(warm: Warm, here: Here, tmp_path: Path, style: str) -> None:
    """[CLI-100] Two agents at once and their tools: the same answer, progress and events, exit 0, without
    key, model and endpoint; nothing that a tool read needs to be there."""
    (tmp_path / "notes.txt").write_text("a\nb\n")
    with ScriptedEndpoint(Delegating()) as endpoint:
        code, answer = here.record(endpoint, "look", style=style)
        assert code == 0, here.said
    (tmp_path / "notes.txt").unlink()
    again = process(warm, tmp_path, "replay", "run.jsonl")
    assert (again.returncode, again.stdout) == (0, answer), again.stderr
    assert "review  read notes.txt gave" in again.stderr
    assert again.stderr.splitlines()[-1].startswith("done, 3 agents, 4 tool calls, ")
    code, lines = here.replay("run.jsonl", "--json")
    events = [json.loads(line) for line in lines.splitlines()]
    assert (code, events[-1]["type"], events[-1]["text"] + "\n") == (0, "done", answer)
    assert here.replay("run.jsonl", "--plain") == (0, answer) and "explore  grep b gave" in here.said


def test_exit_codes_are_those_of_the_run(here: Here) -> None:
    """[CLI-101] Incomplete, pending, and an error of the endpoint end a replay as they ended the run; a
    question that was declined is not asked."""
    broken = Turn(status=400, body='{"error": {"message": "no such model"}}')
    asking = Turn(calls=[QUESTION])
    with ScriptedEndpoint([LOOKING, broken, asking, asking, Turn(text="Then I guess.")]) as endpoint:
        for arguments, code in ((["--max-turns", "1"], 3), ([], 1), (["--json"], 4)):
            assert here.record(endpoint, "hi", *arguments)[0] == code, here.said
            assert here.replay()[0] == code, here.said
            assert code != 1 or "no such model" in here.said.splitlines()[-1]
        assert here.record(endpoint, "hi") == (0, "Then I guess.\n")
    assert here.replay() == (0, "Then I guess.\n"), here.said


def test_another_run_shows_the_difference(here: Here, tmp_path: Path) -> None:
    """[CLI-102] The config has changed since: a note, the run, turn and diff on standard error, exit 1. More
    in the record than was asked: what is left, exit 1. The config is gone: its name, exit 2."""
    config = tmp_path / "toolnexus.toml"
    config.write_text('system_prompt = "Be brief."\nbuiltins = ["glob"]\n')
    with ScriptedEndpoint([LOOKING, Turn(text="end")]) as endpoint:
        assert here.record(endpoint, "hi", "--config", "toolnexus.toml")[0] == 0, here.said
    assert here.replay()[0] == 0 and "note:" not in here.said
    config.write_text('system_prompt = "Be long."\nbuiltins = ["glob"]\n')
    assert here.replay() == (1, "")
    assert "note: toolnexus.toml has changed since the run was recorded" in here.said
    assert "toolnexus: run 'main', turn 1: this request is not the recorded one" in here.said
    assert "-  Be brief.\n+  Be long.\n" in here.said and "Traceback" not in here.said
    config.write_text('system_prompt = "Be brief."\nbuiltins = ["glob"]\nmax_turns = 1\n')
    assert here.replay()[0] == 1
    assert "the record holds more than was asked: run 'main', turn 2" in here.said
    config.unlink()
    assert here.replay()[0] == 2 and "'toolnexus.toml', which is not here" in here.said


def test_the_model_of_a_config_is_recorded_and_its_key_is_not_needed_again(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CLI-100] With `--config` alone: its model is recorded; a replay needs none of its variables for it."""
    with ScriptedEndpoint([Turn(text="end")]) as endpoint:
        (tmp_path / "c.toml").write_text(
            f'[model]\nname = "openai:tiny"\nbase_url = "{endpoint.url}"\napi_key = "${{MY_KEY}}"\n'
            "params = { temperature = 0.5 }\n"
        )
        assert here.run("run", "hi", "--config", "c.toml", "--record", "run.jsonl") == (0, "end\n"), here.said
        assert endpoint.requests[0].body["temperature"] == 0.5
        assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.delenv("MY_KEY")
    assert here.replay() == (0, "end\n"), here.said
    assert here.run("run", "hi", "--config", "c.toml", "--record", "run.jsonl")[0] == 2
    assert "MY_KEY" in here.said


def test_a_file_that_cannot_be_played_is_refused(here: Here, tmp_path: Path) -> None:
    """[CLI-103] Exit 2, and what it lacks: no record, no file, a record of a program. `--record` leaves
    such a file alone."""
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / "program.jsonl").write_text('{"type": "record", "v": 1, "model": "m"}\n')
    for file, why in (
        ("notes.md", "line 1: no record of a run"),
        ("none.jsonl", "cannot read the record"),
        ("program.jsonl", "holds no command: it was not written by `toolnexus run --record`"),
    ):
        assert here.replay(file)[0] == 2 and why in here.said
    with ScriptedEndpoint([Turn(text="end")]) as endpoint:
        model = ["--model", "openai:t", "--base-url", endpoint.url]
        assert here.run("run", "hi", *model, "--record", "notes.md")[0] == 2
        assert "it is left alone" in here.said and endpoint.requests == []
    assert (tmp_path / "notes.md").read_text() == "# Notes\n"


def test_servers_are_not_started_by_a_replay(here: Here, tmp_path: Path) -> None:
    """[CLI-104] Tools of MCP servers are offered and answered from the record; a kept conversation and an
    attached image are in it as well, and nothing is written to the store."""
    started = tmp_path / "started"
    command = f'echo x >> "{started}"; exec "{sys.executable}" "{SERVER}"'
    server = {"command": "sh", "args": ["-c", command], "env": {"PYTHONPATH": str(ROOT)}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": server}}))
    (tmp_path / "dot.png").write_bytes(PNG)
    echoing = Turn(calls=[{"name": "shop_echo", "args": {"s": "3"}}])
    with ScriptedEndpoint([Turn(text="first"), echoing, Turn(text="second")]) as endpoint:
        store = ["--store", "talk.db", "--conversation", "c"]
        assert here.record(endpoint, "one", *store)[0] == 0
        code, answer = here.record(endpoint, "two", *store, "--mcp", "mcp.json", "--attach", "dot.png")
        assert (code, answer) == (0, "second\n"), here.said
    for file in ("talk.db", "dot.png"):
        (tmp_path / file).unlink()
    assert here.replay() == (0, answer), here.said
    assert "shop_echo" in here.said
    assert started.read_text() == "x\n" and not (tmp_path / "talk.db").exists()


@pytest.mark.parametrize("through", ["option", "document"])
def test_no_request_is_sent_by_a_replay(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """[CLI-104] HTTP tools are offered and answered from the record: no API, no document, no key of it."""
    url = "http://127.0.0.1:9"
    api = {"openapi": "3.1.0", "servers": [{"url": url}], "paths": {"/x": {"get": {"operationId": "look"}}}}
    (tmp_path / "api.json").write_text(json.dumps(api))
    told = {"openapi": [{"document": "api.json", "headers": {"X-Key": "${API_KEY}"}}]}
    (tmp_path / "toolnexus.json").write_text(json.dumps(told))
    monkeypatch.setenv("API_KEY", "key-0123456")
    options = ["--openapi", "api.json"] if through == "option" else ["--config", "toolnexus.json"]
    with ScriptedEndpoint([Turn(calls=[{"name": "look", "args": {}}]), Turn(text="end")]) as endpoint:
        code, answer = here.record(endpoint, "go", *options)
    assert (code, answer) == (0, "end\n"), here.said
    monkeypatch.delenv("API_KEY")
    (tmp_path / "api.json").unlink()
    assert here.replay() == (0, answer), here.said
    assert "Connection refused" in (tmp_path / "run.jsonl").read_text()
