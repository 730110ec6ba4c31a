"""Which files a tool may touch, and how they are named in its answers.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from toolnexus.core.names import did_you_mean
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.host import CLOSED_ROOTS, READ_ROOTS
from toolnexus.tools.builtin.places import deepest, folder_at

_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_OF_A_FOLDER = re.compile(r"[/\\]\.{0,2}\Z" if os.name == "nt" else r"/\.{0,2}\Z")
_LONGEST = 4095
"""Bytes that Linux takes as a path."""
_ESCAPED = (
    "[an escape such as \\x1b stands for a byte or character that cannot be shown; "
    "a path written with it is not found: rename the file to use it]"
)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def root_of(ctx: ToolContext) -> Path:
    """The folder that paths are relative to, symbolic links resolved."""
    return Path(os.path.realpath(ctx.workdir))


def resolve(path: str, ctx: ToolContext, *, reading: bool = False) -> Path:
    """The real place of `path`, symbolic links resolved; it need not exist.

    Raises `ToolError` when that place lies outside of the root. With `reading`, `read_roots` are
    allowed too; without, the path is that of a file, so it does not end in `/`, `/.` or `/..`, which
    would lead through a link. `~` is an ordinary name.
    """
    root = root_of(ctx)
    if not reading and _OF_A_FOLDER.search(path):
        raise ToolError(f"{path!r} names a directory by its end; give the path of a file")
    try:
        target = Path(os.path.realpath(root / path))
        size = len(os.fsencode(target))
    except ValueError as error:
        raise ToolError(f"{path!r} is no path: {error}") from error
    except OSError as error:  # a link on the way goes in this very moment
        raise ToolError(f"{path!r} cannot be followed: {error.strerror}") from error
    if size > _LONGEST:
        raise ToolError(f"{path[:100]!r}… is too long: a path has at most {_LONGEST} bytes, this one {size}")
    if target.is_relative_to(root) or (reading and _readable(target, ctx)):
        return target
    raise ToolError(f"{path!r} lies outside of the root folder {str(root)!r}; use a path inside it")


def read_roots(ctx: ToolContext) -> tuple[Path, ...]:
    """What may be read beside the root: the host's `READ_ROOTS` and the folder of long outputs."""
    outputs = ctx.context.run.spill.folder
    return (*(ctx.get(READ_ROOTS) or ()), *(() if outputs is None else (outputs,)))


def closed_below(start: Path, ctx: ToolContext) -> list[Path]:
    """The folders below a readable folder that may not be looked into, whoever else may."""
    if start.is_relative_to(root_of(ctx)):
        return []
    return [path for path in ctx.get(CLOSED_ROOTS) or () if not _readable(path, ctx)]


def _readable(target: Path, ctx: ToolContext) -> bool:
    """The innermost of the folders around it decides."""
    open_to = max((len(one.parts) for one in read_roots(ctx) if target.is_relative_to(one)), default=0)
    closed = (len(one.parts) for one in ctx.get(CLOSED_ROOTS) or () if target.is_relative_to(one))
    return open_to > max(closed, default=0)


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
    """`name` with an escape for every character that is no text or would do something to a terminal."""
    return _UNPRINTABLE.sub(_escape, name)


def names_note(names: Iterable[str]) -> list[str]:
    """What to say below an answer in which some of `names` had to be shown with escapes."""
    return [_ESCAPED] if any(map(_UNPRINTABLE.search, names)) else []


def _escape(sign: re.Match[str]) -> str:
    code = ord(sign[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


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
                near = f": {names[0]!r} is not a directory"
            elif names:
                near = did_you_mean(names[0], folder.names())
    except OSError:  # a folder that may not be listed has no names to offer
        pass
    return ToolError(f"{path!r} does not exist{near}")
