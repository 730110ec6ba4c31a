"""`toolnexus config`, `toolnexus init`, and `--config`."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.helpers import CLI, Terminal, cli, environment
from tests.cli.test_chat import chat
from tests.cli.test_detect import listing, models
from tests.warm import Warm
from toolnexus.cli.build import make_client
from toolnexus.cli.exits import UsageError
from toolnexus.cli.main import main
from toolnexus.cli.parser import make_parser
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


def test_what_the_surroundings_lack_is_a_note(tmp_path: Path) -> None:
    """[CLI-92] Variables and folders; what is wrong besides is still a finding."""
    (tmp_path / "c.toml").write_text(
        'model = "openai:m"\nskills = ["none"]\n[mcpServers.a]\ncommand = "x"\n'
        'env = { A = "${UNSET_VARIABLE}" }\n'
    )
    done = cli(tmp_path, "config", "check", "c.toml")
    assert done.returncode == 0 and done.stderr == ""
    *notes, ok = done.stdout.splitlines()
    assert ok == "c.toml: ok" and all(line.startswith("note: c.toml: ") for line in notes)
    assert "UNSET_VARIABLE" in notes[0] + notes[1] and "there is no folder" in notes[0] + notes[1]
    (tmp_path / "d.toml").write_text('model = "openai:${UNSET_VARIABLE}"\n[agents.a]\ntools = ["raed"]\n')
    wrong = cli(tmp_path, "config", "check", "--json", "d.toml")
    verdict = json.loads(wrong.stdout)
    assert wrong.returncode == 2 and not verdict["ok"]
    assert "did you mean 'read'" in verdict["findings"][0] and "UNSET_VARIABLE" in verdict["missing"][0]


def test_a_place_for_tasks_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[CLI-82] One that is no database is a finding; a folder or a package that is not there is a note."""

    def checked(tasks: str) -> tuple[int, str, str]:
        document = tmp_path / "c.toml"
        document.write_text(
            f'model = "openai:m"\nbase_url = "http://127.0.0.1:9"\n[a2a]\ntasks = "{tasks}"\n'
        )
        code = main(["config", "check", str(document)])
        said = capsys.readouterr()
        return code, said.out, said.err

    assert checked("tasks.db") == (0, f"{tmp_path / 'c.toml'}: ok\n", "")
    code, _, said = checked("bogus://ann:hunter2@x")
    assert code == 2 and "a2a.tasks: 'bogus' is no database" in said and "hunter2" not in said
    code, said, _ = checked("none/tasks.db")
    assert code == 0 and "a folder that does not exist" in said.splitlines()[0]
    monkeypatch.setitem(sys.modules, "aiosqlite", None)
    monkeypatch.setitem(sys.modules, "sqlalchemy.ext.asyncio", None)
    code, said, _ = checked("tasks.db")
    assert code == 0 and "pip install '.[serve-sqlite]' in its clone" in said.splitlines()[0]


def test_a_remark_about_the_file_of_another_host_is_told_once(tmp_path: Path) -> None:
    """[CLI-125] With its place in the document; by other commands too."""
    (tmp_path / ".mcp.json").write_text("{}")
    (tmp_path / "c.toml").write_text(
        'model = "openai:m"\nbase_url = "http://127.0.0.1:9"\nmcp = ".mcp.json"\n'
    )
    checked = cli(tmp_path, "config", "check", "c.toml")
    remark = f"{tmp_path / '.mcp.json'}: it holds no server"
    assert (checked.stdout, checked.stderr) == (f"note: c.toml: mcp: {remark}\nc.toml: ok\n", "")
    assert cli(tmp_path, "tools", "--config", "c.toml").stderr == f"note: {remark}\n"


def test_messages_speak_of_options_and_keys(tmp_path: Path) -> None:
    """[CLI-126] Not of arguments in Python, which nobody at a terminal gives."""
    header = "---\nname: x\ndescription: d\nmodel: sonnet\nmcpServers: [a]\n---\nhello\n"
    (tmp_path / "x.md").write_text(header)
    said = cli(tmp_path, "agents", "--agents", "x.md").stderr
    assert "--agent-model sonnet=PROVIDER:NAME" in said and "--mcp FILE" in said
    assert "models=" not in said and "Client(" not in said
    api: dict[str, Any] = {"openapi": "3.1.0", "paths": {"/x": {"get": {}}}}
    (tmp_path / "api.json").write_text(json.dumps(api))
    refused = cli(tmp_path, "tools", "--openapi", "api.json").stderr
    assert refused.endswith("; give base_url in a document, [openapi.NAME]\n")


def test_the_schema_is_printed(tmp_path: Path) -> None:
    """[CLI-83] As JSON that is itself a valid schema."""
    done = cli(tmp_path, "config", "schema")
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "mcpServers" in schema["properties"]


def test_a_document_to_start_from_is_written_once(tmp_path: Path) -> None:
    """[CLI-84] It passes the check also without a key, which is a note, and a second time is refused."""
    done = cli(tmp_path, "init")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "toolnexus.toml").read_text()
    assert "#" in written
    checked = cli(tmp_path, "config", "check", "toolnexus.toml", env={"OPENAI_API_KEY": "sk-0123456789"})
    assert (checked.returncode, checked.stdout) == (0, "toolnexus.toml: ok\n"), checked.stderr
    keyless = cli(tmp_path, "config", "check", "toolnexus.toml")
    assert keyless.returncode == 0, keyless.stderr
    note, ok = keyless.stdout.splitlines()
    assert note.startswith("note: toolnexus.toml: ") and "OPENAI_API_KEY" in note
    assert ok == "toolnexus.toml: ok"
    assert cli(tmp_path, "tools", "--config", "toolnexus.toml").returncode == 0
    assert cli(tmp_path, "agents", "--config", "toolnexus.toml").returncode == 0
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


HELLO = ["run", "hi", "--config", "c.toml"]
KEY_OF_DOCUMENT = "sk-of-the-document"


def chosen(*options: str) -> tuple[str, str, tuple[str, ...], str]:
    """Name, host and secrets of the model that `run` would ask, and what chat says of it."""
    client, about = make_client(make_parser().parse_args(["run", "hi", *options]), None)
    model: Any = client._models.default  # pyright: ignore[reportPrivateUsage]
    client.close()
    return model.name, model.host.partition(":")[0], model.secrets, about


def test_the_address_of_a_document_is_where_the_prompt_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CLI-93] Without a model in it: a name of `TOOLNEXUS_MODEL` or the first that is listed there, whatever
    other keys and servers the surroundings have."""
    monkeypatch.delenv("TOOLNEXUS_MODEL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-0123")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")
    file = tmp_path / "c.toml"
    with listing(models("only")) as (port, keys):
        file.write_text(f'base_url = "http://127.0.0.1:{port}/v1"\napi_key = "{KEY_OF_DOCUMENT}"\n')
        found = chosen("--config", str(file))
        monkeypatch.setenv("TOOLNEXUS_MODEL", "openai:named")
        named = chosen("--config", str(file))
        other = chosen("--config", str(file), "--base-url", "http://localhost:9/v1")
    assert found == ("only", "127.0.0.1", (KEY_OF_DOCUMENT,), f"openai:only ({file})")
    assert named == ("named", "127.0.0.1", (KEY_OF_DOCUMENT,), "openai:named (TOOLNEXUS_MODEL)")
    assert other[:3] == ("named", "localhost", ())
    assert keys == [f"Bearer {KEY_OF_DOCUMENT}"]


def test_a_key_of_the_options_is_used_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CLI-94] With a document that names no model it goes with `TOOLNEXUS_MODEL`, or where `OPENAI_BASE_URL`
    says; where nothing says whose key it is, nothing is asked."""
    for name in ("TOOLNEXUS_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MY_KEY", "sk-of-mine-0123")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-another-0123")
    file = tmp_path / "c.toml"
    file.write_text("max_turns = 3\n")
    for where in ((), ("--config", str(file))):
        options = (*where, "--api-key-env", "MY_KEY")
        with pytest.raises(UsageError, match="nothing says whose key it is"):
            chosen(*options)
        with listing(models("only")) as (port, keys), monkeypatch.context() as patch:
            patch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
            assert chosen(*options)[:3] == ("only", "127.0.0.1", ("sk-of-mine-0123",))
            patch.setenv("TOOLNEXUS_MODEL", "openai:named")
            assert chosen(*options)[:3] == ("named", "127.0.0.1", ("sk-of-mine-0123",))
        assert keys == ["Bearer sk-of-mine-0123"]


def test_an_address_alone_takes_the_first_listed_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CLI-62] With a document, too; one that names a model keeps it, and its key goes nowhere else."""
    monkeypatch.delenv("TOOLNEXUS_MODEL", raising=False)
    file = tmp_path / "c.toml"
    with listing(models("only")) as (port, keys):
        options = ("--config", str(file), "--base-url", f"http://127.0.0.1:{port}/v1")
        file.write_text("max_turns = 3\n")
        assert chosen(*options) == ("only", "127.0.0.1", (), "openai:only (--base-url)")
        file.write_text(
            f'model = "openai:doc"\nbase_url = "http://elsewhere.invalid/v1"\napi_key = "{KEY_OF_DOCUMENT}"\n'
        )
        assert chosen(*options)[:3] == ("doc", "127.0.0.1", ())
    assert keys == [None]
    file.write_text('base_url = "http://127.0.0.1:9/v1"\n')
    with pytest.raises(UsageError, match=r"c\.toml: 'http://127\.0\.0\.1:9/v1' lists no model"):
        chosen("--config", str(file))


def test_a_document_that_names_no_builtins_gives_the_safe_ones(tmp_path: Path) -> None:
    """[CLI-95] Also a plain MCP file of another host; a document that names them is taken at its word."""
    (tmp_path / "c.toml").write_text("max_turns = 3\n")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    (tmp_path / "all.toml").write_text("builtins = true\n")

    def builtins(document: str, *options: str) -> set[str]:
        found = json.loads(cli(tmp_path, "tools", "--json", "--config", document, *options).stdout)
        return {tool["name"] for tool in found["tools"]}

    safe = {"read", "grep", "glob", "question"}
    assert builtins("c.toml") == safe and builtins("mcp.json") == safe
    assert {"bash", "write"} < builtins("all.toml")
    assert builtins("c.toml", "--builtins", "bash") == {"bash"}
    with ScriptedEndpoint([Turn(text="a")]) as endpoint:
        done = cli(tmp_path, *HELLO, "--model", "openai:m", "--base-url", endpoint.url)
        (seen,) = endpoint.requests
    assert done.returncode == 0, done.stderr
    assert {t["function"]["name"] for t in seen.body["tools"]} == safe


def test_the_store_of_a_document_is_used(tmp_path: Path) -> None:
    """[CLI-96] `--conversation` works with it, and chat says where it is kept."""
    with ScriptedEndpoint([Turn(text="one"), Turn(text="two")]) as endpoint:
        (tmp_path / "c.toml").write_text(
            f'model = "openai:m"\nbase_url = "{endpoint.url}"\nstore = "talk.db"\n'
        )
        run = cli(tmp_path, *HELLO, "--conversation", "c1")
        talk = cli(tmp_path, "chat", "--config", "c.toml", "--conversation", "c1", stdin="again\n")
        said = [m["content"] for m in endpoint.requests[1].body["messages"] if m["role"] != "system"]
    assert run.returncode == 0, run.stderr
    assert "conversation 'c1' in" in talk.stderr and "talk.db" in talk.stderr
    assert said == ["hi", "one", "again"]


def test_a_wrong_option_says_what_is_wrong(tmp_path: Path) -> None:
    """[CLI-04] In words for a person, also a prompt that is no text, and an empty path."""
    (tmp_path / "c.toml").write_text("max_turns = 3\n")
    for options, says in (
        (("run", "x", "--max-turns", "ten"), "'ten' must be a whole number, 1 or more"),
        (("demo", "--think", "long"), "'long' must be a number of seconds, 0 to 60"),
        (("agents", "--agent-model", "haiku"), "'haiku' must look like haiku=openai:gpt-5-nano"),
        (("agents", "--agent-model", "a=openai:x"), "--agent-model says what a model name in the files"),
        (("run", "x", "--config", ""), "--config: give the path of a file"),
    ):
        done = cli(tmp_path, *options)
        assert done.returncode == 2 and says in done.stderr, done.stderr
    raw = subprocess.run(
        [*CLI, "run", "-"],
        input=b"caf\xe9",
        capture_output=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=60,
    )
    assert raw.returncode == 2 and b"the prompt is no UTF-8 text" in raw.stderr


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
        options = [*chat(endpoint), "--store", "talk.db", "--conversation", "c1"]
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


def test_an_attachment_goes_with_one_prompt_and_is_never_lost(tmp_path: Path) -> None:
    """[CLI-87] A failed prompt brings it into the conversation once; /new forgets it."""
    (tmp_path / "dot.png").write_bytes(PNG)
    refused = Turn(status=400, body='{"error": {"message": "too hot"}}')
    with ScriptedEndpoint([refused, Turn(text="one"), Turn(text="two")]) as endpoint:
        lines = "/attach\n/attach dot.png\nfirst\nagain\n/attach dot.png\n/new\nother\n"
        done = cli(tmp_path, *chat(endpoint), stdin=lines)
        _, again, other = (str(seen.body["messages"]) for seen in endpoint.requests)
    assert "which file? /attach FILE" in done.stderr and "no command" not in done.stderr
    assert "too hot" in done.stderr and done.stdout == "one\ntwo\n"
    assert again.count("image_url") == 2 and "image_url" not in other  # a part has the word twice


def test_an_attachment_waits_when_its_prompt_came_nowhere(tmp_path: Path) -> None:
    """[CLI-87] A store that cannot be read: the next prompt has it."""
    (tmp_path / "dot.png").write_bytes(PNG)
    (tmp_path / "talk.db").write_text("no database" * 1000)
    with ScriptedEndpoint([]) as endpoint:
        lines = "/attach dot.png\nfirst\n"
        done = cli(tmp_path, *chat(endpoint), "--store", "talk.db", stdin=lines)
    assert done.stderr.count("dot.png") == 2 and "dot.png goes with the next prompt" in done.stderr, (
        done.stderr
    )


def test_typed_lines_are_there_in_the_next_chat(warm: Warm, tmp_path: Path) -> None:
    """[CLI-88] The arrow up brings them back, and nobody else may read the file."""
    pytest.importorskip("prompt_toolkit")
    with ScriptedEndpoint([Turn(text="one"), Turn(text="two")]) as endpoint:
        for keys in ("first words\r", "\x1b[A\r"):
            with Terminal(warm, tmp_path, chat(endpoint)) as terminal:
                terminal.expect(">")
                terminal.send(keys)
                terminal.expect(">", after=terminal.expect("done, 1 agent"))
                terminal.send("\x04")
                assert terminal.wait() == 0
        said = [seen.body["messages"][-1]["content"] for seen in endpoint.requests]
    assert said == ["first words", "first words"]
    file = tmp_path / "state" / "toolnexus" / "chat_history"
    assert file.stat().st_mode & 0o077 == 0


def test_a_history_that_cannot_be_kept_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CLI-88] One that others could read is closed to them, one that vanishes is no error, and a folder that
    is relative is not used."""
    pytest.importorskip("prompt_toolkit")
    from toolnexus.cli.line_history import line_history

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "toolnexus" / "chat_history"
    file.parent.mkdir()
    file.touch(0o644)
    history = line_history()
    assert file.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(file.parent)
    history.append_string("a line")
    assert list(history.get_strings()) == ["a line"]
    file.parent.mkdir()
    os.mkfifo(file)
    line_history().append_string("a line")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    line_history().append_string("a line")
    assert not (tmp_path / "relative").exists()
    assert "a line" in (tmp_path / "home/.local/state/toolnexus/chat_history").read_text()
