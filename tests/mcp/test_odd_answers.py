"""Servers whose answers the SDK refuses: what can be understood is, and nobody waits for a timeout."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.helpers import opened, server, use
from toolnexus.errors import SourceError
from toolnexus.protocols.mcp import server as mcp_server
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config

pytestmark = pytest.mark.anyio

SERVER = """
import json, sys

SLOW = "^(a+)+$"
STRICT = {
    "type": "object",
    "properties": {"x": {"type": "string", "pattern": SLOW}, "pattern": {"type": "integer"}},
    "patternProperties": {SLOW: {}},
    "additionalProperties": False,
    "required": ["pattern"],
}
ODD = {"null": None, "number": 5, "text": "x", "list": [], "flag": True}

def say(id, key, value):
    print(json.dumps({"jsonrpc": "2.0", "id": id, key: value}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                 "serverInfo": {"name": "odd", "version": "1"}}
        say(id, "result", about)
    elif method == "tools/list":
        names = ["cut", "error", *ODD]
        tools = [{"name": n, "description": "cut \\ud83d", "inputSchema": {"type": "object"}} for n in names]
        say(id, "result", {"tools": [*tools, {"name": "strict", "inputSchema": STRICT}]})
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "cut":
            say(id, "result", {"content": [{"type": "text", "text": "half \\ud83d, whole \\ud83d\\ude00"}]})
        elif name == "strict":
            say(id, "result", {"content": [{"type": "text", "text": "checked it myself"}]})
        elif name == "error":
            say(id, "error", "no")
        else:
            say(id, "result", ODD[name])
    elif id is not None:
        say(id, "error", {"code": -32601, "message": "no"})
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "odd.py"
    path.write_text(SERVER)
    return path


async def test_half_a_character_costs_no_message(script: Path) -> None:
    """[MCP-29] A lone surrogate in a listing or an answer becomes U+FFFD; whole characters stay."""
    async with opened(server(script=script)) as source:
        assert source.tools[0].description == "cut \ufffd"
        result = await use(source, "cut")
    assert (result.is_error, result.output) == (False, "half \ufffd, whole \U0001f600")


async def test_an_answer_that_makes_no_sense_is_an_error_at_once(script: Path) -> None:
    """[MCP-29] An answer that is no object fails its call now, and the connection goes on."""
    kinds = {"null": "null", "number": "a number", "text": "a string", "list": "a list", "flag": "a boolean"}
    async with opened(server(script=script, timeout=60_000)) as source, asyncio.timeout(20):
        for name, kind in kinds.items():
            result = await use(source, name)
            assert result.is_error
            assert result.output.endswith(f"failed: its answer must be an object, not {kind}")
        assert (await use(source, "error")).output.endswith("failed: its answer is not valid")
        assert not (await use(source, "cut")).is_error


async def test_a_pattern_of_a_server_does_not_hold_the_loop(script: Path) -> None:
    """[MCP-31] Patterns are left to the server; everything else is checked before the call."""
    slow = "a" * 28 + "!"
    arguments: dict[str, Any] = {"x": slow, "pattern": 1, slow: 1}
    async with opened(server(script=script)) as source:
        async with asyncio.timeout(5):
            result = await use(source, "strict", **arguments)
        assert result.output == "checked it myself"
        refused = await use(source, "strict", x=1, pattern="x")
    assert refused.is_error
    assert "x: expected string, got 1" in refused.output
    assert 'pattern: expected integer, got "x"' in refused.output


async def test_a_missing_cwd_is_named(tmp_path: Path) -> None:
    """[MCP-32] A folder that does not exist is not blamed on the command."""
    nowhere = str(tmp_path / "nowhere")
    (config,) = load_mcp_config({"x": {"command": sys.executable, "cwd": nowhere}})
    source = McpSource(config)
    with pytest.raises(SourceError) as caught:
        await source.open(lambda: None)
    await source.aclose()
    assert str(caught.value) == f"MCP server 'x': its cwd {nowhere!r} is not a folder"


async def test_a_timeout_meant_in_seconds_is_explained(script: Path) -> None:
    """[MCP-32] When so short a timeout runs out, the reason says that it counts milliseconds."""
    source = McpSource(server(script=script, timeout=2))
    hint = r"0\.002 seconds \(the configured 'timeout' is in milliseconds\)"
    with pytest.raises(SourceError, match=hint):
        await source.open(lambda: None)
    await source.aclose()


async def test_a_failed_opening_logs_nothing_beside_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[MCP-32] The SDK's own error is for those who debug: the reason is told once, by the source."""
    leaving = tmp_path / "leaving.py"
    leaving.write_text("")
    source = McpSource(server(script=leaving))
    with caplog.at_level(logging.INFO, "toolnexus"), pytest.raises(SourceError, match="exited with status 0"):
        await source.open(lambda: None)
    await source.aclose()
    assert caplog.records == []


async def test_a_missing_sdk_is_a_reason_with_what_to_install(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MCP-32] Without the package mcp a server fails with its name and version."""
    monkeypatch.setattr(mcp_server, "_sdk", None)
    monkeypatch.setitem(sys.modules, "toolnexus.protocols.mcp.session", None)
    source = McpSource(server(script=script))
    with pytest.raises(SourceError, match=r"needs the package mcp>=2\.3 \(pip install 'mcp>=2\.3'\)"):
        await source.open(lambda: None)
    await source.aclose()
