"""Servers over streamable HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from tests.mcp.helpers import (
    entries,
    http_server,
    logged,
    official_server,
    opened,
    port_of,
    remote,
    until,
    use,
)
from tests.warm import Warm
from toolnexus.errors import SourceError
from toolnexus.tools.mcp import McpSource

pytestmark = pytest.mark.anyio


async def test_an_http_server_connects_and_is_called() -> None:
    """[MCP-20] A server behind a URL works like one over stdio, parallel calls included."""
    with http_server() as url:
        async with opened(remote(url)) as source:
            assert source.status == {"status": "connected", "reason": None}
            results = await asyncio.gather(*[use(source, "echo", s=str(n)) for n in range(50)])
    assert [r.output for r in results] == [str(n) for n in range(50)]


@pytest.mark.parametrize("protocol", ["auto", "handshake", "stateless"])
async def test_the_official_server_works_over_http(official: str, protocol: str) -> None:
    """[MCP-22] A server of the official SDK works over HTTP in both eras."""
    async with opened(remote(official, protocol=protocol)) as source:
        assert len(source.tools) == 7
        assert (await use(source, "add", a=1, b=2)).output == '{"sum": 3}'
        assert (await use(source, "steps")).output == "stepped"
        era = (await use(source, "era")).output
    assert era == ("2025-11-25" if protocol == "handshake" else "2026-07-28")


async def test_an_http_error_costs_one_call() -> None:
    """[MCP-20] An error status is an error result with status and body, and a torn answer or a
    plain error is one too; the connection stays."""
    with http_server() as url:
        async with opened(remote(url)) as source:
            failed = await use(source, "status", code=500, body="database on fire")
            assert failed.is_error
            assert failed.output == "tool 'status' of MCP server 'srv' failed: HTTP 500: database on fire"
            torn = await use(source, "cut")
            assert torn.is_error and "tool 'cut' of MCP server 'srv' failed" in torn.output
            assert (await use(source, "status", code=503, body="")).output.endswith("HTTP 503")
            assert (await use(source, "echo", s="fine")).output == "fine"
            assert source.status["status"] == "connected"


async def test_a_refused_connection_costs_one_call_and_a_restart_recovers() -> None:
    """[MCP-20] While an HTTP server is down calls are error results; once it is back they work."""
    with http_server() as url:
        port = port_of(url)
        source = McpSource(remote(url))
        await source.open(lambda: None)
        assert (await use(source, "echo", s="1")).output == "1"
    try:
        down = await use(source, "echo", s="2")
        assert down.is_error and "cannot connect to http://127.0.0.1" in down.output
        with http_server(port=port):
            assert (await use(source, "echo", s="3")).output == "3"
    finally:
        await source.aclose()


async def test_a_server_that_was_given_up_is_tried_again_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[MCP-20] After its restarts are used up, an HTTP server is tried again when it is called."""
    monkeypatch.setattr("toolnexus.protocols.mcp.server.RESTARTS", 1)
    with http_server() as url:
        port = port_of(url)
        source = McpSource(remote(url))
        await source.open(lambda: None)
        await use(source, "forget")
        waiting = asyncio.create_task(use(source, "echo", s="x"))
    try:
        await waiting
        failed = await use(source, "echo", s="x")
        assert failed.is_error
        with http_server(port=port):
            assert (await use(source, "echo", s="back")).output == "back"
            assert source.status == {"status": "connected", "reason": None}
    finally:
        await source.aclose()


async def test_a_lost_session_is_renewed_once_for_all_calls(tmp_path: Path) -> None:
    """[MCP-21] When a server forgets the session, there is one new session for all calls in flight;
    each of them is sent once more and works."""
    log = tmp_path / "log"
    with http_server("--log", str(log)) as url:
        async with opened(remote(url, protocol="handshake")) as source:
            await use(source, "forget")
            results = await asyncio.gather(*[use(source, "echo", s=str(n)) for n in range(40)])
            assert [r.output for r in results] == [str(n) for n in range(40)]
            assert logged(log, "method").count("initialize") == 2
            assert logged(log, "executed").count("echo") == 40
            assert source.status == {"status": "connected", "reason": None}


async def test_no_session_header_goes_to_a_stateless_server(tmp_path: Path) -> None:
    """[MCP-22] A server of the stateless era gets no session header and no `initialize`."""
    log = tmp_path / "log"
    with http_server("--era", "stateless", "--log", str(log)) as url:
        async with opened(remote(url)) as source:
            assert (await use(source, "echo", s="x")).output == "x"
    posts = [e for e in entries(log) if "method" in e]
    assert {e["method"] for e in posts} == {"server/discover", "tools/list", "tools/call"}
    assert {e["session"] for e in posts} == {None}


async def test_closing_ends_the_session(tmp_path: Path) -> None:
    """[MCP-10] Closing tells an HTTP server that its session is over, without waiting for long."""
    log = tmp_path / "log"
    with http_server("--log", str(log)) as url:
        async with opened(remote(url)):
            pass
        session = next(e["session"] for e in entries(log) if e.get("method") == "tools/list")
        assert logged(log, "deleted") == [session]
        source = McpSource(remote(url))
        await source.open(lambda: None)
    began = time.monotonic()
    await source.aclose()
    assert time.monotonic() - began < 3


async def test_an_http_server_that_is_not_there_fails_with_its_address() -> None:
    """[MCP-20] Nobody listens: the reason names scheme and host, and nothing more of the URL."""
    with http_server() as url:
        pass
    source = McpSource(remote(url + "?api_key=hush-hush-1"))
    with pytest.raises(SourceError, match=r"cannot connect to http://127\.0\.0\.1") as caught:
        await source.open(lambda: None)
    assert "hush" not in str(caught.value)
    await source.aclose()


async def test_a_server_that_wants_a_login_needs_auth(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-27] 401 is the status `needs_auth`, with a reason without the token that was sent."""
    with http_server("--token", "right") as url:
        source = McpSource(remote(url, headers={"Authorization": "Bearer wrong-token"}))
        with pytest.raises(SourceError) as caught:
            await source.open(lambda: None)
        assert source.status["status"] == "needs_auth"
        await source.aclose()
        assert source.status["status"] == "needs_auth"
        assert "HTTP 401: who are you?" in str(caught.value)
        assert "wrong-token" not in str(caught.value)
        monkeypatch.setenv("THE_TOKEN", "right")
        async with opened(remote(url, headers={"Authorization": "Bearer ${THE_TOKEN}"})) as good:
            assert (await use(good, "echo", s="in")).output == "in"


async def test_headers_do_not_follow_a_redirect_to_another_host(tmp_path: Path) -> None:
    """[MCP-28] A redirect that leads to another origin is not followed; the headers stay home."""
    log = tmp_path / "log"
    with http_server() as url, http_server("--log", str(log)) as elsewhere:
        async with opened(remote(url, headers={"Authorization": "Bearer my-secret-token"})) as source:
            result = await use(source, "redirect", to=elsewhere)
            assert result.is_error and "not followed" in result.output
            assert (await use(source, "echo", s="x")).output == "x"
    assert entries(log)[1:] == []


async def test_secrets_stay_out_of_error_texts(caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-04] A server that echoes a secret in an error does not get it into result or log."""
    with caplog.at_level(logging.DEBUG), http_server() as url:
        async with opened(remote(url, headers={"X-Api-Key": "sk-very-secret-9"})) as source:
            result = await use(source, "status", code=500, body="bad key sk-very-secret-9")
            assert result.output.endswith("HTTP 500: bad key [redacted]")
            assert "sk-very" not in repr(source.config) + str(source.config) + repr(source)
    assert "sk-very-secret-9" not in "".join(
        [r.getMessage() for r in caplog.records if r.name.startswith("toolnexus")]
    )


async def test_a_call_that_hangs_over_http_is_cancelled(official: str) -> None:
    """[MCP-16] A call over HTTP that is cancelled tells the server and leaves the others."""
    for protocol in ("handshake", "stateless"):
        async with opened(remote(official, protocol=protocol)) as source:
            doomed = asyncio.create_task(use(source, "wait"))
            other = asyncio.create_task(use(source, "wait", seconds=0.5))
            await asyncio.sleep(0.2)
            doomed.cancel()
            with pytest.raises(asyncio.CancelledError):
                await doomed
            assert (await other).output == "waited"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_changed_tools_are_noticed_over_http(warm: Warm, era: str) -> None:
    """[MCP-19] Change notes arrive over HTTP in both eras."""
    changes: list[int] = []
    with official_server(warm) as url:
        async with opened(remote(url, protocol=era), lambda: changes.append(1)) as source:
            assert (await use(source, "change")).output == "changed"
            await until(lambda: changes)
            assert "fresh" in [t.original_name for t in source.tools]
