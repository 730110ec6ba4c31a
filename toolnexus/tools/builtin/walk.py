"""The files below a folder, by one set of rules for grep and glob.

Ignored entries, hidden ones, symbolic links and what is neither file nor folder are left out and
counted; `.git` is never shown.
"""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from toolnexus.core.values import mutable
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.globs import Glob, Level
from toolnexus.tools.builtin.ignore import FILE, Ignore, ignore_above
from toolnexus.tools.builtin.paths import printable
from toolnexus.tools.builtin.places import Descent, Folder, descent_from

_NAMED = 3
_OWN = (".git", FILE)
"""What belongs to git: nobody misses it."""


@mutable()
class _Kind:
    """How many of a kind there are, and the first few names."""

    count: int = 0
    names: list[str] = field(default_factory=list[str])

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < _NAMED or name < self.names[-1]:
            insort(self.names, name)
            del self.names[_NAMED:]


@mutable()
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


def walk(
    start: Path, root: Path, glob: Glob, skipped: Skipped, clock: Clock, closed: Collection[Path] = ()
) -> Iterator[str]:
    """The files below `start` that `glob` matches, relative to it, in no order; none below a `closed` folder.

    Blocks. Folders are entered by descriptors, so one that becomes a link meanwhile leads nowhere.
    Raises `ToolError` when the clock runs out or `start` itself cannot be listed.
    """
    barred = {path.relative_to(start).as_posix() for path in closed if path.is_relative_to(start)}
    with _descent(start) as descent:
        folders: list[tuple[str, Level, Ignore]] = [("", glob.top, ignore_above(start, root, clock))]
        while folders:
            prefix, level, ignore = folders.pop()
            folder = _entered(descent, prefix, skipped)
            if folder is None:
                continue
            ignore = ignore.reading(folder, clock)
            for entry in _entries(folder, prefix, skipped):
                clock.check()
                name = entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if not level.wants(name, is_folder):
                    if _hidden(name) and level.wants(name, is_folder, hidden=True):
                        skipped.add("hidden directory" if is_folder else "hidden file", prefix + name)
                elif name == ".git" or prefix + name in barred:
                    continue
                elif kind := _left_out(entry, is_folder, ignore):
                    skipped.add(kind, prefix + name)
                elif is_folder:
                    folders.append((f"{prefix}{name}/", level.below(name), ignore.below(name)))
                else:
                    yield prefix + name


@contextmanager
def _descent(start: Path) -> Generator[Descent]:
    try:
        with descent_from(start) as descent:
            yield descent
    except OSError as error:
        raise ToolError(f"{str(start)!r} cannot be listed: {error.strerror}") from error


def _entered(descent: Descent, prefix: str, skipped: Skipped) -> Folder | None:
    """The folder, or None when it may not be entered or is a link by now. Raises `OSError` for the first."""
    try:
        return descent.folder(prefix.removesuffix("/"))
    except OSError:
        if not prefix:
            raise
        skipped.add("unreadable directory", prefix.removesuffix("/"))
        return None


def _entries(folder: Folder, prefix: str, skipped: Skipped) -> Iterator[os.DirEntry[str]]:
    try:
        yield from folder.entries()
    except OSError:
        if not prefix:
            raise
        skipped.add("unreadable directory", prefix.removesuffix("/"))


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
