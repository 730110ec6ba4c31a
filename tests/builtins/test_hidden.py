"""What the sandbox of `bash` hides and bounds."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, tree
from toolnexus.core.tools import ToolResult
from toolnexus.runtime.context import ContextKey
from toolnexus.tools.builtin import hidden, sandbox, walls
from toolnexus.tools.builtin.host import READ_ROOTS
from toolnexus.tools.builtin.options import OPTIONS, BuiltinOptions
from toolnexus.tools.builtin.sandbox import Boxed, Sandbox

pytestmark = pytest.mark.anyio

MISSING = sandbox._missing(shutil.which("bwrap"), network=False)
boxed = pytest.mark.skipif(MISSING is not None, reason=f"no sandbox here: {MISSING}")
INSIDE = '[ "$PPID" = 1 ] || exit 0'
"""Before a command that would do harm, should there be no sandbox around it."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What is known of a bubblewrap is known in one test only."""
    sandbox._probe.cache_clear()
    yield
    sandbox._probe.cache_clear()


async def run(root: Path, command: str, *readable: Path) -> ToolResult:
    host: dict[ContextKey[Any], Any] = {OPTIONS: BuiltinOptions(sandbox=True), READ_ROOTS: readable}
    result = await call("bash", root, host=host, command=f"{INSIDE}; {command}")
    assert result.metadata["sandbox"] is True
    return result


@boxed
async def test_the_files_where_programs_keep_keys_are_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-202] Keys, histories, browsers, and what the environment names in their place."""
    names = (
        ".claude/.credentials.json .claude.json .codex/auth.json .cache/huggingface/token .cargo/credentials "
        ".m2/settings.xml .gradle/gradle.properties .config/rclone/rclone.conf .config/op/config .s3cfg "
        ".boto .my.cnf .pgpass .gem/credentials .mozilla/firefox/x/logins.json "
        ".config/google-chrome/Default/Cookies .bash_history .zsh_history .local/share/fish/fish_history"
    ).split()
    home = tree(tmp_path / "home", {name: f"secret-{name}\n" for name in names} | {".gitconfig": "plain\n"})
    named = tree(tmp_path / "named", {"aws": "secret-aws\n", "kube1": "secret-k1\n", "kube2": "secret-k2\n"})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(named / "aws"))
    monkeypatch.setenv("KUBECONFIG", f"{named}/kube1:{named}/kube2:{named}/gone")
    root = tree(tmp_path / "root", {"a": ""})
    seen = (await run(root, f"find {home} {named} -type f | xargs cat", home, named)).output
    assert "plain" in seen and "secret-" not in seen
    assert "Read-only file system" in (await run(root, "echo x >~/.mozilla/x", home)).output


@boxed
async def test_skills_among_the_keys_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-202] What may be read is there although the folder around it is hidden."""
    tree(tmp_path / "home", {".claude/skills/pdf/a.sh": "echo ran\n", ".claude/secret": "secret-1\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tree(tmp_path / "root", {"a": ""})
    folder = tmp_path / "home" / ".claude" / "skills" / "pdf"
    result = await run(root, f"sh {folder}/a.sh; ls -A ~/.claude", tmp_path / "home", folder)
    assert result.output == "ran\nskills\n"


def test_the_home_folder_of_the_list_of_users_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-202] A program that does not look at HOME finds nothing either."""
    monkeypatch.setenv("HOME", "/somewhere/else")
    assert hidden._homes() == ["/somewhere/else", pwd.getpwuid(os.geteuid()).pw_dir]
    monkeypatch.setenv("HOME", "/")
    assert "/" not in hidden._homes()


@contextmanager
def listening(path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(5)
        yield server


@boxed
async def test_sockets_of_services_outside_the_root_are_not_reached(tmp_path: Path) -> None:
    """[BT-238] Whoever listens in the file system, wherever; a socket in the root is the root's own."""
    root, other = tree(tmp_path / "r", {"a": ""}), tree(tmp_path / "o", {"b": "plain\n"})
    connect = "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])'"
    with listening(other / "s"), listening(root / "s") as inside:
        result = await run(root, f"cat {other}/b; {connect} {other}/s", other)
        assert result.is_error and result.output.startswith("plain\n") and "refused" in result.output
        assert not (await run(root, f"{connect} {root}/s", other)).is_error
        inside.accept()[0].close()


@boxed
async def test_sockets_that_start_containers_are_hidden_before_anybody_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-238] The places of docker, lima and their kin are empty."""
    home = tree(tmp_path / "home", {".colima/default/docker.sock": "x", ".lima/a/ssh.sock": "x", "b": ""})
    monkeypatch.setenv("HOME", str(home))
    root = tree(tmp_path / "root", {"a": ""})
    assert (await run(root, "find ~ -type f", home)).output == f"{home}/b\n"


@pytest.mark.parametrize(
    ("said", "code"),
    [("0", 0), ("7", 7), ("255", 255), ("7x", 255), ("-1", 255), ("", 255), ("0007", 255), ("9" * 40, 255)],
)
async def test_the_report_of_a_sandbox_is_a_number_or_nothing(said: str, code: int, tmp_path: Path) -> None:
    """[BT-239] A command that writes into the line to the host has an unknown exit code, and no more."""
    box = Sandbox(("/bin/sh", "-c", f"printf '%s\\n' '{said}'; read -r _"), "")
    with open(tmp_path / "output", "wb") as output:
        process = Boxed(box, ["sh", "-c", "x"], cwd=tmp_path, output=output.fileno(), env={})
        try:
            assert await process.wait(5, lambda: False) == "exit"
            await process.settle()
        finally:
            process.kill()
            ended = process.reap()
    assert (ended, process.broken) == (code, False)


@boxed
async def test_what_is_kept_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-240] /tmp, /var/tmp, /run and /dev/shm are full at some time, and /dev is not a place to write."""
    monkeypatch.setattr(walls, "_ROOM", 1 << 20)
    for place in ("/tmp", "/var/tmp", "/run", "/dev/shm"):
        fill = f"dd if=/dev/zero of={place}/full bs=64k count=64 2>&1; stat -c %s {place}/full"
        text = (await run(tmp_path, fill)).output
        assert "No space left on device" in text and f"\n{1 << 20}\n" in text, place
    assert "Read-only file system" in (await run(tmp_path, "echo x >/dev/file")).output
    result = await run(tmp_path, "echo x >/dev/null && head -c 1 /dev/zero | wc -c && echo y >/dev/shm/y")
    assert (result.output, result.is_error) == ("1\n", False)


@boxed
async def test_a_bubblewrap_that_cannot_bound_memory_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-240] Old ones do not know the option; everything else holds."""
    old = f"""#!/bin/sh
case " $* " in *" --size "*) echo "bwrap: Unknown option --size" >&2; exit 1;; esac
exec {shutil.which("bwrap")} "$@"
"""
    tree(tmp_path, {"bin/bwrap": old, "root/a": "a\n"})
    (tmp_path / "bin" / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    result = await run(tmp_path / "root", "cat a; echo x >/tmp/x; echo y >/x")
    assert result.output.startswith("a\n") and "/x: Read-only file system" in result.output
