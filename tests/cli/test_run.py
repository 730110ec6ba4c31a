"""`toolnexus run` against an endpoint of either style."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import COLOUR, Terminal, cli
from tests.warm import Warm
from toolnexus.cli.main import main
from toolnexus.testing import ScriptedEndpoint, Turn

QUESTION = {
    "name": "question",
    "args": {"questions": [{"question": "Which city?", "options": ["Oslo", "Rome"]}]},
}


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine decides which model is used."""
    for name in ("TOOLNEXUS_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("toolnexus.cli.detect.LOCAL_SERVERS", ())


class Delegating:
    """Main delegates to both agents in one turn; each uses one tool, and both must be there at once."""

    def __init__(self) -> None:
        self._both: asyncio.Barrier | None = None

    async def __call__(self, body: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(body)
        going_on = any(m["role"] == "assistant" for m in body["messages"])
        explore, review = "You find things out" in text, "You check critically" in text
        if not going_on and (explore or review):
            self._both = self._both or asyncio.Barrier(2)
            async with asyncio.timeout(20):
                await self._both.wait()
        if explore:
            call = {"name": "grep", "args": {"pattern": "b"}}
            return {"text": "found in notes.txt"} if going_on else {"calls": [call]}
        if review:
            call = {"name": "read", "args": {"path": "notes.txt"}}
            return {"text": "all fine"} if going_on else {"calls": [call]}
        if going_on:
            return {"text": "joined: found in notes.txt, all fine"}
        tasks = [{"name": "task", "args": {"agent": a, "prompt": "go"}} for a in ("explore", "review")]
        return {"text": "I split this.", "calls": tasks}


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_delegation_works_out_of_the_box_in_both_styles(tmp_path: Path, style: str) -> None:
    """[CLI-40] `run` has two agents to delegate to; the answer alone goes to standard output, progress and a
    summary to standard error; exit code 0."""
    (tmp_path / "notes.txt").write_text("a\nb\n")
    with ScriptedEndpoint(Delegating()) as endpoint:
        done = cli(tmp_path, "run", "look", "--model", f"{style}:tiny", "--base-url", endpoint.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "joined: found in notes.txt, all fine\n"
    assert "explore  grep b gave" in done.stderr
    assert "review  read notes.txt gave" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("done, 3 agents, 4 tool calls, ")


def run(endpoint: ScriptedEndpoint, *arguments: str) -> int:
    """The command, in this process."""
    return main(["run", "--model", "openai:tiny", "--base-url", endpoint.url, *arguments])


def test_every_way_to_end_has_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-41] 0 done, 1 error, 2 usage, 3 incomplete, 4 pending; what was wrong is said on stderr."""
    looking = Turn(text="so far", calls=[{"name": "glob", "args": {"pattern": "*"}}])
    broken = Turn(status=400, body='{"error": {"message": "no such model"}}')
    with ScriptedEndpoint([Turn(text="hello"), looking, broken, Turn(calls=[QUESTION])]) as endpoint:
        here = ["--workdir", str(tmp_path)]
        assert run(endpoint, "hi", *here) == 0
        assert capsys.readouterr().out == "hello\n"
        assert run(endpoint, "hi", *here, "--max-turns", "1") == 3
        out, said = capsys.readouterr()
        assert out == "so far\n"
        assert said.splitlines()[-1].startswith("incomplete (max_turns 1), 1 agent, 1 tool call")
        assert run(endpoint, "hi", *here) == 1
        assert "no such model" in capsys.readouterr().err.splitlines()[-1]
        assert run(endpoint, "hi", *here, "--json") == 4
        out, said = capsys.readouterr()
        assert [
            e["request"]["prompt"] for e in map(json.loads, out.splitlines()) if e["type"] == "pending"
        ] == ["Which city? (Oslo / Rome)"]
        assert said.startswith("pending (Which city?")
        assert run(endpoint, "  ", *here) == 2
        assert run(endpoint, "hi", *here, "--builtins", "raed") == 2
        assert "did you mean 'read'" in capsys.readouterr().err
        assert run(endpoint, "hi", "--workdir", str(tmp_path / "none")) == 2


def test_json_lines_of_a_run_are_its_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-42] `--json` prints every event, text deltas too, and not the answer again."""
    with ScriptedEndpoint([Turn(text="grüße \ud800 there", chunk=4)]) as endpoint:
        assert run(endpoint, "hi", "--json", "--workdir", str(tmp_path)) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert "".join(e["delta"] for e in events if e["type"] == "text") == events[-1]["text"]


def test_who_sits_at_no_terminal_declines(tmp_path: Path) -> None:
    """[CLI-43] A question without a terminal is declined, the model learns it, standard error says it."""
    with ScriptedEndpoint([Turn(calls=[QUESTION]), Turn(text="Then I guess.")]) as endpoint:
        done = cli(
            tmp_path, "run", "-", "--model", "openai:t", "--base-url", endpoint.url, stdin="plan a trip"
        )
        bodies = [seen.body["messages"] for seen in endpoint.requests]
    assert (done.returncode, done.stdout) == (0, "Then I guess.\n")
    assert bodies[0][-1]["content"] == "plan a trip"
    assert bodies[1][-1]["content"].startswith("declined: Which city?")
    assert "declined, because nobody is at a terminal: Which city?" in done.stderr


def test_a_question_is_answered_at_the_terminal(warm: Warm, tmp_path: Path) -> None:
    """[CLI-44] At a terminal the question is asked, an option may be given by its number, and the live tree
    goes on afterwards; with NO_COLOR nothing is coloured."""
    with ScriptedEndpoint([Turn(calls=[QUESTION]), Turn(text="Rome it is.")]) as endpoint:
        command = ["run", "plan", "--model", "openai:t", "--base-url", endpoint.url]
        with Terminal(warm, tmp_path, command, {"NO_COLOR": "1"}) as terminal:
            terminal.expect("2. Rome")
            terminal.expect("answer (empty: decline): ")
            terminal.send("2\n")
            assert terminal.wait() == 0
        answered = endpoint.requests[1].body["messages"][-1]["content"]
    assert answered == "Rome"
    lines = terminal.screen
    assert any(line.startswith(("├ question", "└ question")) for line in lines)
    assert "Rome it is." in lines
    assert not COLOUR.search(terminal.output)


def test_builtins_that_change_things_must_be_asked_for(tmp_path: Path) -> None:
    """[CLI-45] Without options only tools that change nothing are offered; `--builtins` and `--no-builtins`
    decide, for the agents too."""
    cases: list[tuple[list[str], set[str]]] = [
        ([], {"read", "grep", "glob", "question", "task"}),
        (["--builtins", "read,bash"], {"read", "bash", "task"}),
        (["--no-builtins"], set()),
    ]
    with ScriptedEndpoint([Turn(text="ok")], repeat_last=True) as endpoint:
        for options, expected in cases:
            assert run(endpoint, "hi", "--workdir", str(tmp_path), *options) == 0
            offered = {t["function"]["name"] for t in endpoint.requests[-1].body.get("tools", [])}
            assert offered == expected
        servers = [{"url": "http://127.0.0.1:9"}]
        api: dict[str, Any] = {"openapi": "3.1.0", "servers": servers, "paths": {"/x": {"get": {}}}}
        (tmp_path / "api.json").write_text(json.dumps(api))
        assert run(endpoint, "hi", "--no-builtins", "--openapi", str(tmp_path / "api.json")) == 0
        assert [t["function"]["name"] for t in endpoint.requests[-1].body["tools"]] == ["get_x"]
        assert run(endpoint, "hi", "--workdir", str(tmp_path), "--builtins", "all") == 0
        offered = {t["function"]["name"] for t in endpoint.requests[-1].body["tools"]}
        assert offered >= {"read", "write", "bash"}


def test_a_conversation_is_kept_in_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-46] `--conversation` goes on where it was, also in another process; it needs `--store`."""
    kept = ["--workdir", str(tmp_path), "--store", str(tmp_path / "talk.db"), "--conversation", "c1"]
    with ScriptedEndpoint([Turn(text="one"), Turn(text="two")]) as endpoint:
        assert run(endpoint, "first", *kept) == 0
        assert run(endpoint, "second", *kept) == 0
        said = [m["content"] for m in endpoint.requests[1].body["messages"] if m["role"] != "system"]
        assert said == ["first", "one", "second"]
        assert run(endpoint, "third", "--conversation", "c1") == 2
        assert "a conversation is kept in a store: give --store" in capsys.readouterr().err
    with sqlite3.connect(tmp_path / "talk.db") as db:
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (4,)
    db.close()


def test_a_store_on_a_server_is_named_without_its_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[CLI-46] `--store` takes an address, too; a server that is not there is a failure, exit 1."""
    kept = ["--workdir", str(tmp_path), "--store", "redis://:hush-hush@127.0.0.1:1/0", "--conversation", "c"]
    with ScriptedEndpoint([Turn(text="never asked")]) as endpoint:
        assert run(endpoint, "hi", *kept) == 1
        assert run(endpoint, "hi", *kept[:3], "mysql://a:hush-hush@h/x", *kept[4:]) == 2
    told = capsys.readouterr().err
    assert "redis://127.0.0.1:1/0" in told and "give the path of a file" in told and "hush-hush" not in told


def test_system_prompt_key_and_sources_come_from_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[CLI-47] `--system`, `--api-key-env`, `--skills` and `--mcp` reach the request; a variable that is not
    set is a usage error, and the key is shown nowhere."""
    skill = tmp_path / "skills" / "tea"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tea\ndescription: Makes tea.\n---\nBoil.\n")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"gone": {"command": "no-such-program-here"}}}')
    options = [
        "--system",
        "Be brief.",
        "--skills",
        str(tmp_path / "skills"),
        "--mcp",
        str(tmp_path / "mcp.json"),
    ]
    monkeypatch.setenv("MY_KEY", "secret-123456")
    with ScriptedEndpoint([Turn(text="ok")]) as endpoint:
        assert run(endpoint, "hi", *options, "--workdir", str(tmp_path), "--api-key-env", "MY_KEY") == 0
        seen = endpoint.requests[0]
    assert seen.headers["authorization"] == "Bearer secret-123456"
    system = seen.body["messages"][0]["content"]
    assert system.startswith("Be brief.")
    assert "- **tea**: Makes tea." in system
    out, said = capsys.readouterr()
    assert "secret" not in out + said
    assert run(endpoint, "hi", "--api-key-env", "OTHER_KEY") == 2
    assert "'OTHER_KEY'" in capsys.readouterr().err
