"""Workspace: the folder of files that scripts may read and write."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from toolnexus.core.files import reason
from toolnexus.errors import ConfigError, ToolError
from toolnexus.graph.errors import GraphRunError
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.changes import replace_file
from toolnexus.tools.builtin.globs import Part, begin, parts_of, step
from toolnexus.tools.builtin.paths import open_file
from toolnexus.tools.builtin.places import folder_at
from toolnexus.tools.builtin.turns import turn

T = TypeVar("T")

SECONDS = 30.0
"""How long one operation may take; a disk may hang."""


class Workspace:
    """A folder, and what of it may be used.

    `allow` and `deny` are globs of paths in it, relative and with `/` (`src/**`, `**/.env`): they stand for
    what they name and everything below. `allow` None: everything; `deny` goes first. No path leads out of the
    folder, and no link does. Raises `ConfigError` for a folder that is none, and for a wrong glob.
    """

    def __init__(
        self, root: str | Path, *, allow: Sequence[str] | None = None, deny: Sequence[str] = ()
    ) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise ConfigError(f"the folder of a workspace is none: {str(root)!r}")
        self._allow = None if allow is None else _globs("allow", allow)
        self._deny = _globs("deny", deny)

    def __repr__(self) -> str:
        return f"Workspace({str(self.root)!r})"

    async def read(self, path: str, most: int) -> str:
        """The text of a file.

        Raises `GraphRunError`: there is none (not_found), it may not be used (forbidden), it has more than
        `most` bytes, is no UTF-8 text or no file (validation).
        """
        data = await _in_time(path, lambda clock: self._read(path, most))
        if len(data) > most:
            raise GraphRunError(f"{path!r} has more than {most} bytes", kind="validation")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise GraphRunError(f"{path!r} is no UTF-8 text: {error.reason}", kind="validation") from None

    async def write(self, path: str, text: str) -> None:
        """Make `text` the content of a file, whole or not at all; missing folders are made.

        Raises `GraphRunError`: it may not be used (forbidden), it is a folder (validation), it cannot be
        written (internal).
        """
        data = text.encode("utf-8", "surrogatepass")
        await _in_time(path, lambda clock: self._write(path, data, clock))

    async def exists(self, path: str) -> bool:
        """Whether there is a file or a folder, and it may be used."""
        try:
            return await _in_time(path, lambda clock: self._place(path).exists())
        except GraphRunError:
            return False

    async def delete(self, path: str) -> None:
        """Remove a file; of a link, the link itself. Raises as `read` does."""
        await _in_time(path, lambda clock: self._delete(path))

    def _read(self, path: str, most: int) -> bytes:
        target = self._place(path)
        try:
            with open_file(target, path) as file:
                return file.read(most + 1)
        except ToolError as error:
            kind = "validation" if os.path.lexists(target) else "not_found"
            raise GraphRunError(str(error), kind=kind) from error

    def _write(self, path: str, data: bytes, clock: Clock) -> None:
        target = self._place(path)
        try:
            with turn(target, clock=clock):
                replace_file(target, path, data, clock)
        except ToolError as error:
            kind = "validation" if target.is_dir() else "internal"
            raise GraphRunError(str(error), kind=kind) from error

    def _delete(self, path: str) -> None:
        above, name = os.path.split(path)
        if name in ("", ".", ".."):
            raise GraphRunError(f"{path!r} names a folder; only files are deleted", kind="validation")
        target = self._place(above) / name
        self._check(target, path)
        try:
            with folder_at(target.parent) as folder:
                folder.remove(name)
        except (FileNotFoundError, NotADirectoryError):
            raise GraphRunError(f"{path!r} does not exist", kind="not_found") from None
        except OSError as error:
            raise GraphRunError(f"{path!r} cannot be deleted: {reason(error)}", kind="validation") from error

    def _place(self, path: str) -> Path:
        """The real place of a path. Raises `GraphRunError` for one that may not be used."""
        target = Path(os.path.realpath(self.root / path))
        self._check(target, path)
        return target

    def _check(self, target: Path, path: str) -> None:
        if not target.is_relative_to(self.root):
            raise GraphRunError(f"{path!r} lies outside of the workspace", kind="forbidden")
        names = target.relative_to(self.root).parts
        if not names:
            return
        if any(_covers(glob, names) for glob in self._deny):
            raise GraphRunError(f"{path!r} may not be used: it is denied", kind="forbidden")
        if self._allow is not None and not any(_covers(glob, names) for glob in self._allow):
            raise GraphRunError(f"{path!r} may not be used: it is not allowed", kind="forbidden")


def _globs(option: str, patterns: Sequence[str]) -> list[tuple[Part, ...]]:
    if isinstance(patterns, str):
        raise ConfigError(f"{option} is a list of globs, not one text: [{patterns!r}]")
    for pattern in patterns:
        if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            raise ConfigError(f"{option}: {pattern!r} must be a path in the workspace, such as 'src/**'")
    return [parts_of(pattern.removesuffix("/")) for pattern in patterns]


def _covers(glob: tuple[Part, ...], names: Sequence[str]) -> bool:
    """Whether a glob fits a path, or a folder that it lies in."""
    at = begin(glob)
    for name in names:
        at = step(glob, at, name, hidden=True)
        if len(glob) in at:
            return True
    return False


async def _in_time(path: str, work: Callable[[Clock], T]) -> T:
    clock = Clock(SECONDS, "nothing was changed")
    try:
        return await in_time(clock, lambda: work(clock))
    except ToolError as error:
        raise GraphRunError(str(error), kind="not_available") from error
    except (OSError, ValueError) as error:  # a name that is too long, or no name at all
        told = reason(error) if isinstance(error, OSError) else str(error)
        raise GraphRunError(f"{path[:100]!r} cannot be used: {told}", kind="validation") from error
