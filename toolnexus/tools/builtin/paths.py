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
from toolnexus.tools.builtin.places import deepest, folder_at

READ_ROOTS: ContextKey[tuple[Path, ...]] = ContextKey("read_roots")
"""Host value: more folders that read, grep and glob may look into, such as skill folders."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
    except OSError as error:  # a link on the way goes in this very moment
        raise ToolError(f"{path!r} cannot be followed: {error.strerror}") from error
    if target.is_relative_to(root) or (reading and _readable(target, ctx)):
        return target
    raise ToolError(f"{path!r} lies outside of the root folder {str(root)!r}; use a path inside it")


def _readable(target: Path, ctx: ToolContext) -> bool:
    if ctx.context.run.spill.contains(target):
        return True
    return any(target.is_relative_to(extra) for extra in ctx.get(READ_ROOTS) or ())


def directory(path: str, ctx: ToolContext) -> Path:
    """The resolved folder at `path`, for reading. Raises `ToolError` when there is none."""
    target = resolve(path, ctx, reading=True)
    try:
        with deepest(target) as (folder, names):
            if not names:
                return target
            if len(names) == 1 and folder.find(names[0]) is not None:
                raise ToolError(f"{path!r} is not a directory")
    except OSError as error:
        raise ToolError(f"{path!r} cannot be entered: {error.strerror}") from error
    raise not_found(target, path)


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
    FIFO, and follows no link that was put on the way after `resolve`.
    """
    name = target.name or "."  # the topmost folder has no name
    try:
        with folder_at(target.parent) as folder:
            check_kind(folder.stat(name).st_mode, path)
            file = os.fdopen(folder.open(name, _FLAGS), "rb")
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
    near = ""
    try:
        with deepest(target) as (folder, names):
            if len(names) > 1 and folder.find(names[0]) is not None:
                near = f": {printable(names[0])!r} is not a directory"
            elif names:
                near = did_you_mean(names[0], [printable(name) for name in folder.names()])
    except OSError:  # a folder that may not be listed has no names to offer
        pass
    return ToolError(f"{path!r} does not exist{near}")
