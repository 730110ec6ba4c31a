"""The sandbox of `bash`: bubblewrap, on Linux.

A command sees the whole file system, but can write only below the root folder of its run; it has
its own processes, its own /tmp and, unless the host allows it, no network. Nothing outlives it.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from toolnexus.core.values import frozen
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.options import OPTIONS, BuiltinOptions
from toolnexus.tools.builtin.paths import read_roots, root_of
from toolnexus.tools.builtin.process import Process
from toolnexus.tools.builtin.programs import find_program
from toolnexus.tools.builtin.walls import arguments

_real = os.path.realpath
logger = logging.getLogger("toolnexus.builtins")

ENVIRONMENT = {"TMPDIR": "/tmp", "TMP": "/tmp", "TEMP": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache"}
"""What differs in the environment of a command, for the home folder cannot be written."""

_INIT = 'exec 3>&2 2>/dev/null; (exec "$0" -c "$1" </dev/null >&3 2>&3 3>&-); echo $?; read -r _'
"""The first process of the sandbox: it runs the command, says how that ended, and holds the walls
up until the host has looked at what is left. Its own input and output are a line to the host."""

_REPORT = re.compile(rb"(0|[1-9]\d{0,2})\n")
_NOT_STARTED = 1
"""The exit code of bubblewrap itself."""
_LONGEST_REPORT = 16
_UNKNOWN = 255
"""The exit code of a command that nobody can tell."""

_once = threading.Lock()
_warned: set[str] = set()

_PROBE_SECONDS = 10
_SETTLE_SECONDS = 2


@frozen()
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
    extra = [*map(_real, read_roots(ctx)), str(cwd)]  # `cwd` was resolved: it is not looked up again
    walls = bubblewrap(root, wanted=options.sandbox, network=options.sandbox_network, extra=extra)
    if walls is None:
        return None
    network = "" if options.sandbox_network else ", and there is no network"
    note = f"[in a sandbox: files can be written in {root} only, /tmp is new in every call{network}]"
    return Sandbox((*walls, "--chdir", str(cwd), "--", "/bin/sh", "-c", _INIT), note)


def bubblewrap(
    root: str, *, wanted: Literal["auto"] | bool, network: bool, extra: Sequence[str] = ()
) -> list[str] | None:
    """The command line of bubblewrap up to a command that may write below `root` only; `extra` can be read.

    None: it runs without, as `wanted` allows. Raises `ToolError` when it does not. Blocks.
    """
    if wanted is False:
        return None
    program = find_program("bwrap", root)
    missing = _missing(program, network)
    if missing is None:
        sized = _probe(str(program), network).sized
        return arguments(str(program), network=network, sized=sized, root=root, extra=extra)
    if wanted is True:
        raise ToolError(
            f"not run: this host lets commands run in a sandbox only, and {missing}. "
            "With the option sandbox='auto' or False they run without one"
        )
    _warn(missing)
    return None


class Boxed(Process):
    """A command in a sandbox, which stands, with all that still runs in it, until `settle` or `reap`."""

    def __init__(
        self, box: Sandbox, argv: Sequence[str], *, cwd: str | Path, output: int, env: Mapping[str, str]
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
        return b"\n" in self._said or len(self._said) > _LONGEST_REPORT or self.exited()

    async def settle(self) -> None:
        """Take the sandbox down; whatever runs in it is killed."""
        self._line.close()
        await self.wait(_SETTLE_SECONDS, lambda: False)

    def reap(self) -> int:
        """The exit code of the command, or else of bubblewrap."""
        self._line.close()
        code = super().reap()
        if said := _REPORT.fullmatch(self._said):
            return int(said[1])
        if self._said:  # a command has meddled with the first process
            return _UNKNOWN
        self.broken = code == _NOT_STARTED
        return code


def _missing(program: str | None, network: bool) -> str | None:
    """Why there is no sandbox, and what would help; None when there is one."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if program is None:
        return "bubblewrap is not installed (install the package bubblewrap; its program is called bwrap)"
    with _once:
        reason = _probe(program, network).reason
    if reason is None:
        return None
    return (
        f"{program} does not work here ({reason}); it needs user namespaces: a kernel, and in a container a "
        "profile, that allows them to this user"
    )


class _Probed(NamedTuple):
    reason: str | None
    """Why it does not work here; None when it does."""
    sized: bool
    """Whether it can bound what is kept in memory. Old ones cannot."""


@functools.cache
def _probe(program: str, network: bool) -> _Probed:
    """What `program` can do here, found out once."""
    reason = _tried(program, network, sized=True)
    if reason is None or "--size" not in reason:
        return _Probed(reason, True)
    return _Probed(_tried(program, network, sized=False), False)


def _tried(program: str, network: bool, *, sized: bool) -> str | None:
    try:
        done = subprocess.run(
            [*arguments(program, network=network, sized=sized), "--", "/bin/sh", "-c", ":"],
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
            logger.warning("commands run without a sandbox: %s", missing)
