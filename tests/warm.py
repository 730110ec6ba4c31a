"""Python programs that start at once: processes of their own, forked from an interpreter that has loaded
what they need. A start costs 20 ms of CPU in place of a second.

What a test says about loading, about options of the interpreter or about hash seeds needs a cold start.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import types
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import toolnexus

ROOT = Path(__file__).parents[1]
LOADED = (
    *("aiohttp.web", "anyio._backends._asyncio", "jsonschema", "mcp", "yaml"),
    *("tests.mcp.helpers", "toolnexus.config.document", "toolnexus.models.http", "toolnexus.testing"),
    *("toolnexus.protocols.mcp.session", "toolnexus.protocols.mcp.stdio", "toolnexus.tools.builtin.bash"),
    *("toolnexus.cli.build", "toolnexus.cli.chat", "toolnexus.graph"),
)


class Warm:
    """Starts programs; `with` ends the interpreter behind it. Programs are no children of this process."""

    def __enter__(self) -> Warm:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            command = [sys.executable, "-m", "tests.warm", str(there.fileno())]
            subprocess.run(command, cwd=ROOT, pass_fds=[there.fileno()], check=True, timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._here.close()

    def run(
        self, program: str | Path, *arguments: str, cwd: Path = ROOT, given: str = "", **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; options as for `start`."""
        with tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile("w+") as stderr:
            stdin.write(given)
            stdin.seek(0)
            with self.start(program, *arguments, cwd=cwd, stdin=stdin, stderr=stderr, **options) as started:
                out = started.stdout.read()
                code = started.wait()
            stderr.seek(0)
            return subprocess.CompletedProcess([str(program), *arguments], code, out, stderr.read())

    def start(
        self,
        program: str | Path,
        *arguments: str,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        strict: bool = False,
        stdin: IO[str] | None = None,
        stderr: IO[str] | None = None,
        terminal: int | None = None,
    ) -> Started:
        """Start a program: the text of one, or the file of one. `strict` makes warnings errors. A terminal
        stands for all three streams, and signals its keys to the program."""
        request = {
            "program": str(program),
            "is_file": isinstance(program, Path),
            "arguments": arguments,
            "cwd": str(cwd),
            "env": dict(os.environ if env is None else env),
            "strict": strict,
            "at_terminal": terminal is not None,
        }
        reading, writing = os.pipe()
        news, telling = os.pipe()
        with open(os.devnull, "r+") as nothing:
            streams = [(stdin or nothing).fileno(), writing, (stderr or nothing).fileno()]
            if terminal is not None:
                streams = [terminal] * 3
            socket.send_fds(self._here, [json.dumps(request).encode()], [*streams, telling])
        os.close(writing)
        os.close(telling)
        return Started(os.fdopen(reading), os.fdopen(news, "rb", buffering=0))


class Started:
    """A program under way; leaving the `with` block kills it."""

    def __init__(self, stdout: IO[str], news: IO[bytes]) -> None:
        self.stdout = stdout
        self._news = news
        self._code: int | None = None
        self.pid = self._next(30.0)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.send_signal(signal.SIGKILL)
            self.wait()
        self.stdout.close()
        self._news.close()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    @property
    def is_running(self) -> bool:
        return self._code is None and not select.select([self._news], [], [], 0)[0]

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code, negative for a signal."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(self._next(seconds))
        return self._code

    def _next(self, seconds: float) -> int:
        assert select.select([self._news], [], [], seconds)[0], "it does not end"
        return int.from_bytes(self._news.read(4), sys.byteorder)


def serve(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request. Comes back in the forked processes only, with what is to be run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        data, streams, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not data:
            os._exit(0)
        if os.fork() == 0:
            break
        for stream in streams:
            os.close(stream)
    requests.close()
    if program := os.fork():  # this one stays to say how it ended
        for stream in streams[:3]:
            os.close(stream)
        os.write(streams[3], program.to_bytes(4, sys.byteorder))
        _, status = os.waitpid(program, 0)
        os.write(streams[3], status.to_bytes(4, sys.byteorder))
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        if number < 3:
            os.dup2(stream, number)
        os.close(stream)
    return json.loads(data)


def become(request: dict[str, Any]) -> types.CodeType:
    """Make this process look as if the program were started in it."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if request["at_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if request["strict"]:
        warnings.simplefilter("error")
    name = "<string>"
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if request["is_file"]:
        name = main.__file__ = request["program"]
        request["program"] = Path(name).read_text(encoding="utf-8")
    sys.argv = [name, *request["arguments"]]
    sys.path[0] = os.path.dirname(name)
    return compile(request["program"], name, "exec", dont_inherit=True)


if __name__ == "__main__":
    for module in LOADED:
        import_module(module)
    for name in toolnexus.__all__:
        getattr(toolnexus, name)
    gc.collect()
    gc.freeze()
    if os.fork():
        os._exit(0)
    code = become(serve(socket.socket(fileno=int(sys.argv[1]))))
    exec(code, sys.modules["__main__"].__dict__)
