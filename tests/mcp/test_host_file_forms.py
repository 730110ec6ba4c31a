"""Files of servers whoever wrote them: mistakes in them, odd texts, and what none may cost."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

import pytest

from tests.mcp.test_config import one, write
from toolnexus.core.jsonc import plain_json
from toolnexus.errors import ConfigError
from toolnexus.tools import mcp_entry, mcp_hosts
from toolnexus.tools.mcp_config import load_mcp_config
from toolnexus.tools.mcp_document import find_servers


def test_a_program_with_spaces_that_does_not_exist_fails_alone(tmp_path: Path) -> None:
    """[MCP-61] A whole command line as `command` is told as that, without showing it; a program whose
    name has spaces works."""
    program = write(tmp_path, "my tools/my server", "#!/bin/sh\n")
    program.chmod(0o755)
    for command in ("npx -y server --key=k-12345678", f"{program}-x y"):
        problem = str(one({"command": command}).problem)
        assert "'command' has spaces" in problem and "'args'" in problem and "k-1234" not in problem
    assert one({"command": str(program)}).problem is None
    assert one({"command": "my server", "env": {"PATH": str(program.parent)}}).problem is None
    assert one({"command": "npx", "args": ["a b"]}).problem is None
    assert one({"command": "./my server", "cwd": str(program.parent)}).problem is None


def test_a_relative_cwd_starts_at_the_folder_of_the_file(tmp_path: Path) -> None:
    """[MCP-63] In a file of VS Code or Cursor that is its workspace, else the working folder."""
    document = json.dumps({"servers": {"a": {"command": "x", "cwd": "sub"}}})
    (server,) = load_mcp_config(write(tmp_path, ".vscode/mcp.json", document))
    assert server.cwd == f"{tmp_path}/sub"
    (server,) = load_mcp_config(write(tmp_path, "mcp.json", document))
    assert server.cwd == f"{Path.cwd()}/sub"


@pytest.mark.parametrize(("timeout", "warned"), [(60, True), (99.5, True), (100, False), (30000, False)])
def test_a_timeout_that_looks_like_seconds_warns(
    timeout: float, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """[MCP-60] Milliseconds are the unit; a host that counts in seconds writes 60."""
    with caplog.at_level(logging.WARNING, "toolnexus.mcp"):
        assert one({"command": "x", "timeout": timeout}).timeout == timeout / 1000
    assert ("is in milliseconds" in caplog.text) is warned


def test_a_key_that_stands_twice_in_a_file_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-60] JSON keeps the last of two servers with one name: nothing is lost without a word."""
    text = '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y", "env": {"K": "v-1", "K": "v-2"}}}}'
    path = write(tmp_path, "mcp.json", text)
    with caplog.at_level(logging.WARNING, "toolnexus.mcp"):
        (server,) = load_mcp_config(path)
    assert server.command == ("y",)
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: key 'K' stands there more than once; the last one counts",
        f"{path}: key 'a' stands there more than once; the last one counts",
    ]


def test_a_file_that_would_never_end_is_refused_at_once(tmp_path: Path) -> None:
    """[MCP-67] Nobody waits for the other end of a pipe, and nothing reads a device without end."""
    pipe, link, large = tmp_path / "pipe.json", tmp_path / "link.json", tmp_path / "large.json"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    with large.open("wb") as file:
        file.truncate((1 << 25) + 1)
    for path, why in [
        (pipe, "it is no regular file"),
        (link, "it is no regular file"),
        (large, "it is larger than 33,554,432 bytes"),
    ]:
        with pytest.raises(ConfigError) as caught:
            load_mcp_config(path)
        assert str(caught.value) == f"MCP config {str(path)!r} cannot be read: {why}"


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_has_not_is_refused(tmp_path: Path, value: str) -> None:
    """[MCP-67] Python's reader takes them; a server would get the text `nan` for it."""
    path = write(
        tmp_path, "mcp.json", f'{{"mcpServers": {{"a": {{"command": "x", "env": {{"A": {value}}}}}}}}}'
    )
    with pytest.raises(ConfigError, match=r"does not parse: (NaN|-Infinity) is not|the number 1e999 is too"):
        load_mcp_config(path)


@pytest.mark.parametrize("piece", ["/* ", '"\\', '\\"', "/*", ", ", ",\n", "//", '"', "*/", " "])
def test_no_text_takes_longer_than_its_length(piece: str) -> None:
    """[MCP-67] Comments and quotes without end: eight times the text, not sixty times the time."""

    def seconds(count: int) -> float:
        text = piece * count
        began = time.process_time()
        plain_json(text)
        return time.process_time() - began

    assert min(seconds(16_000) for _ in range(3)) < 16 * (min(seconds(2_000) for _ in range(3)) + 0.002)


@pytest.mark.parametrize("kind", ["folder", "pipe", "bytes", "none"])
def test_an_env_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    """[MCP-03] A folder, a pipe that nobody writes to, no text, nothing: at once, with its path."""
    path = tmp_path / "env"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "bytes":
        path.write_bytes(b"A=\xff")
    with pytest.raises(ConfigError, match=r"server 'srv': the envFile .*env' cannot be read"):
        one({"command": "x", "envFile": str(path)})


def test_a_document_is_looked_at_without_reading_variables() -> None:
    """[MCP-64] Where servers stand does not depend on what is in them."""
    found = find_servers({"mcp": {"servers": {"a": {"url": "${NOT_SET_ANYWHERE}"}}, "inputs": [1]}}, "mcp")
    assert (list(found.servers), found.inputs, found.off, found.beside) == (["a"], [1], frozenset(), ())


def test_the_page_about_servers_names_every_key() -> None:
    """[MCP-66] What a server's object may hold, and what of other hosts is not carried over."""
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    known = {*mcp_entry._KEYS, *mcp_hosts._SERIOUS, *mcp_hosts._HARMLESS}
    assert [key for key in sorted(known) if f"`{key}`" not in page] == []
