"""From a document to a client that runs."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.config.helpers import agent_file, lines_of, write
from toolnexus import Agent, AnthropicModel, Client, ConfigError, NameConflict, OpenAIModel
from toolnexus.config import Document, load
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[1] / "servers" / "rough_mcp.py"
KEY = "key-of-the-document"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "TOOLNEXUS_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CFG_KEY", KEY)


async def asked(
    client: Client, endpoint: ScriptedEndpoint
) -> tuple[str | None, Mapping[str, str], dict[str, Any]]:
    """Ask once: the key, the headers and the body that arrived."""
    async with asyncio.timeout(20), client:
        await client.ask("?")
    seen = endpoint.requests[-1]
    key = seen.headers.get("x-api-key") or seen.headers.get("authorization", "").removeprefix("Bearer ")
    return key or None, seen.headers, seen.body


async def test_a_document_runs_its_agents_skills_and_builtins(tmp_path: Path) -> None:
    """[CFG-40] The client of a document delegates as one that is written in Python."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("the answer is 42\n")
    (tmp_path / "skills" / "count").mkdir(parents=True)
    (tmp_path / "skills" / "count" / "SKILL.md").write_text(
        "---\nname: count\ndescription: Counts.\n---\nCount.\n"
    )
    agent_file(tmp_path / "agents" / "judge.md")
    path = write(
        tmp_path,
        {
            "model": "openai:not-used",
            "system_prompt": "You lead.",
            "builtins": ["read", "grep"],
            "skills": "skills",
            "agents": [{"name": "look", "description": "Looks.", "tools": ["read"], "max_turns": 2}],
            "agent_files": "agents",
            "workdir": "work",
            "store": "chat.db",
        },
        ".json",
    )
    model = ScriptedModel(
        by_path={
            "main": [
                reply("", call("task", id="t", agent="look", prompt="notes.txt")),
                "It is 42.",
            ],
            "main/look.t": [reply("", call("read", path="notes.txt")), "42"],
        }
    )
    async with asyncio.timeout(20), load(path, model=model) as client:
        assert client.toolkit.names() == ["skill", "grep", "read", "task"]
        task = client.toolkit.get("task")
        assert task is not None and "judge" in task.description and "Looks." in task.description
        result = await client.ask("?", conversation="c")
    assert (result.text, result.sub_agents[0].text) == ("It is 42.", "42")
    assert "the answer is 42" in result.sub_agents[0].messages[2].tool_results[0].output
    assert (tmp_path / "chat.db").is_file()
    assert "You lead." in model.requests[0].system and "count" in model.requests[0].system


async def test_what_a_document_says_of_its_model_is_in_the_requests() -> None:
    """[CFG-15] Address, key and headers of plain keys; params and retries of a table, too."""
    with ScriptedEndpoint(["Yes."], repeat_last=True) as endpoint:
        plain = {"base_url": endpoint.url, "api_key": "${CFG_KEY}", "headers": {"X-Key": "${CFG_KEY}"}}
        key, headers, body = await asked(load({"model": "openai:a", "builtins": False, **plain}), endpoint)
        assert (key, headers["x-key"], body["model"]) == (KEY, KEY, "a")
        table = {"name": "anthropic:b", "params": {"temperature": 0.5}, "retries": {"retries": 0}, **plain}
        client = load({"model": table, "builtins": False})
        key, headers, body = await asked(client, endpoint)
        assert (key, headers["x-key"], body["model"], body["temperature"]) == (KEY, KEY, "b", 0.5)
        assert endpoint.requests[-1].path.endswith("/messages")
        sdk = {"name": "openai:c", "wire": "sdk", **plain}
        key, headers, body = await asked(load({"model": sdk, "builtins": False}), endpoint)
        assert (key, headers["x-key"], body["model"]) == (KEY, KEY, "c")


async def test_an_agent_may_have_an_endpoint_of_its_own() -> None:
    """[CFG-20] A model table in an agent; a plain name means the client's own endpoint."""
    with (
        ScriptedEndpoint(["Mine."]) as own,
        ScriptedEndpoint(
            {
                "big": [
                    {
                        "calls": [
                            {"name": "task", "args": {"agent": "a", "prompt": "?"}},
                            {"name": "task", "args": {"agent": "b", "prompt": "?"}},
                        ]
                    },
                    "Both.",
                ],
                "small": ["Yours."],
            }
        ) as shared,
    ):
        document: dict[str, Any] = {
            "model": "openai:big",
            "base_url": shared.url,
            "api_key": "${CFG_KEY}",
            "builtins": False,
            "agents": {
                "a": {"model": {"name": "openai:local", "base_url": own.url}, "tools": []},
                "b": {"model": "small", "tools": []},
            },
        }
        async with asyncio.timeout(20), load(document) as client:
            result = await client.ask("?")
    assert [child.text for child in result.sub_agents] == ["Mine.", "Yours."]
    assert "authorization" not in own.requests[0].headers
    assert {seen.headers["authorization"] for seen in shared.requests} == {f"Bearer {KEY}"}


def test_options_are_new_objects_each_time(tmp_path: Path) -> None:
    """[CFG-15] Two clients of one document share nothing; plain agents are equal."""
    document = Document.read(
        {
            "model": {"name": "openai:a", "base_url": "http://localhost:9", "params": {"stop": ["x"]}},
            "agents": {
                "a": {"tools": ["read"], "model": {"name": "openai:b", "base_url": "http://x"}},
                "b": {},
            },
            "mcpServers": {"s": {"url": "http://localhost:9", "tools": ["x"]}},
            "builtins": {"tools": ["read"]},
            "store": str(tmp_path / "chat.db"),
        }
    )
    left, right = document.options(), document.options()
    for name in ("model", "store", "agents", "mcp", "builtins"):
        assert left[name] is not right[name]
    assert left["agents"][0].model is not right["agents"][0].model
    assert left["agents"][1] == right["agents"][1]
    left["mcp"]["mcpServers"]["s"]["tools"].append("y")
    left["builtins"]["tools"].append("bash")
    left["model"]._params["stop"].append("y")
    fresh = document.options()
    assert (fresh["mcp"], fresh["builtins"]) == (right["mcp"], right["builtins"])
    assert fresh["model"]._params == {"stop": ["x"]}


ENDPOINT: dict[str, Any] = {
    "model": "openai:a",
    "base_url": "http://doc",
    "api_key": "${CFG_KEY}",
    "headers": {"X-Key": "${CFG_KEY}"},
}
SAME = {"base_url": "http://doc", "api_key": KEY, "headers": {"X-Key": KEY}}


@pytest.mark.parametrize(
    ("overrides", "left"),
    [
        ({}, {"model": "openai:a", **SAME}),
        ({"max_turns": 3}, {"model": "openai:a", **SAME, "max_turns": 3}),
        ({"model": "openai:b"}, {"model": "openai:b", **SAME}),
        ({"model": "anthropic:b"}, {"model": "anthropic:b"}),
        ({"model": None}, {}),
        ({"base_url": "http://doc"}, {"model": "openai:a", **SAME}),
        ({"base_url": "http://other"}, {"model": "openai:a", "base_url": "http://other"}),
        ({"base_url": None}, {"model": "openai:a"}),
        (
            {"base_url": "http://other", "api_key": "mine"},
            {"model": "openai:a", "base_url": "http://other", "api_key": "mine"},
        ),
        ({"api_key": "mine"}, {"model": "openai:a", **SAME, "api_key": "mine"}),
        (
            {"model": "anthropic:b", "base_url": "http://other"},
            {"model": "anthropic:b", "base_url": "http://other"},
        ),
    ],
)
def test_a_key_stays_with_the_endpoint_that_it_was_written_for(
    overrides: dict[str, Any], left: dict[str, Any]
) -> None:
    """[CFG-13] Another address, or a model of another style, gets neither key nor headers."""
    document = Document.read(ENDPOINT)
    assert document._options(overrides) == left


def test_a_model_object_replaces_the_whole_endpoint() -> None:
    """[CFG-13] It carries its own address and key."""
    model = ScriptedModel([])
    assert Document.read(ENDPOINT)._options({"model": model}) == {"model": model}


def test_a_key_without_a_model_stays_with_its_address() -> None:
    """[CFG-13] The model may come from the environment or the host."""
    source = {"base_url": "http://doc", "api_key": "${CFG_KEY}"}
    options = Document.read(source)._options({"model": "anthropic:b"})
    assert options == {"model": "anthropic:b", "base_url": "http://doc", "api_key": KEY}


def test_a_table_of_a_model_gives_way_in_parts() -> None:
    """[CFG-13] Another address or key is put into it; params go with the model that they were written for."""
    table = {"name": "openai:a", "base_url": "http://doc", "api_key": "${CFG_KEY}", "params": {"top_p": 1}}
    document = Document.read({"model": table})
    other = document._options({"base_url": "http://other"})["model"]
    assert isinstance(other, OpenAIModel)
    assert (other.name, other.host, other.secrets, other._params) == ("a", "other", (), {"top_p": 1})
    assert document._options({"model": "openai:b"}) == {
        "model": "openai:b",
        "base_url": "http://doc",
        "api_key": KEY,
    }
    claude = document._options({"model": AnthropicModel("c", base_url="http://x")})["model"]
    assert isinstance(claude, AnthropicModel)


async def test_overrides_replace_what_the_document_says_and_add_what_it_cannot_hold(tmp_path: Path) -> None:
    """[CFG-40] Functions, hooks, agents, answers: every option of a client."""

    def lookup(word: str) -> str:
        """Look a word up."""
        return f"{word} means something"

    source: dict[str, Any] = {
        "system_prompt": "Old.",
        "builtins": ["bash"],
        "agents": {"a": {}},
        "max_turns": 1,
    }
    model = ScriptedModel([reply("", call("lookup", word="x")), "Done."])
    client = load(
        source,
        model=model,
        system_prompt="New.",
        builtins=False,
        tools=[lookup],
        agents=[Agent(name="b")],
        max_turns=2,
    )
    async with asyncio.timeout(20), client:
        result = await client.ask("?")
        assert client.toolkit.names() == ["lookup", "task"]
    assert result.text == "Done." and model.requests[0].system.startswith("New.")
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_turn'"):
        load(source, max_turn=3)


def test_what_the_client_refuses_names_the_document(tmp_path: Path) -> None:
    """[CFG-40] The error keeps its type; one of an override names the override alone."""
    path = write(tmp_path, {"builtins": ["read"], "agents": {"a": {"tools": ["raed"]}}})
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert lines_of(caught.value, path)[0].startswith("agent 'a': tools: there is no 'raed'")
    with pytest.raises(ConfigError, match=r"^max_turns=0 must be 1 or more"):
        load(path, max_turns=0)
    with pytest.raises(ConfigError) as caught:  # not because of the override, whatever its name is
        load(path, max_turns=3)
    assert lines_of(caught.value, path)[0].startswith("agent 'a': tools: there is no 'raed'")
    sound = write(tmp_path, {"builtins": ["read"], "agents": {"a": {"tools": ["read"]}}})
    with pytest.raises(ConfigError, match=r"^agent 'a': tools: there is no 'read'"):
        load(sound, builtins=["glob"])
    with pytest.raises(NameConflict):
        load({"max_turns": 1}, agents=[Agent(name="a"), Agent(name="a")])


def test_a_known_host_without_a_key_is_told_by_place() -> None:
    """[CFG-11] For the client's model and for an agent's own."""
    for source, place in (
        ({"model": {"name": "openai:a", "retries": 1}}, "model"),
        ({"agents": {"x": {"model": {"name": "openai:a"}}}}, "agents.x.model"),
    ):
        with pytest.raises(ConfigError) as caught:
            Document.read(source).options()
        (line,) = lines_of(caught.value, source)
        assert line.startswith(f"{place}: api.openai.com needs a key") and "OPENAI_API_KEY" in line


def test_agents_of_tables_and_files_carry_everything(tmp_path: Path) -> None:
    """[CFG-20] A table by name, a list, TOML's own two forms; files come behind, sorted."""
    agent_file(tmp_path / "agents" / "zoe.md", "model: haiku\nmaxTurns: 4\n")
    agent_file(tmp_path / "agents" / "bob.md", "hooks: {}\n")
    path = tmp_path / "a.toml"
    head = 'agent_files = { paths = ["agents"], models = { haiku = "anthropic:h" } }\n'
    one = 'description = "d"\ntools = { builtins = ["read"], mcp = false }\nbudget = { tokens = 5 }\n'
    path.write_text(f"{head}[agents.x]\n{one}[agents.y]\n")
    tables = Document.read(path)
    path.write_text(f'{head}[[agents]]\nname = "x"\n{one}[[agents]]\nname = "y"\n')
    listed = Document.read(path)
    assert tables.options()["agents"] == listed.options()["agents"]
    x, y, bob, zoe = tables.options()["agents"]
    assert [agent.name for agent in (x, y, bob, zoe)] == ["x", "y", "bob", "zoe"]
    assert (x.tools, x.budget.tokens) == ({"builtins": ["read"], "mcp": False}, 5)
    assert (zoe.model, zoe.max_turns, bob.model) == ("anthropic:h", 4, None)


def test_what_an_agent_file_has_in_vain_is_reported(tmp_path: Path) -> None:
    """[CFG-21] One line each, with document, file and key."""
    file = agent_file(tmp_path / "bob.md", "permissionMode: plan\n")
    (line,) = Document.read({"agent_files": str(file)}).report
    assert line.startswith(f"the mapping: agent_files: {file}: permissionMode: ")


# ---- MCP servers


async def test_a_file_of_another_host_is_a_document(tmp_path: Path) -> None:
    """[CFG-30] Its servers start in the folder of the file, so relative arguments work from anywhere."""
    (tmp_path / "server.py").symlink_to(SERVER)
    path = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": ["server.py"], "type": "stdio", "alwaysAllow": []}
    path.write_text(json.dumps({"mcpServers": {"shop": server}}))
    async with asyncio.timeout(30), load(path, model=ScriptedModel([]), builtins=False) as client:
        assert client.mcp_status() == {"shop": {"status": "connected", "reason": None}}
        assert client.toolkit.names()


def test_servers_get_a_folder_and_keep_what_they_say(tmp_path: Path) -> None:
    """[CFG-30] `cwd` and `envFile` are relative to the file; the workspace is its folder."""
    (tmp_path / "in").mkdir()
    (tmp_path / "a.env").write_text("A=1\n")
    servers = {
        "a": {"command": "x", "args": ["${workspaceFolder}/y"], "cwd": "in", "envFile": "a.env"},
        "b": {"command": ["x", "y"]},
        "c": {"url": "http://localhost:9/", "headers": {"command": "x"}},
        "d": {"command": "x", "disabled": True},
    }
    options = Document.read(write(tmp_path, {"mcpServers": servers})).options()
    assert options["mcp"]["mcpServers"] == {
        "a": {
            "command": "x",
            "args": [f"{tmp_path}/y"],
            "cwd": f"{tmp_path}/in",
            "envFile": f"{tmp_path}/a.env",
        },
        "b": {"command": ["x", "y"], "cwd": str(tmp_path)},
        "c": servers["c"],
        "d": servers["d"],
    }
    assert Document.read({"mcpServers": {}}).options() == {}


@pytest.mark.parametrize("wrapper", ["servers", "mcpServers", None])
def test_mcp_takes_what_such_a_file_holds(tmp_path: Path, wrapper: str | None) -> None:
    """[CFG-31] In every shape of other hosts, with the inputs of VS Code."""
    servers = {"a": {"command": "x", "cwd": "in"}}
    given = servers if wrapper is None else {wrapper: servers, "inputs": [{"id": "key", "default": "d"}]}
    options = Document.read(write(tmp_path, {"mcp": given})).options()
    placed = {"a": {"command": "x", "cwd": f"{tmp_path}/in"}}
    assert options["mcp"] == (placed if wrapper is None else {**given, wrapper: placed})


def test_mcp_takes_the_path_of_a_file(tmp_path: Path) -> None:
    """[CFG-31] Its mistakes are told when the document is read."""
    path = write(tmp_path, {"mcp": "servers.json"})
    (tmp_path / "servers.json").write_text('{"servers": {"a": {"url": "http://localhost:9/"}}, "inputs": []}')
    assert Document.read(path).options() == {"mcp": tmp_path / "servers.json"}
    (tmp_path / "servers.json").write_text('{"servers": {"a": {"comand": "x"}}}')
    with pytest.raises(ConfigError, match=r"mcp: .*servers\.json: server 'a': unknown key 'comand'"):
        Document.read(path)


def test_keys_of_servers_that_mean_nothing_here_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """[CFG-30] Reading a document logs nothing; its client warns as ever."""
    source: dict[str, Any] = {"mcpServers": {"a": {"url": "http://localhost:9/", "colour": "blue"}}}
    with caplog.at_level(logging.WARNING, "toolnexus"):
        document = Document.read(source)
        assert caplog.messages == []
        (line,) = document.report
        assert line.startswith("the mapping: mcpServers.a: key 'colour' ")
        document.client(model=ScriptedModel([])).close()
        assert len(caplog.messages) == 1


def test_reading_starts_nothing_and_importing_loads_nothing(tmp_path: Path) -> None:
    """[CFG-41] A document can be looked at safely, and the command line stays quick."""
    program = (
        "import sys, toolnexus.config\n"
        "heavy = ['pydantic', 'yaml', 'mcp', 'aiohttp', 'tomli', 'jsonschema']\n"
        "print([m for m in heavy if m in sys.modules])\n"
        "document = toolnexus.config.Document.read(sys.argv[1])\n"
        "print([m for m in ('yaml', 'mcp', 'aiohttp', 'jsonschema') if m in sys.modules])\n"
    )
    source = {
        "model": "openai:a",
        "mcpServers": {"s": {"command": "touch", "args": ["started"]}},
        "store": "chat.db",
    }
    path = write(tmp_path, source)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n[]\n" and done.stderr == ""
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
