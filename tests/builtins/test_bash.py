"""The builtin `bash`: what a command gets, and what comes back."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.builtins.helpers import TOOLS, call, lively_loop, output, running, tree, until
from toolnexus.core.messages import ToolCallPart
from toolnexus.errors import ToolError
from toolnexus.runtime.spill import Spill
from toolnexus.tools.builtin import bash
from toolnexus.tools.builtin.environment import MARK
from toolnexus.tools.builtin.host import SECRET_ENV
from toolnexus.tools.invoke import detached, invoke

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of its own, in which no output file may be left."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.glob("*.out"))


@pytest.fixture
def spill() -> Iterator[Spill]:
    spill = Spill()
    yield spill
    spill.close()


async def test_both_streams_come_back_merged_in_order(tmp_path: Path) -> None:
    """[BT-70] Standard output and standard error as they were written; exit code 0 is a success."""
    result = await call("bash", tmp_path, command="echo a; echo b >&2; echo c; printf end")
    assert result.output == "a\nb\nc\nend"
    assert result.metadata == {"exitCode": 0, "timedOut": False}
    assert await output("bash", tmp_path, command="true") == "[no output]"


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("echo out; exit 3", 3, "out\n[exit code 3]"),
        ("printf out; exit 1", 1, "out\n[exit code 1]"),
        ("false", 1, "[exit code 1]"),
        ("kill -9 $$", 137, "[exit code 137]"),
    ],
)
async def test_a_failure_says_its_exit_code_last(command: str, code: int, text: str, tmp_path: Path) -> None:
    """[BT-71] A non-zero exit is an error with the output and, in the last line, the exit code."""
    result = await call("bash", tmp_path, command=command)
    assert (result.output, result.is_error) == (text, True)
    assert result.metadata == {"exitCode": code, "timedOut": False}


async def test_a_long_output_comes_whole_for_dispatch_to_cut(tmp_path: Path) -> None:
    """[BT-72] 30,000 lines then exit 3: every line, and the exit code at the end."""
    result = await call("bash", tmp_path, command="seq 30000; exit 3")
    assert result.output == "".join([f"{n}\n" for n in range(1, 30_001)]) + "[exit code 3]"


async def test_a_very_long_output_is_kept_in_a_file(tmp_path: Path, spill: Spill) -> None:
    """[BT-72] Above five million bytes come head and tail, and the path of the whole, which read may read."""
    result = await call("bash", tmp_path, spill=spill, command="seq 1000000; echo ä; exit 3")
    first, _, rest = result.output.partition("\n[… 6840899 bytes left out …]\n")
    tail, kept, code = rest.rsplit("\n", 2)
    assert first.startswith("1\n2\n3\n") and tail.endswith("\n999999\n1000000\nä")
    assert code == "[exit code 3]"
    path = kept.removeprefix("[the output is in ").removesuffix("]")
    assert Path(path).stat().st_size == 6_888_899
    window = await call("read", tmp_path, spill=spill, path=path, offset=500_000, limit=1)
    assert window.output == "500000"


async def test_an_output_without_end_is_stopped(
    tmp_path: Path, spill: Spill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-73] A command that floods its output is killed before it fills the disk."""
    monkeypatch.setattr(
        bash, "_LIMITS", {**bash._LIMITS, "maxOutputBytes": 1_000_000, "maxTextBytes": 500_000}
    )
    async with asyncio.timeout(30):
        result = await call("bash", tmp_path, spill=spill, command="(setsid yes &); yes")
    *_, kept, why, code = result.output.split("\n")
    assert result.is_error
    assert (why, code) == ("[more than 1000000 bytes of output: the command was killed]", "[exit code 137]")
    assert Path(kept.removeprefix("[the output is in ").removesuffix("]")).stat().st_size == 1_000_000


async def test_a_long_output_keeps_its_end_through_dispatch(tmp_path: Path) -> None:
    """[BT-230] Of five million bytes a model sees the head, the last line and the exit code."""
    command = "seq 700000; echo the last line; exit 3"
    call_ = ToolCallPart("call_1", "bash", json.dumps({"command": command}))
    context = detached()
    context.frame.workdir = tmp_path
    result = await invoke(TOOLS["bash"], call_, context)
    assert len(result.output) < 60_000 and result.output.startswith("1\n2\n3\n")
    assert result.output.endswith("\n700000\nthe last line\n[exit code 3]")
    assert (result.is_error, result.metadata["exitCode"]) == (True, 3)


@pytest.mark.parametrize(
    "again",
    [
        "echo two >/dev/stderr",
        "echo two >/dev/stdout",
        "echo two >/proc/self/fd/1",
        "echo two | tee /dev/stderr | cat >/dev/null",
    ],
)
async def test_output_that_is_opened_anew_is_not_cut(again: str, tmp_path: Path) -> None:
    """[BT-231] A command that opens /dev/stdout or /dev/stderr as a file loses nothing that came before."""
    assert await output("bash", tmp_path, command=f"echo one; {again}; echo three") == "one\ntwo\nthree\n"


async def test_output_that_cannot_be_stored_is_an_error(tmp_path: Path) -> None:
    """[BT-232] When the disk is full, say, the command is killed and the result says why."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        async with asyncio.timeout(20):
            result = await call("bash", tmp_path, command="yes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.is_error and result.output.startswith("y\ny\n")
    assert result.output.endswith(
        "[the output cannot be stored: File too large: the command was killed]\n[exit code 137]"
    )


async def test_standard_input_is_empty(tmp_path: Path) -> None:
    """[BT-74] A command that reads finds the end at once, and there is no terminal to ask on."""
    async with asyncio.timeout(10):
        result = await call("bash", tmp_path, command="cat; read x || echo nothing; tty; true </dev/tty")
    assert result.output.startswith("nothing\nnot a tty\n")
    assert result.is_error


async def test_it_starts_in_the_root_or_in_a_folder_below(tmp_path: Path) -> None:
    """[BT-75] `workdir` is resolved like any path and stays in the root; nothing lasts between calls."""
    tree(tmp_path, {"src/a.txt": ""})
    assert await output("bash", tmp_path, command="pwd -P; cd src; export X=1") == f"{tmp_path.resolve()}\n"
    assert await output("bash", tmp_path, command='pwd -P; echo "[$X]"', workdir="src") == (
        f"{tmp_path.resolve()}/src\n[]\n"
    )
    for workdir, reason in (
        ("..", "outside of the root"),
        ("scr", "did you mean 'src'"),
        ("src/a.txt", "not a dir"),
    ):
        with pytest.raises(ToolError, match=reason):
            await call("bash", tmp_path, command="true", workdir=workdir)


async def test_secrets_are_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-76] Names that look like secrets and those the host lists are dropped; the rest is kept."""
    kept = {
        "LANG": "C.UTF-8",
        "MY_SETTING": "kept-1",
        "KEYBOARD": "kept-2",
        "PATTERN": "kept-3",
        "SSH_AUTH_SOCK": "kept-4",
    }
    dropped = {
        "OPENAI_API_KEY": "gone-1",
        "github_token": "gone-2",
        "AWS_SECRET_ACCESS_KEY": "gone-3",
        "PGPASSWORD": "gone-4",
        "CLIENT_SECRETS": "gone-5",
        "LISTED_BY_HOST": "gone-6",
        "TOKEN": "gone-7",
        "KEY": "gone-8",
        "SECRET": "gone-9",
        "PASSWORD": "gone-10",
        "GITHUB_PAT": "gone-11",
        "AWS_CREDENTIALS": "gone-12",
        "DB_PASSWD": "gone-13",
        "OPENAI_APIKEY": "gone-14",
        "APIKEY_2": "gone-15",
        "MYSQL_PWD": "gone-16",
        "SMTP_PASS": "gone-17",
        "REDISCLI_AUTH": "gone-18",
        "GPG_PASSPHRASE": "gone-19",
        "SESSION_JWT": "gone-20",
    }
    for name, value in (kept | dropped).items():
        monkeypatch.setenv(name, value)
    result = await call(
        "bash", tmp_path, host={SECRET_ENV: lambda: frozenset({"LISTED_BY_HOST"})}, command="env"
    )
    lines = result.output.split("\n")
    assert "gone-" not in result.output
    assert {f"{name}={value}" for name, value in kept.items()} <= set(lines)
    assert f"PATH={os.environ['PATH']}" in lines
    assert f"HOME={os.environ['HOME']}" in lines


async def test_a_command_carries_the_marks_of_those_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-77] A command started from within another one is still known as a part of that."""
    monkeypatch.setenv(MARK, "outer")
    outer, _, inner = (await output("bash", tmp_path, command=f"echo ${MARK}")).strip().partition(":")
    assert outer == "outer"
    assert len(inner) == 16


async def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    """[BT-70] Any output can be sent as text."""
    assert await output("bash", tmp_path, command=r"printf 'a\377\303\244'") == "a\ufffdä"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo a\0b", "null byte"),
        ("echo \ud800", "surrogates"),
        ("echo " + "x" * 200_000, "write it to a file"),
    ],
)
async def test_what_cannot_be_started_is_an_error(command: str, reason: str, tmp_path: Path) -> None:
    """[BT-78] A command that the system does not take is refused with the reason."""
    with pytest.raises(ToolError, match=f"cannot be started: .*{reason}"):
        await call("bash", tmp_path, command=command)


async def test_many_commands_run_at_once(tmp_path: Path) -> None:
    """[BT-79] Fifty commands run side by side, and the loop runs on meanwhile."""
    os.mkfifo(tmp_path / "gate")
    gate = os.open(tmp_path / "gate", os.O_RDWR)
    commands = [f"touch at-{n}; read -n 1 <gate; echo {n}" for n in range(50)]
    try:
        async with lively_loop(0.5), asyncio.timeout(60):
            calls = asyncio.gather(*[call("bash", tmp_path, command=command) for command in commands])
            await until(lambda: len(list(tmp_path.glob("at-*"))) == 50, 30)
            os.write(gate, b"x" * 50)
            results = await calls
    finally:
        os.close(gate)
    assert [result.output for result in results] == [f"{n}\n" for n in range(50)]


async def lively(work: Callable[[], Awaitable[None]]) -> None:
    """`work()` leaves the loop its turns; tried anew, for a busy machine stands still for everybody."""
    for tries_left in (2, 1, 0):
        try:
            async with lively_loop(), asyncio.timeout(60):
                await work()
        except AssertionError as error:
            if not tries_left or "stood still" not in str(error):
                raise
        else:
            return


async def test_a_burst_of_commands_does_not_hold_the_loop(tmp_path: Path) -> None:
    """[BT-79] Fifty commands that start, write and end at the same time leave the loop its turns."""
    commands = [f"seq 2000; echo {n}" for n in range(50)]

    async def burst() -> None:
        results = await asyncio.gather(*[call("bash", tmp_path, command=each) for each in commands])
        assert [result.output.split("\n")[-2] for result in results] == [str(n) for n in range(50)]

    await lively(burst)


async def test_a_burst_of_cancels_does_not_hold_the_loop(tmp_path: Path) -> None:
    """[BT-82] Fifty commands that are cancelled at the same time are killed, and the loop has its turns."""

    async def burst() -> None:
        command = "setsid sleep 60 & echo $! >at-$$; sleep 60"
        calls = [asyncio.create_task(call("bash", tmp_path, command=command)) for _ in range(50)]
        await until(lambda: len([p for p in tmp_path.glob("at-*") if p.read_text()]) == 50, 30)
        for each in calls:
            each.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 50
        for path in tmp_path.glob("at-*"):
            assert not running(int(path.read_text()))
            path.unlink()

    await lively(burst)


async def test_the_time_limit_stops_the_command(tmp_path: Path) -> None:
    """[BT-80] What was written until then comes back as an error that names the limit."""
    started = time.monotonic()
    result = await call("bash", tmp_path, command="echo before; sleep 60; echo after", timeout=300)
    assert time.monotonic() - started < 5
    assert result.is_error
    assert result.output == (
        "before\n[timed out after 0.3 s: the command and all that it started were stopped]\n[exit code 143]"
    )
    assert result.metadata == {"exitCode": 143, "timedOut": True}


async def test_a_command_may_tidy_up_when_it_is_stopped(tmp_path: Path) -> None:
    """[BT-80] The end is announced with TERM; what ends within the grace is not killed."""
    command = "trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    result = await call("bash", tmp_path, command=command, timeout=500)
    assert result.output.startswith("ready\n")
    assert "tidy\n[timed out after 0.5 s" in result.output
    assert result.metadata == {"exitCode": 0, "timedOut": True}
    assert result.is_error


async def test_the_time_limit_has_a_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-80] A larger limit than the highest is cut to it."""
    monkeypatch.setattr(bash, "_LIMITS", {**bash._LIMITS, "maxTimeoutMilliseconds": 200})
    result = await call("bash", tmp_path, command="sleep 60", timeout=10_000_000)
    assert "[timed out after 0.2 s" in result.output
