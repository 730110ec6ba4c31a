"""The files below a folder, by one set of rules for grep and glob.

Ignored entries, hidden ones, symbolic links and what is neither file nor folder are left out and
counted; `.git` is never shown.
"""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from toolnexus.errors import ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.globs import Glob, Level
from toolnexus.tools.builtin.ignore import FILE, Ignore, ignore_above
from toolnexus.tools.builtin.paths import printable

_NAMED = 3
_OWN = (".git", FILE)
"""What belongs to git: nobody misses it."""


@dataclass(slots=True)
class _Kind:
    """How many of a kind there are, and the first few names."""

    count: int = 0
    names: list[str] = field(default_factory=list[str])

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < _NAMED or name < self.names[-1]:
            insort(self.names, name)
            del self.names[_NAMED:]


@dataclass(slots=True)
class Skipped:
    """What a walk left out, by kind, and what the tool itself left out."""

    kinds: dict[str, _Kind] = field(default_factory=dict[str, _Kind])

    def add(self, kind: str, name: str) -> None:
        self.kinds.setdefault(kind, _Kind()).add(name)

    def note(self) -> str:
        """A line such as `[1 ignored directory skipped (build/)]`, or `""`."""
        found = [_counted(kind, self.kinds[kind]) for kind in sorted(self.kinds)]
        return f"[{'; '.join(found)}]" if found else ""


def _counted(kind: str, found: _Kind) -> str:
    more = ", …" if found.count > _NAMED else ""
    plural = kind.removesuffix("y") + ("ies" if kind.endswith("y") else "s")
    end = "/" if kind.endswith("directory") else ""
    shown = ", ".join([printable(name) + end for name in found.names])
    return f"{found.count} {kind if found.count == 1 else plural} skipped ({shown}{more})"


def walk(start: Path, root: Path, glob: Glob, skipped: Skipped, clock: Clock) -> Iterator[str]:
    """The files below `start` that `glob` matches, relative to it, in no order.

    Blocks. Raises `ToolError` when the clock runs out or `start` itself cannot be listed.
    """
    folders: list[tuple[str, Level, Ignore]] = [("", glob.top, ignore_above(start, root, clock))]
    while folders:
        prefix, level, ignore = folders.pop()
        ignore = ignore.reading(os.path.join(start, prefix), clock)
        for entry in _entries(start, prefix, skipped):
            clock.check()
            name = entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if not level.wants(name, folder):
                if _hidden(name) and level.wants(name, folder, hidden=True):
                    skipped.add("hidden directory" if folder else "hidden file", prefix + name)
            elif name == ".git":
                continue
            elif kind := _left_out(entry, folder, ignore):
                skipped.add(kind, (prefix + name).replace("\n", "?"))
            elif folder:
                folders.append((f"{prefix}{name}/", level.below(name), ignore.below(name)))
            else:
                yield prefix + name


def _left_out(entry: os.DirEntry[str], folder: bool, ignore: Ignore) -> str:
    """The kind under which an entry is left out, or `""`."""
    if "\n" in entry.name:  # no line can name it
        return "unprintable name"
    if entry.is_symlink():
        return "symbolic link"
    if ignore.excludes(entry.name, folder):
        return "ignored directory" if folder else "ignored file"
    if not (folder or entry.is_file(follow_symlinks=False)):
        return "special file"
    return ""


def _hidden(name: str) -> bool:
    return name.startswith(".") and name not in _OWN


def _entries(start: Path, prefix: str, skipped: Skipped) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(start, prefix)) as entries:
            yield from entries
    except OSError as error:
        if not prefix:
            raise ToolError(f"{str(start)!r} cannot be listed: {error.strerror}") from error
        skipped.add("unreadable directory", prefix.removesuffix("/"))
