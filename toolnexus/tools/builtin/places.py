"""Folders held open, so that no name on the way to a file can be swapped for a link.

`resolve` gives a path without a link in it. Whoever goes that way again, name by name, each below
the folder that is open already, and follows no link, arrives where `resolve` looked or nowhere.
Systems that cannot open a name below an open folder use the path as it is.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

BELOW = {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd
"""Whether the system opens names below an open folder."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_LISTED = os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0)
# to pass through a folder one needs no right to list it
_PASSED = _LISTED | getattr(os, "O_PATH", getattr(os, "O_SEARCH", 0))


class Folder:
    """One open folder. Its methods take names in it, follow no link and raise `OSError`."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, _PASSED) if BELOW else None

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def enter(self, name: str) -> bool:
        """Go on to the folder `name`; false, and nothing happens, when there is none, or a link."""
        try:
            if self._descriptor is None:
                if not stat.S_ISDIR(self.stat(name).st_mode):
                    return False
            else:
                inner = os.open(name, _PASSED, dir_fd=self._descriptor)
                os.close(self._descriptor)
                self._descriptor = inner
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                return False
            raise
        self.path /= name
        return True

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """A descriptor of the file `name`."""
        return os.open(self._at(name), flags | _NO_LINK, mode, dir_fd=self._descriptor)

    def stat(self, name: str) -> os.stat_result:
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def find(self, name: str) -> os.stat_result | None:
        """What `name` is, or None when there is nothing."""
        try:
            return self.stat(name)
        except FileNotFoundError:
            return None

    def may_write(self, name: str) -> bool:
        return os.access(self._at(name), os.W_OK, dir_fd=self._descriptor)

    def names(self) -> list[str]:
        """What lies in the folder, in no order."""
        if self._descriptor is None:
            return os.listdir(self.path)
        listed = os.open(".", _LISTED, dir_fd=self._descriptor)
        try:
            return os.listdir(listed)
        finally:
            os.close(listed)

    def make(self, name: str) -> bool:
        """Make the folder `name`; false when there is something with this name."""
        try:
            os.mkdir(self._at(name), dir_fd=self._descriptor)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, onto: str) -> None:
        here = self._descriptor
        os.replace(self._at(name), self._at(onto), src_dir_fd=here, dst_dir_fd=here)

    def link(self, name: str, into: Folder, new: str) -> None:
        """Give the file `name` a second name, `new` in the folder `into`."""
        if self._descriptor is None:
            return os.link(self._at(name), into._at(new))
        return os.link(
            self._at(name),
            into._at(new),
            src_dir_fd=self._descriptor,
            dst_dir_fd=into._descriptor,
            follow_symlinks=False,
        )

    def remove(self, name: str) -> None:
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self.path, name)


@contextmanager
def deepest(path: Path) -> Generator[tuple[Folder, tuple[str, ...]]]:
    """The last folder on the way to a resolved path that is there, and the names that are left.

    Raises `OSError` for what may not be entered.
    """
    folder = Folder(Path(path.anchor))
    try:
        names = path.parts[1:]
        while names and folder.enter(names[0]):
            names = names[1:]
        yield folder, names
    finally:
        folder.close()


@contextmanager
def folder_at(path: Path, made: list[Path] | None = None) -> Generator[Folder]:
    """The folder at a resolved path.

    With `made`, missing folders are made and added to it; without, they are a `FileNotFoundError`.
    Raises `OSError`, also for a name on the way that is no folder.
    """
    with deepest(path) as (folder, names):
        for name in names:
            if made is None and folder.find(name) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            if made is not None and folder.make(name):
                made.append(folder.path / name)
            if not folder.enter(name):
                raise NotADirectoryError(errno.ENOTDIR, f"{name!r} is not a directory", str(path))
        yield folder
