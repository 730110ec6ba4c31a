"""The builtin `write`, and the one way in which builtins replace a file."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.paths import check_kind, resolve

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_guard = threading.Lock()


class _Turn:
    """The lock of one file; it lives as long as somebody holds or awaits it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


_turns: WeakValueDictionary[Path, _Turn] = WeakValueDictionary()


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """Replace or create one file."""
    return await run_in_thread(lambda: _write(str(arguments["path"]), str(arguments["content"]), ctx))


def _write(path: str, content: str, ctx: ToolContext) -> ToolResult:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        at = f"character {error.start + 1} ({content[error.start]!r})"
        raise ToolError(f"{path!r} was left as it was: {at} cannot be written as UTF-8") from error
    target = resolve(path, ctx)
    with turn(target):
        try:
            replace_file(target, path, data)
        except OSError as error:
            raise ToolError(f"{path!r} was left as it was: {error.strerror}") from error
    return ToolResult(output=f"Wrote {len(data)} bytes to {path}", metadata={"bytes": len(data)})


@contextmanager
def turn(target: Path) -> Generator[None]:
    """One change of a file at a time, from whatever loop or thread it comes."""
    with _guard:
        mine = _turns.setdefault(target, _Turn())
    with mine.lock:
        yield


def replace_file(target: Path, path: str, data: bytes) -> None:
    """Put `data` in the place of a resolved file, whole or not at all, with the mode it had.

    Makes the folders above it. Raises `ToolError` for what is no regular file (naming it by
    `path`), and `OSError`.
    """
    mode = _mode(target, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.parent / f".toolnexus-{secrets.token_hex(8)}.tmp"
    try:
        with open(os.open(draft, _FLAGS, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _mode(target: Path, path: str) -> int | None:
    """The permissions of the file that is there, if there is one."""
    try:
        found = os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    check_kind(found.st_mode, path)
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "it is read-only")
    return stat.S_IMODE(found.st_mode)
