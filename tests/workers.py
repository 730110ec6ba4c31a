"""Workers of pytest-xdist that are forks of one interpreter, which has collected the tests already.

Each would compile and import the same modules otherwise, which takes several seconds.
"""

from __future__ import annotations

import gc
import os
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from tempfile import TemporaryDirectory

import pytest

from tests.warm import finish

STAND_IN = """\
import os, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
door = socket.socket(socket.AF_UNIX)
try:
    door.connect(sys.argv[1])
    socket.send_fds(door, [b"fork"], [0, 1, 2])
    forked = door.recv(1)
except OSError:
    forked = b""
if not forked:
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
signal.signal(signal.SIGINT, signal.SIG_IGN)
door.recv(1)
"""
"""Runs where a worker is expected: a fork gets its streams, and it ends with it. When there is no fork (for a
worker that replaces a crashed one, or when not everything could be collected), it becomes the interpreter
that it stands for."""


def forked(config: pytest.Config, number: int) -> str:
    """Begin to collect for so many workers; gives what starts one of them, in place of an interpreter."""
    stack = ExitStack()
    config.add_cleanup(stack.close)
    door = os.path.join(stack.enter_context(TemporaryDirectory(prefix="toolnexus-")), "door")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(door)
        listening.listen(number)
        given = [str(listening.fileno()), str(number), *config.invocation_params.args]
        command = [sys.executable, "-m", "tests.workers", *given]
        collecting = subprocess.Popen(command, pass_fds=[listening.fileno()], cwd=config.rootpath)
        stack.enter_context(collecting)
        stack.callback(collecting.terminate)  # it waits as long as a fork is missing
    return shlex.join([sys.executable, "-ISc", STAND_IN, door])


class Collected:
    """Whether everything could be: what was loaded in part would be taken for the whole by a fork."""

    is_whole = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.is_whole &= report.passed


def collect(arguments: list[str]) -> bool:
    """Load what pytest loads for these, silently; whether that was everything."""
    collected = Collected()
    kept = [os.dup(stream) for stream in (1, 2)]
    with open(os.devnull, "w") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    code = pytest.main([*arguments, "--collect-only", "--capture=no"], [collected])
    for stream, was in zip((1, 2), kept, strict=True):
        os.dup2(was, stream)
        os.close(was)
    return collected.is_whole and code == 0


def fork(listening: socket.socket, number: int) -> bool:
    """Make so many forks; true in each of them, which has the streams of a caller for its own."""
    for _ in range(number):
        caller = listening.accept()[0]
        streams = socket.recv_fds(caller, 4, 3)[1]
        is_fork = os.fork() == 0
        for target, stream in enumerate(streams):
            if is_fork:
                os.dup2(stream, target)
            os.close(stream)
        if is_fork:
            caller.detach()  # closed by the end of this process
            return True
        caller.send(b"!")
        caller.close()
    return False


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    if not collect(sys.argv[3:]):
        sys.exit()
    gc.collect()
    gc.freeze()
    if not fork(listening, int(sys.argv[2])):
        os._exit(0)
    listening.close()
    sys.argv = ["-c"]
    sys.stdin = open(0, closefd=False)
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})  # execnet sends the worker
    finish(0)
