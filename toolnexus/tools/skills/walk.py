"""Which files there are below a folder of skills. Everything here blocks on the disk.

A `Clock` bounds each walk: it raises `ToolError` when the time is up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.skills.definition import listable

FILE = "SKILL.md"
_SKIPPED = (".git", "node_modules")


def skill_files(
    top: Path, seen: set[str], clock: Clock, doubt: Callable[[str, str, str], None]
) -> Iterator[str]:
    """The paths of all `SKILL.md` below `top`, whatever they are.

    Each folder is visited once, whatever links to it, and by its own path before any link: a skill
    is known by its place. `doubt` gets path, reason and detail of what is in the way.
    """
    waiting = [(str(top), os.path.realpath(top), False)]
    links: list[tuple[str, str, bool]] = []
    while waiting or links:
        folder, real, inside = waiting.pop() if waiting else links.pop(0)
        if real in seen:
            continue
        seen.add(real)
        try:
            entries = _in_path_order(folder, clock)
        except OSError as error:
            doubt(folder, "unreadable", error.strerror or str(error))
            continue
        found = [e.path for e in entries if e.name == FILE]
        inside = inside or bool(found)
        if not inside:
            for entry in entries:
                if entry.name.lower() == FILE.lower():
                    doubt(entry.path, "misnamed-file", f"not loaded: the file must be called {FILE!r}")
        yield from found
        below = [(e, (e.path, _real(e, real), inside)) for e in entries if holds(e.is_dir)]
        waiting += [item for entry, item in reversed(below) if not entry.is_symlink()]
        links += [item for entry, item in below if entry.is_symlink()]


def siblings(folder: Path, root: Path, clock: Clock) -> Iterator[str]:
    """The files of a skill in code-point order of their relative paths, without its `SKILL.md`.

    A folder in it with a `SKILL.md` is another skill, whose files are its own. A link that leads out
    of `root`, the real folder, is left out: no tool reads what is behind it.
    Lazy: a big folder is read only as far as it is asked for.
    """
    seen: set[str] = set()
    waiting: list[tuple[os.DirEntry[str] | None, str, str]] = [(None, str(folder), str(root))]
    while waiting:
        entry, path, real = waiting.pop()
        if entry is None or holds(entry.is_dir):
            if real not in seen and Path(real).is_relative_to(root):
                seen.add(real)
                with suppress(OSError):
                    inner = _in_path_order(path, clock)
                    if entry is None or not any(e.name == FILE for e in inner):
                        waiting += [(e, e.path, _real(e, real)) for e in reversed(inner)]
        elif entry.name != FILE and holds(entry.is_file) and listable(path):
            if Path(real).is_relative_to(root):
                yield path


def _real(entry: os.DirEntry[str], folder: str) -> str:
    """Where an entry of the folder whose real place is given really is."""
    return os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(folder, entry.name)


def _in_path_order(folder: str, clock: Clock) -> list[os.DirEntry[str]]:
    """Its entries, so sorted that walking them in depth gives whole paths in code-point order."""
    wanted: list[os.DirEntry[str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            clock.check()
            if entry.name not in _SKIPPED:
                wanted.append(entry)
    return sorted(wanted, key=lambda e: e.name + "/" if holds(e.is_dir) else e.name)


def holds(test: Callable[[], bool]) -> bool:
    """Whether it holds; what cannot be looked at (a link to itself) holds nothing."""
    try:
        return test()
    except OSError:
        return False
