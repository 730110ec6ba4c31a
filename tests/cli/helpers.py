"""The command line: in this interpreter, as a process, or at a terminal of its own."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.warm import Warm
from toolnexus.cli.main import main

ROOT = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "toolnexus"]
PROGRAM = "import sys; from toolnexus.cli.main import main; sys.exit(main(sys.argv[1:]))"
_OURS = ("OPENAI", "ANTHROPIC", "TOOLNEXUS")
_CODE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n|\x08|([^\x1b\r\n\x08]+)")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7])m")


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Without keys and models."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, **_surroundings(folder), **(more or {})}


def _surroundings(folder: Path) -> dict[str, str]:
    """Temporary files and what is kept between two commands go to `folder`, so that processes and litter
    are found."""
    return {
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
        "TERM": "xterm-256color",
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }


def cli(
    folder: Path, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it to its end in `folder`, in this interpreter: with streams, variables and state of its own."""
    out, said = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    reading, writing = os.pipe()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(reading, encoding="utf-8") as source:
        with os.fdopen(writing, "w", encoding="utf-8") as typed:
            typed.write(stdin)  # less than a pipe holds
        for name in os.environ:
            if name.startswith(_OURS):
                patch.delenv(name)
        for name, value in {**_surroundings(folder), **(env or {})}.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        patch.setattr(tempfile, "tempdir", str(folder))
        for name, stream in (("stdin", source), ("stdout", out), ("stderr", said)):
            patch.setattr(sys, name, stream)
        try:
            code = main(arguments)
        except SystemExit as end:  # what the parser says itself
            assert isinstance(end.code, int)
            code = end.code
    texts = (stream.detach().getvalue().decode() for stream in (out, said))
    return subprocess.CompletedProcess([*CLI, *arguments], code, *texts)


def process(warm: Warm, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end in `folder`, as a process of its own."""
    return warm.run(PROGRAM, *arguments, cwd=folder, env=environment(folder))


def below(pid: int) -> list[int]:
    """Every process that descends from `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {pid})


def mentioning(text: str) -> list[int]:
    """Every process whose command line has `text`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it holds within that time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Terminal:
    """The command line at a terminal of 80 columns; `with` ends it."""

    def __init__(
        self,
        warm: Warm,
        folder: Path,
        arguments: Sequence[str],
        env: Mapping[str, str] | None = None,
        program: str = PROGRAM,
    ) -> None:
        self._fd, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        known = environment(folder, env)
        self._started = warm.start(program, *arguments, cwd=folder, env=known, terminal=terminal)
        os.close(terminal)
        self.output = ""
        self._pending = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        with self._started:
            os.close(self._fd)

    def send(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def expect(self, text: str, seconds: float = 60.0, after: int = 0) -> int:
        """Read until `text` has come beyond position `after`; gives the position behind it."""
        end = time.monotonic() + seconds
        while (at := self.output.find(text, after)) < 0:
            if time.monotonic() > end or not self.read(end - time.monotonic()):
                raise AssertionError(f"no {text!r} in {self.output[after:]!r}")
        return at + len(text)

    def wait(self, seconds: float = 60.0) -> int:
        """Read to the end; gives the exit code."""
        end = time.monotonic() + seconds
        while self.read(max(end - time.monotonic(), 0.0)):
            assert time.monotonic() < end, f"it does not end: {self.output[-500:]!r}"
        return self._started.wait()

    @property
    def screen(self) -> list[str]:
        """The lines as they stand there now."""
        return screen(self.output)

    def read(self, seconds: float) -> bool:
        """Take what comes within that time. False: nothing will come any more."""
        ready, _, _ = select.select([self._fd], [], [], max(seconds, 0.0))
        if not ready:
            return True
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # the other side is closed
            return False
        text = (self._pending + data).decode("utf-8", "ignore")
        self._pending = (self._pending + data)[len(text.encode()) :]
        if "\x1b[6n" in text:  # it asks where the cursor is
            self.send("\x1b[1;1R")
        self.output += text
        return bool(data)


def screen(output: str) -> list[str]:
    """What a terminal shows after `output`: carriage returns, cursor up and erased lines obeyed."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for code in _CODE.finditer(output):
        if code[0] == "\r":
            column = 0
        elif code[0] == "\x08":
            column = max(column - 1, 0)
        elif code[0] == "\n":
            row += 1
            lines += [[] for _ in range(row + 1 - len(lines))]
        elif code[3]:
            line = lines[row]
            line += [" "] * (column + len(code[3]) - len(line))
            line[column : column + len(code[3])] = code[3]
            column += len(code[3])
        elif code[2] == "A":
            row = max(row - int(code[1] or 1), 0)
        elif code[2] == "K":
            lines[row] = [] if code[1] == "2" else lines[row][:column]
    return ["".join(line).rstrip() for line in lines]
