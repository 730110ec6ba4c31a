"""Which files a tool may touch, and how they are named in its answers.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from toolnexus.core.names import did_you_mean
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ContextKey, ToolContext

READ_ROOTS: ContextKey[tuple[Path, ...]] = ContextKey("read_roots")
"""Host value: more folders that read, grep and glob may look into, such as skill folders."""

_WANTED = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
_FLAGS = os.O_RDONLY | sum([getattr(os, flag, 0) for flag in _WANTED])  # those that the system has


def root_of(ctx: ToolContext) -> Path:
    """The folder that paths are relative to, symbolic links resolved."""
    return Path(os.path.realpath(ctx.workdir))


def resolve(path: str, ctx: ToolContext, *, reading: bool = False) -> Path:
    """The real place of `path`, symbolic links resolved; it need not exist.

    Raises `ToolError` when that place lies outside of the root. With `reading`, the folder of
    long outputs and the host's `READ_ROOTS` are allowed too. `~` is an ordinary name.
    """
    root = root_of(ctx)
    try:
        target = Path(os.path.realpath(root / path))
        os.fsencode(target)
    except ValueError as error:
        raise ToolError(f"{path!r} is no path: {error}") from error
    if target.is_relative_to(root) or (reading and _readable(target, ctx)):
        return target
    raise ToolError(f"{path!r} lies outside of the root folder {str(root)!r}; use a path inside it")


def _readable(target: Path, ctx: ToolContext) -> bool:
    if ctx.context.run.spill.contains(target):
        return True
    return any(target.is_relative_to(os.path.realpath(extra)) for extra in ctx.get(READ_ROOTS) or ())


def directory(path: str, ctx: ToolContext) -> Path:
    """The resolved folder at `path`, for reading. Raises `ToolError` when there is none."""
    target = resolve(path, ctx, reading=True)
    if not os.path.lexists(target):
        raise not_found(target, path)
    if not target.is_dir():
        raise ToolError(f"{path!r} is not a directory")
    return target


def shown(target: Path, ctx: ToolContext) -> str:
    """How an answer names a resolved path: relative to the root where it lies in it."""
    root = root_of(ctx)
    name = target.relative_to(root).as_posix() if target.is_relative_to(root) else str(target)
    return printable(name)


def printable(name: str) -> str:
    """`name` with every byte that is not UTF-8 replaced, so that it can be sent as text."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def open_file(target: Path, path: str) -> BinaryIO:
    """The regular file at a resolved place, open for reading.

    Raises `ToolError` for anything else, naming it by `path`. Never waits for the other end of a
    FIFO, and does not follow a link that was put there after `resolve`.
    """
    try:
        check_kind(os.lstat(target).st_mode, path)
        file = os.fdopen(os.open(target, _FLAGS), "rb")
    except (FileNotFoundError, NotADirectoryError):
        raise not_found(target, path) from None
    except OSError as error:
        raise ToolError(f"{path!r} cannot be read: {error.strerror}") from error
    try:
        check_kind(os.fstat(file.fileno()).st_mode, path)
    except BaseException:
        file.close()
        raise
    return file


def check_kind(mode: int, path: str) -> None:
    """Raise `ToolError` for what is neither file nor folder, and for a folder."""
    if stat.S_ISDIR(mode):
        raise ToolError(f"{path!r} is a directory; use glob to see what it holds")
    if not stat.S_ISREG(mode):
        raise ToolError(
            f"{path!r} is a FIFO, a socket, a device or a broken link; only regular files are used"
        )


def not_found(target: Path, path: str) -> ToolError:
    """The error for a path that does not exist, with the nearest names where it stops existing."""
    while not target.parent.is_dir():
        target = target.parent
    if os.path.lexists(target):
        return ToolError(f"{path!r} does not exist: {printable(target.name)!r} is not a directory")
    try:
        near = did_you_mean(target.name, [printable(name) for name in os.listdir(target.parent)])
    except OSError:
        near = ""
    return ToolError(f"{path!r} does not exist{near}")
