"""The sandbox of the builtin `bash`."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, lively_loop, tree, until
from toolnexus import Client
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ContextKey
from toolnexus.runtime.spill import Spill
from toolnexus.tools.builtin import bash, sandbox
from toolnexus.tools.builtin.host import READ_ROOTS
from toolnexus.tools.builtin.options import OPTIONS, BuiltinOptions
from toolnexus.tools.builtin.survivors import PROCESSES, ProcessGroups

pytestmark = pytest.mark.anyio

MISSING = sandbox._missing(shutil.which("bwrap"), network=False)
boxed = pytest.mark.skipif(MISSING is not None, reason=f"no sandbox here: {MISSING}")

INSIDE = '[ "$PPID" = 1 ] || exit 0'
"""Before a command that would do harm, should there be no sandbox around it."""

NO_NETWORK = ", and there is no network"


Host = dict[ContextKey[Any], Any]


def boxing(network: bool = False) -> Host:
    return {OPTIONS: BuiltinOptions(sandbox=True, sandbox_network=network)}


async def run(
    root: Path, command: str, *, host: Host | None = None, spill: Spill | None = None, **arguments: Any
) -> ToolResult:
    """A command in a sandbox that can write below `root`."""
    result = await call("bash", root, host=host or boxing(), spill=spill, command=command, **arguments)
    assert result.metadata["sandbox"] is True
    return result


def note(root: Path, network: str = NO_NETWORK) -> str:
    return f"[in a sandbox: files can be written in {root} only, /tmp is new in every call{network}]"


def at_work(word: str) -> list[str]:
    """The command lines with `word` in them, of whatever runs on this machine."""
    lines: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            lines.append(line)
    return lines


_numbers = iter(range(1, 100))


def unique() -> str:
    """Seconds that nobody else sleeps, so that a process is known by them."""
    return f"60.{os.getpid()}{next(_numbers):02}"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What is known of a bubblewrap, and what was warned of, is known in one test only."""
    sandbox._warned.clear()
    yield
    sandbox._probe.cache_clear()
    sandbox._warned.clear()


@pytest.fixture
def spill() -> Iterator[Spill]:
    spill = Spill()
    yield spill
    spill.close()


@boxed
async def test_only_the_root_can_be_written(tmp_path: Path) -> None:
    """[BT-200] Below the root everything works as without; nothing else of the file system can be changed."""
    root, other = tmp_path / "root", tmp_path / "other"
    tree(root, {"a.txt": "a\n", "run.sh": "echo ran\n"})
    tree(other, {"b.txt": "b\n"})
    command = "cat a.txt; sh run.sh; echo new >sub/new.txt; rm a.txt; ln -s . me; mkdir -p x/y; pwd"
    (root / "sub").mkdir()
    assert (await run(root, command)).output == f"a\nran\n{root}\n"
    assert (root / "sub" / "new.txt").read_text() == "new\n"
    assert sorted(path.name for path in root.iterdir()) == ["me", "run.sh", "sub", "x"]
    for target in (f"{other}/b.txt", f"{other}/c.txt", "/etc/x", "/usr/x", "/bin/x", "../x"):
        result = await run(root, f"{INSIDE}; echo no >{target}", host=boxing() | {READ_ROOTS: (other,)})
        assert result.is_error and "Read-only file system" in result.output, target
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "root"]
    assert [path.name for path in other.iterdir()] == ["b.txt"] and (other / "b.txt").read_text() == "b\n"
    assert (await run(root, "pwd", workdir="sub")).output == f"{root}/sub\n"


@boxed
async def test_the_rights_of_the_user_end_at_the_walls(tmp_path: Path) -> None:
    """[BT-200] Also root can neither mount, nor make devices, nor turn the switches of the machine."""
    commands = (
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /",
        "umount -l /tmp",
        "mknod disk b 254 0",
        "test -w /proc/sys/kernel/core_pattern",
        "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness",
        "test -w /sys/kernel/uevent_helper || test -w /sys/power/state",
        "find /dev -type b | grep .",
    )
    for command in commands:
        assert (await run(tmp_path, f"{INSIDE}; {command}")).is_error, command


@boxed
async def test_a_file_of_somebody_else_in_the_root_can_be_worked_on_by_root(tmp_path: Path) -> None:
    """[BT-200] What the host may do in the root folder, a command may do there too."""
    if os.geteuid() != 0:
        pytest.skip("only root can have files of somebody else")
    tree(tmp_path, {"theirs/a.txt": "a\n"})
    for path in (tmp_path / "theirs", tmp_path / "theirs" / "a.txt"):
        os.chown(path, 12345, 12345)
        path.chmod(0o700)
    command = "cd theirs; cat a.txt; echo b >>a.txt; chmod 600 a.txt; touch c; chown 12345 c"
    assert (await run(tmp_path, command)).output == "a\n"


@boxed
async def test_the_temporary_folders_are_private(tmp_path: Path) -> None:
    """[BT-201] /tmp is empty, can be written and is gone afterwards; sockets of services are not there."""
    root = tmp_path / "root"
    tree(tmp_path, {"root/a": "", "secret": "theirs\n"})
    name = f"toolnexus-test-{os.getpid()}"
    command = (
        f"cat {tmp_path}/secret; echo x >/tmp/{name}; cat /tmp/{name}; ls /run /var/tmp; mktemp; ls -a ~+"
    )
    output = (await run(root, command)).output
    assert "theirs" not in output
    assert "\nx\n" in output and "/tmp/tmp." in output and output.endswith(".\n..\na\n")
    assert not Path("/tmp", name).exists()
    assert not [path for path in Path("/run").iterdir() if f"\n{path.name}\n" in output]
    assert (await run(root, f"ls /tmp/{name}")).is_error
    result = await run(root, "echo $TMPDIR $XDG_CACHE_HOME; mkdir -p $XDG_CACHE_HOME/x")
    assert result.output == "/tmp /tmp/.cache\n"


@boxed
async def test_folders_that_may_be_read_are_seen_wherever_they_lie(tmp_path: Path) -> None:
    """[BT-201] The folders of skills can be read, also where the rest is hidden."""
    tree(tmp_path, {"root/a": "", "skills/x/run.sh": "echo ran\n", "skills/x/link": ""})
    reading = boxing() | {READ_ROOTS: (tmp_path / "skills", tmp_path / "root", tmp_path / "gone")}
    command = f"sh {tmp_path}/skills/x/run.sh; echo b >a && cat a; echo no >{tmp_path}/skills/x/run.sh"
    result = await run(tmp_path / "root", command, host=reading)
    assert result.output.startswith("ran\nb\n") and "Read-only file system" in result.output
    result = await run(
        tmp_path / "root", "pwd; cat run.sh", host=reading, workdir=str(tmp_path / "skills" / "x")
    )
    assert result.output == f"{tmp_path}/skills/x\necho ran\n"


@boxed
async def test_places_where_keys_are_kept_are_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-202] ~/.ssh, ~/.aws, ~/.netrc and the like are empty, unless the root lies in them."""
    tree(
        tmp_path,
        {
            "home/.ssh/id_ed25519": "secret-1\n",
            "home/.config/gcloud/key.json": "secret-2\n",
            "home/.netrc": "secret-3\n",
            "home/.npmrc": "secret-4\n",
            "home/.gitconfig": "plain\n",
            "home/project/a": "",
            "root/a": "",
        },
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    reading = boxing() | {READ_ROOTS: (tmp_path / "home",)}
    command = "cat ~/.ssh/* ~/.config/gcloud/* ~/.netrc ~/.npmrc ~/.gitconfig; ls -A ~"
    for root in ("root", "home", "home/project"):
        result = await run(tmp_path / root, command, host=reading)
        assert "secret-" not in result.output and "plain" in result.output, root
    inside = await run(tmp_path / "home" / ".ssh", "cat id_ed25519", host=reading)
    assert inside.output == "secret-1\n"


@boxed
async def test_the_programs_of_the_host_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-212] A bubblewrap in the root is not used, and the host's own environment there is read-only."""
    tree(tmp_path, {"bin/bwrap": f"#!/bin/sh\necho fooled >{tmp_path}/log\n", ".venv/bin/python": "real\n"})
    (tmp_path / "bin" / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:bin:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.chdir(tmp_path)
    result = await run(tmp_path, f"{INSIDE}; touch new; echo fake >.venv/bin/python")
    assert result.is_error and "Read-only file system" in result.output
    assert (tmp_path / ".venv" / "bin" / "python").read_text() == "real\n"
    assert (tmp_path / "new").exists() and not (tmp_path / "log").exists()


@boxed
async def test_other_processes_and_their_environments_are_not_there(tmp_path: Path) -> None:
    """[BT-203] The parent's environment cannot be read, nor can anything outside be seen or signalled."""
    word = f"secret-of-the-host-{os.getpid()}"
    command = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"
    other = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], "ANY": word})
    try:
        assert word in (await call("bash", tmp_path, command=command)).output
        assert word not in (await run(tmp_path, command)).output
        assert (await run(tmp_path, f"kill -9 {other.pid}")).is_error
        assert other.poll() is None
        assert len((await run(tmp_path, "echo /proc/[0-9]*")).output.split()) == 2
    finally:
        other.kill()
        other.wait()


@contextmanager
def listening() -> Generator[int]:
    """A server of the host on the loopback; gives its port."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@boxed
async def test_there_is_no_network_unless_the_host_allows_it(tmp_path: Path) -> None:
    """[BT-204] Not even the loopback of the host is reached; with `sandbox_network` everything is."""
    with listening() as port:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"
        result = await run(tmp_path, command)
        assert result.is_error and "connected" not in result.output
        assert result.output.endswith(f"{note(tmp_path)}\n[exit code 1]")
        result = await run(tmp_path, command, host=boxing(network=True))
        assert (result.output, result.is_error) == ("connected\n", False)
        result = await run(tmp_path, "cat /etc/resolv.conf >/dev/null; exit 3", host=boxing(network=True))
        assert result.output == f"{note(tmp_path, '')}\n[exit code 3]"


@boxed
async def test_a_command_reaches_its_own_servers(tmp_path: Path) -> None:
    """[BT-204] Inside, there is a loopback for a server and its client in one command."""
    tree(
        tmp_path,
        {
            "both.py": "import socket\n"
            "server = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(server.getsockname()).close()\n"
            "print('met')\n"
        },
    )
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("no Python outside of the private folders")
    assert (await run(tmp_path, f"{python} both.py")).output == "met\n"


@boxed
@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("echo out; echo err >&2; exit 3", 3, "out\nerr\n"),
        ("kill -9 $$", 137, ""),
        ("kill 0", 143, ""),
        ("kill -9 1; echo on; exit 5", 5, "on\n"),
        ("exit 0", 0, "[no output]"),
    ],
)
async def test_exit_codes_pass_through(command: str, code: int, text: str, tmp_path: Path) -> None:
    """[BT-205] Output and exit code are those of the command; a failure says that it was in a sandbox."""
    result = await run(tmp_path, command)
    assert result.output == (f"{text}{note(tmp_path)}\n[exit code {code}]" if code else text)
    assert result.metadata == {"exitCode": code, "timedOut": False, "sandbox": True}
    assert result.is_error is bool(code)


@boxed
async def test_input_is_empty_and_output_is_bounded(
    tmp_path: Path, spill: Spill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-205] Input is at its end at once; a flood is killed at the bound and its output kept in a file."""
    assert (await run(tmp_path, "cat; tty; read x || echo end")).output == "not a tty\nend\n"
    monkeypatch.setattr(
        bash, "_LIMITS", {**bash._LIMITS, "maxOutputBytes": 1_000_000, "maxTextBytes": 500_000}
    )
    async with asyncio.timeout(20):
        result = await run(tmp_path, "(setsid yes &); yes", spill=spill)
    *_, kept, why, code = result.output.split("\n")
    assert (why, code) == ("[more than 1000000 bytes of output: the command was killed]", "[exit code 137]")
    file = Path(kept.removeprefix("[the output is in ").removesuffix("]"))
    assert file.stat().st_size == 1_000_000
    # [BT-201] where the model is told to look, its next command can look, and change nothing
    assert (await run(tmp_path, f"wc -c <{file}", spill=spill)).output.strip() == "1000000"
    refused = await run(tmp_path, f"{INSIDE}; echo no >{file}", spill=spill)
    assert refused.is_error and "Read-only file system" in refused.output
    assert file.stat().st_size == 1_000_000


@boxed
async def test_the_time_limit_stops_everything_inside(tmp_path: Path) -> None:
    """[BT-206] TERM reaches what the command started, KILL those who ignore it; output so far comes."""
    command = "trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    result = await run(tmp_path, command, timeout=500)
    assert result.output.startswith("ready\n") and "tidy\n[timed out after 0.5 s" in result.output
    assert result.metadata == {"exitCode": 0, "timedOut": True, "sandbox": True}

    word = unique()
    command = f"trap '' TERM; echo before; (setsid sleep {word} &); sleep {word} & wait; while :; do :; done"
    started = time.monotonic()
    result = await run(tmp_path, command, timeout=500)
    assert time.monotonic() - started < 5
    assert result.output.startswith("before\n[timed out after 0.5 s")
    assert result.metadata == {"exitCode": 137, "timedOut": True, "sandbox": True}
    assert not at_work(word)


@boxed
async def test_a_cancel_stops_everything_inside(tmp_path: Path) -> None:
    """[BT-206] When the cancelled call ends, nothing of its sandbox runs."""
    word = unique()
    command = f"trap '' TERM; (setsid sleep {word} &); sleep {word} & touch ready; wait"
    calling = asyncio.create_task(run(tmp_path, command))
    await until(lambda: (tmp_path / "ready").exists())
    assert at_work(word)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not at_work(word)


@boxed
async def test_nothing_outlives_its_command(tmp_path: Path) -> None:
    """[BT-207] A background child holds nobody; it ends with the sandbox, and the result names it."""
    groups, word = ProcessGroups(), unique()
    command = f"(setsid sleep {word} &); sleep {word} & echo hi"
    started = time.monotonic()
    result = await run(tmp_path, command, host=boxing() | {PROCESSES: groups})
    assert time.monotonic() - started < 5
    text, said, end = result.output.partition(
        "[nothing outlives a sandbox, so these processes were stopped: "
    )
    assert text == "hi\n" and said and end.count(" (") == 2
    assert (result.is_error, "survivors" in result.metadata) == (False, False)
    assert len(groups) == 0 and not at_work(word)


@boxed
async def test_a_sandbox_ends_with_its_host(tmp_path: Path) -> None:
    """[BT-208] When the host is killed on the spot, so is everything in its sandboxes."""
    word = unique()
    script = f"""
import asyncio, sys
from pathlib import Path
from tests.builtins.test_sandbox import run
asyncio.run(run(Path({str(tmp_path)!r}), "(setsid sleep {word} &); touch ready; sleep {word}"))
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = subprocess.Popen([sys.executable, "-c", script], env=env)
    try:
        await until(lambda: (tmp_path / "ready").exists(), 20)
        assert at_work(f"sleep {word}")
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
    await until(lambda: not at_work(f"sleep {word}"))


@boxed
async def test_many_sandboxes_stand_side_by_side(tmp_path: Path) -> None:
    """[BT-209] Twenty commands run at once in their sandboxes, and the loop runs on."""
    commands = [f"touch at-{n}; until [ -e go ]; do sleep 0.02; done; echo {n}" for n in range(20)]
    async with lively_loop(0.5), asyncio.timeout(60):
        calls = asyncio.gather(*[run(tmp_path, command) for command in commands])
        await until(lambda: len(list(tmp_path.glob("at-*"))) == 20, 30)
        (tmp_path / "go").touch()
        results = await calls
    assert [result.output for result in results] == [f"{n}\n" for n in range(20)]


@boxed
async def test_a_client_passes_its_options_on(tmp_path: Path) -> None:
    """[BT-209] `builtins={"sandbox": True}` reaches the calls of a client, in its own working directory."""
    options = {"tools": ["bash"], "sandbox": True}
    async with Client(model="openai:none", api_key="-", builtins=options, workdir=tmp_path) as client:
        result = await client.toolkit.execute("bash", {"command": "pwd; echo x >/etc/x"})
    assert result.output.startswith(f"{tmp_path}\n") and "Read-only file system" in result.output
    assert result.metadata["sandbox"] is True


@pytest.fixture
def bubblewrap(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Puts a bubblewrap of the test's own into PATH; at first there is none."""
    folder = tmp_path_factory.mktemp("bin")
    monkeypatch.setenv("PATH", str(folder))

    def install(script: str) -> None:
        (folder / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bwrap").chmod(0o755)

    return install


async def test_without_a_sandbox_nothing_runs_where_one_is_wanted(
    tmp_path: Path, bubblewrap: Callable[[str], None]
) -> None:
    """[BT-210] The error says what is missing, how to get it, and which option lets commands run without."""
    needs = "install the package bubblewrap" if sys.platform.startswith("linux") else "needs Linux"
    with pytest.raises(ToolError, match=f"(?s)not run: .*{needs}.*sandbox='auto' or False"):
        await call("bash", tmp_path, host=boxing(), command="echo x >ran")
    if sys.platform.startswith("linux"):
        bubblewrap("echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")
        with pytest.raises(
            ToolError, match=r"(?s)does not work here \(bwrap: No permissions.*user namespaces"
        ):
            await call("bash", tmp_path, host=boxing(), command="echo x >ran")
    assert not (tmp_path / "ran").exists()


async def test_auto_runs_without_a_sandbox_and_says_so(
    tmp_path: Path, bubblewrap: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """[BT-211] With "auto" the command runs; the metadata says how, and one warning tells the host why."""
    options = {OPTIONS: BuiltinOptions(sandbox="auto")}
    with caplog.at_level(logging.WARNING, "toolnexus.builtins"):
        calls = [call("bash", tmp_path, host=options, command="echo $0 is here; exit 1") for _ in range(3)]
        result, *_ = await asyncio.gather(*calls)
    assert result.output.endswith(" is here\n[exit code 1]")
    assert result.metadata == {"exitCode": 1, "timedOut": False, "sandbox": False}
    (record,) = caplog.records
    assert record.getMessage().startswith("commands run without a sandbox: ")


async def test_a_bubblewrap_is_tried_once(tmp_path: Path, bubblewrap: Callable[[str], None]) -> None:
    """[BT-211] Whether it works is found out once, however many ask at the same time."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs Linux")
    bubblewrap(f"echo tried >>{tmp_path}/log; exit 1")
    options = {OPTIONS: BuiltinOptions(sandbox="auto")}
    async with lively_loop():
        await asyncio.gather(*[call("bash", tmp_path, host=options, command=":") for _ in range(5)])
    assert (tmp_path / "log").read_text() == "tried\n"


@boxed
async def test_auto_uses_the_sandbox_where_there_is_one(tmp_path: Path) -> None:
    """[BT-211] Where bubblewrap works, "auto" is as good as True; without the option nothing is said."""
    options = {OPTIONS: BuiltinOptions(sandbox="auto")}
    assert (await run(tmp_path, "test ! -w /etc", host=options)).metadata["sandbox"] is True
    plain = await call("bash", tmp_path, host={OPTIONS: BuiltinOptions()}, command="true")
    assert plain.metadata == {"exitCode": 0, "timedOut": False}


async def test_a_sandbox_that_cannot_be_set_up_is_an_error(
    tmp_path: Path, bubblewrap: Callable[[str], None]
) -> None:
    """[BT-210] When bubblewrap fails at the call itself, that is no failure of the command."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs Linux")
    bubblewrap('case "$*" in *"--chdir"*) echo "bwrap: No such thing" >&2; exit 1;; esac')
    with pytest.raises(ToolError, match="the sandbox cannot be set up: bwrap: No such thing"):
        await call("bash", tmp_path, host=boxing(), command="echo hi")
