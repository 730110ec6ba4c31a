"""Which lines of some files match: ripgrep where there is one, else Python in a child process.

Both give the same hits for the same files, in the order of the files. No hit comes from a file that
a link leads to: ripgrep, which follows links on its way, is asked by name only which files may
have hits; the hits themselves it finds in files that we opened.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from toolnexus.core.values import frozen, mutable
from toolnexus.errors import ToolError
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.places import descent_from, path_of
from toolnexus.tools.builtin.process import Process, turn_to_start
from toolnexus.tools.builtin.programs import bare_environment, find_program
from toolnexus.tools.builtin.rust_regex import NeedsRipgrep, PatternError, to_python

_LIMITS = definition("grep").limits
_CHILD = Path(__file__).resolve().with_name("search_child.py")
_WIDTH = 2_000
_ROOM = 16_384
"""More bytes than one hit takes: a path, a number and `_WIDTH` characters."""
_LISTED = 64_000_000
_ARGUMENTS = 200_000
_OPEN = 64
"""Files that are open at once for one search."""
_LARGE = 32_000_000
"""Bytes. Larger files are mapped, for a line of such a file may be as long as the file."""
_FLAGS = ("--no-config", "--no-ignore", "--hidden", "--color=never", "--null", "--text", "--crlf")
_MAPPED = ("--mmap",)
_HERE = "./"
"""Before a name, so that `-` and `--files` are names."""
_IN_ORDER = (
    *("--line-number", "--with-filename", "--no-heading", "--threads=1"),
    *(f"--max-columns={_WIDTH}", "--max-columns-preview"),
)
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Never waits, should there be a FIFO by now."""
_UNREADABLE = re.compile(r"rg: (.*): .* \(os error \d+\)")
_CARET = re.compile(r"\n(?P<caret> *)\^.*\nerror: (?P<message>.*)")
_BEFORE = len("    (?:")
"""What ripgrep prints before the pattern, above the caret."""


class Hit(NamedTuple):
    file: str
    number: int
    text: str


@mutable()
class Found:
    """`hits` are at most one more than asked for: then there are more."""

    hits: list[Hit] = field(default_factory=list[Hit])
    binary: list[str] = field(default_factory=list[str])
    """Binary files that match. Like `unreadable` known only when every hit was found."""
    unreadable: list[str] = field(default_factory=list[str])
    overlong: list[str] = field(default_factory=list[str])
    """Files with a line that was passed over for its length, once for each such line."""


def ripgrep(root: str = "") -> str | None:
    """The ripgrep in PATH, unless it lies in `root`, or the one installed with this interpreter."""
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    return find_program("rg", root) or (beside if os.access(beside, os.X_OK) else None)


async def search(
    pattern: str, files: Sequence[str], base: Path, limit: int, clock: Clock, root: str = ""
) -> Found:
    """The lines of `files` (relative to `base`) that match, `limit` and at most one more.

    No program is taken from `root`. Raises `ToolError` for a pattern that is wrong, with the
    position, and when the clock runs out.
    """
    try:
        _check(pattern)
        program = await run_in_thread(ripgrep, root)
        if program is not None:
            job = _Ripgrep(program, for_ripgrep(pattern), base, clock, bare_environment(root))
            return await job.search(files, limit + 1)
        return await _by_python(to_python(pattern), files, base, limit + 1, clock, bare_environment(root))
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


@frozen()
class _Ripgrep:
    """One search by ripgrep."""

    program: str
    pattern: str
    base: Path
    clock: Clock
    env: Mapping[str, str]

    async def search(self, files: Sequence[str], limit: int) -> Found:
        """First which files match, on all cores; then their lines, in order and only as many as needed."""
        found = Found()
        for batch in _batches(files):
            large = await run_in_thread(_large, batch, self.base, self.clock)
            listed: set[str] = set()
            for group, how in (([name for name in batch if name not in large], ()), (list(large), _MAPPED)):
                if group or not files:  # without a file the pattern is looked at all the same
                    listed |= await self._matching(group, how, found)
            matching = [name for name in batch if name in listed]
            while matching:
                left = limit - len(found.hits)
                if not left:
                    return Found(found.hits)
                size = min(left, _OPEN)  # each of them has a hit, if it is text
                found.hits += await self._hits(matching[:size], not large.isdisjoint(matching), left, found)
                matching = matching[size:]
        return found

    async def _matching(self, files: Sequence[str], how: Sequence[str], found: Found) -> set[str]:
        """Those of `files` that match, as far as names can be trusted."""
        names = [_HERE + name for name in files] or [os.devnull]
        output, errors = await self._run([*how, "--files-with-matches"], names, _LISTED)
        found.unreadable += [name.removeprefix(_HERE) for name in _complaints(errors, self.pattern)]
        return {os.fsdecode(name).removeprefix(_HERE) for name in output.split(b"\0")}

    async def _hits(self, files: Sequence[str], mapped: bool, left: int, found: Found) -> list[Hit]:
        """The hits in `files`, at most `left`; the binary ones are added to `found`."""
        with ExitStack() as held:
            try:
                text, binary = await run_in_thread(_sorted_out, files, self.base, self.clock, held)
            except OSError as error:
                raise ToolError(f"the folder has changed while it was searched: {error.strerror}") from error
            found.binary += binary
            if not text:
                return []
            how = [*(_MAPPED if mapped else ()), *_IN_ORDER, f"--max-count={left}"]
            open_files = [file for _, file in text.values() if file is not None]
            output, _ = await self._run(how, list(text), left * _ROOM, open_files)
            return [hit._replace(file=text[hit.file][0]) for hit in _hits(output)[:left]]

    async def _run(
        self, how: Sequence[str], names: Sequence[str], room: int, open_files: Sequence[int] = ()
    ) -> tuple[bytes, str]:
        argv = [self.program, *_FLAGS, *how, f"--regexp={self.pattern}", "--", *names]
        _, output, errors = await _run(argv, self.base, room, self.clock, self.env, open_files=open_files)
        return output, errors


async def _by_python(
    pattern: str, files: Sequence[str], base: Path, limit: int, clock: Clock, env: Mapping[str, str]
) -> Found:
    argv = [sys.executable, "-I", "-S", "-W", "ignore", "-X", "utf8", str(_CHILD)]
    job = {
        "pattern": pattern,
        "base": str(base),
        "files": files,
        "limit": limit,
        "width": _WIDTH,
        "sniff": _LIMITS["binarySniffBytes"],
    }
    code, output, errors = await _run(argv, base, limit * _ROOM, clock, env, job)
    if code > 0:
        raise PatternError(errors.strip().rpartition("\n")[2], 1)
    report: dict[str, list[str]] = json.loads(errors) if errors else {}
    return Found(_hits(output), **report)


async def _run(
    argv: list[str],
    base: Path,
    room: int,
    clock: Clock,
    env: Mapping[str, str],
    job: object = None,
    open_files: Sequence[int] = (),
) -> tuple[int, bytes, str]:
    """Exit code, output and errors of a child; one that fills `room` is killed, for it said enough."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        if job is not None:
            await run_in_thread(_store, given, job)
        await turn_to_start()
        try:
            process = Process(
                argv,
                cwd=base,
                output=out.fileno(),
                errors=err.fileno(),
                input=given.fileno(),
                env=env,
                open_files=open_files,
            )
        except OSError as error:
            raise ToolError(f"the search cannot be started: {error.strerror}") from error
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
    """As many files at a time as fit in one command line; without any, nothing once."""
    if not files:
        yield files
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


def _sorted_out(
    files: Sequence[str], base: Path, clock: Clock, held: ExitStack
) -> tuple[dict[str, tuple[str, int | None]], list[str]]:
    """The text files and the binary ones.

    The text files are opened without following a link, and stay open for as long as `held`: with
    the path that leads to each, its name and its descriptor. Where no path leads to what is open,
    the name has to do. Raises `OSError` when `base` has gone.
    """
    text: dict[str, tuple[str, int | None]] = {}
    binary: list[str] = []
    with descent_from(base) as descent:
        for name in files:
            clock.check()
            try:
                file = held.enter_context(os.fdopen(descent.open(name, _READING), "rb", buffering=0))
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    continue
                head = file.read(_LIMITS["binarySniffBytes"])
                file.seek(0)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise ToolError("too many files are open; try again when less is going on") from error
                continue  # it has gone since
            if b"\0" in head:
                binary.append(name)
            elif (path := path_of(file.fileno())) is not None:
                text[path] = name, file.fileno()
            else:
                text[_HERE + name] = name, None
    return text, binary


def _hits(output: bytes) -> list[Hit]:
    """The hits in `path NUL number:text` lines; a line that was not finished is none."""
    out: list[Hit] = []
    for line in output.split(b"\n")[:-1]:
        name, _, rest = line.partition(b"\0")
        number, _, text = rest.partition(b":")
        out.append(Hit(os.fsdecode(name), int(number), text.decode("utf-8", "replace").removesuffix("\r")))
    return out
