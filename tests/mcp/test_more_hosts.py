"""MCP servers as Codex, Gemini CLI and opencode write them down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mcp.test_config import by_name, one, write
from toolnexus import ConfigError, load_mcp_config, mcp_report
from toolnexus.tools.filters import NameFilter

CODEX = """\
model = "gpt-5"
approval_policy = "on-request"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-server"]
env_vars = ["DOCS_KEY"]
startup_timeout_sec = 20
tool_timeout_sec = 90
enabled_tools = ["search", "get", "put"]
disabled_tools = ["put"]

[mcp_servers.remote]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "DOCS_KEY"
http_headers = { X-Region = "eu" }
env_http_headers = { X-Key = "DOCS_KEY" }

[mcp_servers.off]
command = "x"
enabled = false
"""

GEMINI = """\
{
  "theme": "Dark",
  "mcp": {"excluded": ["out"]},
  "mcpServers": {
    "files": {"command": "node", "args": ["s.js"], "env": {"KEY": "$DOCS_KEY"}, "cwd": "./srv",
              "timeout": 15000, "trust": true, "includeTools": ["read", "list"], "excludeTools": ["list"]},
    "web": {"httpUrl": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${DOCS_KEY}"},
            "excludeTools": ["wipe"]},
    "out": {"command": "never"}
  }
}
"""

OPENCODE_V1 = """\
{
  "$schema": "https://opencode.ai/config.json",
  "agent": {},
  "mcp": {
    // local
    "files": {"type": "local", "command": ["npx", "-y", "files"], "environment": {"KEY": "{env:DOCS_KEY}"},
              "timeout": 9000},
    "web": {"type": "remote", "url": "https://mcp.example.com/mcp", "headers": {"X-Key": "{env:DOCS_KEY}"},
            "oauth": {}},
    "off": {"enabled": false},
  }
}
"""

OPENCODE_V2 = """\
{
  "mcp": {
    "servers": {
      "files": {"type": "local", "command": ["npx", "-y", "files"]},
      "off": {"type": "local", "command": ["x"], "disabled": true}
    }
  }
}
"""


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_KEY", "key-12345678")


def test_the_configuration_of_codex_loads_as_it_is(tmp_path: Path) -> None:
    """[MCP-73] `mcp_servers` in TOML: seconds, variables, headers and lists of tools mean what they say."""
    servers = by_name(load_mcp_config(write(tmp_path, ".codex/config.toml", CODEX)))
    docs, remote = servers["docs"], servers["remote"]
    assert docs.command == ("npx", "-y", "docs-server")
    assert (dict(docs.env), docs.timeout, docs.cwd) == ({"DOCS_KEY": "key-12345678"}, 90, str(tmp_path))
    assert docs.tools == NameFilter(allow=("search", "get"))
    assert dict(remote.headers) == {
        "X-Region": "eu",
        "X-Key": "key-12345678",
        "Authorization": "Bearer key-12345678",
    }
    assert "key-12345678" in remote.secrets and not servers["off"].enabled
    (line,) = mcp_report(servers.values())
    assert line.endswith("key 'approval_policy' is not carried over: it is about no server")


def test_the_settings_of_gemini_load_as_they_are(tmp_path: Path) -> None:
    """[MCP-73] `httpUrl`, `$NAME`, lists of tools, and servers that the settings exclude."""
    servers = by_name(load_mcp_config(write(tmp_path, ".gemini/settings.json", GEMINI)))
    files, web = servers["files"], servers["web"]
    assert (dict(files.env), files.timeout) == ({"KEY": "key-12345678"}, 15)
    assert (files.tools, files.cwd) == (NameFilter(allow=("read",)), str(tmp_path / "srv"))
    assert (web.url, web.tools) == ("https://mcp.example.com/mcp", NameFilter(deny=("wipe",)))
    assert "key-12345678" in files.secrets and not servers["out"].enabled
    report = mcp_report(servers.values())
    assert [line.partition(": ")[2][:40] for line in report] == [
        "server 'files': key 'trust' is not carri",
        "key 'theme' is not carried over: it is a",
    ]


def test_the_document_of_opencode_version_1_loads_as_it_is(tmp_path: Path) -> None:
    """[MCP-73] `mcp.<name>` with a list as the command; one that is only switched off has nothing else."""
    servers = by_name(load_mcp_config(write(tmp_path, "opencode.jsonc", OPENCODE_V1)))
    assert servers["files"].command == ("npx", "-y", "files")
    assert (dict(servers["files"].env), servers["files"].timeout) == ({"KEY": "key-12345678"}, 9)
    assert dict(servers["web"].headers) == {"X-Key": "key-12345678"}
    assert not servers["off"].enabled
    assert [line.partition("key ")[2][:7] for line in mcp_report(servers.values())] == [
        "'oauth'",
        "'agent'",
    ]


def test_the_document_of_opencode_version_2_loads_as_it_is(tmp_path: Path) -> None:
    """[MCP-73] `mcp.servers.<name>` with `disabled`."""
    servers = by_name(load_mcp_config(write(tmp_path, "opencode.json", OPENCODE_V2)))
    assert (servers["files"].enabled, servers["off"].enabled) == (True, False)


def test_a_value_of_opencode_in_another_file_is_an_error(tmp_path: Path) -> None:
    """[MCP-73] It is not sent as it is written."""
    text = '{"mcp": {"a": {"type": "remote", "url": "https://h", "headers": {"K": "{file:~/key}"}}}}'
    with pytest.raises(ConfigError, match="server 'a': no value is read from a file"):
        load_mcp_config(write(tmp_path, "opencode.json", text))


@pytest.mark.parametrize(
    ("entry", "tools"),
    [
        ({"includeTools": []}, NameFilter(allow=())),
        ({"includeTools": ["a"], "excludeTools": ["a"]}, NameFilter(allow=())),
        ({"enabled_tools": ["a"], "tools": ["b"]}, NameFilter(allow=("b",))),
        ({"disabledTools": ["b", "a"]}, NameFilter(deny=("a", "b"))),
    ],
)
def test_lists_of_tools_of_other_hosts_narrow(entry: dict[str, Any], tools: NameFilter) -> None:
    """[MCP-73] Nothing that a file leaves out is offered; our own key wins."""
    assert one({"command": "x", **entry}).tools == tools
