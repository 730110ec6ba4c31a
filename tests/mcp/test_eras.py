"""Two protocol eras, found out without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp.helpers import http_server, logged, opened, remote, server, use
from toolnexus.errors import SourceError
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import ServerConfig

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("protocol", ["auto", "own"])
async def test_both_eras_connect_over_stdio(era: str, protocol: str) -> None:
    """[MCP-22] `auto` connects to servers of either era at once; naming the era works too."""
    async with opened(server()):
        pass
    began = time.monotonic()
    config = server("--era", era, protocol=era if protocol == "own" else "auto")
    async with opened(config) as source:
        assert time.monotonic() - began < 3
        assert (await use(source, "echo", s=era)).output == era


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_silence_on_unknown_methods_is_no_obstacle(era: str, tmp_path: Path) -> None:
    """[MCP-22] Servers that ignore the other era's opening connect in a few seconds, not in ten."""
    async with opened(server()):
        pass
    began = time.monotonic()
    async with opened(server("--era", era, "--silent", timeout=6000)) as source:
        assert time.monotonic() - began < 8
        assert (await use(source, "echo", s="x")).output == "x"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_slow_start_is_no_obstacle(era: str) -> None:
    """[MCP-22] A server that takes longer to start than we wait for an era connects all the same."""
    async with opened(server("--era", era, "--slow-start", "2.5", timeout=6000)) as source:
        assert (await use(source, "echo", s="x")).output == "x"


async def test_the_era_is_remembered_for_the_next_connection(tmp_path: Path) -> None:
    """[MCP-22] After a restart the opening that worked is tried first."""
    log = tmp_path / "log"
    async with opened(server("--era", "stateless", "--log", str(log))) as source:
        assert (await use(source, "die")).is_error
        assert (await use(source, "echo", s="x")).output == "x"
    openings = [m for m in logged(log, "method") if m in ("initialize", "server/discover")]
    assert openings == ["initialize", "server/discover", "server/discover"]


async def test_the_wrong_era_is_a_failure_with_a_reason() -> None:
    """[MCP-22] A server that does not speak the configured era fails with its own words."""
    source = McpSource(server("--era", "stateless", protocol="handshake"))
    with pytest.raises(SourceError, match="no such method"):
        await source.open(lambda: None)
    await source.aclose()


@pytest.mark.parametrize("protocol", ["handshake", "stateless", "auto"])
async def test_the_official_server_works_in_both_eras_over_stdio(
    official_stdio: Callable[..., ServerConfig], protocol: str
) -> None:
    """[MCP-22] A server of the official SDK works over stdio in both eras."""
    async with opened(official_stdio(protocol=protocol)) as source:
        era = (await use(source, "era")).output
        assert era == ("2026-07-28" if protocol == "stateless" else "2025-11-25")
        assert (await use(source, "steps")).output == "stepped"
        assert (await use(source, "add", a=1, b=2)).output == '{"sum": 3}'


async def test_servers_of_both_eras_work_side_by_side() -> None:
    """[MCP-22] One client, one server of each era, both transports."""
    with http_server("--era", "stateless") as new, http_server() as old:
        async with (
            opened(remote(new, name="a")) as a,
            opened(remote(old, name="b")) as b,
            opened(server("--era", "stateless", name="c")) as c,
            opened(server(name="d")) as d,
        ):
            for source in (a, b, c, d):
                assert (await use(source, "echo", s=source.name)).output == source.name
