"""`toolnexus config`, `toolnexus init`, and `--config`."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import jsonschema
import pytest

from tests.cli.helpers import Terminal, cli
from tests.cli.test_chat import chat
from toolnexus.testing import ScriptedEndpoint, Turn

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """[CLI-82] A line for each, exit 2, and no server is started by a check."""
    started = tmp_path / "started"
    server = f'[mcpServers.x]\ncommand = "touch"\nargs = ["{started}"]\n'
    (tmp_path / "good.toml").write_text(f'model = "openai:m"\nbase_url = "http://127.0.0.1:9/v1"\n{server}')
    (tmp_path / "bad.toml").write_text(f'modle = "openai:m"\nmax_turns = "ten"\n{server}')
    good = cli(tmp_path, "config", "check", "good.toml")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.splitlines()[-1] == "good.toml: ok"
    bad = cli(tmp_path, "config", "check", "good.toml", "bad.toml")
    assert bad.returncode == 2
    assert "did you mean 'model'" in bad.stderr and "max_turns" in bad.stderr
    assert len(bad.stderr.splitlines()) == 2
    as_json = cli(tmp_path, "config", "check", "--json", "good.toml", "bad.toml", "none.toml")
    verdicts = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [v["ok"] for v in verdicts] == [True, False, False]
    assert len(verdicts[1]["findings"]) == 2
    assert not started.exists()


def test_the_schema_is_printed(tmp_path: Path) -> None:
    """[CLI-83] As JSON that is itself a valid schema."""
    done = cli(tmp_path, "config", "schema")
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "mcpServers" in schema["properties"]


def test_a_document_to_start_from_is_written_once(tmp_path: Path) -> None:
    """[CLI-84] It passes the check where its model has a key, and a second time is refused."""
    done = cli(tmp_path, "init")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "toolnexus.toml").read_text()
    assert "#" in written
    checked = cli(tmp_path, "config", "check", "toolnexus.toml", env={"OPENAI_API_KEY": "sk-0123456789"})
    assert checked.returncode == 0, checked.stderr
    (tmp_path / "toolnexus.toml").write_text("mine")
    again = cli(tmp_path, "init")
    assert again.returncode == 2 and "is there already" in again.stderr
    assert (tmp_path / "toolnexus.toml").read_text() == "mine"
    assert cli(tmp_path, "init", "x.json").returncode == 2
    assert cli(tmp_path, "init", "none/x.toml").returncode == 2


def test_a_document_says_what_there_is_and_options_win(tmp_path: Path) -> None:
    """[CLI-85] Model, prompt and tools come from the document; an option replaces its one key."""
    with ScriptedEndpoint([Turn(text="a"), Turn(text="b")]) as endpoint:
        (tmp_path / "c.toml").write_text(
            f'model = "openai:doc"\nbase_url = "{endpoint.url}"\n'
            'system_prompt = "Be brief."\nbuiltins = ["glob"]\n'
        )
        first = cli(tmp_path, "run", "hi", "--config", "c.toml")
        second = cli(
            tmp_path, "run", "hi", "--config", "c.toml", "--builtins", "read", "--system", "Be long."
        )
        bodies = [seen.body for seen in endpoint.requests]
    assert (first.stdout, second.stdout) == ("a\n", "b\n"), first.stderr + second.stderr
    assert [b["model"] for b in bodies] == ["doc", "doc"]
    assert [b["messages"][0]["content"] for b in bodies] == ["Be brief.", "Be long."]
    assert [[t["function"]["name"] for t in b["tools"]] for b in bodies] == [["glob"], ["read"]]


def test_another_endpoint_takes_the_place_of_the_document_s(tmp_path: Path) -> None:
    """[CLI-85] The key of the document does not go there."""
    (tmp_path / "c.toml").write_text(
        'model = "openai:doc"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "sk-of-the-document"\n'
    )
    with ScriptedEndpoint([Turn(text="a")]) as endpoint:
        done = cli(
            tmp_path, "run", "hi", "--config", "c.toml", "--model", "openai:x", "--base-url", endpoint.url
        )
        (seen,) = endpoint.requests
    assert done.stdout == "a\n", done.stderr
    assert seen.body["model"] == "x"
    assert "sk-of-the-document" not in str(seen.headers)


def test_files_go_with_the_prompt(tmp_path: Path) -> None:
    """[CLI-86] In the form of the endpoint; what is no file is refused before any request."""
    (tmp_path / "dot.png").write_bytes(PNG)
    with ScriptedEndpoint([Turn(text="a dot")]) as endpoint:
        where = ["--model", "openai:t", "--base-url", endpoint.url]
        done = cli(tmp_path, "run", "what is it?", "--attach", "dot.png", *where)
        refused = cli(tmp_path, "run", "what is it?", "--attach", "none.png", *where)
        (seen,) = endpoint.requests
    assert done.stdout == "a dot\n", done.stderr
    content = seen.body["messages"][-1]["content"]
    assert content[0] == {"type": "text", "text": "what is it?"}
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert refused.returncode == 2 and "'none.png'" in refused.stderr


def test_a_chat_can_be_looked_back_at(tmp_path: Path) -> None:
    """[CLI-87] What was said, by whom, and which tools were called; also of a conversation that was kept."""
    (tmp_path / "dot.png").write_bytes(PNG)
    look = Turn(calls=[{"name": "glob", "args": {"pattern": "*"}}])
    with ScriptedEndpoint([look, Turn(text="a dot"), Turn(text="yes")]) as endpoint:
        options = [*chat(endpoint)[3:], "--store", "talk.db", "--conversation", "c1"]
        lines = "/history\n/agents\n/attach none.png\n/attach dot.png\nwhat is here?\n"
        first = cli(tmp_path, *options, stdin=lines)
        second = cli(tmp_path, *options, stdin="/history\nsure?\n")
        with_image, without = endpoint.requests[0].body, endpoint.requests[2].body
    assert "nothing was said yet" in first.stderr
    assert "explore" in first.stderr and "cannot attach 'none.png'" in first.stderr
    assert "dot.png (image/png) goes with the next prompt" in first.stderr
    assert with_image["messages"][-1]["content"][1]["type"] == "image_url"
    assert without["messages"][-1]["content"] == "sure?"
    at = second.stderr.index("> what is here?")
    assert second.stderr.index("(glob)", at) < second.stderr.index("a dot", at)


def test_typed_lines_are_there_in_the_next_chat(tmp_path: Path) -> None:
    """[CLI-88] The arrow up brings them back, and nobody else may read the file."""
    pytest.importorskip("prompt_toolkit")
    with ScriptedEndpoint([Turn(text="one"), Turn(text="two")]) as endpoint:
        for keys in ("first words\r", "\x1b[A\r"):
            with Terminal(tmp_path, chat(endpoint)) as terminal:
                terminal.expect(">")
                terminal.send(keys)
                terminal.expect(">", after=terminal.expect("done, 1 agent"))
                terminal.send("\x04")
                assert terminal.wait() == 0
        said = [seen.body["messages"][-1]["content"] for seen in endpoint.requests]
    assert said == ["first words", "first words"]
    file = tmp_path / "state" / "toolnexus" / "chat_history"
    assert file.stat().st_mode & 0o077 == 0
