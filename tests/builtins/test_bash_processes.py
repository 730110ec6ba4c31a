"""The processes of a command: none outlives what it should not."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, pid_in, running, until
from toolnexus.core.tools import ToolResult
from toolnexus.runtime.context import ContextKey
from toolnexus.runtime.spill import Spill
from toolnexus.tools.builtin import bash, process_table, survivors
from toolnexus.tools.builtin.output_file import OutputFile
from toolnexus.tools.builtin.process import Process
from toolnexus.tools.builtin.survivors import PROCESSES, ProcessGroups

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no process table here"),
]

DAEMON = "(setsid bash -c 'echo $$ >daemon; exec sleep 60' &)"
"""A child that leaves the process group and loses its parent at once."""


@pytest.fixture
def groups() -> Iterator[ProcessGroups]:
    groups = ProcessGroups()
    yield groups
    groups.kill_all()


@pytest.fixture
def host(groups: ProcessGroups) -> dict[ContextKey[Any], Any]:
    return {PROCESSES: groups}


@pytest.fixture
def spill() -> Iterator[Spill]:
    spill = Spill()
    yield spill
    spill.close()


def kept(result: ToolResult) -> Path:
    """Where the result says that the output is."""
    _, _, path = result.output.partition("[the output is in ")
    return Path(path.partition("]")[0])


def children() -> list[str]:
    """Our child processes, also those that ended and wait to be reaped."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [pid for task in tasks for pid in task.read_text().split()]


async def test_a_command_that_ignores_the_signal_is_killed_in_time(tmp_path: Path) -> None:
    """[BT-81] TERM, two seconds, KILL: also for those who ignore TERM, in the group and out of it."""
    stubborn = "trap '' TERM; echo $$ >$0; while :; do sleep 0.05; done"
    command = 'bash -c "$X" child & setsid bash -c "$X" daemon & exec bash -c "$X" leader'
    command = f"X={shlex.quote(stubborn)}; {command}"
    started = time.monotonic()
    result = await call("bash", tmp_path, command=command, timeout=700)
    seconds = time.monotonic() - started
    assert result.metadata == {"exitCode": 137, "timedOut": True}
    assert 2.7 <= seconds < 5
    for name in ("leader", "child", "daemon"):
        assert not running(int((tmp_path / name).read_text())), name
    assert not children()


async def test_a_cancel_kills_everything_at_once(tmp_path: Path) -> None:
    """[BT-82] When the cancelled call ends, nothing of the command runs, and it is reaped."""
    command = f"trap '' TERM; {DAEMON}; bash -c 'echo $$ >child; exec sleep 60' & echo $$ >leader; wait"
    running_call = asyncio.create_task(call("bash", tmp_path, command=command))
    pids = [await pid_in(tmp_path / name) for name in ("leader", "child", "daemon")]
    assert all(running(pid) for pid in pids)
    started = time.monotonic()
    running_call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running_call
    assert time.monotonic() - started < 1.8
    assert not any(running(pid) for pid in pids)
    assert not children()


async def test_a_cancel_in_the_moment_of_grace_kills_as_well(tmp_path: Path) -> None:
    """[BT-82] A call may be cancelled at any time, also while it waits for a command to end."""
    command = "trap '' TERM; echo $$ >leader; while :; do sleep 0.05; done"
    running_call = asyncio.create_task(call("bash", tmp_path, command=command, timeout=300))
    pid = await pid_in(tmp_path / "leader")
    await asyncio.sleep(0.6)
    running_call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running_call
    assert not running(pid)
    assert not children()


async def test_a_background_child_does_not_hold_the_call(
    tmp_path: Path, host: dict[ContextKey[Any], Any], groups: ProcessGroups, spill: Spill
) -> None:
    """[BT-83] The call returns when the command ends; what goes on is listed, until the client closes."""
    started = time.monotonic()
    child = "echo $$ >child; echo from the child; exec sleep 60"
    is_sleep = 'grep -q sleep "/proc/$(cat child)/comm"' if Path("/proc/self/comm").exists() else "sleep 0.5"
    command = f"bash -c '{child}' & until [ -s child ]; do :; done; until {is_sleep}; do :; done; echo hi"
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    assert time.monotonic() - started < 5
    pid = int((tmp_path / "child").read_text())
    assert (result.is_error, result.metadata["exitCode"]) == (False, 0)
    assert result.metadata["survivors"] == [{"pid": pid, "name": "sleep"}]
    *text, kept, note = result.output.split("\n")
    assert sorted(text) == ["from the child", "hi"]
    assert note == f"[still running in the background: {pid} (sleep)]"
    path = kept.removeprefix("[the output is in ").removesuffix("]")
    assert (await call("read", tmp_path, spill=spill, path=path)).output.endswith("hi\n")
    assert running(pid)
    groups.kill_all()
    assert not running(pid)


async def test_a_daemon_is_found_and_killed_with_the_rest(
    tmp_path: Path, host: dict[ContextKey[Any], Any], groups: ProcessGroups, spill: Spill
) -> None:
    """[BT-84] A child that left the group and lost its parent is found by its mark, its children too."""
    command = (
        "(setsid bash -c 'echo $$ >daemon; sleep 60 & echo $! >late; wait' &); until [ -s late ]; do :; done"
    )
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    pids = [int((tmp_path / name).read_text()) for name in ("daemon", "late")]
    assert {survivor["pid"] for survivor in result.metadata["survivors"]} == set(pids)
    assert all(running(pid) for pid in pids)
    groups.kill_all()
    groups.kill_all()
    assert not any(running(pid) for pid in pids)


async def test_a_client_that_closed_keeps_nothing(
    tmp_path: Path, groups: ProcessGroups, host: dict[ContextKey[Any], Any], spill: Spill
) -> None:
    """[BT-92] Closing kills what is left, and a command that ends afterwards leaves nothing behind."""
    command = "sleep 60 & echo $! >pid"
    await call("bash", tmp_path, host=host, spill=spill, command=command)
    before = await pid_in(tmp_path / "pid")
    groups.close()
    assert not running(before)
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    assert "[left running processes, which were stopped: " in result.output
    assert "survivors" not in result.metadata
    assert not running(await pid_in(tmp_path / "pid"))
    assert len(groups) == 0


async def test_a_command_under_way_when_its_client_closes_leaves_nothing(
    tmp_path: Path,
    groups: ProcessGroups,
    host: dict[ContextKey[Any], Any],
    spill: Spill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-92] Also when the client closes in the moment in which the process is handed over."""
    keep = OutputFile.keep

    def closing(output: OutputFile, spill: Spill) -> Path:
        groups.close()
        return keep(output, spill)

    monkeypatch.setattr(OutputFile, "keep", closing)
    command = "sleep 60 & echo $! >pid"
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    assert "which were stopped: " in result.output
    assert not running(await pid_in(tmp_path / "pid"))


async def test_without_a_client_nothing_stays(tmp_path: Path) -> None:
    """[BT-85] Where nobody would stop it later, what a command leaves is stopped with it."""
    result = await call("bash", tmp_path, command=f"{DAEMON}; until [ -s daemon ]; do :; done; echo hi")
    pid = int((tmp_path / "daemon").read_text())
    assert result.output.startswith(f"hi\n[left running processes, which were stopped: {pid} (")
    assert (result.is_error, result.metadata) == (False, {"exitCode": 0, "timedOut": False})
    assert not running(pid)


async def test_those_that_end_by_themselves_are_forgotten(
    tmp_path: Path,
    host: dict[ContextKey[Any], Any],
    groups: ProcessGroups,
    spill: Spill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-86] The list of what goes on holds only what does."""
    monkeypatch.setattr(survivors, "_SECONDS", 0.05)
    command = "while [ ! -e stop ]; do sleep 0.05; done &"
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    assert result.metadata["survivors"]
    await asyncio.sleep(0.2)
    assert len(groups) == 1
    (tmp_path / "stop").touch()
    await until(lambda: len(groups) == 0)


async def test_a_background_process_cannot_fill_the_disk(
    tmp_path: Path,
    host: dict[ContextKey[Any], Any],
    groups: ProcessGroups,
    spill: Spill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-87] The bound on output holds in the background too."""
    monkeypatch.setattr(survivors, "_SECONDS", 0.05)
    monkeypatch.setattr(bash, "_LIMITS", {**bash._LIMITS, "maxOutputBytes": 500_000})
    child = "echo $$ >child; while :; do echo xxxxxxxxxxxxxxxxxxx; done"
    command = f"bash -c '{child}' & until [ -s child ]; do :; done"
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    pid = int((tmp_path / "child").read_text())
    await until(lambda: not running(pid), 20)
    await until(lambda: len(groups) == 0)
    assert kept(result).stat().st_size == 500_000


async def test_what_a_background_process_writes_later_is_kept(
    tmp_path: Path,
    host: dict[ContextKey[Any], Any],
    groups: ProcessGroups,
    spill: Spill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-87] The file that the result names goes on growing, up to the last word."""
    monkeypatch.setattr(survivors, "_SECONDS", 0.05)
    command = "(until [ -e go ]; do sleep 0.02; done; seq 20000; printf end) & echo started"
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    assert result.output.startswith("started\n[the output is in ")
    (tmp_path / "go").touch()
    await until(lambda: len(groups) == 0)
    assert kept(result).read_text() == "started\n" + "".join([f"{n}\n" for n in range(1, 20_001)]) + "end"


async def test_without_a_process_table_the_group_is_known(
    tmp_path: Path,
    host: dict[ContextKey[Any], Any],
    groups: ProcessGroups,
    spill: Spill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[BT-88] On other systems survivors are found by their group; an ordinary command has none."""
    monkeypatch.setattr(process_table, "PROC", str(tmp_path / "none"))
    result = await call("bash", tmp_path, host=host, spill=spill, command="echo hi")
    assert (result.output, "survivors" in result.metadata) == ("hi\n", False)
    command = "bash -c 'echo $$ >child; exec sleep 60' & until [ -s child ]; do :; done; exec true"
    result = await call("bash", tmp_path, host=host, spill=spill, command=command)
    pid = int((tmp_path / "child").read_text())
    assert [survivor["name"] for survivor in result.metadata["survivors"]] == ["process group"]
    groups.kill_all()
    await until(lambda: not running(pid))
    result = await call("bash", tmp_path, host=host, command="echo $$ >leader; sleep 60", timeout=300)
    assert result.metadata["timedOut"]
    assert not running(int((tmp_path / "leader").read_text()))


async def test_other_processes_are_left_alone(tmp_path: Path) -> None:
    """[BT-89] Killing a command touches none of the host's own processes, older or younger."""
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    older = Process(argv, cwd=tmp_path, output=log)
    try:
        calling = asyncio.create_task(
            call("bash", tmp_path, command="echo $$ >leader; sleep 60", timeout=600)
        )
        await pid_in(tmp_path / "leader")
        younger = Process(argv, cwd=tmp_path, output=log)
        try:
            async with asyncio.timeout(10):
                assert (await calling).metadata["timedOut"]
            assert running(older.pid) and running(younger.pid)
        finally:
            younger.kill()
            younger.reap()
    finally:
        older.kill()
        older.reap()
        os.close(log)


async def test_a_reaped_process_is_not_signalled(tmp_path: Path) -> None:
    """[BT-89] Once reaped, a number may be somebody else's: it is not used again."""
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    process = Process(["true"], cwd=tmp_path, output=log)
    os.close(log)
    async with asyncio.timeout(5):
        assert await process.wait(5, lambda: False) == "exit"
    assert process.exited()
    assert process.reap() == process.reap() == 0
    process.kill()
    assert process.exited()
