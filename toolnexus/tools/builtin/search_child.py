"""The search of grep where there is no ripgrep: a program that runs in a process of its own.

A thread would not do: a pattern that backtracks holds the interpreter, and only a process can be
killed. Reads a JSON job from standard input; writes `path NUL number:text` for each hit, in the
order of the job's files. When all were searched, standard error holds a JSON object that says what
was left out; after a failure it holds a message.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BLOCK = 1 << 20
_BELOW = os.open in os.supports_dir_fd
_NO_LINK = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_FILE = _NO_LINK
_FOLDER = _NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", getattr(os, "O_SEARCH", 0))
_LONGEST = 1 << 24
"""Characters. A longer line is passed over, so that no file needs more memory than some such lines."""


def search(job: dict[str, Any], out: BinaryIO) -> dict[str, list[str]]:
    """Write the hits and return what was left out.

    `job`: pattern, base (the folder, a path without links), files (below it), limit (hits in all),
    width (characters of a line), sniff (bytes).
    """
    way = _Way(job["base"])
    matches = re.compile(job["pattern"]).search
    left: int = job["limit"]
    left_out: dict[str, list[str]] = {"binary": [], "unreadable": [], "overlong": []}
    for name in job["files"]:
        try:
            with way.open(name) as file:
                is_binary = b"\0" in file.read(job["sniff"])
                file.seek(0)
                for number, line in enumerate(_lines(file), 1):
                    if line is None:
                        left_out["overlong"].append(name)
                    elif any(map(matches, line.split("\r"))):  # what ripgrep makes of a lone return
                        if is_binary:
                            left_out["binary"].append(name)
                            break
                        text = f"{number}:{line[: job['width']]}\n"
                        out.write(os.fsencode(name) + b"\0" + text.encode("utf-8", "surrogateescape"))
                        left -= 1
                        if not left:
                            return {}
        except OSError:
            left_out["unreadable"].append(name)
    return left_out


class _Way:
    """Opens files below a folder, following no link; the folder of the last one stays open."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._folder: int | None = None
        self._name = ""

    def open(self, name: str) -> BinaryIO:
        """A regular file. Raises `OSError` for any other."""
        if _BELOW:
            above, _, last = name.rpartition("/")
            if self._folder is None or self._name != above:
                self._enter(above)
            descriptor = os.open(last, _FILE, dir_fd=self._folder)
        else:
            descriptor = os.open(os.path.join(self._base, name), _FILE)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError("no regular file")
        return os.fdopen(descriptor, "rb")

    def _enter(self, name: str) -> None:
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None
        at = os.open(os.path.abspath(os.sep), _FOLDER)
        for part in [*self._base.split("/"), *name.split("/")]:
            if part:
                try:
                    inner = os.open(part, _FOLDER, dir_fd=at)
                finally:
                    os.close(at)
                at = inner
        self._folder, self._name = at, name


def _lines(file: BinaryIO) -> Iterator[str | None]:
    """The lines of a file without their ends; None in the place of one that is too long."""
    head = file.read(4)
    mark, encoding = next(((m, e) for m, e in _MARKS if head.startswith(m)), (b"", "utf-8"))
    file.seek(len(mark))
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if encoding == "utf-8" else "replace")
    rest, passing_over = "", False
    while True:
        block = file.read(_BLOCK)
        if passing_over and block and b"\n" not in block:
            decoder.reset()
            continue
        *lines, rest = (rest + decoder.decode(block, not block)).split("\n")
        for line in lines:
            if not passing_over:
                yield line.removesuffix("\r")
            passing_over = False
        if not block:
            if rest and not passing_over:
                yield rest
            return
        if passing_over or len(rest) > _LONGEST:
            if not passing_over:
                yield None
            rest, passing_over = "", True


if __name__ == "__main__":
    try:
        json.dump(search(json.load(sys.stdin.buffer), sys.stdout.buffer), sys.stderr)
    except (re.error, OverflowError, RecursionError) as error:
        sys.exit(f"{error}")
