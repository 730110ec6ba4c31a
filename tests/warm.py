"""Python programs that start at once: processes of their own, forked from an interpreter that has loaded
what they need. A start costs 20 ms of CPU in place of a second.

What a test says about loading, about options of the interpreter or about hash seeds needs a cold start.
"""

from __future__ import annotations

import atexit
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
import threading
import types
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import IO, Any, NoReturn

import toolnexus

ROOT = Path(__file__).parents[1]
LOADED = (
    *("a2a.client", "aiohttp.web", "anyio._backends._asyncio", "jsonschema", "mcp", "openai.resources.chat"),
    *("tests.mcp.helpers", "tomli", "yaml"),
)
"""All of the package is, too."""


class Warm:
    """Starts programs; the last who leaves the `with` block ends the interpreter behind it. Programs are no
    children of this process."""

    def __init__(self, folder: Path) -> None:
        """Those who name the same folder share an interpreter."""
        self._folder = folder
        self._here = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def __enter__(self) -> Warm:
        door = str(self._folder / "warm")
        lock = os.open(self._folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            self._here.connect(door)
        except OSError:  # it has not been started, or everybody has left
            subprocess.run([sys.executable, "-m", "tests.warm", door], cwd=ROOT, check=True, timeout=300)
            self._here.connect(door)
        finally:
            os.close(lock)
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

    def piped(self, program: str | Path, *arguments: str, **options: Any) -> Piped:
        """Start a program with a pipe for each stream; options as for `start`."""
        reading, stdin = os.pipe()
        stderr, writing = os.pipe()
        with os.fdopen(reading) as given, os.fdopen(writing, "w") as said:
            started = self.start(program, *arguments, stdin=given, stderr=said, **options)
        return Piped(started, os.fdopen(stdin, "w"), os.fdopen(stderr))

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
        try:
            if self.is_running:
                with suppress(ProcessLookupError):  # it ended, and nobody was told yet
                    self.send_signal(signal.SIGKILL)
                self.wait()
        finally:
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


class Piped(Started):
    """A program under way that is talked to."""

    def __init__(self, started: Started, stdin: IO[str], stderr: IO[str]) -> None:
        vars(self).update(vars(started))
        self.stdin = stdin
        self.stderr = stderr

    def __enter__(self) -> Piped:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            super().__exit__()
        finally:
            self.stderr.close()
            with suppress(BrokenPipeError):
                self.stdin.close()

    def put(self, line: str) -> None:
        self.stdin.write(line + "\n")
        self.stdin.flush()


def serve(door: socket.socket) -> dict[str, Any]:
    """Fork for each request, until nobody is connected any more. Comes back in the forked processes only,
    with what is to be run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, _awake)
    callers = [door.accept()[0]]
    programs: dict[int, int] = {}
    while callers:
        ready_ones = select.select([door, woken, *callers], [], [])[0]
        if woken in ready_ones:
            os.read(woken, 4096)
            _tell_ends(programs)
        for ready in [one for one in (door, *callers) if one in ready_ones]:
            if ready is door:
                callers.append(door.accept()[0])
            elif not (request := socket.recv_fds(ready, 1 << 20, 4))[0]:
                callers.remove(ready)
                ready.close()
            elif (program := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for inherited in (woken, waking, *programs.values(), request[1].pop()):
                    os.close(inherited)
                for used in (door, *callers):
                    used.close()
                for number, stream in enumerate(request[1]):
                    os.dup2(stream, number)
                    os.close(stream)
                return json.loads(request[0])
            else:
                *streams, programs[program] = request[1]
                os.write(programs[program], program.to_bytes(4, sys.byteorder))
                for stream in streams:
                    os.close(stream)
    os.unlink(door.getsockname())
    os._exit(0)


def _awake(*_: object) -> None:
    """For a signal that is to wake `select`."""


def _tell_ends(programs: dict[int, int]) -> None:
    """Say of each program that has ended how it did."""
    while programs and (ended := os.waitpid(-1, os.WNOHANG))[0]:
        telling = programs.pop(ended[0])
        with suppress(BrokenPipeError):
            os.write(telling, ended[1].to_bytes(4, sys.byteorder))
        os.close(telling)


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


def finish(code: int) -> NoReturn:
    """End as an interpreter does, but for taking apart every module that is loaded: that takes longer than
    most programs."""
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    atexit._run_exitfuncs()
    sys.modules["__main__"].__dict__.clear()
    gc.collect()
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        print(f"Exception ignored while flushing stdout: {error!r}", file=sys.stderr)
        code = 120
    os._exit(code)


def run(code: types.CodeType) -> int:
    """Run the program; gives its exit code."""
    try:
        exec(code, sys.modules["__main__"].__dict__)
    except KeyboardInterrupt:
        raise
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    ours = (module.name for module in walk_packages(toolnexus.__path__, "toolnexus."))
    for module in (*LOADED, *ours):
        import_module(module)
    for name in toolnexus.__all__:
        getattr(toolnexus, name)
    gc.collect()
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with suppress(FileNotFoundError):
        os.unlink(sys.argv[1])
    listening.bind(sys.argv[1])
    listening.listen()
    if os.fork():
        os._exit(0)
    finish(run(become(serve(listening))))
