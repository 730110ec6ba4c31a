"""Tools that say what they give, and listings that say it wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.helpers import opened, server, use
from toolnexus.errors import SourceError
from toolnexus.tools.mcp import McpSource

pytestmark = pytest.mark.anyio

SERVER = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "typed", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = {"content": [], "structuredContent": message["params"]["arguments"]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"""
ANY = {"type": "object"}
CELSIUS = {"type": "object", "properties": {"celsius": {"type": "integer"}}, "required": ["celsius"]}


def listing(folder: Path, *tools: dict[str, Any]) -> Path:
    """A server with these tools, which give back the arguments of a call."""
    script = folder / "typed.py"
    script.write_text(SERVER.replace("TOOLS", f"json.loads({json.dumps(json.dumps(tools))})"))
    return script


@pytest.mark.parametrize("beside", [[], [{"name": "free", "inputSchema": ANY}]])
async def test_a_result_is_held_against_the_output_schema(
    tmp_path: Path, beside: list[dict[str, Any]]
) -> None:
    """[MCP-74] A result that breaks the output schema of its tool fails its call; a tool without one may
    give anything."""
    typed = {"name": "typed", "inputSchema": ANY, "outputSchema": CELSIUS}
    async with opened(server(script=listing(tmp_path, typed, *beside))) as source:
        assert (await use(source, "typed", celsius=21)).output == '{"celsius": 21}'
        broken = await use(source, "typed", celsius="warm")
        assert broken.is_error
        assert "Invalid structured content returned by tool typed" in broken.output
        if beside:
            assert (await use(source, "free", celsius="warm")).output == '{"celsius": "warm"}'


@pytest.mark.parametrize(
    "wrong", [{"properties": 5}, {"properties": {"x": 5}}, {"required": "x"}, {"required": [5]}]
)
async def test_a_schema_that_is_none_fails_its_server(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """[MCP-74] The reason says where the schema is wrong."""
    tool = {"name": "odd", "description": "Odd.", "inputSchema": {**ANY, **wrong}}
    source = McpSource(server(script=listing(tmp_path, tool)))
    with pytest.raises(
        SourceError, match=rf"no valid MCP message: tools\.0\.inputSchema\.{next(iter(wrong))}"
    ):
        await source.open(lambda: None)
    await source.aclose()


async def test_a_property_may_be_true_or_false(tmp_path: Path) -> None:
    """[MCP-74] JSON Schema lets a schema be a boolean."""
    tool = {"name": "odd", "description": "Odd.", "inputSchema": {**ANY, "properties": {"x": True}}}
    async with opened(server(script=listing(tmp_path, tool))) as source:
        assert (await use(source, "odd", x=[1])).output == '{"x": [1]}'
