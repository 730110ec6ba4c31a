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
_DESCRIPTORS = next((path for path in ("/proc/self/fd", "/dev/fd") if BELOW and os.path.isdir(path)), None)
_HELD = 32
"""How many folders of one way are held open; what lies deeper is gone to anew each time."""


def path_of(descriptor: int) -> str | None:
    """A path to what a descriptor stands for, here and in a child that inherits it; None without such."""
    return None if _DESCRIPTORS is None else f"{_DESCRIPTORS}/{descriptor}"


class Folder:
    """One open folder. Its methods take names in it, follow no link and raise `OSError`."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path, below: Folder | None = None) -> None:
        """Open `path`; with `below`, the last name of it in that folder."""
        self.path = path
        self._descriptor: int | None = None
        if not BELOW:
            if below is not None and not stat.S_ISDIR(below.stat(path.name).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        elif below is None:
            self._descriptor = os.open(path, _PASSED)
        else:
            self._descriptor = os.open(path.name, _PASSED, dir_fd=below._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def place(self) -> str:
        """A path that leads here as long as this is open, whatever is at `path` by now; else `path`."""
        held = None if self._descriptor is None else path_of(self._descriptor)
        return held if held is not None and os.path.isdir(held) else str(self.path)

    def inner(self, name: str) -> Folder:
        """The folder `name`, open beside this one."""
        return Folder(self.path / name, self)

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

    def entries(self) -> Generator[os.DirEntry[str]]:
        """What lies in the folder, in no order; each is to be asked what it is at once."""
        if self._descriptor is None:
            with os.scandir(self.path) as found:
                yield from found
            return
        listed = os.open(".", _LISTED, dir_fd=self._descriptor)
        try:
            with os.scandir(listed) as found:
                yield from found
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


class Descent:
    """The way from a folder down to others below it, one after the other.

    What two of them have in common is gone once, so folders come at little cost in the order of a walk.
    """

    __slots__ = ("_deep", "_names", "_way")

    def __init__(self, start: Folder) -> None:
        """`start` stays the caller's to close."""
        self._way = [start]
        self._names: list[str] = []
        self._deep: Folder | None = None

    def folder(self, path: str) -> Folder:
        """The folder at `path`, relative and with `/`; it is open until the next one is asked for.

        Raises `OSError`, also when a name on the way is a link.
        """
        names = path.split("/") if path else []
        self._leave(names)
        for name in names[len(self._names) : _HELD]:
            self._way.append(self._way[-1].inner(name))
            self._names.append(name)
        for name in names[_HELD:]:
            deep = (self._deep or self._way[-1]).inner(name)
            if self._deep is not None:
                self._deep.close()
            self._deep = deep
        return self._deep or self._way[-1]

    def open(self, path: str, flags: int) -> int:
        """A descriptor of the file at `path`. Raises `OSError`."""
        above, _, name = path.rpartition("/")
        return self.folder(above).open(name, flags)

    def close(self) -> None:
        self._leave([])

    def _leave(self, names: list[str]) -> None:
        """Close what does not lie on the way to `names`."""
        if self._deep is not None:
            self._deep.close()
            self._deep = None
        common = 0
        for mine, asked in zip(self._names, names, strict=False):
            if mine != asked:
                break
            common += 1
        while len(self._names) > common:
            self._names.pop()
            self._way.pop().close()


@contextmanager
def descent_from(path: Path) -> Generator[Descent]:
    """The ways down from the folder at a resolved path. Raises `OSError` like `folder_at`."""
    with folder_at(path) as folder:
        descent = Descent(folder)
        try:
            yield descent
        finally:
            descent.close()
