"""Names of tools, filters, and the listing without a client."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp.helpers import ROUGH, children, opened, server, use
from toolnexus.errors import ConfigError
from toolnexus.tools.mcp import McpSource, list_mcp_tools, name_tools
from toolnexus.tools.mcp_config import ServerConfig
from toolnexus.tools.source import ToolSource

pytestmark = pytest.mark.anyio

LONG = "quarterly_revenue_breakdown_by_region_and_product_family_with_forecast_v"


async def test_names_are_safe_unique_and_lead_back() -> None:
    """[MCP-24] Long, dotted and colliding names become safe and unique ones of at most 64
    characters that lead to the right tool."""
    names = f'["x.y", "x_y", "{LONG}1.a", "{LONG}1.b", "plain"]'
    async with (
        opened(server("--names", names, name="a.b")) as dotted,
        opened(server("--names", names, name="a_b")) as flat,
    ):
        tools = name_tools([dotted, flat])
        given = [t.name for t in tools]
        assert len(set(given)) == len(given) == len(dotted.tools) + len(flat.tools)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", n) for n in given)
        assert [t.name for t in name_tools([dotted, flat])] == given
        assert {t.name for t in name_tools([flat, dotted])} == set(given)
        for tool in tools:
            if tool.original_name in ("x.y", "x_y", LONG + "1.a", LONG + "1.b"):
                assert tool.origin in ("a.b", "a_b")
                assert (await tool.execute({}, None)).output == f"{tool.original_name} ran"
    async with opened(server("--names", '["x.y"]', name="alone")) as alone:
        assert "alone_x_y" in [t.name for t in name_tools([alone])]


async def test_a_tool_that_keeps_its_name_stays_the_same_object() -> None:
    """[MCP-24] Naming gives the source's own tools where it can, and the same objects every time."""
    async with opened(server(name="a.b")) as one, opened(server(name="a_b")) as two:
        assert list(name_tools([one])) == list(one.tools)
        first, second = name_tools([one, two]), name_tools([one, two])
        assert all(a is b for a, b in zip(first, second, strict=True))


def offered(source: McpSource) -> set[str]:
    return {t.original_name for t in source.tools}


@pytest.mark.parametrize(
    ("tools", "wanted", "unwanted"),
    [
        (["echo", "p*"], {"echo", "pid"}, {"env", "sleep"}),
        ([], set[str](), {"echo", "env"}),
        ({}, {"echo", "env"}, set[str]()),
        ({"echo": True, "env": False}, {"echo"}, {"env", "pid"}),
        ({"env": False, "s*": False}, {"echo", "pid"}, {"env", "sleep", "stop"}),
        (["*"], {"echo", "env"}, set[str]()),
    ],
)
async def test_a_filter_works_on_original_names(tools: object, wanted: set[str], unwanted: set[str]) -> None:
    """[MCP-05] `tools` is an allowlist as a list or with any `true`, a drop-list with only `false`;
    `[]` means none, an empty mapping all; globs are allowed."""
    async with opened(server(tools=tools)) as source:
        assert wanted <= offered(source) and not unwanted & offered(source)
        if tools == []:
            assert offered(source) == set()


async def test_a_filter_that_names_no_tool_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-05] A name that the server does not have is a `ConfigError` with the nearest one, and
    leaves nothing running; a glob without a match is a warning."""
    source = McpSource(server(tools=["echoo"], name="mine"))
    with pytest.raises(ConfigError) as caught:
        await source.open(lambda: None)
    assert all(t in str(caught.value) for t in ("MCP server 'mine'", "'echoo'", "did you mean 'echo'"))
    assert children() == set()
    with caplog.at_level(logging.WARNING):
        async with opened(server(tools=["nothing_*"])) as empty:
            assert offered(empty) == set()
    assert "'nothing_*' matches nothing" in caplog.text


def test_a_source_is_a_tool_source() -> None:
    """[MCP-06] `McpSource` fits the port of all tool sources."""
    assert isinstance(McpSource(server()), ToolSource)


async def test_a_listing_shows_everything_and_leaves_nothing(
    official_stdio: Callable[..., ServerConfig],
) -> None:
    """[MCP-25] `list_mcp_tools` gives status, reason and all tools under original names, filters or
    not, and leaves nothing running."""
    python, official = sys.executable, official_stdio()
    found = await list_mcp_tools(
        {
            "good": {"command": python, "args": [*official.command[1:]], "tools": ["add"]},
            "dotted": {"command": python, "args": [str(ROUGH), "--names", '["x.y"]']},
            "bad": {"command": python, "args": [str(ROUGH), "--exit", "5"]},
            "off": {"command": "x", "disabled": True},
            "old": {"type": "sse", "url": "https://h/sse"},
        }
    )
    assert list(found) == ["good", "dotted", "bad", "off", "old"]
    assert {n: e["status"] for n, e in found.items()} == {
        "good": "connected",
        "dotted": "connected",
        "bad": "failed",
        "off": "disabled",
        "old": "failed",
    }
    assert found["good"]["reason"] is None and len(found["good"]["tools"]) == 7
    add = found["good"]["tools"][0]
    assert (add["name"], add["description"]) == ("add", "add")
    assert add["input_schema"]["required"] == ["a", "b"]
    assert "x.y" in [t["name"] for t in found["dotted"]["tools"]]
    assert "status 5" in found["bad"]["reason"] and found["bad"]["tools"] == []
    assert "streamable HTTP" in found["old"]["reason"]
    assert children() == set()
    assert await list_mcp_tools({"mcpServers": {}}) == {}


async def test_secrets_in_the_last_words_of_a_server_are_masked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[MCP-04] What a server says on stderr before it exits gets into reasons without secrets."""
    monkeypatch.setenv("TNX_KEY", "sk-live-12345")
    script = tmp_path / "s.py"
    script.write_text("import os, sys; sys.exit('bad key ' + os.environ['KEY'])")
    found = await list_mcp_tools(
        {"s": {"command": sys.executable, "args": [str(script)], "env": {"KEY": "${TNX_KEY}"}}}
    )
    assert found["s"]["reason"].endswith("bad key [redacted]")


def test_importing_the_source_loads_nothing_heavy() -> None:
    """[MCP-26] Importing the module, loading a configuration and making a source loads no SDK."""
    script = """
import sys
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config
McpSource(load_mcp_config({"a": {"command": "x"}})[0])
heavy = {"mcp", "mcp_types", "httpx", "httpx2", "pydantic", "anyio", "openai", "anthropic", "a2a", "yaml",
         "jsonschema", "aiohttp"}
print(sorted(heavy & set(sys.modules)))
"""
    out = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=os.getcwd(),
        check=True,
        timeout=60,
    )
    assert out.stdout.strip() == "[]"


async def test_the_sdk_is_loaded_beside_the_event_loop() -> None:
    """[MCP-26] Opening the first source loads the SDK in a thread while the server starts."""
    script = """
import asyncio, sys, time
from tests.mcp.helpers import server
from toolnexus.tools.mcp import McpSource

async def main():
    ticks = []
    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.005)
    ticker = asyncio.create_task(tick())
    source = McpSource(server())
    assert "mcp" not in sys.modules
    began = time.monotonic()
    await source.open(lambda: None)
    took = time.monotonic() - began
    assert "mcp" in sys.modules
    ticker.cancel()
    await source.aclose()
    print(len(ticks) > 10 and max(b - a for a, b in zip(ticks, ticks[1:])) < took * 0.6)

asyncio.run(main())
"""
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=ROUGH.parents[2]
    )
    assert out.stdout.strip() == "True", out.stderr


async def test_a_call_of_a_renamed_tool_reaches_the_right_server() -> None:
    """[MCP-24] Two servers with the same tool: each name reaches its own server."""
    async with opened(server(name="a.b")) as one, opened(server(name="a_b")) as two:
        results = [
            (t.origin, (await t.execute({}, None)).output)
            for t in name_tools([one, two])
            if t.original_name == "pid"
        ]
        assert results[0][0] == "a.b" and results[1][0] == "a_b"
        assert results[0][1] != results[1][1]
        assert (await use(two, "pid")).output == results[1][1]
