"""Which lines of some files match: ripgrep where there is one, else Python in a child process.

Both give the same hits for the same files, in the order of the files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from toolnexus.errors import ToolError
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.process import Process, turn_to_start
from toolnexus.tools.builtin.rust_regex import NeedsRipgrep, PatternError, to_python

_LIMITS = definition("grep").limits
_CHILD = Path(__file__).resolve().with_name("search_child.py")
_WIDTH = 2_000
_ROOM = 16_384
"""More bytes than one hit takes: a path, a number and `_WIDTH` characters."""
_LISTED = 64_000_000
_ARGUMENTS = 200_000
_LARGE = 32_000_000
"""Bytes. Larger files are mapped, for a line of such a file may be as long as the file."""
_FLAGS = ("--no-config", "--no-ignore", "--hidden", "--color=never", "--null", "--text", "--crlf")
_MAPPED = ("--mmap",)
_IN_ORDER = (
    *("--line-number", "--with-filename", "--no-heading", "--threads=1"),
    *(f"--max-columns={_WIDTH}", "--max-columns-preview"),
)
_UNREADABLE = re.compile(r"rg: (.*): .* \(os error \d+\)")
_CARET = re.compile(r"\n(?P<caret> *)\^.*\nerror: (?P<message>.*)")
_BEFORE = len("    (?:")
"""What ripgrep prints before the pattern, above the caret."""


class Hit(NamedTuple):
    file: str
    number: int
    text: str


@dataclass(slots=True)
class Found:
    """`hits` are at most one more than asked for: then there are more."""

    hits: list[Hit] = field(default_factory=list[Hit])
    binary: list[str] = field(default_factory=list[str])
    """Binary files that match. Like `unreadable` known only when every hit was found."""
    unreadable: list[str] = field(default_factory=list[str])
    overlong: list[str] = field(default_factory=list[str])
    """Files with a line that was passed over for its length, once for each such line."""


def ripgrep() -> str | None:
    """The ripgrep in PATH, or the one installed with this interpreter."""
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    return shutil.which("rg") or (beside if os.access(beside, os.X_OK) else None)


async def search(pattern: str, files: Sequence[str], base: Path, limit: int, clock: Clock) -> Found:
    """The lines of `files` (relative to `base`) that match, `limit` and at most one more.

    Raises `ToolError` for a pattern that is wrong, with the position, and when the clock runs out.
    """
    try:
        _check(pattern)
        program = await run_in_thread(ripgrep)
        if program is not None:
            return await _by_ripgrep(program, for_ripgrep(pattern), files, base, limit + 1, clock)
        return await _by_python(to_python(pattern), files, base, limit + 1, clock)
    except PatternError as error:
        raise ToolError(f"invalid regex {pattern!r} at position {error.position}: {error}") from error


def _check(pattern: str) -> None:
    """Refuse what cannot be handed to a program; a line break would even make two patterns."""
    longest = _LIMITS["maxPatternCharacters"]
    if len(pattern) > longest:
        raise ToolError(f"a pattern has at most {longest} characters, this one has {len(pattern)}")
    for position, sign in enumerate(pattern, 1):
        if sign in "\0\n" or "\ud800" <= sign <= "\udfff":
            raise PatternError(f"the character {sign!r} cannot be searched for", position)


def for_ripgrep(pattern: str) -> str:
    """The pattern with `\\z` for the end of a line: ripgrep would take it for the end of the file."""
    if "\\z" not in pattern:
        return pattern
    try:
        to_python(pattern)
    except NeedsRipgrep:
        pass
    return re.sub(r"\\(.)", lambda found: "$" if found[1] == "z" else found[0], pattern)


async def _by_ripgrep(
    program: str, pattern: str, files: Sequence[str], base: Path, limit: int, clock: Clock
) -> Found:
    """First which files match, on all cores; then their lines, in order and only as many as needed."""
    found = Found()
    for batch in _batches(files or [os.devnull]):
        large = await run_in_thread(_large, batch, base, clock)
        listed: set[str] = set()
        for group, how in (([name for name in batch if name not in large], ()), (list(large), _MAPPED)):
            if not group:
                continue
            argv = [program, *_FLAGS, *how, "--files-with-matches", f"--regexp={pattern}", "--", *group]
            _, output, errors = await _run(argv, base, _LISTED, clock)
            listed.update([os.fsdecode(name) for name in output.split(b"\0")])
            found.unreadable += _complaints(errors, pattern)
        matching = [name for name in batch if name in listed]
        while matching:
            left = limit - len(found.hits)
            if not left:
                return Found(found.hits)
            some, matching = matching[:left], matching[left:]  # each of them has a hit, if it is text
            text, binary = await run_in_thread(_sorted_out, some, base, clock)
            found.binary += binary
            if text:
                argv = [program, *_FLAGS, *(_MAPPED if large.intersection(text) else ()), *_IN_ORDER]
                argv += [f"--max-count={left}", f"--regexp={pattern}", "--", *text]
                _, output, _ = await _run(argv, base, left * _ROOM, clock)
                found.hits += _hits(output)[:left]
    return found


async def _by_python(pattern: str, files: Sequence[str], base: Path, limit: int, clock: Clock) -> Found:
    argv = [sys.executable, "-I", "-S", "-W", "ignore", "-X", "utf8", str(_CHILD)]
    sniff = _LIMITS["binarySniffBytes"]
    job = {"pattern": pattern, "files": files, "limit": limit, "width": _WIDTH, "sniff": sniff}
    code, output, errors = await _run(argv, base, limit * _ROOM, clock, job)
    if code > 0:
        raise PatternError(errors.strip().rpartition("\n")[2], 1)
    report: dict[str, list[str]] = json.loads(errors) if errors else {}
    return Found(_hits(output), **report)


async def _run(
    argv: list[str], base: Path, room: int, clock: Clock, job: object = None
) -> tuple[int, bytes, str]:
    """Exit code, output and errors of a child; one that fills `room` is killed, for it said enough."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        if job is not None:
            await run_in_thread(_store, given, job)
        await turn_to_start()
        process = Process(argv, cwd=base, output=out.fileno(), errors=err.fileno(), input=given.fileno())
        try:
            end = await process.wait(clock.left, lambda: os.fstat(out.fileno()).st_size > room)
        finally:
            process.kill()
            code = process.reap()
        if end == "timeout":
            raise clock.expired()
        if end == "exit" and code < 0:
            raise ToolError(f"the search was killed by signal {-code}; choose a smaller `path` or `include`")
        output, errors = await run_in_thread(lambda: (_stored(out), _stored(err)))
        return code, output, errors.decode("utf-8", "replace")


def _store(file: BinaryIO, job: object) -> None:
    file.write(json.dumps(job).encode())
    file.seek(0)


def _stored(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


def _batches(files: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many files at a time as fit in one command line."""
    start = size = 0
    for i, name in enumerate(files):
        size += len(os.fsencode(name)) + 16
        if size > _ARGUMENTS and i > start:
            yield files[start:i]
            start, size = i, len(name) + 16
    if start < len(files):
        yield files[start:]


def _complaints(errors: str, pattern: str) -> list[str]:
    """The files that ripgrep could not read. Raises `PatternError` when it complains of the pattern."""
    lines = [line for line in errors.splitlines() if line]
    unreadable = [found.group(1) for line in lines if (found := _UNREADABLE.fullmatch(line))]
    if len(unreadable) == len(lines):
        return unreadable
    try:
        to_python(pattern)
    except NeedsRipgrep:
        pass
    found = _CARET.search(errors)
    if found is None:
        raise PatternError(lines[0].removeprefix("rg: "), 1)
    position = len(found["caret"]) - _BEFORE + 1
    raise PatternError(found["message"], min(max(position, 1), len(pattern)))


def _large(files: Sequence[str], base: Path, clock: Clock) -> set[str]:
    """Those that are not to be read into memory as a whole, however long their lines are."""
    out: set[str] = set()
    for name in files:
        clock.check()
        try:
            if os.stat(os.path.join(base, name)).st_size > _LARGE:
                out.add(name)
        except OSError:  # whoever reads it will say so
            pass
    return out


def _sorted_out(files: Sequence[str], base: Path, clock: Clock) -> tuple[list[str], list[str]]:
    """The text files and the binary ones."""
    text: list[str] = []
    binary: list[str] = []
    for name in files:
        clock.check()
        try:
            with open(os.path.join(base, name), "rb", opener=_opened) as file:
                head = file.read(_LIMITS["binarySniffBytes"])
        except OSError:  # it has gone since
            continue
        (binary if b"\0" in head else text).append(name)
    return text, binary


def _opened(path: str, flags: int) -> int:
    """Never waits, should there be a FIFO by now."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _hits(output: bytes) -> list[Hit]:
    """The hits in `path NUL number:text` lines; a line that was not finished is none."""
    out: list[Hit] = []
    for line in output.split(b"\n")[:-1]:
        name, _, rest = line.partition(b"\0")
        number, _, text = rest.partition(b":")
        out.append(Hit(os.fsdecode(name), int(number), text.decode("utf-8", "replace").removesuffix("\r")))
    return out
