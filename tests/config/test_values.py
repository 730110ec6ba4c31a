"""Variables, secrets and paths."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.config.helpers import agent_file, lines_of, refusal, write
from toolnexus import PostgresStore, RedisStore, SqliteStore
from toolnexus.config import Document, load
from toolnexus.errors import ConfigError
from toolnexus.testing import ScriptedModel, call, reply

HUSH = "hush-hush-value"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "NOT_SET_A", "NOT_SET_B", "TOOLNEXUS_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CFG_HOST", "localhost")
    monkeypatch.setenv("CFG_NAME", "gpt-5-mini")
    monkeypatch.setenv("CFG_HUSH", HUSH)


def test_variables_are_filled_in_where_values_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-10] Models, addresses, keys, headers, hosts and paths; in three spellings."""
    for name in ("skills", "work"):
        (tmp_path / name).mkdir()
    agent_file(tmp_path / "agents" / "reader.md", "model: small\n")
    monkeypatch.setenv("CFG_ROOT", str(tmp_path))
    options = Document.read(
        {
            "model": "openai:${env:CFG_NAME}",
            "base_url": "http://${CFG_HOST}:9/${NOT_SET_A:-v1}",
            "api_key": "${CFG_HUSH}",
            "headers": {"X-A": "Bearer ${CFG_HUSH}"},
            "allowed_models": ["openai:${CFG_NAME}"],
            "skills": ["${CFG_ROOT}/skills"],
            "builtins": {"webfetch_allow": ["${CFG_HOST}"]},
            "agents": {"a": {"model": "openai:${CFG_NAME}", "workdir": "${CFG_ROOT}/work"}},
            "agent_files": {"paths": "${CFG_ROOT}/agents", "models": {"small": "openai:${CFG_NAME}"}},
            "store": "${CFG_ROOT}/chat.db",
            "workdir": "${CFG_ROOT}/work",
        }
    ).options()
    a, reader = options.pop("agents")
    store = options.pop("store")
    assert isinstance(store, SqliteStore) and store.path == tmp_path / "chat.db"
    assert (a.model, a.workdir, reader.model) == ("openai:gpt-5-mini", tmp_path / "work", "openai:gpt-5-mini")
    assert options == {
        "model": "openai:gpt-5-mini",
        "base_url": "http://localhost:9/v1",
        "api_key": HUSH,
        "headers": {"X-A": f"Bearer {HUSH}"},
        "allowed_models": ["openai:gpt-5-mini"],
        "skills": [tmp_path / "skills"],
        "builtins": {"webfetch_allow": ["localhost"]},
        "workdir": tmp_path / "work",
    }


def test_prompts_descriptions_and_params_are_taken_as_they_are() -> None:
    """[CFG-10] What looks like a variable there is text for the model."""
    text = "Replace ${NAME} in the template."
    options = Document.read(
        {
            "model": {"name": "openai:a", "base_url": "http://localhost", "params": {"user": text}},
            "system_prompt": text,
            "agents": {"a": {"description": text, "system_prompt": text}},
        }
    ).options()
    (agent,) = options["agents"]
    assert options["system_prompt"] == agent.system_prompt == agent.description == text
    assert options["model"]._params == {"user": text}


def test_a_variable_that_is_not_set_is_named_once_it_is_needed() -> None:
    """[CFG-11] With the key; all of them at once. Reading alone needs none of them."""
    source: dict[str, Any] = {
        "model": "openai:a",
        "base_url": "http://${NOT_SET_A}/${NOT_SET_B}",
        "agents": {"x": {"model": {"name": "openai:b", "api_key": "${NOT_SET_A}"}}},
        "mcpServers": {
            "s": {"url": "http://localhost/${NOT_SET_B}"},
            "off": {"command": "${X}", "enabled": False},
        },
    }
    document = Document.read(source)
    for use in (document.options, document.client):
        with pytest.raises(ConfigError) as caught:
            use()
        assert [line.partition(", which")[0] for line in lines_of(caught.value, source)] == [
            "base_url: needs the environment variable 'NOT_SET_A'",
            "base_url: needs the environment variable 'NOT_SET_B'",
            "mcpServers.s: 'url' needs the environment variable 'NOT_SET_B'",
            "agents.x.model.api_key: needs the environment variable 'NOT_SET_A'",
        ]


def test_an_option_that_is_replaced_needs_neither_variable_nor_folder() -> None:
    """[CFG-11] So a document can be tried with a scripted model and without its servers."""
    source = {
        "model": "openai:a",
        "api_key": "${NOT_SET_A}",
        "mcp": "${NOT_SET_A}/mcp.json",
        "skills": "no-such-folder",
        "store": "no-such-folder/chat.db",
        "workdir": "no-such-folder",
    }
    overrides: dict[str, Any] = dict.fromkeys(("mcp", "skills", "store", "workdir"))
    with load(source, model=ScriptedModel(["Here."]), **overrides) as client:
        assert client.ask_sync("?").text == "Here."
    with pytest.raises(ConfigError) as caught:
        load(source, model=ScriptedModel([]))
    assert [line.split(": ")[0] for line in lines_of(caught.value, source)] == [
        "mcp",
        "skills",
        "store",
        "workdir",
    ]


def test_folders_and_files_that_are_not_there_are_told_by_key(tmp_path: Path) -> None:
    """[CFG-11] Like variables: when they are needed."""
    (tmp_path / "file").touch()
    agent_file(tmp_path / "a.md")
    source = {
        "skills": {"paths": ["file", "skills"]},
        "agent_files": ["a.md", "b.md"],
        "mcp": "mcp.json",
        "store": "no/chat.db",
        "workdir": "file",
    }
    path = write(tmp_path, source)
    with pytest.raises(ConfigError) as caught:
        Document.read(path).options()
    assert lines_of(caught.value, path) == [
        f"mcp: there is no file '{tmp_path}/mcp.json'",
        f"skills.paths: there is no folder '{tmp_path}/file'",
        f"skills.paths: there is no folder '{tmp_path}/skills'",
        f"agent_files: there is no file or folder '{tmp_path}/b.md'",
        f"store: '{tmp_path}/no/chat.db' is in a folder that does not exist",
        f"workdir: there is no folder '{tmp_path}/file'",
    ]


def test_a_missing_variable_is_told_with_the_mistakes() -> None:
    """[CFG-03] Whoever has to mend the document anyway sees all of it."""
    lines = refusal({"model": "openai:a", "api_key": "${NOT_SET_A}", "max_turns": 0})
    assert [line.split(":")[0] for line in lines] == ["max_turns", "api_key"]


def test_no_secret_is_in_a_repr_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-12] Neither of values from variables nor of passwords in addresses."""
    monkeypatch.setenv("CFG_URL", "ftp://user:pass-word-1@host/x")
    source: dict[str, Any] = {
        "model": "openai:a",
        "base_url": "http://localhost:9",
        "api_key": "${CFG_HUSH}",
        "headers": {"Authorization": "Bearer ${CFG_HUSH}"},
        "agents": {"x": {"model": {"name": "openai:b", "base_url": "http://x", "api_key": "${CFG_HUSH}"}}},
        "mcpServers": {"s": {"command": "x", "env": {"A": "${CFG_HUSH}"}}},
    }
    document = Document.read(source)
    client = document.client()
    assert HUSH not in f"{document!r} {document.options()!r} {client!r} {document.report}"
    client.close()
    for wrong in ({"base_url": "${CFG_URL}"}, {"model": "${CFG_HUSH}"}, {"headers": {"X": "${CFG_HUSH}\n"}}):
        text = "\n".join(refusal({"api_key": "${CFG_HUSH}", **source, **wrong, "max_turns": 0}))
        assert HUSH not in text and "pass-word-1" not in text


def test_commands_of_the_model_do_not_see_the_variables_of_secrets() -> None:
    """[CFG-12] Whatever they are called; other variables stay."""
    source = {
        "model": "openai:a",
        "base_url": "http://${CFG_HOST}",
        "api_key": "${CFG_HUSH}",
        "builtins": ["bash"],
        "agents": {"x": {"description": "X.", "model": {"name": "openai:m", "api_key": "${CFG_HUSH}"}}},
    }
    model = ScriptedModel([reply("", call("bash", command="env")), "Done."])
    with load(source, model=model) as client:
        result = client.ask_sync("?")
    output = result.messages[2].tool_results[0].output
    assert "CFG_HUSH" not in output and HUSH not in output and "CFG_HOST" in output


def test_a_secret_of_the_wrong_type_is_not_shown() -> None:
    """[CFG-12] Nor a key that was put where another thing belongs."""
    for source in (
        {"model": "openai:a", "api_key": ["sk-written-out"]},
        {"model": {"name": "openai:a", "apiKeys": "sk-written-out"}},
        {"model": "openai:a", "headers": {"X": {"sk-written-out": 1}}},
    ):
        assert "sk-written-out" not in "\n".join(refusal(source))


def test_a_key_that_is_written_out_works_and_is_reported() -> None:
    """[CFG-12] The report says how it is done better."""
    source: dict[str, Any] = {
        "model": {
            "name": "openai:a",
            "base_url": "http://localhost:9",
            "api_key": "sk-written-out",
            "retries": 1,
        },
        "agents": {"x": {"model": {"name": "openai:b", "base_url": "http://localhost:9", "api_key": ""}}},
    }
    document = Document.read(source)
    (line,) = document.report
    assert line.startswith("the mapping: model.api_key: the key is written out; ${NAME} takes it")
    assert "sk-written-out" not in line + repr(document.options())
    assert document.options()["model"].secrets == ("sk-written-out",)


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-14] Wherever the program runs; the work goes on in the current folder, unless it is named."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project / "skills", elsewhere):
        folder.mkdir(parents=True)
    agent_file(project / "agents" / "reader.md")
    (project / "mcp.json").write_text('{"mcpServers": {}}')
    monkeypatch.chdir(elsewhere)
    keys = {"skills": "skills", "agent_files": "agents", "mcp": "mcp.json", "store": "chat.db"}
    path = write(project, keys)
    options = Document.read(path).options()
    assert options["skills"] == [project / "skills"]
    assert options["mcp"] == project / "mcp.json"
    assert options["store"].path == project / "chat.db"
    assert [agent.name for agent in options["agents"]] == ["reader"]
    assert "workdir" not in options
    with Document.read("../project/toolnexus.toml").client(model=ScriptedModel(["x"])) as client:
        assert client._workdir == str(elsewhere)
    assert Document.read(write(project, {"workdir": "."})).options()["workdir"] == project


def test_paths_of_a_mapping_are_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CFG-14] As it was when the mapping was read; ~ is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("skills", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    document = Document.read({"skills": "skills", "workdir": "~", "store": "~/chat.db"})
    monkeypatch.chdir("/")
    options = document.options()
    assert (options["skills"], options["workdir"]) == ([tmp_path / "skills"], tmp_path / "home")
    assert options["store"].path == tmp_path / "home" / "chat.db"


def test_what_variables_hold_is_in_no_error_and_no_repr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CFG-12] Whatever the variable is called and wherever it stands; and nothing of a server that may be
    secret is in the repr of the options."""
    monkeypatch.setenv("SOME_PLACE", "hush-hush-123")
    for document in (
        {"model": "${SOME_PLACE}"},
        {"model": "openai:m", "base_url": "ftp://${SOME_PLACE}"},
        {"skills": ["${SOME_PLACE}/x"]},
        {"store": "${SOME_PLACE}/x/y.db"},
        {"agents": {"a": {"model": "x${SOME_PLACE}:y"}}},
    ):
        with pytest.raises(ConfigError) as caught:
            Document.read(document).options()
        assert "hush-hush" not in str(caught.value) and "[redacted]" in str(caught.value)
    servers: dict[str, Any] = {
        "a": {"command": "x", "args": ["--key", "hush-args-123"], "env": {"A": "hush-env-123"}},
        "b": {"url": "https://h.example/mcp?k=hush-query-123", "headers": {"X-A": "hush-header-123"}},
    }
    options = Document.read({"mcpServers": servers}).options()
    assert "hush" not in repr(options)
    assert options["mcp"]["mcpServers"]["a"]["args"] == ["--key", "hush-args-123"]


def test_an_override_that_cannot_be_none_is_as_if_left_out(tmp_path: Path) -> None:
    """[CFG-16] `load(doc, agents=None)` has the agents of the document."""
    document: dict[str, Any] = {"agents": {"a": {}}, "max_turns": 3}
    client = Document.read(document).client(model=ScriptedModel([]), agents=None, tools=None, max_turns=None)
    assert [agent.name for agent in client.agents] == ["a"]
    client.close()


def test_hints_are_in_words_of_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-17] What to do about a missing key is said as keys, not as options of Python."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for document in ({"model": "openai:m"}, {"model": {"name": "openai:m", "params": {"a": 1}}}):
        with pytest.raises(ConfigError) as caught:
            Document.read(document).client()
        assert "write api_key = " in str(caught.value) and "=…" not in str(caught.value)


def test_a_store_that_is_no_regular_file_is_not_there(tmp_path: Path) -> None:
    """[CFG-11] A pipe would be waited for."""
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(ConfigError, match="is no regular file"):
        Document.read({"store": str(tmp_path / "pipe.db")}).options()
    assert "is no regular file" in Document.read({"store": str(tmp_path / "pipe.db")}).lacking()[0]


def test_a_store_may_be_on_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-24] By its address, which is not a path; its password is never shown and better a variable."""
    monkeypatch.setenv("CFG_PLACE", f"redis://:{HUSH}@127.0.0.1:1/0")
    document = Document.read({"store": "${CFG_PLACE}"})
    store = document.options()["store"]
    assert isinstance(store, RedisStore) and HUSH not in repr(store) and document.report == ()
    written = Document.read({"store": f"postgresql://ann:{HUSH}@127.0.0.1:1/x"})
    assert isinstance(written.options()["store"], PostgresStore)
    (line,) = written.report
    assert "store: the password is written out" in line and HUSH not in line
    for wrong in (f"mysql://a:{HUSH}@h/x", f"redis://a:{HUSH}/x@h", "redis://h/x"):
        (finding,) = refusal({"store": wrong})
        assert finding.startswith("store: ") and "redis://" in finding and HUSH not in finding


def test_a_store_whose_driver_is_missing_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-11] The document is right; what it needs is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"] or ["psycopg"]:
        monkeypatch.setitem(sys.modules, name, None)
    document = Document.read({"store": "postgresql://127.0.0.1/x"})
    assert "pip install '.[postgres]' in its clone" in document.lacking()[0]
    with pytest.raises(ConfigError, match="postgres"):
        document.options()


@pytest.mark.parametrize("name", ["X A", "X:A", "X(A)", "", "Ä"])
def test_a_header_has_a_name_of_a_header(name: str) -> None:
    """[CFG-18] Letters, digits and a few signs; everything else is a finding."""
    (line,) = refusal({"model": "openai:m", "base_url": "http://127.0.0.1:9", "headers": {name: "x"}})
    assert "is no name" in line
