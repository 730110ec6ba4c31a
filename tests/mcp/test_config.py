"""Configuration of MCP servers: the files people already have, and what is wrong in them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from toolnexus.errors import ConfigError
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.gather import Sources
from toolnexus.tools.mcp import mcp_sources
from toolnexus.tools.mcp_config import ServerConfig, load_mcp_config


def by_name(servers: tuple[ServerConfig, ...]) -> dict[str, ServerConfig]:
    return {server.name: server for server in servers}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def one(entry: dict[str, Any], **around: Any) -> ServerConfig:
    (server,) = load_mcp_config({"mcpServers": {"srv": entry}, **around})
    return server


def test_a_toml_file_and_a_mapping_mean_the_same(tmp_path: Path) -> None:
    """[MCP-01] The same servers from TOML, JSON and a mapping."""
    toml = """
[mcpServers.files]
command = ["npx", "files"]
cwd = "/tmp"
timeout = 5000
tools = ["read_*"]
[mcpServers.files.env]
A = "1"
[mcpServers.web]
url = "https://example.com/mcp"
enabled = false
"""
    mapping = {
        "mcpServers": {
            "files": {
                "command": ["npx", "files"],
                "cwd": "/tmp",
                "timeout": 5000,
                "tools": ["read_*"],
                "env": {"A": "1"},
            },
            "web": {"url": "https://example.com/mcp", "enabled": False},
        }
    }
    from_toml = load_mcp_config(write(tmp_path, "mcp.toml", toml))
    assert from_toml == load_mcp_config(mapping)
    assert from_toml == load_mcp_config(write(tmp_path, "mcp.json", json.dumps(mapping)))
    assert (from_toml[0].timeout, from_toml[0].cwd) == (5.0, "/tmp")
    assert not from_toml[1].enabled


@pytest.mark.parametrize("wrapper", ["mcpServers", "servers", "mcp", None, "settings"])
def test_servers_stand_under_any_of_the_wrappers_or_bare(wrapper: str | None) -> None:
    """[MCP-01] `mcpServers`, `servers`, `mcp`, or the document itself without its other tables."""
    inner = {"a": {"command": "x"}, "b": {"url": "http://h/mcp"}}
    document: dict[str, Any] = {wrapper: inner} if wrapper else dict(inner)
    if wrapper == "settings":
        document = {"mcp": {"inputs": [], "servers": inner}}
    document |= {"agents": {"x": {"tools": []}}, "builtins": {"bash": False}, "model": "m", "skills": ["s"]}
    assert [s.name for s in load_mcp_config(document)] == ["a", "b"]


def test_a_bare_server_may_be_called_like_a_wrapper() -> None:
    """[MCP-01] In a bare document a server may have the name of a wrapper."""
    assert [s.name for s in load_mcp_config({"mcp": {"command": "x"}, "b": {"command": "y"}})] == ["mcp", "b"]


def test_spellings_of_other_hosts_are_understood() -> None:
    """[MCP-01] `type` local and remote, `environment`, a list as command, a disabled server."""
    local = one(
        {"type": "local", "command": ["bun", "x", "srv"], "environment": {"A": "b", "N": 1, "T": True}}
    )
    assert (local.command, dict(local.env)) == (("bun", "x", "srv"), {"A": "b", "N": "1", "T": "true"})
    assert one({"type": "remote", "url": "https://h/mcp"}).url == "https://h/mcp"
    assert one({"type": "streamable-http", "url": "https://h/mcp"}).url == "https://h/mcp"
    assert one({"command": "x", "args": ["a"], "disabled": True}).enabled is False
    assert one({"command": "x"}).timeout == 30.0


def test_variables_are_filled_in_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-02] `${NAME}`, `${env:NAME}` and `${NAME:-default}` in command, args, env, headers, url
    and cwd; what is no variable stays as it is."""
    monkeypatch.setenv("TNX_A", "alpha-1")
    monkeypatch.setenv("TNX_EMPTY", "")
    monkeypatch.delenv("TNX_NONE", raising=False)
    server = one(
        {
            "command": "${TNX_A}/bin",
            "args": [
                "${env:TNX_A}",
                "${TNX_NONE:-d-1}",
                "${TNX_EMPTY:-d-2}",
                "x${TNX_EMPTY}y",
                "$TNX_A ${1} {TNX_A}",
            ],
            "cwd": "/${TNX_A}",
        }
    )
    assert server.command == ("alpha-1/bin", "alpha-1", "d-1", "d-2", "xy", "$TNX_A ${1} {TNX_A}")
    assert server.cwd == "/alpha-1"
    assert one({"url": "https://${TNX_A}.example/${TNX_NONE:-}mcp"}).url == "https://alpha-1.example/mcp"


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-02] An unset variable is a `ConfigError` with its name, the server and the key; those of
    disabled servers may be unset."""
    monkeypatch.delenv("TNX_NONE", raising=False)
    with pytest.raises(ConfigError, match=r"server 'srv': 'headers\.X' needs .* 'TNX_NONE'"):
        one({"url": "https://h/mcp", "headers": {"X": "${TNX_NONE}"}})
    with pytest.raises(ConfigError, match=r"'args' needs .* 'A_KEY' as the answer to input 'a-key'"):
        one({"command": "x", "args": ["${input:a-key}"]}, inputs=[{"id": "a-key", "type": "promptString"}])
    assert not one({"url": "https://h/${TNX_NONE}", "disabled": True}).enabled


def test_harmless_variables_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-04] Values such as the home folder are not masked; values from the environment and
    under telling names are, with and without their scheme."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("TNX_A", "alpha-123")
    server = one({"command": "x", "args": ["${HOME}/x"], "env": {"MODE": "testing-mode", "P": "${TNX_A}"}})
    assert server.secrets == ("alpha-123",)
    web = one(
        {
            "url": "https://u:pa55word@h/mcp?api_key=k-1234567&q=term",
            "headers": {"Authorization": "Bearer tok-9"},
        }
    )
    assert {"pa55word", "k-1234567", "tok-9", "Bearer tok-9"} <= set(web.secrets)
    assert "term" not in web.secrets


@pytest.mark.parametrize(
    ("entry", "secret"),
    [
        ({"command": "x", "env": {"ANY": "${TNX_VALUE}"}}, True),
        ({"url": "https://h/mcp", "headers": {"X-Any": "v=${TNX_VALUE}"}}, True),
        ({"command": "x", "args": ["--key=${TNX_API_KEY}"]}, True),
        ({"command": "x", "args": ["${TNX_DSN}"]}, True),
        ({"url": "https://h/${TNX_API_KEY}/mcp"}, True),
        ({"command": "x", "args": ["--project=${TNX_VALUE}"]}, False),
        ({"url": "https://${TNX_VALUE}/mcp"}, False),
        ({"command": "x", "env": {"MAX_TOKENS": "value-1", "MONKEY": "value-1"}}, False),
        ({"command": "x", "env": {"GITHUB_TOKEN": "value-1"}}, True),
        ({"command": "x", "env": {"accessToken": "value-1"}}, True),
        ({"command": "x", "env": {"TOKEN": "123456789"}}, False),
    ],
)
def test_what_counts_as_a_secret(
    entry: dict[str, Any], secret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MCP-04] Variables in `env` and `headers` are secrets, elsewhere by their name or a password in
    them; values typed into the file by their name. A plain number is none."""
    monkeypatch.setenv("TNX_VALUE", "value-1")
    monkeypatch.setenv("TNX_API_KEY", "value-1")
    monkeypatch.setenv("TNX_DSN", "postgres://user:value-1@host/db")
    server = one(entry)
    assert any("value-1" in s or s == "123456789" for s in server.secrets) is secret
    assert bool(server.secret_names) is (secret and "${" in json.dumps(entry))


def test_a_configuration_shows_no_secret() -> None:
    """[MCP-04] `repr` of a server shows no argument, value, header, or more of a URL than its host."""
    server = one({"command": "x", "args": ["--key", "sk-1"], "env": {"K": "sk-2"}, "cwd": "/sk-3"})
    web = one({"url": "https://sk-4@h.example/sk-5?k=sk-6", "headers": {"X": "sk-7"}})
    assert "sk-" not in repr(server) + repr(web) + str(server) + web.address
    assert web.address == "https://h.example"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "'command' is missing"),
        ({"type": "http"}, "'url' is missing"),
        ({"type": "stdio", "url": "https://h"}, "'command' is missing"),
        ({"command": "x", "url": "https://h"}, "both 'command' and 'url'"),
        (
            {"type": "sdtio", "command": "x"},
            "type 'sdtio'; allowed are 'stdio', 'http'; did you mean 'stdio'?",
        ),
        ({"serverUrl": ["https://h"]}, "'command' is missing"),
        ({"url": "ftp://h/x"}, "'url' must begin with http"),
        ({"url": "/mcp"}, "'url' must begin with http"),
        ({"url": 5}, "'url' must be a string, not int"),
        ({"command": ""}, "'command' is empty"),
        ({"command": []}, "'command' is empty"),
        ({"command": 5}, "'command' must be a list of strings"),
        ({"command": "x", "args": "--verbose"}, "'args' must be a list of strings, not a string"),
        ({"command": "x", "args": [1]}, "'args' must be a list of strings, not int"),
        ({"command": "x", "env": ["A=1"]}, "'env' must be an object of strings, not a list"),
        ({"command": "x", "env": {"A": {"b": 1}}}, "'env' must be an object of strings"),
        ({"command": "x", "cwd": 5}, "'cwd' must be a string"),
        ({"command": "x", "timeout": "30s"}, "'timeout' must be a number of milliseconds"),
        ({"command": "x", "timeout": True}, "'timeout' must be a number of milliseconds"),
        ({"command": "x", "timeout": 0}, "timeout 0 must be more than 0"),
        ({"command": "x", "timeout": float("nan")}, "timeout nan must be more than 0"),
        ({"command": "x", "timeout": 10**400}, "'timeout' is in milliseconds, at most 86400000 (a day)"),
        ({"command": "x", "timeout": float("inf")}, "'timeout' is in milliseconds"),
        ({"command": "x", "disabled": "yes"}, "'disabled' must be true or false, not a string"),
        (
            {"command": "x", "protocol": "sse"},
            "protocol 'sse'; allowed are 'auto', 'handshake' and 'stateless'",
        ),
        ({"command": "x", "tools": "all"}, "server 'srv', tools: 'all'"),
        ({"command": "x", "tools": {"a": "yes"}}, "server 'srv', tools: 'a'"),
        ({"comand": "x"}, "unknown key 'comand'; did you mean 'command'"),
        ({"command": "x", "envs": {}}, "unknown key 'envs'; did you mean 'env'"),
        ({"url": "https://h", "header": {}}, "unknown key 'header'; did you mean 'headers'"),
        ({"url": "https://h", "headers": {"X": "a\nb"}}, "'headers.X' holds a line break"),
        (
            {"command": "x", "enviroment": {}},
            "unknown key 'enviroment'; did you mean 'environment'",
        ),
        ({"command": "x", "evn": {}}, "unknown key 'evn'; did you mean 'env'"),
        ({"command": "x", "agrs": []}, "unknown key 'agrs'; did you mean 'args'"),
        ({"command": "x", "envfile": ".env"}, "unknown key 'envfile'; did you mean 'envFile'"),
        ({"command": "x", "disable": True}, "unknown key 'disable'; did you mean 'disabled'"),
        (
            {"command": "x", "args": ["${config:python.path}"]},
            "'args' uses ${config:…}, which only an editor",
        ),
        ({"command": "x", "cwd": "${workspaceFolder:api}"}, "'cwd' uses ${workspaceFolder:…}"),
        ({"command": "x", "args": ["${TNX_NO:-${TNX_B}}"]}, "'args' has a variable inside of a default"),
        ({"command": "x", "envFile": "/no/such/file"}, "envFile '/no/such/file' cannot be read"),
    ],
)
def test_what_is_wrong_is_named(entry: dict[str, Any], message: str) -> None:
    """[MCP-03] A wrong shape is a `ConfigError` that names the server, the key and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        one(entry)
    assert "server 'srv'" in str(caught.value) and message in str(caught.value)


def test_a_wrong_value_is_not_shown() -> None:
    """[MCP-04] A complaint about a value does not show it: it may be a secret."""
    with pytest.raises(ConfigError) as caught:
        one({"url": "https://h", "headers": "Bearer sk-secret-1"})
    assert "sk-secret-1" not in str(caught.value)


def test_unknown_keys_that_are_no_typo_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-03] A key that nobody knows is passed over with a warning; those of other hosts mostly without."""
    with caplog.at_level(logging.WARNING, "toolnexus.mcp"):
        one({"command": "x", "description": "d", "alwaysAllow": [], "gallery": True})
        assert caplog.text == ""
        one({"command": "x", "frobnicate": 1})
    assert "server 'srv': key 'frobnicate' is not carried over: nothing here knows it" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "does not parse: .*line 1"),
        ("a.json", "", "the file is empty; an object is wanted"),
        ("a.json", "\ufeff // nothing yet\n", "the file is empty"),
        ("a.json", "[]", "must hold an object, not list"),
        ("a.toml", "a = ", "does not parse"),
        ("a.json", '{"mcpServers": []}', "the servers must be an object of name to server, not a list"),
        ("a.json", '{"mcpServers": {"x": "y"}}', "server 'x' must be an object with a command or a url"),
        ("a.json", '{"mcpServers": {"": {"command": "y"}}}', "'' is no name of a server"),
        (
            "a.json",
            '{"editor.tabSize": 4, "[go]": {}}',
            "'editor.tabSize' must .* not int; servers stand under",
        ),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    """[MCP-03] A file that does not parse or holds no servers is a `ConfigError` with its path."""
    path = write(tmp_path, name, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_mcp_config(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """[MCP-03] A file that is not there is a `ConfigError` with its path."""
    for path in (tmp_path / "nope.json", tmp_path, f"{tmp_path}/nope\0.json", "~nobody-here/nope.json"):
        with pytest.raises(ConfigError, match=r"MCP config .* cannot be read"):
            load_mcp_config(path)


def test_the_position_in_a_commented_file_is_right(tmp_path: Path) -> None:
    """[MCP-03] Comments do not move the position that a parse error names."""
    path = write(tmp_path, "a.json", '{\n// one\n/* two\n three */\n"a": nope}')
    with pytest.raises(ConfigError, match="line 5 column 6"):
        load_mcp_config(path)


def test_variables_of_a_source_that_comes_late_are_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-04] The names of secret variables are those of all sources, also of an agent's own."""
    monkeypatch.setenv("TNX_A", "alpha-123")
    monkeypatch.setenv("TNX_B", "beta-123")
    first = {"a": {"command": "x", "env": {"V": "${TNX_A}"}}}
    sources = Sources(mcp=first, skills=None, builtins=NameFilter(), host=[])
    assert sources.secret_names == {"TNX_A"}
    (late,) = mcp_sources({"b": {"command": "x", "env": {"V": "${TNX_B}"}}})
    sources.adopt(late)
    assert sources.secret_names == {"TNX_A", "TNX_B"}


SERVER = {"x": {"command": "x"}}


@pytest.mark.parametrize("wrapper", ["mcpServer", "mcpservers", "mcp-servers", "MCP-Servers"])
def test_a_misspelt_wrapper_is_an_error(wrapper: str, tmp_path: Path) -> None:
    """[MCP-30] What was meant as `mcpServers` is not taken for a server or for somebody's own key."""
    document: dict[str, Any] = {wrapper: SERVER, "inputs": []}
    text = f"unknown key '{wrapper}'; did you mean 'mcpServers'\\?"
    for source in (document, write(tmp_path, "mcp.json", json.dumps(document))):
        with pytest.raises(ConfigError, match=text):
            load_mcp_config(source)


@pytest.mark.parametrize("around", [SERVER, {"mcpServers": SERVER}])
def test_a_key_of_somebody_else_may_stand_beside_servers(around: dict[str, Any]) -> None:
    """[MCP-30] A document with servers may hold `mcpServer` for a purpose of its own."""
    (server,) = load_mcp_config({"mcpServer": {"tools": {"port": 1}}, **around})
    assert server.name == "x"


def test_a_configuration_without_servers_warns(caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-30] Given, but empty: a warning that names it, and no server."""
    with caplog.at_level(logging.WARNING, "toolnexus.mcp"):
        assert load_mcp_config({"mcpServers": {}}) == ()
        assert load_mcp_config({"model": "m", "mcpServer": 5}) == ()
    assert [record.getMessage() for record in caplog.records] == ["mcp: it holds no server"] * 2


def test_what_is_no_configuration_is_a_config_error(tmp_path: Path) -> None:
    """[MCP-03] A wrong type, an address that does not parse, and a file without end in depth."""
    wrong: Any = 5
    with pytest.raises(ConfigError, match="mcp must be the path of a file or a mapping of servers, not int"):
        load_mcp_config(wrong)
    for url in ("http://[::1", "http://u:pa55word@h\u2100"):
        with pytest.raises(ConfigError, match="server 'x': 'url' is no valid address") as caught:
            load_mcp_config({"x": {"url": url}})
        assert "pa55word" not in str(caught.value)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_mcp_config(write(tmp_path, "deep.json", "[" * 100_000))
    with pytest.raises(ConfigError, match="does not parse"):
        load_mcp_config(write(tmp_path, "deep.toml", "x = " + "[" * 100_000))
