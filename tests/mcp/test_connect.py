"""Connecting to stdio servers and listing what they offer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path

import pytest

from tests.mcp.helpers import SDK, opened, server, use
from toolnexus.errors import SourceError
from toolnexus.runtime.concurrency import run_all
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import ServerConfig, load_mcp_config

pytestmark = pytest.mark.anyio


async def failure(config: ServerConfig) -> str:
    source = McpSource(config)
    try:
        with pytest.raises(SourceError) as caught:
            await source.open(lambda: None)
        assert caught.value.source == config.name
        assert source.status == {"status": "failed", "reason": str(caught.value).partition(": ")[2]}
        assert source.tools == ()
        return str(caught.value)
    finally:
        await source.aclose()


async def test_a_server_connects_and_its_tools_are_called() -> None:
    """[MCP-06] An open source has the server's tools, its instructions and the status `connected`."""
    async with opened(server()) as source:
        assert source.status == {"status": "connected", "reason": None}
        assert source.instructions == "Handle with care."
        tool = next(t for t in source.tools if t.original_name == "echo")
        assert (tool.name, tool.source, tool.origin, tool.description) == ("srv_echo", "mcp", "srv", "echo.")
        result = await use(source, "echo", s="hello")
        assert (result.output, result.is_error, result.metadata) == ("hello", False, {"server": "srv"})
    assert source.tools == ()
    assert source.status == {"status": "failed", "reason": "closed"}
    assert source.instructions is None


async def test_a_closed_source_opens_again() -> None:
    """[MCP-06] A source may be opened again after it was closed."""
    source = McpSource(server())
    for _ in range(2):
        await source.open(lambda: None)
        assert (await use(source, "echo", s="again")).output == "again"
        await source.aclose()


async def test_good_servers_are_usable_next_to_bad_ones() -> None:
    """[MCP-06] Servers that hang, are missing or die hold up no other server."""
    hung = McpSource(server("--hang", name="hung", timeout=2000))
    missing = McpSource(load_mcp_config({"missing": {"command": "no-such-program-here"}})[0])
    dying = McpSource(server("--exit", "4", name="dying"))
    good = McpSource(server("--banner", "--stderr-kb", "2000", name="good"))
    took: dict[str, float] = {}
    began = time.monotonic()

    async def open_one(source: McpSource) -> None:
        try:
            await source.open(lambda: None)
        except SourceError:
            pass
        took[source.name] = time.monotonic() - began

    sources = [hung, missing, dying, good]
    try:
        async with asyncio.timeout(20):
            await run_all([lambda s=s: open_one(s) for s in sources])
        assert (await use(good, "echo", s="fine")).output == "fine"
        states = {s.name: s.status["status"] for s in sources}
        assert states == {"hung": "failed", "missing": "failed", "dying": "failed", "good": "connected"}
        assert list(took)[-1] == "hung"
    finally:
        await run_all([s.aclose for s in sources])


async def test_a_silent_server_costs_its_timeout_and_no_more() -> None:
    """[MCP-06] `timeout` bounds connecting; the reason says so and gives the server's last words."""
    await use_sdk_once()
    began = time.monotonic()
    reason = await failure(server("--hang", "--stderr-kb", "1", timeout=2000))
    assert 1.9 < time.monotonic() - began < 6
    assert "not ready within 2 seconds" in reason
    assert reason.endswith("eeee")


async def use_sdk_once() -> None:
    async with opened(server()):
        pass


async def test_a_program_that_is_not_there_is_named() -> None:
    """[MCP-06] A command that cannot be started is named in the reason, and so is a bad folder."""
    missing, folder = load_mcp_config(
        {"a": {"command": "no-such-program-here"}, "b": {"command": "true", "cwd": "/no/dir"}}
    )
    assert "cannot start 'no-such-program-here': No such file" in await failure(missing)
    assert "its cwd '/no/dir' is not a folder" in await failure(folder)


async def test_a_server_that_exits_at_once_says_why() -> None:
    """[MCP-06] The exit status and the end of stderr are in the reason."""
    reason = await failure(server("--exit", "4"))
    assert "it exited with status 4; its stderr ends with: I will not start" in reason


async def test_noise_on_stdout_is_skipped() -> None:
    """[MCP-07] Lines on stdout that are no message are skipped."""
    async with opened(server("--banner")) as source:
        assert (await use(source, "echo", s="x")).output == "x"


async def test_a_flood_on_stderr_blocks_nobody() -> None:
    """[MCP-07] However much a server writes to stderr, it never blocks on a full pipe."""
    async with opened(server("--stderr-kb", "5000")) as source:
        assert (await use(source, "echo", s="x")).output == "x"


async def test_every_page_is_listed() -> None:
    """[MCP-08] All pages of a listing are read."""
    async with opened(server()) as one, opened(server("--pages", "7")) as many:
        assert [t.original_name for t in many.tools] == [t.original_name for t in one.tools]
        assert len(one.tools) > 7


async def test_a_cursor_that_comes_back_ends_the_listing(caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-08] A repeated cursor ends the listing with a warning, and no tool is there twice."""
    with caplog.at_level(logging.WARNING, "toolnexus.mcp"):
        async with opened(server("--same-cursor")) as source:
            names = [t.original_name for t in source.tools]
    assert len(names) == len(set(names)) > 0
    assert "gave the same cursor twice" in caplog.text


async def test_odd_tools_do_not_cost_the_listing(caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-08] Odd definitions are mended, hopeless ones and background-only tools left out."""
    with caplog.at_level(logging.WARNING, "toolnexus.mcp"):
        async with opened(server("--odd")) as source:
            tools = {t.original_name: t for t in source.tools}
            assert (await use(source, "bare")).output == "bare ran"
    assert {"bare", "typeless", "hinted", "described", "echo"} <= set(tools)
    assert not {"scalar", "background"} & set(tools)
    assert tools["bare"].input_schema == {"type": "object"}
    assert tools["typeless"].input_schema == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert tools["described"].description == ""
    assert "dropped tool 'scalar'" in caplog.text


async def test_many_tools_are_listed_quickly() -> None:
    """[MCP-08] 500 tools over several pages are all there, in order, in well under the timeout."""
    await use_sdk_once()
    began = time.monotonic()
    async with opened(server("--many", "500", "--pages", "6")) as source:
        assert time.monotonic() - began < 10
        names = [t.original_name for t in source.tools if t.original_name.startswith("tool")]
        assert names == [f"tool{n:03}" for n in range(500)]


async def test_the_environment_of_a_server_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-09] A server gets safe defaults and what is configured, and no other variable of ours."""
    monkeypatch.setenv("HOST_API_KEY", "host-secret-value")
    monkeypatch.setenv("WANTED", "from-the-host")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    async with opened(server(env={"TOKEN": "abc", "PASSED": "${WANTED}"})) as source:
        result = await use(source, "env")
    seen = json.loads(result.output)
    assert (seen["TOKEN"], seen["PASSED"], seen["PATH"]) == ("abc", "from-the-host", "/usr/bin:/bin")
    assert "HOST_API_KEY" not in seen and "WANTED" not in seen
    assert "host-secret-value" not in result.output


async def test_a_server_runs_in_its_folder(tmp_path: Path) -> None:
    """[MCP-09] `cwd` is where the server runs."""
    (tmp_path / "here.py").write_text((SDK.parent / "rough_mcp.py").read_text())
    config = server(cwd=str(tmp_path))
    (relative,) = load_mcp_config({"x": {"command": [config.command[0], "here.py"], "cwd": str(tmp_path)}})
    async with opened(relative) as source:
        assert (await use(source, "echo", s="x")).output == "x"


async def test_a_server_of_the_official_sdk_works() -> None:
    """[MCP-06] A server made with the official SDK connects, lists all pages and answers."""
    async with opened(server(script=SDK)) as source:
        assert len(source.tools) == 7
        assert (await use(source, "add", a=2, b=3)).output == '{"sum": 5}'


async def test_a_disabled_server_has_no_tools_and_no_process() -> None:
    """[MCP-27] A disabled server opens without doing anything and says so."""
    async with opened(server("--exit", "1", disabled=True)) as source:
        assert (source.status, list(source.tools)) == ({"status": "disabled", "reason": None}, [])
