"""Closing servers, and what is left of them: nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from pathlib import Path

import pytest

from tests.mcp.helpers import alive, all_gone, children, logged, opened, server, until, use
from tests.warm import Warm
from toolnexus.errors import SourceError
from toolnexus.protocols.mcp import process as process_module
from toolnexus.runtime.concurrency import run_all
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config

pytestmark = pytest.mark.anyio


def pids(log: Path) -> list[int]:
    return logged(log, "pid") + logged(log, "child")


async def test_another_task_may_close(tmp_path: Path) -> None:
    """[MCP-10] A source opened in one task is closed by another, without a trace of the first."""
    log = tmp_path / "log"
    source = McpSource(server("--log", str(log)))
    opener = asyncio.create_task(source.open(lambda: None))
    await opener
    await asyncio.create_task(source.aclose())
    await source.aclose()
    assert not opener.cancelled() and not opener.cancelling()
    assert pids(log) and not any(map(alive, pids(log)))
    assert children() == set()


async def test_nothing_is_left_after_closing(tmp_path: Path) -> None:
    """[MCP-10] After closing, no process, task or file descriptor is left, also after failures."""
    async with opened(server()):
        pass
    gc.collect()
    before = (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()))
    for flags in ((), ("--exit", "3"), ("--hang",), ("--child", "--log", str(tmp_path / "log"))):
        source = McpSource(server(*flags, timeout=1500))
        try:
            await source.open(lambda: None)
        except SourceError:
            pass
        await source.aclose()
    assert children() == set()
    assert (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before
    assert all_gone(pids(tmp_path / "log"), 1)


async def test_a_stubborn_server_is_ended_within_five_seconds(tmp_path: Path) -> None:
    """[MCP-10] Servers that ignore end of file and SIGTERM, or are stopped, are gone within 5 s,
    together with their children; several are closed at once."""
    log = tmp_path / "log"
    deaf = [McpSource(server("--deaf", "--child", "--log", str(log), name=f"s{n}")) for n in range(3)]
    await run_all([lambda s=s: s.open(lambda: None) for s in deaf])
    os.kill(logged(log, "pid")[0], signal.SIGSTOP)
    began = time.monotonic()
    async with asyncio.timeout(8):
        await run_all([s.aclose for s in deaf])
    assert time.monotonic() - began < 5
    assert len(pids(log)) == 6 and all_gone(pids(log), 0.5)


async def test_the_children_of_a_polite_server_go_with_it(tmp_path: Path) -> None:
    """[MCP-10] When a server exits, what it left running in its group is ended."""
    log = tmp_path / "log"
    async with opened(server("--child", "--log", str(log))):
        assert all(map(alive, pids(log)))
    assert len(pids(log)) == 2 and all_gone(pids(log), 0.5)


async def test_closing_with_a_call_in_flight_fails_the_call(tmp_path: Path) -> None:
    """[MCP-10] A call that runs while its server is closed is an error result, and nothing hangs."""
    log = tmp_path / "log"
    async with opened(server("--log", str(log))) as source:
        call = asyncio.create_task(use(source, "never"))
        await until(lambda: logged(log, "executed"))
    result = await call
    assert result.is_error and "tool 'never' of MCP server 'srv' failed" in result.output


async def test_closing_while_opening_stops_the_opening(tmp_path: Path) -> None:
    """[MCP-10] A source that is still connecting can be closed; the one who opens gets an error."""
    log = tmp_path / "log"
    source = McpSource(server("--hang", "--log", str(log)))
    opener = asyncio.create_task(source.open(lambda: None))
    await until(lambda: logged(log, "method"))
    await source.aclose()
    with pytest.raises(SourceError):
        await opener
    assert all_gone(pids(log), 1)


async def test_a_cancelled_opening_leaves_nothing(tmp_path: Path) -> None:
    """[MCP-10] Cancelling `open` ends the server before the cancel arrives at the caller."""
    log = tmp_path / "log"
    source = McpSource(server("--hang", "--log", str(log)))
    opener = asyncio.create_task(source.open(lambda: None))
    await until(lambda: logged(log, "method"))
    opener.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opener
    assert all_gone(pids(log), 0.5)
    assert children() == set()


async def test_a_close_that_is_cancelled_goes_on(tmp_path: Path) -> None:
    """[MCP-10] Cancelling `aclose` lets its caller go; the server is ended all the same."""
    log = tmp_path / "log"
    source = McpSource(server("--deaf", "--log", str(log)))
    await source.open(lambda: None)
    closer = asyncio.create_task(source.aclose())
    await asyncio.sleep(0)
    closer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closer
    await until(lambda: not any(map(alive, pids(log))), 6)
    await source.aclose()


async def test_a_cancel_of_every_task_is_a_close(tmp_path: Path) -> None:
    """[MCP-10] Whoever cancels all tasks of the loop (`asyncio.run` at its end) closes the servers."""
    log = tmp_path / "log"
    source = McpSource(server("--deaf", "--log", str(log)))

    def run() -> None:
        asyncio.run(source.open(lambda: None))

    await asyncio.to_thread(run)
    assert pids(log) and not any(map(alive, pids(log)))
    await source.aclose()


def test_a_dead_loop_still_gives_its_processes_back(warm: Warm, tmp_path: Path) -> None:
    """[MCP-12] When the event loop of a source has gone away, `aclose` in another one kills the
    process group at once, and the source can be opened anew."""
    log = tmp_path / "log"
    script = f"""
import asyncio, gc, sys
from tests.mcp.helpers import server, use
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config
source = McpSource(server("--deaf", "--child", "--log", {str(log)!r}))
loop = asyncio.new_event_loop()
loop.run_until_complete(source.open(lambda: None))
loop.close()
asyncio.run(source.aclose())
print("closed", flush=True)
async def again():
    await source.open(lambda: None)
    print((await use(source, "echo", s="second life")).output, flush=True)
    await source.aclose()
asyncio.run(again())
sys.stdout.flush()
"""
    host = warm.run(script)
    assert host.stdout.splitlines() == ["closed", "second life"], host.stderr
    assert len(pids(log)) == 4 and all_gone(pids(log), 0.5)


async def test_a_source_may_be_closed_from_another_loop() -> None:
    """[MCP-12] `aclose` from a loop in another thread closes where the source lives."""
    source = McpSource(server())
    await source.open(lambda: None)
    async with asyncio.timeout(10):
        await asyncio.to_thread(lambda: asyncio.run(source.aclose()))
    assert children() == set()


async def test_without_pidfd_the_end_of_a_server_is_noticed_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[MCP-10] Where the system gives no process descriptors, polling notices the end of a server."""

    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError("not here")

    monkeypatch.setattr(process_module.os, "pidfd_open", refuse)
    log = tmp_path / "log"
    async with opened(server("--child", "--log", str(log))) as source:
        assert (await use(source, "die")).is_error
        assert (await use(source, "echo", s="back")).output == "back"
    assert len(logged(log, "pid")) == 2 and all_gone(pids(log), 1)


HOST = """
import asyncio, sys
from tests.mcp.helpers import server
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config

async def main():
    await McpSource(server(*sys.argv[1:])).open(lambda: None)
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("manners", ["polite", "deaf"])
def test_no_server_survives_its_host(
    number: signal.Signals, manners: str, warm: Warm, tmp_path: Path
) -> None:
    """[MCP-11] When the host process is killed, its servers and their children end within seconds,
    also those that ignore end of file and SIGTERM."""
    log = tmp_path / "log"
    flags = ["--child", "--log", str(log), *(["--deaf"] if manners == "deaf" else [])]
    with warm.start(HOST, *flags) as host:
        assert host.stdout.readline() == "ready\n"
        assert len(pids(log)) == 2 and all(map(alive, pids(log)))
        host.send_signal(number)
        host.wait(10)
    assert all_gone(pids(log), 6)


def test_an_exit_without_closing_leaves_no_server(warm: Warm, tmp_path: Path) -> None:
    """[MCP-11] A host that ends in the middle of everything takes its servers along."""
    log = tmp_path / "log"
    script = HOST.replace("await asyncio.sleep(600)", "sys.exit(7)")
    host = warm.run(script, "--deaf", "--child", "--log", str(log))
    assert host.returncode == 7
    assert len(pids(log)) == 2 and all_gone(pids(log), 3)


def test_a_forked_child_of_the_host_leaves_the_servers_alone(warm: Warm, tmp_path: Path) -> None:
    """[MCP-11] A fork of the host that ends does not end the servers of its parent, and does not
    keep them alive when the parent is killed."""
    log = tmp_path / "log"
    script = """
import asyncio, os, sys, time
from tests.mcp.helpers import server
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import load_mcp_config

loop = asyncio.new_event_loop()
loop.run_until_complete(McpSource(server(*sys.argv[1:])).open(lambda: None))
print("ready", flush=True)
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(10)
    sys.exit()
os.wait()
print("forked", flush=True)
loop.run_until_complete(asyncio.sleep(600))
"""
    with warm.start(script, "--deaf", "--log", str(log)) as host:
        assert [host.stdout.readline(), host.stdout.readline()] == ["ready\n", "forked\n"]
        assert all(map(alive, pids(log)))
        host.send_signal(signal.SIGKILL)
        host.wait(10)
        assert all_gone(pids(log), 6)


async def test_a_killed_watchman_is_replaced(tmp_path: Path) -> None:
    """[MCP-11] When somebody kills the watchman, the next server brings a new one for all."""
    log = tmp_path / "log"
    async with opened(server("--log", str(log), name="a")):
        (watchman,) = children() - set(pids(log))
        os.kill(watchman, signal.SIGKILL)
        await until(lambda: not alive(watchman))
        async with opened(server("--log", str(log), name="b")):
            (new,) = {pid for pid in children() - set(pids(log)) if alive(pid)}
            assert new != watchman
    assert children() == set()


async def test_a_missing_program_leaves_no_watchman() -> None:
    """[MCP-10] A server that cannot even be started leaves nothing behind."""
    source = McpSource(load_mcp_config({"x": {"command": "no-such-program-here"}})[0])
    with pytest.raises(SourceError):
        await source.open(lambda: None)
    assert children() == set()
    await source.aclose()


async def test_where_processes_have_no_groups_the_sdk_starts_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[MCP-10] On systems that are not POSIX the SDK starts and ends the process: calls, restarts
    and closing work there too."""
    monkeypatch.setattr("toolnexus.protocols.mcp.server.POSIX", False)
    log = tmp_path / "log"
    async with opened(server("--log", str(log), "--odd")) as source:
        assert (await use(source, "echo", s="x")).output == "x"
        died = await use(source, "die")
        assert died.is_error and "tool 'die' of MCP server 'srv' failed" in died.output
        assert (await use(source, "echo", s="back")).output == "back"
    assert len(logged(log, "pid")) == 2 and all_gone(pids(log), 1)
