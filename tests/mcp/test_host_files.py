"""The files of Claude Desktop, Claude Code, VS Code and Cursor, as people have them."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.test_config import by_name, one, write
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config, mcp_report
from toolnexus.tools.mcp_document import read_document

CLAUDE_DESKTOP = """
{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/someone/Desktop"]
    },
    "weather": {
      "command": "uv",
      "args": ["run", "weather.py"],
      "env": {"API_KEY": "wk-12345678", "DEBUG": null}
    }
  }
}
"""

WINDOWS = r"""
{
  "mcpServers": {
    "memory": {"command": "cmd", "args": ["/c", "npx", "-y", "@modelcontextprotocol/server-memory"]},
    "shell": {"command": "CMD.EXE", "args": ["/C", "C:\\tools\\server.bat", "--port", "1"]},
    "plain": {"command": "cmd", "args": ["/k", "x"]}
  }
}
"""

CLAUDE_CODE = """
{
  "mcpServers": {
    "api": {
      "type": "http",
      "url": "${API_BASE:-https://api.example.com}/mcp",
      "headers": {"Authorization": "Bearer ${API_TOKEN}"},
      "oauth": {"clientId": "id-1", "callbackPort": 8080},
      "timeout": 600000
    },
    "db": {"type": "stdio", "command": "db-server", "args": ["--dsn", "${DB_DSN}"], "env": {}},
    "old": {"type": "sse", "url": "https://old.example.com/sse"},
    "ide": {"type": "ws", "url": "ws://127.0.0.1:1/mcp"}
  }
}
"""

CLAUDE_USER = """
{
  "numStartups": 12,
  "theme": "dark",
  "userID": "9f0c",
  "tipsHistory": {"shift-enter": 3},
  "oauthAccount": {"emailAddress": "someone@example.com"},
  "mcpServers": {
    "notes": {"type": "stdio", "command": "notes-server", "args": [], "env": {}},
    "search": {"type": "http", "url": "https://search.example.com/mcp"},
    "mail": {"type": "stdio", "command": "mail-of-user"}
  },
  "projects": {
    "%(here)s": {
      "allowedTools": [],
      "mcpServers": {
        "mail": {"type": "stdio", "command": "mail-of-project"},
        "local": {"type": "stdio", "command": "local-server", "env": {"TOKEN": "t-12345678"}}
      },
      "disabledMcpServers": ["search"],
      "hasTrustDialogAccepted": true
    },
    "/somewhere/else": {"mcpServers": {"other": {"type": "stdio", "command": "${NOT_SET_ANYWHERE}"}}},
    "/no/servers": {"mcpServers": {}, "history": []}
  }
}
"""

VS_CODE = """
{
  // Servers of this workspace
  "inputs": [
    {"type": "promptString", "id": "search-key", "description": "Key", "password": true},
    {"type": "promptString", "id": "pin", "description": "A PIN", "password": true},
    {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
  ],
  "servers": {
    "search": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "search-server", "--region=${input:region}", /* where */ "${workspaceFolder}/data",
               "--pin=${input:pin}"],
      "env": {"KEY": "${input:search-key}", "HOME_OF": "${userHome}", "URL": "http://x//y"},
      "envFile": "${workspaceFolder}/.env",
      "dev": {"watch": "src/**/*.ts", "debug": {"type": "node"}},
      "sandboxEnabled": true,
      "sandbox": {"filesystem": {"allowWrite": ["${workspaceFolder}"]}, "network": {"allowedDomains": []}},
    },
    "remote": {"type": "http", "url": "https://api.githubcopilot.com/mcp/"},
    "socket": {"type": "http", "url": "unix:///tmp/server.sock"},
  },
}
"""

VS_CODE_SETTINGS = """
{
  "editor.fontSize": 13, // big
  "[python]": {"editor.tabSize": 4},
  "files.exclude": {"**/.git": true},
  "workbench.colorTheme": "Dark", "window.zoomLevel": 1, "git.autofetch": true,
  "mcp": {
    "inputs": [{"type": "promptString", "id": "token", "description": "Token"}],
    "servers": {
      "time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"T": "${input:token}"}},
    },
  },
}
"""

CURSOR = """
{
  "mcpServers": {
    "local": {
      "command": "python",
      "args": ["${workspaceFolder}${/}server.py", "${userHome}", "${workspaceFolderBasename}"],
      "env": {"TOKEN": "${env:CURSOR_TOKEN}"},
      "envFile": ".env.local",
      "autoApprove": ["search"],
      "disabled": false
    },
    "remote": {
      "url": "https://mcp.example.com/mcp",
      "headers": {"X-Key": "${env:CURSOR_TOKEN}"},
      "auth": {"CLIENT_ID": "${env:NOT_SET_ANYWHERE}", "CLIENT_SECRET": "s-12345678", "scopes": ["read"]}
    }
  }
}
"""


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("API_BASE", raising=False)
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    for name, value in {
        "API_TOKEN": "token-123456",
        "DB_DSN": "postgres://u:p@h/d",
        "SEARCH_KEY": "key-from-env",
        "PIN": "pin-from-env",
        "TOKEN": "token-for-time",
        "CURSOR_TOKEN": "cursor-123456",
    }.items():
        monkeypatch.setenv(name, value)


def test_the_file_of_claude_desktop_loads_as_it_is(tmp_path: Path) -> None:
    """[MCP-01] `claude_desktop_config.json`, with the byte order mark of a Windows editor."""
    servers = by_name(
        load_mcp_config(write(tmp_path, "claude_desktop_config.json", "\ufeff" + CLAUDE_DESKTOP))
    )
    assert list(servers) == ["filesystem", "weather"]
    assert servers["filesystem"].command == (
        "npx",
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/Users/someone/Desktop",
    )
    assert dict(servers["weather"].env) == {"API_KEY": "wk-12345678"}
    assert "wk-12345678" in servers["weather"].secrets


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32-le"])
def test_the_encodings_of_windows_are_read(tmp_path: Path, encoding: str) -> None:
    """[MCP-60] What PowerShell and Notepad write: UTF-16 and UTF-8 with a byte order mark."""
    path = tmp_path / "mcp.json"
    path.write_bytes(CLAUDE_DESKTOP.replace("weather", "wetterü").encode(encoding))
    assert [server.name for server in load_mcp_config(path)] == ["filesystem", "wetterü"]


@pytest.mark.skipif(os.name == "nt", reason="there it is needed")
def test_the_shell_of_windows_before_a_command_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[MCP-60] `cmd /c npx …` means `npx …` on other systems; the log says so."""
    with caplog.at_level(logging.INFO, "toolnexus.mcp"):
        servers = by_name(load_mcp_config(write(tmp_path, "mcp.json", WINDOWS)))
    assert servers["memory"].command == ("npx", "-y", "@modelcontextprotocol/server-memory")
    assert servers["shell"].command == ("C:\\tools\\server.bat", "--port", "1")
    assert servers["plain"].command == ("cmd", "/k", "x")
    assert caplog.text.count("'cmd /c' is left out on this system") == 2


def test_the_file_of_a_project_of_claude_code_loads_as_it_is(tmp_path: Path) -> None:
    """[MCP-01] [MCP-61] `.mcp.json`: defaults, tokens; a server of an unsupported kind fails alone."""
    servers = by_name(load_mcp_config(str(write(tmp_path, ".mcp.json", CLAUDE_CODE))))
    assert servers["api"].url == "https://api.example.com/mcp"
    assert dict(servers["api"].headers) == {"Authorization": "Bearer token-123456"}
    assert servers["api"].timeout == 600
    assert servers["db"].command == ("db-server", "--dsn", "postgres://u:p@h/d")
    assert servers["db"].secret_names == ("DB_DSN",)
    assert servers["db"].problem is servers["api"].problem is None
    for name, word in {"old": "streamable HTTP", "ide": "WebSocket"}.items():
        assert word in str(servers[name].problem)
        assert McpSource(servers[name]).status == {"status": "failed", "reason": servers[name].problem}


def test_the_file_of_a_user_of_claude_code_gives_the_servers_of_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MCP-62] `~/.claude.json`: the user's servers and those of the project that holds the working
    folder, which win; one that is switched off there is disabled; other projects count for nothing."""
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    path = write(tmp_path, ".claude.json", CLAUDE_USER % {"here": project})
    for here in (project, project / "src"):
        monkeypatch.chdir(here)
        servers = by_name(load_mcp_config(path))
        assert list(servers) == ["notes", "search", "mail", "local"]
        assert servers["mail"].command == ("mail-of-project",)
        assert servers["local"].secrets == ("t-12345678",)
        assert [name for name, server in servers.items() if not server.enabled] == ["search"]
    monkeypatch.chdir(tmp_path)
    servers = by_name(load_mcp_config(path))
    assert {name: server.command for name, server in servers.items() if server.enabled} == {
        "notes": ("notes-server",),
        "search": (),
        "mail": ("mail-of-user",),
    }


def test_a_file_of_claude_code_with_servers_of_projects_alone_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MCP-62] Without servers of the user its other keys are still no servers."""
    monkeypatch.chdir(tmp_path)
    document = {"numStartups": 1, "projects": {str(tmp_path): {"mcpServers": {"a": {"command": "x"}}}}}
    assert [s.name for s in load_mcp_config(document)] == ["a"]
    assert [s.name for s in load_mcp_config({"projects": {"command": "x"}})] == ["projects"]


def test_the_file_of_vs_code_loads_as_it_is(tmp_path: Path) -> None:
    """[MCP-01] [MCP-63] `.vscode/mcp.json`: comments, trailing commas, inputs from the environment, env
    file; its folder is the workspace and where its servers run; a password is a secret wherever it is."""
    write(tmp_path, ".env", '# comment\nexport FROM_FILE="file value"\nKEY=overridden\n\n')
    servers = by_name(load_mcp_config(write(tmp_path, ".vscode/mcp.json", VS_CODE)))
    search = servers["search"]
    assert search.command == (
        "npx",
        "-y",
        "search-server",
        "--region=eu",
        f"{tmp_path}/data",
        "--pin=pin-from-env",
    )
    assert dict(search.env) == {
        "KEY": "key-from-env",
        "HOME_OF": str(Path.home()),
        "URL": "http://x//y",
        "FROM_FILE": "file value",
    }
    assert search.cwd == str(tmp_path)
    assert {"key-from-env", "pin-from-env", "file value"} <= set(search.secrets)
    assert set(search.secret_names) == {"SEARCH_KEY", "PIN"}
    assert servers["remote"].url == "https://api.githubcopilot.com/mcp/"
    assert "unix:" in str(servers["socket"].problem)


def test_the_settings_of_vs_code_load_as_they_are(tmp_path: Path) -> None:
    """[MCP-01] [MCP-63] `settings.json`: `mcp.servers` with `mcp.inputs`; the other settings are none."""
    (server,) = load_mcp_config(write(tmp_path, ".vscode/settings.json", VS_CODE_SETTINGS))
    assert (server.name, server.command) == ("time", ("uvx", "mcp-server-time"))
    assert dict(server.env) == {"T": "token-for-time"}
    assert load_mcp_config({"mcp": {"inputs": []}, "editor.fontSize": 1}) == ()


def test_the_file_of_cursor_loads_as_it_is(tmp_path: Path) -> None:
    """[MCP-01] [MCP-63] `.cursor/mcp.json`: its variables, its env file; `auth` needs no variables."""
    write(tmp_path, ".env.local", "A='1 # 2' # two\nB=x # three\nC=\"y\"\nD=\n  E = z  \n#F=1\nG=a#b\n")
    servers = by_name(load_mcp_config(write(tmp_path, ".cursor/mcp.json", CURSOR)))
    local = servers["local"]
    assert local.command == ("python", f"{tmp_path}{os.sep}server.py", str(Path.home()), tmp_path.name)
    assert dict(local.env) == {
        "TOKEN": "cursor-123456",
        "A": "1 # 2",
        "B": "x",
        "C": "y",
        "D": "",
        "E": "z",
        "G": "a#b",
    }
    assert local.cwd == str(tmp_path)
    assert dict(servers["remote"].headers) == {"X-Key": "cursor-123456"}
    assert all(server.enabled for server in servers.values())


def test_the_file_of_a_user_of_cursor_has_no_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MCP-63] `~/.cursor/mcp.json` serves every project: its workspace is the working folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(write(tmp_path, "project/x", "").parent)
    path = write(tmp_path, ".cursor/mcp.json", '{"mcpServers": {"a": {"command": "${workspaceFolder}/s"}}}')
    (server,) = load_mcp_config(path)
    assert (server.command, server.cwd) == ((f"{tmp_path}/project/s",), None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claude_desktop_config.json", CLAUDE_DESKTOP),
        (".mcp.json", CLAUDE_CODE),
        (".claude.json", CLAUDE_USER),
        ("mcp.json", CURSOR.replace('"envFile": ".env.local",', "")),
        ("settings.json", VS_CODE_SETTINGS),
    ],
)
def test_a_file_and_a_mapping_mean_the_same(
    tmp_path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MCP-64] The same document as a file and as a mapping: the same servers, the same report."""
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, name, text.replace("%(here)s", str(tmp_path)))
    from_file, from_mapping = load_mcp_config(path), load_mcp_config(dict(read_document(path, [])))
    assert from_file and from_file == from_mapping
    assert [line.replace(str(path), "mcp") for line in mcp_report(from_file)] == list(
        mcp_report(from_mapping)
    )


def test_every_key_that_is_not_carried_over_has_a_line(tmp_path: Path) -> None:
    """[MCP-65] Server by server, then what stands beside them; `ignored` has the keys; no value is shown."""
    write(tmp_path, ".env", "KEY=v-12345678")
    path = write(
        tmp_path, ".vscode/mcp.json", VS_CODE.replace('"inputs"', '"sandbox": {"a": "v-1"}, "inputs"')
    )
    servers = by_name(load_mcp_config(path))
    assert servers["search"].ignored == ("dev", "sandboxEnabled", "sandbox")
    assert servers["remote"].ignored == ()
    place = f"{path}: server 'search'"
    assert mcp_report(servers.values()) == (
        f"{place}: key 'dev' is not carried over: servers are neither watched nor debugged here",
        f"{place}: key 'sandboxEnabled' is not carried over: the server runs without a sandbox",
        f"{place}: key 'sandbox' is not carried over: the server runs without a sandbox",
        f"{path}: key 'sandbox' is not carried over: the servers run without a sandbox",
    )


@pytest.mark.parametrize(
    ("document", "last"),
    [
        (CLAUDE_DESKTOP, "key 'globalShortcut' is not carried over: it is about no server"),
        (
            VS_CODE_SETTINGS,
            "keys 'editor.fontSize', '[python]', 'files.exclude', 'workbench.colorTheme', 'window.zoomLevel'"
            ", … (6 in all) are not carried over: they are about no server",
        ),
        (CURSOR, "server 'remote': key 'auth' is not carried over: there is no OAuth here"),
        (
            '{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}, "mcp": {}}',
            "key 'servers' is not carried over: the servers of another key are taken",
        ),
        ('{"mcpServers": {"a": {"command": "x"}}, "$schema": "s", "model": "m", "agents": {}}', None),
    ],
)
def test_what_stands_beside_the_servers_is_told_too(
    tmp_path: Path, document: str, last: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MCP-65] Keys of a document that are passed over; many that are about no server are one line."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, ".env.local", "")
    path = write(tmp_path, "mcp.json", document)
    report = mcp_report(load_mcp_config(path))
    assert [line.startswith(f"{path}: {last}") for line in report[-1:]] == ([True] if last else [])


@pytest.mark.parametrize(
    ("entry", "level"),
    [
        ({"command": "x", "sandbox": {"network": {}}}, "WARNING"),
        ({"command": "x", "sandboxEnabled": True}, "WARNING"),
        ({"url": "https://h", "auth": {"CLIENT_ID": "v-1"}}, "WARNING"),
        ({"url": "https://h", "oauth": {"clientId": "v-1"}}, "WARNING"),
        ({"url": "https://h", "headersHelper": "v-1"}, "WARNING"),
        ({"url": "https://h", "env": {"A": "v-1"}}, "WARNING"),
        ({"command": "x", "headers": {"A": "v-1"}}, "WARNING"),
        ({"command": "x", "disabledTools": "v-1"}, "WARNING"),
        ({"command": "x", "tools": ["a"], "disabledTools": ["v-1"]}, "WARNING"),
        ({"url": "https://h", "serverUrl": "v-1"}, "WARNING"),
        ({"command": "x", "frobnicate": "v-1"}, "WARNING"),
        ({"command": "x", "alwaysAllow": ["v-1"]}, "INFO"),
        ({"command": "x", "autoApprove": ["v-1"]}, "INFO"),
        ({"command": "x", "dev": {"watch": "v-1"}}, "INFO"),
        ({"command": "x", "description": "v-1"}, "INFO"),
        ({"command": "x", "_comment": "v-1"}, "INFO"),
        ({"command": "x", "//": "v-1"}, "INFO"),
        ({"command": "x", "sandboxEnabled": False}, "INFO"),
        ({"url": "https://h", "auth": None}, "INFO"),
        ({"url": "https://h", "env": {}}, "INFO"),
        ({"command": "x", "sandbox": {"a": "v-1"}, "disabled": True}, "INFO"),
    ],
)
def test_a_lost_key_that_matters_is_a_warning(
    entry: dict[str, Any], level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """[MCP-65] A warning when safety or function is lost, else a note; the words of the report, no value."""
    with caplog.at_level(logging.INFO, "toolnexus.mcp"):
        server = one(entry)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [(level, *mcp_report([server]))]
    assert "v-1" not in caplog.text
    assert server.ignored and set(server.ignored) <= set(entry)


def test_no_value_of_a_host_file_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-04] [MCP-65] Loading all of them with the log wide open shows keys and names only."""
    write(tmp_path, ".env", "FROM_FILE=file-value-1")
    write(tmp_path, ".env.local", "")
    with caplog.at_level(logging.DEBUG):
        for name, text in {
            "a.json": CLAUDE_DESKTOP,
            "b.json": CLAUDE_CODE,
            "c.json": CLAUDE_USER,
            ".vscode/mcp.json": VS_CODE,
            ".cursor/mcp.json": CURSOR,
        }.items():
            servers = load_mcp_config(write(tmp_path, name, text))
            assert "\n" not in "".join(mcp_report(servers))
    for (
        value
    ) in "wk-1234 token-12 postgres s-12345 cursor-12 key-from file-value id-1 weather.py 9f0c".split():
        assert value not in caplog.text
