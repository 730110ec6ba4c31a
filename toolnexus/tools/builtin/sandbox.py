"""The sandbox of `bash`: bubblewrap, on Linux.

A command sees the whole file system, but can write only below the root folder of its run; it has
its own processes, its own /tmp and, unless the host allows it, no network. Nothing outlives it.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.options import OPTIONS, BuiltinOptions
from toolnexus.tools.builtin.paths import READ_ROOTS, root_of
from toolnexus.tools.builtin.process import Process

_real = os.path.realpath
logger = logging.getLogger("toolnexus.builtins")

ENVIRONMENT = {"TMPDIR": "/tmp", "TMP": "/tmp", "TEMP": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache"}
"""What differs in the environment of a command, for the home folder cannot be written."""

_WALLS = ("--unshare-pid", "--unshare-ipc", "--as-pid-1", "--die-with-parent", "--new-session")
_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER")
"""What is left of the rights of root: to work on anybody's files, where files can be written at all."""

_PRIVATE = ("/tmp", "/var/tmp", "/run", "/var/run")
"""Empty in the sandbox. The sockets of the system's services are here, and each leads out of it."""

_SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".oci", ".kube", ".docker", ".config/gcloud", ".config/gh"),
    *(".local/share/keyrings", ".password-store", ".vault-token", ".netrc", ".pgpass", ".npmrc", ".pypirc"),
    *(".git-credentials", ".config/git/credentials", ".cargo/credentials.toml", ".terraform.d"),
)
"""Empty in the sandbox: where programs keep keys, below the home folder."""

_KEPT = ("/run/current-system",)
"""Where one system has all its programs, although it lies in a private place."""

_INIT = 'exec 3>&2 2>/dev/null; (exec "$0" -c "$1" </dev/null >&3 2>&3 3>&-); echo $?; read -r _'
"""The first process of the sandbox: it runs the command, says how that ended, and holds the walls
up until the host has looked at what is left. Its own input and output are a line to the host."""

_NOT_STARTED = 1
"""The exit code of bubblewrap itself."""

_once = threading.Lock()
_warned: set[str] = set()

_PROBE_SECONDS = 10
_SETTLE_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How to start a command in a sandbox, and what a model should know when one fails there."""

    argv: tuple[str, ...]
    note: str


def wanted(ctx: ToolContext) -> bool:
    """Whether the host has a sandbox in mind, if there is one."""
    options = ctx.get(OPTIONS)
    return options is not None and options.sandbox is not False


async def sandbox(cwd: Path, ctx: ToolContext) -> Sandbox | None:
    """The sandbox that a command is to run in, or None.

    Raises `ToolError` when the host insists on one and there is none; with `"auto"` that is only logged.
    """
    options = ctx.get(OPTIONS)
    if options is None or options.sandbox is False:
        return None
    return await run_in_thread(_sandbox, options, cwd, ctx)


def _sandbox(options: BuiltinOptions, cwd: Path, ctx: ToolContext) -> Sandbox | None:
    root = str(root_of(ctx))
    program = _program(root)
    missing = _missing(program, options.sandbox_network)
    if missing is not None:
        if options.sandbox is True:
            raise ToolError(
                f"not run: this host lets commands run in a sandbox only, and {missing}. "
                "With the option sandbox='auto' or False they run without one"
            )
        _warn(missing)
        return None
    extra = [_real(path) for path in (*(ctx.get(READ_ROOTS) or ()), cwd)]
    walls = _arguments(str(program), options.sandbox_network, root, extra)
    network = "" if options.sandbox_network else ", and there is no network"
    note = f"[in a sandbox: files can be written in {root} only, /tmp is new in every call{network}]"
    return Sandbox((*walls, "--chdir", str(cwd), "--", "/bin/sh", "-c", _INIT), note)


class Boxed(Process):
    """A command in a sandbox, which stands, with all that still runs in it, until `settle` or `reap`."""

    def __init__(
        self, box: Sandbox, argv: Sequence[str], *, cwd: Path, output: int, env: Mapping[str, str]
    ) -> None:
        shell, _, command = argv
        self.broken = False
        """Whether it ended before the command was started. Known once it is reaped."""
        self._said = b""
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        with theirs:
            try:
                super().__init__(
                    [*box.argv, shell, command],
                    cwd=cwd,
                    env={**env, **ENVIRONMENT},
                    input=theirs.fileno(),
                    output=theirs.fileno(),
                    errors=output,
                )
            except BaseException:
                self._line.close()
                raise

    def done(self) -> bool:
        """Whether the command has ended; once taken down, whether the sandbox has."""
        if self._line.fileno() < 0:
            return self.exited()
        try:
            self._said += self._line.recv(16)
        except BlockingIOError:
            pass
        return self._said.endswith(b"\n") or self.exited()

    async def settle(self) -> None:
        """Take the sandbox down; whatever runs in it is killed."""
        self._line.close()
        await self.wait(_SETTLE_SECONDS, lambda: False)

    def reap(self) -> int:
        """The exit code of the command, or else of bubblewrap."""
        self._line.close()
        code = super().reap()
        if self._said.endswith(b"\n"):
            return int(self._said)
        self.broken = code == _NOT_STARTED
        return code


def _program(root: str) -> str | None:
    """The bubblewrap in PATH, but for places where a command could have put another one."""
    if root == "/":  # no place is out of reach, so there is none to prefer
        return shutil.which("bwrap")
    folders = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]
    found = shutil.which("bwrap", path=os.pathsep.join(f for f in folders if not _lies_in(_real(f), root)))
    return None if found is None or _lies_in(_real(found), root) else found


def _arguments(program: str, network: bool, root: str | None = None, extra: Iterable[str] = ()) -> list[str]:
    """The command line of bubblewrap up to the command; `extra` can be read wherever it lies."""
    argv = [program, *_WALLS, "--cap-drop", "ALL"]
    if not network:
        argv.append("--unshare-net")
    if os.geteuid() == 0:
        argv += [word for name in _CAPABILITIES for word in ("--cap-add", name)]
    for mount in _mounts(network, root, extra):
        argv += mount
    return argv


def _mounts(network: bool, root: str | None, extra: Iterable[str]) -> list[tuple[str, ...]]:
    """What the command sees where, each folder before what lies in it.

    /proc is read-only as well: to root, its files are switches of the whole machine.
    """
    at: dict[str, tuple[str, ...]] = {
        "/": ("--ro-bind", "/", "/"),
        "/dev": ("--dev", "/dev"),
        "/proc": ("--proc", "/proc", "--remount-ro", "/proc"),
    }
    private = [place for place in map(_real, _PRIVATE) if os.path.isdir(place)]
    at |= {place: ("--tmpfs", place) for place in private}
    resolver = [_real("/etc/resolv.conf")] if network else []
    for path in (*_KEPT, *resolver, *extra):
        if os.path.exists(path) and not _lies_in(path, root):
            at.setdefault(path, ("--ro-bind", path, path))
    if root is not None:
        at[root] = ("--bind", root, root)
        ours = _real(sys.prefix)
        if ours != root and _lies_in(ours, root):  # the programs and the code of the host itself
            at[ours] = ("--ro-bind", ours, ours)
    way = {_first_on_the_way(place, path) for path in at for place in private} - {"", *at}
    at |= {top: ("--tmpfs", top) for top in way}
    for path in (_real(os.path.join(os.path.expanduser("~"), name)) for name in _SECRETS):
        if os.path.exists(path) and not (root and _lies_in(root, path)):
            at[path] = ("--tmpfs", path) if os.path.isdir(path) else ("--dev-bind", "/dev/null", path)
    # what leads to the root through a private place is not to be written to and lost
    return [at[path] for path in sorted(at, key=len)] + [("--remount-ro", top) for top in way]


def _lies_in(path: str, folder: str | None) -> bool:
    return folder is not None and Path(path).is_relative_to(folder)


def _first_on_the_way(place: str, path: str) -> str:
    """The topmost folder between `place` and something deeper in it, `""` when there is none."""
    between = Path(path).relative_to(place).parts[:-1] if _lies_in(path, place) else ()
    return os.path.join(place, between[0]) if between else ""


def _missing(program: str | None, network: bool) -> str | None:
    """Why there is no sandbox, and what would help; None when there is one."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if program is None:
        return "bubblewrap is not installed (install the package bubblewrap; its program is called bwrap)"
    with _once:
        reason = _probe(program, network)
    if reason is None:
        return None
    return (
        f"{program} does not work here ({reason}); it needs user namespaces: a kernel, and in a container a "
        "profile, that allows them to this user"
    )


@functools.cache
def _probe(program: str, network: bool) -> str | None:
    """Why `program` does not work here, found out once."""
    try:
        done = subprocess.run(
            [*_arguments(program, network), "--", "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"


def _warn(missing: str) -> None:
    """Tell the host once for each reason, whoever is first."""
    with _once:
        if missing not in _warned:
            _warned.add(missing)
            logger.warning("bash runs without a sandbox: %s", missing)
