"""What .gitignore files exclude, by git's rules: deeper files win, in one file the last line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolnexus.tools.builtin.globs import ANY_DEPTH, Part, parts_of, states

FILE = ".gitignore"
_LONGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class _Rule:
    parts: tuple[Part, ...]
    ignores: bool
    """False for a line with `!`, which brings back what an earlier one excluded."""
    folders_only: bool


@dataclass(frozen=True, slots=True)
class Ignore:
    """The .gitignore files that hold in one folder, the outermost first.

    Names are counted from the outermost folder, `depth` says how many lead to the file.
    """

    files: tuple[tuple[int, tuple[_Rule, ...]], ...] = ()

    def below(self, folder: str, depth: int) -> Ignore:
        """With the .gitignore of `folder`, if it has one."""
        rules = _rules(os.path.join(folder, FILE))
        return Ignore((*self.files, (depth, rules))) if rules else self

    def excludes(self, names: Sequence[str], is_folder: bool) -> bool:
        """Whether the entry at `names` is ignored, given that no folder above it is."""
        for depth, rules in reversed(self.files):
            own = names[depth:]
            for rule in reversed(rules):
                if rule.folders_only and not is_folder:
                    continue
                if len(rule.parts) in states(rule.parts, own, hidden=True):
                    return rule.ignores
        return False


def ignore_above(start: Path, root: Path) -> tuple[Ignore, tuple[str, ...]]:
    """What holds for `start` by the folders above it, and the names that lead to it from the top.

    The top is the repository that `start` lies in, without one the root, or `start` itself when
    it lies elsewhere. A `start` that is itself ignored was named on purpose: then nothing holds.
    """
    top = next((p for p in (start, *start.parents) if os.path.lexists(p / ".git")), None)
    if top is None:
        top = root if start.is_relative_to(root) else start
    names = start.relative_to(top).parts
    ignore = Ignore()
    at = top
    for depth, name in enumerate(names):
        ignore = ignore.below(str(at), depth)
        at /= name
        if ignore.excludes(names[: depth + 1], at.is_dir()):
            return Ignore(), names
    return ignore, names


def _rules(path: str) -> tuple[_Rule, ...]:
    if not os.path.isfile(path):
        return ()
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            found = [_rule(line) for line in file.read(_LONGEST).split("\n")]
    except OSError:
        return ()
    return tuple([rule for rule in found if rule is not None])


def _rule(line: str) -> _Rule | None:
    line = line.removesuffix("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    ignores = not line.startswith("!")
    line = line if ignores else line[1:]
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    parts = parts_of(line)
    return _Rule(parts if anchored else (ANY_DEPTH, *parts), ignores, folders_only)
