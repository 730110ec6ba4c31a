"""Servers that die, and servers whose tools change."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp.helpers import ROUGH, alive, logged, opened, server, until, use
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import ServerConfig

pytestmark = pytest.mark.anyio


async def test_a_server_that_dies_during_a_call_comes_back(tmp_path: Path) -> None:
    """[MCP-18] When a server exits, its calls in flight fail at once, naming it and its end; it is
    started again, and later calls wait for that. Other servers notice nothing."""
    log = tmp_path / "log"
    async with (
        opened(server("--log", str(log), name="weak")) as source,
        opened(server(name="strong")) as other,
    ):
        waiting = asyncio.create_task(use(source, "never"))
        elsewhere = asyncio.create_task(use(other, "sleep", seconds=0.3))
        await until(lambda: logged(log, "executed"))
        began = time.monotonic()
        died = await use(source, "die", status=3)
        failed = await waiting
        assert time.monotonic() - began < 10
        assert died.is_error and failed.is_error
        for text in (died.output, failed.output):
            assert (
                "of MCP server 'weak' failed: it exited with status 3; its stderr ends with: my last words"
                in text
            )
        assert (await use(source, "echo", s="back")).output == "back"
        assert source.status == {"status": "connected", "reason": None}
        assert len(logged(log, "pid")) == 2
        assert (await elsewhere).output == "slept"


async def test_a_killed_server_comes_back(tmp_path: Path) -> None:
    """[MCP-18] `kill -9` during a call is an error result that says so, and the server recovers."""
    log = tmp_path / "log"
    async with opened(server("--log", str(log))) as source:
        waiting = asyncio.create_task(use(source, "never"))
        await until(lambda: logged(log, "executed"))
        os.kill(logged(log, "pid")[0], signal.SIGKILL)
        assert "it was killed by SIGKILL" in (await waiting).output
        assert (await use(source, "echo", s="back")).output == "back"


async def test_a_server_that_cannot_come_back_is_given_up(tmp_path: Path) -> None:
    """[MCP-18] Restarts are attempted with growing pauses, a limited number of times; then the
    server is `failed`, with a reason, and calls say so at once."""
    script = tmp_path / "server.py"
    script.write_text(ROUGH.read_text())
    log = tmp_path / "log"
    async with opened(server("--log", str(log), script=script)) as source:
        script.write_text(f"open({str(log)!r}, 'a').write('{{\"tried\": 1}}\\n'); raise SystemExit(9)")
        assert (await use(source, "die")).is_error
        await until(lambda: "status 9" in str(source.status["reason"]), 20)
        result = await use(source, "echo", s="x")
        assert result.is_error and "it is not connected: it exited with status 9" in result.output
        assert source.status["status"] == "failed"
        tried = len(logged(log, "tried"))
        assert tried == 5
        began = time.monotonic()
        assert (await use(source, "echo", s="x")).is_error
        assert time.monotonic() - began < 3
        assert len(logged(log, "tried")) == tried
        assert not any(map(alive, logged(log, "pid")))


async def test_a_server_that_keeps_dying_is_given_up(tmp_path: Path) -> None:
    """[MCP-18] A server that starts well but never serves a call is not restarted for ever."""
    log = tmp_path / "log"
    async with opened(server("--brief", "--log", str(log))) as source:
        await until(lambda: "connecting again" in str(source.status["reason"]))
        async with asyncio.timeout(30):
            while not (last := await use(source, "never")).output.endswith("connecting again"):
                assert last.is_error
        assert source.status["status"] == "failed"
        assert len(logged(log, "pid")) == 6
        assert not any(map(alive, logged(log, "pid")))


async def test_closing_during_a_restart_is_quick(tmp_path: Path) -> None:
    """[MCP-10] A server that is being restarted can be closed."""
    log = tmp_path / "log"
    config = server("--log", str(log))
    async with opened(config) as source:
        assert (await use(source, "die")).is_error
        began = time.monotonic()
        await source.aclose()
        assert time.monotonic() - began < 3
    assert not any(map(alive, logged(log, "pid")))


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_changed_tools_are_noticed(official_stdio: Callable[..., ServerConfig], era: str) -> None:
    """[MCP-19] When a server says that its tools changed, the source has the new ones and tells;
    calls to a tool that is gone are error results."""
    changes: list[int] = []
    async with opened(official_stdio(protocol=era), lambda: changes.append(1)) as source:
        before = {t.original_name: t for t in source.tools}
        assert (await use(source, "change")).output == "changed"
        await until(lambda: changes)
        after = {t.original_name: t for t in source.tools}
        assert set(after) - set(before) == {"fresh"} and set(before) - set(after) == {"fail"}
        assert after["add"] is before["add"]
        assert (await use(source, "fresh")).output == "fresh ran"
        gone = await before["fail"].execute({}, None)
        assert gone.is_error and "no such tool any more" in gone.output


async def test_a_burst_of_changes_costs_one_listing(tmp_path: Path) -> None:
    """[MCP-19] A burst of change notes is one more listing and one call of `on_change`."""
    log = tmp_path / "log"
    changes: list[int] = []
    async with opened(server("--log", str(log)), lambda: changes.append(1)) as source:
        await use(source, "change")
        await until(lambda: changes)
        await asyncio.sleep(0.3)
        assert len(changes) == 1
        assert logged(log, "method").count("tools/list") == 2
        names = [t.original_name for t in source.tools]
        assert "fresh" in names and "echo" not in names


async def test_a_change_note_before_the_listing_does_no_harm() -> None:
    """[MCP-19] A change note that comes before anybody has listed leads to a good listing."""
    changes: list[int] = []
    async with opened(server("--early-change"), lambda: changes.append(1)) as source:
        assert (await use(source, "echo", s="x")).output == "x"
        await asyncio.sleep(0.3)
        assert changes == []


async def test_a_restart_that_brings_other_tools_tells(tmp_path: Path) -> None:
    """[MCP-19] When a server comes back with other tools, that is a change like any other."""
    script = tmp_path / "server.py"
    script.write_text(ROUGH.read_text())
    changes: list[int] = []
    source = McpSource(server(script=script))
    await source.open(lambda: changes.append(1))
    try:
        script.write_text(script.read_text().replace("tool_mixed", "tool_blended"))
        assert (await use(source, "die")).is_error
        await until(lambda: changes)
        assert "blended" in [t.original_name for t in source.tools]
    finally:
        await source.aclose()
