"""What .gitignore files exclude, by git's rules: deeper files win, in one file the last line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from toolnexus.core.values import frozen
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.globs import ANY_DEPTH, Part, begin, either, parts_of, step
from toolnexus.tools.builtin.places import Folder, folder_at

FILE = ".gitignore"
_LONGEST = 1_000_000
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)


@frozen()
class _Rule:
    parts: tuple[Part, ...]
    ignores: bool
    """False for a line with `!`, which brings back what an earlier one excluded."""
    folders_only: bool

    def covers(self, name: str, is_folder: bool) -> bool:
        """Whether its last part says yes, the ones before it being met."""
        return (is_folder or not self.folders_only) and self.parts[-1].accepts(name, True)


class _Rules:
    """The rules of one file as they stand in one folder.

    Most are a single name that holds at any depth: one expression tells at once that none of them
    is met. Of the others only those are kept that can still be met here.
    """

    __slots__ = ("_any", "_names", "_paths")

    def __init__(
        self,
        names: tuple[tuple[int, _Rule], ...],
        paths: tuple[tuple[int, _Rule, frozenset[int]], ...],
    ) -> None:
        self._names = names
        self._paths = paths
        patterns = [part.regex.pattern for _, rule in names if (part := rule.parts[-1]).regex is not None]
        self._any = either(tuple(patterns)) if patterns else None

    @classmethod
    def of(cls, rules: list[_Rule]) -> _Rules:
        names = [(i, rule) for i, rule in enumerate(rules) if _is_name(rule)]
        paths = [(i, rule, begin(rule.parts)) for i, rule in enumerate(rules) if not _is_name(rule)]
        return cls(tuple(names), tuple(paths))

    def verdict(self, name: str, is_folder: bool) -> bool | None:
        """What the last rule that covers the name says; None when none does."""
        last, ignored = -1, None
        for i, rule, at in self._paths:
            if len(rule.parts) - 1 in at and rule.covers(name, is_folder):
                last, ignored = i, rule.ignores
        if self._any is not None and self._any.match(name):
            for i, rule in reversed(self._names):
                if i > last and rule.covers(name, is_folder):
                    return rule.ignores
        return ignored

    def below(self, name: str) -> _Rules:
        """The same rules in a folder of this one."""
        if not self._paths:
            return self
        moved = [(i, rule, step(rule.parts, at, name, hidden=True)) for i, rule, at in self._paths]
        return _Rules(self._names, tuple([path for path in moved if path[2]]))


def _is_name(rule: _Rule) -> bool:
    return len(rule.parts) == 2 and rule.parts[0] is ANY_DEPTH


@frozen()
class Ignore:
    """The .gitignore files that hold in one folder, the outermost first."""

    files: tuple[_Rules, ...] = ()

    def reading(self, folder: Folder, clock: Clock) -> Ignore:
        """With the .gitignore of `folder` itself, if it has one."""
        rules = _read(folder, clock)
        return Ignore((*self.files, _Rules.of(rules))) if rules else self

    def below(self, name: str) -> Ignore:
        """What holds in a folder of this one."""
        return Ignore(tuple([rules.below(name) for rules in self.files])) if self.files else self

    def excludes(self, name: str, is_folder: bool) -> bool:
        """Whether an entry of the folder is ignored, given that no folder above it is."""
        for rules in reversed(self.files):
            ignored = rules.verdict(name, is_folder)
            if ignored is not None:
                return ignored
        return False


def ignore_above(start: Path, root: Path, clock: Clock) -> Ignore:
    """What holds for `start` by the folders above it, up to the repository that it lies in.

    Without a repository, up to the root, or up to `start` itself when it lies elsewhere. A `start`
    that is itself ignored was named on purpose: then nothing holds. Raises `OSError`.
    """
    top = next((p for p in (start, *start.parents) if os.path.lexists(p / ".git")), None)
    if top is None:
        top = root if start.is_relative_to(root) else start
    ignore = Ignore()
    with folder_at(top) as folder:
        for name in start.relative_to(top).parts:
            ignore = ignore.reading(folder, clock)
            if ignore.excludes(name, True):
                return Ignore()
            ignore = ignore.below(name)
            if not folder.enter(name):
                break
    return ignore


def _read(folder: Folder, clock: Clock) -> list[_Rule]:
    """The rules of a folder's file; none when it cannot be read or, as for git, is a link."""
    try:
        if not stat.S_ISREG(folder.stat(FILE).st_mode):
            return []
        with open(
            folder.open(FILE, _FLAGS), encoding="utf-8-sig", errors="surrogateescape", newline="\n"
        ) as file:
            lines = file.read(_LONGEST).split("\n")
    except OSError:
        return []
    rules: list[_Rule] = []
    for line in lines:
        clock.check()
        rule = _rule(line)
        if rule is not None:
            rules.append(rule)
    return rules


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
