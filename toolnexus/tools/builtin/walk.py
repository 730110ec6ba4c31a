"""The files below a folder, by one set of rules for grep and glob.

Ignored entries, hidden ones and symbolic links are left out and counted; `.git` is never shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from toolnexus.errors import ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.globs import Glob
from toolnexus.tools.builtin.ignore import FILE, Ignore, ignore_above
from toolnexus.tools.builtin.paths import printable

_NAMED = 3
_OWN = (".git", FILE)
"""What belongs to git: nobody misses it."""


@dataclass(slots=True)
class Skipped:
    """What a walk left out, by kind, and what the tool itself left out."""

    kinds: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, kind: str, name: str) -> None:
        self.kinds.setdefault(kind, []).append(name)

    def note(self) -> str:
        """A line such as `[1 ignored directory skipped (build/)]`, or `""`."""
        found = [_counted(kind, sorted(self.kinds[kind])) for kind in sorted(self.kinds)]
        return f"[{'; '.join(found)}]" if found else ""


def _counted(kind: str, names: list[str]) -> str:
    more = ", …" if len(names) > _NAMED else ""
    plural = kind if len(names) == 1 else kind.removesuffix("y") + ("ies" if kind.endswith("y") else "s")
    end = "/" if kind.endswith("directory") else ""
    shown = ", ".join([printable(name) + end for name in names[:_NAMED]])
    return f"{len(names)} {plural} skipped ({shown}{more})"


def walk(start: Path, root: Path, glob: Glob, skipped: Skipped, clock: Clock) -> Iterator[str]:
    """The files below `start` that `glob` matches, relative to it, in no order.

    Blocks. Raises `ToolError` when the clock runs out or `start` itself cannot be listed.
    """
    ignore, above = ignore_above(start, root)
    folders: list[tuple[str, Ignore]] = [("", ignore)]
    while folders:
        prefix, ignore = folders.pop()
        names = (*above, *prefix.split("/")[:-1])
        ignore = ignore.below(os.path.join(start, prefix), len(names))
        for entry in _entries(start, prefix, skipped):
            clock.check()
            path = prefix + entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if not glob.wants(path, folder):
                if _hidden(entry.name) and glob.wants(path, folder, hidden=True):
                    skipped.add("hidden directory" if folder else "hidden file", path)
            elif entry.name == ".git":
                continue
            elif "\n" in entry.name:  # no line can name it
                skipped.add("unprintable name", path.replace("\n", "?"))
            elif entry.is_symlink():
                skipped.add("symbolic link", path)
            elif ignore.excludes((*names, entry.name), folder):
                skipped.add("ignored directory" if folder else "ignored file", path)
            elif folder:
                folders.append((path + "/", ignore))
            elif entry.is_file(follow_symlinks=False):
                yield path


def _hidden(name: str) -> bool:
    return name.startswith(".") and name not in _OWN


def _entries(start: Path, prefix: str, skipped: Skipped) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(start, prefix)) as entries:
            return list(entries)
    except OSError as error:
        if not prefix:
            raise ToolError(f"{str(start)!r} cannot be listed: {error.strerror}") from error
        skipped.add("unreadable directory", prefix.removesuffix("/"))
        return []
