"""The child process: executes one script after another, with no environment, no package and hard limits.

A program of its own, started with `python -I -S`: it imports the standard library and one engine (`js.py`
or `lua.py`, beside it), never toolnexus. It speaks JSON lines over one socket.

In:  a job, then one answer for each call: ["ok", value], ["handle", id, methods],
     ["err", kind, message, id or null] or ["stop"].
Out: {"ready": null or why not} once; {"call": path, "args": [...]}, at most one {"signal": …} and
     {"end": null or the failure} for each job.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO, cast

MOST_NESTED = 4
LONGEST_ERROR = 4000
HEADROOM = 96 << 20
"""What the process may take beside the memory of scripts: copies of messages, mostly."""
STACK = 64 << 20

STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
NO_BRACKET = re.compile(rb"[^\[\]{}]+")

Failure = dict[str, Any]
"""`kind`, `message` and, for an error of the host, its `id`."""


class Stop(BaseException):
    """Ends a script from inside a host call."""


class Pipe:
    """The socket to the parent, which stands for 0 and 1 at the start."""

    def __init__(self) -> None:
        self._in: BinaryIO = os.fdopen(os.dup(0), "rb")
        self._out: BinaryIO = os.fdopen(os.dup(1), "wb")
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):  # what an engine prints must not be taken for a message
            os.dup2(null, fd)

    def receive(self) -> str:
        line = self._in.readline()
        if not line:
            os._exit(0)
        return line.decode()

    def send(self, message: Any) -> None:
        self._out.write(json.dumps(message, ensure_ascii=False).encode(errors="surrogatepass"))
        self._out.write(b"\n")
        self._out.flush()

    def call(self, path: str, args: bytes) -> None:
        for part in (b'{"call":', json.dumps(path).encode(), b',"args":', args, b"}\n"):
            self._out.write(part)
        self._out.flush()


class Job:
    """One execution, with the scripts that its script runs."""

    def __init__(self, pipe: Pipe, spec: dict[str, Any]) -> None:
        self.pipe = pipe
        self.surface = spec["surface"]
        self.constants = spec["constants"]
        self.stopped = False
        seconds: float | None = spec["seconds"]
        self.deadline = None if seconds is None else time.monotonic() + seconds

    @property
    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


class Script:
    """One script: what engines execute, and what it reaches the host through."""

    def __init__(self, job: Job, name: str, source: str, config: Any, depth: int = 0) -> None:
        self.job = job
        self.name = name
        self.source = source
        self.config = config
        self.depth = depth
        self.signal: dict[str, Any] | None = None

    @property
    def left(self) -> float | None:
        """The seconds that are left, or None without a limit."""
        return None if self.job.deadline is None else max(self.job.deadline - time.monotonic(), 0.001)

    @property
    def over(self) -> bool:
        """Whether nothing of this script may run any more."""
        return self.signal is not None or self.job.stopped or self.job.expired

    def call(self, path: str, args: bytes) -> str:
        """The answer of the host, as JSON; `args` is a JSON list. Raises `Stop` when the script must end."""
        if self.over:
            raise Stop
        problem = unfit(args)
        if problem is not None:
            return refused("validation", f"{path}: the arguments {problem}")
        if path.startswith("signal."):
            self._stop(path.removeprefix("signal."), json.loads(args))
        if path == "runtime.execScript":
            return self._nested(json.loads(args))
        self.job.pipe.call(path, args)
        reply = self.job.pipe.receive()
        if reply == '["stop"]\n':
            self.job.stopped = True
            raise Stop
        return reply

    def _stop(self, kind: str, args: list[Any]) -> None:
        self.signal = as_signal(kind, args[0] if args else None)
        if self.depth == 0:  # at once: a script may go on for a while without getting anywhere
            self.job.pipe.send({"signal": self.signal})
        raise Stop

    def _nested(self, args: list[Any]) -> str:
        source, config = [*args, None, None][:2]
        if not isinstance(source, str) or not source.strip():
            return refused("validation", "runtime.execScript: the source must be a text that is not empty")
        if self.depth == MOST_NESTED:
            return refused("not_available", f"runtime.execScript: scripts nest at most {MOST_NESTED} deep")
        script = Script(self.job, f"{self.name}>execScript", source, config, self.depth + 1)
        failure = execute(script)
        if self.job.stopped or self.job.expired:
            raise Stop
        if failure is not None:
            return refused(failure["kind"], failure["message"], failure.get("id"))
        if script.signal is not None and script.signal["type"] == "error":
            return refused(script.signal["kind"], script.signal["message"])
        return json.dumps(["ok", script.signal])


def refused(kind: str, message: str, id: int | None = None) -> str:
    """An answer that the host was not asked for."""
    return json.dumps(["err", kind, message[:LONGEST_ERROR], id])


def unfit(text: bytes) -> str | None:
    """Why a JSON text is too much for the parent, whose event loop reads it; None when it is not."""
    most, values, depth = settings["most_bytes"], settings["most_values"], settings["deepest"]
    if len(text) > most:
        return f"are larger than {most >> 20} MiB"
    if text.count(b"[") + text.count(b"{") > depth or len(text) > values:
        bare = STRING.sub(b"", text)
        brackets = NO_BRACKET.sub(b"", bare)
        if bare.count(b",") + brackets.count(b"[") + brackets.count(b"{") > values:
            return f"hold more than {values} values"
        for _ in range(depth):
            brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if brackets:
            return f"are nested deeper than {depth}"
    return None


def as_signal(kind: str, value: Any) -> dict[str, Any]:
    """What `signal.<kind>(value)` says. An unknown kind is the last of the known."""
    if kind == "done":
        return {"type": "done", "kind": "", "message": "", "detail": None}
    known: list[str] = settings[f"{kind}_kinds"]
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {"message": value}
    message = given.get("message")
    if not isinstance(message, str):
        message = "" if message is None else json.dumps(message)
    said = given.get("kind")
    return {
        "type": kind,
        "kind": said if said in known else known[-1],
        "message": message,
        "detail": given.get("detail"),
    }


def confine() -> None:
    """No files, processes and cores; and room for scripts that run scripts."""
    for name, most in (("CORE", 0), ("FSIZE", 0), ("NPROC", 0), ("STACK", STACK)):
        limit(name, most)


def limit(name: str, most: int) -> None:
    number = getattr(resource, f"RLIMIT_{name}", None)
    if number is None:
        return
    hard = resource.getrlimit(number)[1]
    resource.setrlimit(number, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def bound_memory(memory: int) -> None:
    """At most so much beyond what the interpreter took to start."""
    try:
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[0])
    except OSError:  # no Linux: the engines hold their limits alone
        return
    limit("AS", pages * resource.getpagesize() + memory + HEADROOM)


def die_with(fd: int) -> None:
    """End, whatever is going on, when the parent closes the other end of this pipe, or is no more."""
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def load(settings: dict[str, Any]) -> Callable[[Script], Failure | None]:
    """The engine of the language. Its packages are the only ones that can be imported."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path = [here, *sys.path, settings["libraries"]]
    engine = __import__(settings["language"]).engine(settings)
    sys.path.remove(here)
    return engine


def execute(script: Script) -> Failure | None:
    return engine(script)


def serve(pipe: Pipe) -> None:
    pipe.send({"ready": None})
    while True:
        spec = json.loads(pipe.receive())
        job = Job(pipe, spec)
        failure = execute(Script(job, spec["name"], spec["source"], spec["config"]))
        if job.expired:
            failure = {"kind": "timeout", "message": ""}
        if failure is not None:
            failure["message"] = failure["message"][:LONGEST_ERROR]
        pipe.send({"end": failure})


if __name__ == "__main__":
    settings: dict[str, Any] = json.loads(sys.argv[1])
    die_with(settings["lifeline"])
    pipe = Pipe()
    try:
        engine = load(settings)
    except Exception as error:
        pipe.send({"ready": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    confine()
    bound_memory(settings["memory"])
    serve(pipe)
