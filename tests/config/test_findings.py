"""What is said of a document that is wrong."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.config.helpers import agent_file, refusal, write
from toolnexus import Agent
from toolnexus.config import Document
from toolnexus.config.schema import json_schema
from toolnexus.errors import ConfigError
from toolnexus.testing import ScriptedModel


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-03] A line each, with the file, the whole key path, what is allowed and the nearest."""
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    document: dict[str, Any] = {
        "max_turns": 0,
        "sytem_prompt": "x",
        "budget": {"secods": 5},
        "builtins": ["raed"],
        "agents": {"explore": {"max_turn": 3, "tools": 5}, "my agent": {"agents": [1]}},
        "mcpServers": {"a": {"comand": "x"}, "b": {"command": "x", "env": {"A": "${NOT_SET_HERE}"}}},
        "store": ":memory:",
    }
    path = write(tmp_path, document)
    with pytest.raises(ConfigError) as caught:
        Document.read(path)
    lines = str(caught.value).split("\n")
    assert [line.removeprefix(f"{path}: ").split(": ")[0] for line in lines] == [
        "max_turns",
        "budget.secods",
        "agents.explore.tools",
        "agents.explore.max_turn",
        'agents."my agent".agents[0]',
        "sytem_prompt",
        "mcpServers.a",
        "builtins",
        "store",
        "mcpServers.b",
    ]
    assert lines[1] == (
        f"{path}: budget.secods: unknown key; did you mean 'seconds' or 'cost'? "
        "Allowed: concurrency, cost, requests, seconds, tokens, tool_calls"
    )
    assert "did you mean 'read'?" in lines[7]


SAID: dict[str, tuple[dict[str, Any], str]] = {
    "a text for a count": ({"max_turns": "10"}, "max_turns: it must be a whole number, not text"),
    "a bool for a count": ({"max_turns": True}, "max_turns: it must be a whole number, not true or false"),
    "a fraction for a count": ({"max_turns": 1.5}, "max_turns: it must be a whole number, not a number"),
    "a count that is too low": ({"max_turns": 0}, "max_turns: 0 must be 1 or more"),
    "a negative depth": ({"max_sub_agent_depth": -1}, "max_sub_agent_depth: -1 must be 0 or more"),
    "a negative time": ({"budget": {"seconds": -1}}, "budget.seconds: -1 must be 0 or more"),
    "a text for a table": ({"budget": "small"}, "budget: it must be a table, not text"),
    "a text for a list": ({"allowed_models": "openai:a"}, "allowed_models: it must be a list, not text"),
    "a list for a prompt": ({"system_prompt": ["a"]}, "system_prompt: it must be text, not a list"),
    "no text for a model": ({"model": 5}, "model: it must be 'provider:name' or a table with a name, not a"),
    "a model without provider": ({"model": "gpt-5"}, "model: model 'gpt-5' is not 'provider:name'"),
    "a misspelt provider": ({"model": "opanai:gpt-5"}, "model: model 'opanai:gpt-5' is not 'provider:name'"),
    "a model table without name": ({"model": {"base_url": "http://x"}}, "model.name: missing"),
    "a wire of another kind": ({"model": {"name": "openai:a", "wire": "curl"}}, "model.wire: 'curl' is not"),
    "retries below 0": ({"model": {"name": "openai:a", "retries": -1}}, "model.retries: -1 must be 0 or"),
    "an address that is none": ({"base_url": "localhost"}, "base_url='localhost' must look like"),
    "a header of two lines": (
        {"base_url": "http://x", "headers": {"X-A": "1\n2"}},
        "headers: header 'X-A' holds a control character",
    ),
    "a number in a header": (
        {"base_url": "http://x", "headers": {"X-A": 5}},
        "headers.X-A: it must be text, not a whole number",
    ),
    "a key without an endpoint": ({"api_key": "k"}, "api_key: it goes with a 'model' or a 'base_url'"),
    "a key beside a model table": (
        {"model": {"name": "openai:a"}, "api_key": "k"},
        "api_key: the model is a table; this goes in there, as model.api_key",
    ),
    "a filter that is none": ({"builtins": {"bash": "no"}}, "builtins.bash: it must be true or false, not"),
    "no filter at all": ({"builtins": 5}, "builtins: it must be a bool, a list of names, a table of names"),
    "a sandbox of another kind": ({"builtins": {"sandbox": "yes"}}, "builtins.sandbox: 'yes' is not allowed"),
    "a number for a sandbox": ({"builtins": {"sandbox": 0}}, "builtins.sandbox: it must be true, false or"),
    "an unknown key with null": ({"max_turn": None}, "max_turn: unknown key; did you mean 'max_turns'?"),
    "an unknown builtin option": (
        {"builtins": {"tools": ["read"], "sandbx": True}},
        "builtins.sandbx: unknown key; did you mean 'sandbox'?",
    ),
    "a host that is an address": (
        {"builtins": {"webfetch_allow": ["http://x/"]}},
        "builtins: webfetch_allow holds 'http://x/'",
    ),
    "skills of another kind": ({"skills": 5}, "skills: it must be a folder, a list of folders or a table"),
    "a skill table without paths": ({"skills": {"filter": ["a"]}}, "skills.paths: missing"),
    "a sample limit below -1": (
        {"skills": {"paths": [], "sample_limit": -2}},
        "skills.sample_limit: -2 must",
    ),
    "agents of another kind": ({"agents": "a"}, "agents: it must be a table of agents by name, or a list of"),
    "an agent in a list without name": ({"agents": [{"model": "a"}]}, "agents[0].name: missing"),
    "an agent without a name": ({"agents": {"": {}}}, 'agents."": it must not be empty'),
    "an agent with a blank name": ({"agents": [{"name": " "}]}, "agents[0].name: it must not be empty"),
    "an agent with a long name": ({"agents": {"a" * 65: {}}}, 'agents."aaaaaaaaaaaaaaaaaaaa'),
    "a kind of tools that is none": (
        {"agents": {"a": {"tools": {"builtin": ["read"]}}}},
        "agents.a.tools.builtin: unknown key; did you mean 'builtins'?",
    ),
    "a name in the table of an agent": (
        {"agents": {"a": {"name": "b"}}},
        "agents.a.name: the name of an agent",
    ),
    "a mistyped camelCase key": ({"maxTurn": 5}, "maxTurn: unknown key; did you mean 'maxTurns'?"),
    "an empty path": ({"workdir": ""}, "workdir: it must not be empty"),
    "a blank path": ({"store": " "}, "store: a path must not be empty"),
    "a path that is too long": ({"workdir": "x" * 5000}, "workdir: 'xxxxxxxx"),
    "a home of nobody": ({"store": "~nobody-at-all/x"}, "store: '~nobody-at-all/x' is no path: Could not"),
    "no variable": ({"store": "${9}.db"}, "store: '${9}' is no variable; write ${NAME} or ${NAME:-default}"),
    "a variable of an editor": (
        {"store": "${command:pick}"},
        "store: uses ${command:…}, which only an editor",
    ),
    "a variable in a default": ({"store": "${A:-${B}}"}, "store: has a variable inside of a default"),
    "rules that are a list": ({"permissions": ["bash"]}, "permissions: it must be a table, not a list"),
    "a rule that is none": (
        {"permissions": {"ba sh": "ask"}},
        'permissions."ba sh": it is no rule; write a tool, or tool(pattern)',
    ),
    "a rule without an end": (
        {"agents": {"a": {"permissions": {"bash(git": "ask"}}}},
        'agents.a.permissions."bash(git": it is no rule; write a tool, or tool(pattern)',
    ),
    "a word that no rule has": (
        {"agents": [{"name": "a", "permissions": {"bash": "maybe"}}]},
        "agents[0].permissions.bash: 'maybe' is not allowed; allowed: 'allow', 'ask' or 'deny'",
    ),
    "both kinds of servers": ({"mcp": {}, "mcpServers": {}}, "mcp: servers stand under 'mcpServers', too"),
    "a server that is none": ({"mcpServers": {"a": "x"}}, "mcpServers.a: it must be a table, not text"),
    "a server without anything": ({"mcpServers": {"a": {}}}, "mcpServers.a: 'command' is missing"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_does_not_fit_is_said_in_plain_words(case: str) -> None:
    """[CFG-03] The key path, what it must be, what came; one line for one mistake."""
    document, text = SAID[case]
    (line,) = refusal(document)
    assert line.startswith(text)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"a2a": {"tokn": "x"}}, "a2a.tokn: unknown key; did you mean 'token'?"),
        ({"a2a": {"token": ""}}, "a2a.token: it is empty; leave the key away"),
        ({"a2a": {"url": "x"}}, "a2a.url: "),
        ({"mcpServer": {"command": "x"}}, "mcpServer.command: unknown key"),
        ({"mcpServer": {"agents": "x"}}, "mcpServer.agents: it must be a list, not text"),
        ({"serve": {"port": 70000}}, "serve.port: "),
        ({"serve": {"deadline": 0}}, "serve.deadline: "),
        ({"resources": {}}, "resources: this is of a deployment document, which `toolnexus serve` serves"),
        ({"runtime": {}}, "runtime: this is of a deployment document, which `toolnexus serve` serves"),
        (
            {"agents": {"a": {"url": "http://x", "card": {}}}},
            "agents.a: remote agent 'a' has url and card: give the address of the agent, or its card",
        ),
        (
            {"agents": [{"name": "a", "url": "x"}]},
            "agents[0]: remote agent 'a': an address looks like 'https://host/path' or",
        ),
        (
            {"agents": {"a": {"url": "http://x", "tools": ["read"]}}},
            "agents.a.tools: an agent with a url or a card runs elsewhere: this is decided there",
        ),
        ({"agents": {"a": {"hooks": []}}}, "agents.a.hooks: it is code: make the Agent in Python"),
        ({"agents": {"a": {"budget": {"concurrency": 2}}}}, "agents.a.budget.concurrency: it is set on the"),
        ({"budget": {"cost": -1}}, "budget.cost: "),
        ({"prices": {"m": {"input": 1}}}, "prices.m.output: "),
        (
            {"tools": ["read"]},
            "tools: functions are code: load(…, tools=[…]); filters stand under 'builtins'",
        ),
        ({"servers": {"a": {"command": "x"}}}, "servers: this is the MCP file of another host; name it in"),
        ({"inputs": []}, "inputs: this is the MCP file of another host; name it in a document: mcp ="),
    ],
)
def test_keys_of_later_versions_of_code_and_of_other_hosts_are_told_as_such(
    document: dict[str, Any], text: str
) -> None:
    """[CFG-06] Not as unknown keys: what they are, and where to go with them."""
    (line,) = refusal(document)
    assert line.startswith(text)


def test_each_key_may_be_written_in_camel_case() -> None:
    """[CFG-02] At every level; names that the user chose are left alone."""
    options = Document.read(
        {
            "maxTurns": 3,
            "mcp_servers": {"a_b": {"url": "http://localhost/"}},
            "builtins": {"webfetchAllow": ["localhost"], "sandboxNetwork": True},
            "budget": {"toolCalls": 2},
            "agents": {"someBody": {"systemPrompt": "x", "maxTurns": 2}},
        }
    ).options()
    (agent,) = options.pop("agents")
    assert options["mcp"] == {"mcpServers": {"a_b": {"url": "http://localhost/"}}}
    assert (options["max_turns"], options["budget"].tool_calls) == (3, 2)
    assert options["builtins"] == {"webfetch_allow": ["localhost"], "sandbox_network": True}
    assert (agent.name, agent.system_prompt, agent.max_turns) == ("someBody", "x", 2)


def test_a_key_in_both_spellings_is_an_error() -> None:
    """[CFG-02] Whichever comes first, and also when both say the same."""
    document = {"maxTurns": 3, "max_turns": 3, "agents": {"a": {"systemPrompt": "x", "system_prompt": "x"}}}
    assert sorted(refusal(document)) == [
        "agents.a.systemPrompt: the same key as 'system_prompt'; keep one of them",
        "maxTurns: the same key as 'max_turns'; keep one of them",
    ]
    (line,) = refusal({"mcp_servers": {}, "mcpServers": {}, "model": "openai:a"})
    assert line == "mcp_servers: the same key as 'mcpServers'; keep one of them"


def test_null_is_a_key_that_is_not_given() -> None:
    """[CFG-02] As in files of other hosts."""
    document = {"model": None, "budget": {"tokens": None}, "agents": {"a": {"tools": None}}, "max_turns": 2}
    options = Document.read(document).options()
    assert set(options) == {"budget", "agents", "max_turns"}
    assert options["budget"].tokens is None and options["agents"][0].tools is None


def test_a_name_given_twice_names_both_places(tmp_path: Path) -> None:
    """[CFG-22] Within a list, and across tables and files; the client's own name is taken, too."""
    file = agent_file(tmp_path / "agents" / "judge.md")
    document = {
        "agents": [{"name": "judge"}, {"name": "look"}, {"name": "look"}, {"name": "main"}],
        "agent_files": str(file),
    }
    assert refusal(document) == [
        "agents[2]: the name 'look' is given twice; it is also that of agents[1]",
        "agents[3]: the name 'main' is given twice; it is also that of the client itself",
        f"{file}: the name 'judge' is given twice; it is also that of agents[0]",
    ]


def test_an_agent_may_delegate_to_those_that_exist(tmp_path: Path) -> None:
    """[CFG-22] Tables and files count; an unknown name is told with the nearest."""
    agent_file(tmp_path / "agents" / "judge.md")
    document: dict[str, Any] = {
        "agents": {"a": {"agents": ["judge", "b", "jugde"]}, "b": {"agents": []}},
        "agent_files": [str(tmp_path / "agents")],
    }
    (line,) = refusal(document)
    assert line == (
        "agents.a: agents names 'jugde', which does not exist; "
        "there are ['a', 'b', 'judge']; did you mean 'judge'?"
    )
    document["agents"]["a"]["agents"].pop()
    a, b, judge = Document.read(document).options()["agents"]
    assert (a.name, a.agents, b.name, b.agents) == ("a", ("judge", "b"), "b", ()) and judge.name == "judge"


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        (
            {"agents": {"a": {"agents": ["b"]}, "b": {"max_turn": 1}, "c": {"agents": ["d"]}}},
            ["agents.b.max_turn", "agents.c"],
        ),
        ({"agents": {"a": {"agents": ["b"]}, "b": 5}}, ["agents.b"]),
        ({"agents": {"a": {"agents": ["b"]}}, "agnet_files": "x"}, ["agnet_files"]),
        ({"api_key": "k", "modle": "openai:a"}, ["modle"]),
        ({"api_key": "k", "model": 5}, ["model"]),
        ({"api_key": "k", "max_turns": 0}, ["max_turns", "api_key"]),
        ({"builtins": ["a\0"], "max_turns": "\0"}, ["builtins[0]", "max_turns"]),
    ],
)
def test_one_mistake_does_not_make_another(document: dict[str, Any], keys: list[str]) -> None:
    """[CFG-03] What is missing only because its definition is wrong is not told as missing."""
    assert [line.split(": ")[0] for line in refusal(document)] == keys


def test_what_is_wrong_in_agent_files_is_told_with_the_rest(tmp_path: Path) -> None:
    """[CFG-21] The lines name the Markdown file and stand beside the other findings."""
    (tmp_path / "bad.md").write_text("---\ndescription: no name\n---\nx\n")
    lines = refusal({"agent_files": str(tmp_path / "bad.md"), "max_turns": 0})
    assert lines[0] == "max_turns: 0 must be 1 or more"
    assert lines[1].startswith(f"agent_files: {tmp_path / 'bad.md'}: name") and len(lines) == 2


def test_very_many_mistakes_are_cut_to_a_hundred_lines() -> None:
    """[CFG-05] The error says how many more there are."""
    lines = refusal({f"key{i}": 1 for i in range(300)})
    assert len(lines) == 101 and lines[-1] == "and 200 more"


@pytest.mark.parametrize(
    ("agents", "whom"),
    [
        (["b*"], {"b1", "b2"}),
        (["b1", "c"], {"b1", "c"}),
        ({"b1": True}, {"b1"}),
        ({"b*": False}, {"a", "c"}),
        ({"c": False, "b?": True}, {"b1", "b2"}),
        ([], set[str]()),
        (False, set[str]()),
        (True, {"a", "b1", "b2", "c"}),
    ],
)
def test_delegates_are_a_filter_like_any_other(tmp_path: Path, agents: Any, whom: set[str]) -> None:
    """[CFG-23] Names, globs, names to true or false, or a bool, in every format and in the schema."""
    document: dict[str, Any] = {
        "builtins": False,
        "agents": {"a": {"agents": agents}, "b1": {}, "b2": {}, "c": {}},
    }
    schema: Any = json_schema()
    jsonschema.Draft202012Validator(schema).validate(document)  # pyright: ignore[reportUnknownMemberType]
    for suffix in (".toml", ".json", ".yaml"):
        client = Document.read(write(tmp_path, document, suffix)).client(model=ScriptedModel([]))
        (a,) = [agent for agent in client.agents if agent.name == "a"]
        assert isinstance(a, Agent)
        task = next((tool for tool in client.tools_of(a) if tool.name == "task"), None)
        described = "" if task is None else task.description
        assert {name for name in ("a", "b1", "b2", "c") if f"- {name} (" in described} == whom
        client.close()


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        ({"d": False}, "agents.a: agents names 'd', which does not exist; there are ['a', 'b']"),
        (["d"], "agents.a: agents names 'd', which does not exist; there are ['a', 'b']"),
        ("b", "agents.a.agents: it must be a list of names, a table of names to true or false, or a bool"),
        ({"b": 1}, "agents.a.agents.b: it must be true or false, not a whole number"),
    ],
)
def test_delegates_that_are_no_filter_are_findings(agents: Any, says: str) -> None:
    """[CFG-23] A name must exist in each form; a glob may hold nobody."""
    (line,) = refusal({"agents": {"a": {"agents": agents}, "b": {}}})
    assert line.startswith(says)
    Document.read({"agents": {"a": {"agents": ["x*", "b"]}, "b": {}}})


def test_a_crowd_of_agents_is_checked_soon() -> None:
    """[CFG-05] Neither the names that exist nor those that are near make a line or the search long."""
    lines = refusal({"agents": {f"agent{i}": {"agents": [f"agent{i}x"]} for i in range(2000)}})
    assert len(lines) == 100 and all(len(line) < 500 for line in lines)
    assert "did you mean 'agent0'" in lines[0]
