"""The one way in which builtins change files: all of a set of changes happen, or none.

First every new content is written to a draft beside its file: here a full disk and missing rights
show, and nothing has happened yet. Then the drafts are renamed into place. When that fails half
way, what was renamed is put back from second names that the old files got before.

Everything here blocks: call it from a thread, and hold the turns of the files.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from toolnexus.core.values import frozen
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.paths import check_kind
from toolnexus.tools.builtin.places import Folder, folder_at

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_OLD = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_PRIVILEGED = stat.S_ISUID | stat.S_ISGID


@frozen(kw_only=True)
class Change:
    """What becomes of one file: it gets `data`, or the file at `origin`; without both it goes."""

    target: Path
    """A resolved path."""
    path: str
    """How errors name it."""
    data: bytes | None = None
    origin: Path | None = None
    like: os.stat_result | None = None
    """The file whose permissions and owner new `data` get."""
    found: os.stat_result | None = None
    """What was there when the change was worked out; whoever changed it since is not overwritten."""
    overwrite: bool = False
    """Overwrite it all the same."""


def replace_file(target: Path, path: str, data: bytes, clock: Clock) -> None:
    """Put `data` in the place of a resolved file, whole or not at all, with the mode it had.

    Makes the folders above it. Raises `ToolError`, naming the file by `path`.
    """
    found = look(target, path)
    commit([Change(target=target, path=path, data=data, like=found, found=found, overwrite=True)], clock)


def look(target: Path, path: str) -> os.stat_result | None:
    """The regular file that is there, or None. Raises `ToolError` for anything else."""
    try:
        with folder_at(target.parent) as folder:
            found = folder.find(target.name or ".")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"{path!r} cannot be changed: {error.strerror}") from error
    if found is not None:
        check_kind(found.st_mode, path)
    return found


def commit(changes: Sequence[Change], clock: Clock) -> None:
    """Make all `changes`, of different files, or none of them; missing folders are made.

    The clock is committed when only the renaming is left. Who gives up after that has what was
    renamed put back. Raises `ToolError` with the
    file and the reason; it says so when something could not be put back.
    """
    made: list[Path] = []
    steps = [_Step(change) for change in changes]
    try:
        with ExitStack() as held:
            _make(steps, held, made, clock)
    except BaseException:
        for path in reversed(made):
            _remove_folder(path)
        raise


def _make(steps: Sequence[_Step], held: ExitStack, made: list[Path], clock: Clock) -> None:
    folders: dict[Path, Folder] = {}
    try:
        for step in steps:
            with step.told():
                parent = step.change.target.parent
                if parent not in folders:
                    folders[parent] = held.enter_context(folder_at(parent, made))
                step.folder = folders[parent]
        for step in steps:
            with step.told():
                # the last one is renamed at once or not at all: it never has to be put back
                step.prepare(keep=step is not steps[-1])
        clock.commit()
        for phase in (_Step.compare, _Step.apply):
            for step in steps:
                clock.check()
                with step.told():
                    phase(step)
    except BaseException as error:
        lost = [name for step in reversed(steps) if (name := step.undo())]
        if lost:
            raise ToolError(f"{error}; and this could not be put back: {', '.join(lost)}") from error
        if len(steps) > 1 and isinstance(error, ToolError):
            raise ToolError(f"no file was changed: {error}") from error
        raise
    finally:
        for step in steps:
            step.clean()


def _remove_folder(path: Path) -> None:
    with suppress(OSError), folder_at(path.parent) as folder:  # somebody else may have put something into it
        folder.remove_folder(path.name)


class _Step:
    """One change on its way: a draft of what comes, a second name for what goes."""

    __slots__ = ("_backup", "_done", "_draft", "_name", "change", "folder")

    folder: Folder

    def __init__(self, change: Change) -> None:
        self.change = change
        self._name = change.target.name
        self._draft: str | None = None
        self._backup: str | None = None
        self._done = False

    @contextmanager
    def told(self) -> Generator[None]:
        """Turn an `OSError` into the `ToolError` that names the file."""
        try:
            yield
        except OSError as error:
            raise ToolError(f"{self.change.path!r} was left as it was: {error.strerror or error}") from error

    def prepare(self, *, keep: bool) -> None:
        """Write the draft; with `keep` give what is there a second name."""
        change = self.change
        if change.found is not None:
            if not self.folder.may_write(self._name) and self.folder.find(self._name) is not None:
                raise PermissionError(errno.EACCES, "it is read-only")
            if keep:
                self._backup = _draft_name()
                _second_name(self.folder, self._name, self.folder, self._backup)
        if change.data is not None:
            self._draft = _draft_name()
            _write(self.folder, self._draft, change.data, change.like)
        elif change.origin is not None:
            self._draft = _draft_name()
            with folder_at(change.origin.parent) as origin:
                _second_name(origin, change.origin.name, self.folder, self._draft)

    def compare(self) -> None:
        """Raise when somebody else changed the file since it was looked at."""
        now, found = self.folder.find(self._name), self.change.found
        if not self.change.overwrite and _stamp(now) != _stamp(found):
            raise OSError(errno.EAGAIN, "somebody else has changed it; look at it again")

    def apply(self) -> None:
        if self._draft is None:
            self.folder.remove(self._name)
        else:
            self.folder.replace(self._draft, self._name)
        self._done = True

    def undo(self) -> str:
        """Put back what `apply` did. The name of what could not be put back, or `""`."""
        if not self._done:
            return ""
        try:
            if self._backup is not None:
                self.folder.replace(self._backup, self._name)
            else:
                self.folder.remove(self._name)
        except OSError as error:
            where = f", its old content is in {self._backup!r} beside it" if self._backup else ""
            self._backup = None
            return f"{self.change.path!r} ({error.strerror}{where})"
        return ""

    def clean(self) -> None:
        """Remove the draft and the second name, if they are there.

        A renamed one may be: onto another name of the same file, renaming does nothing.
        """
        for name in (self._draft, self._backup):
            if name is not None:
                with suppress(OSError):
                    self.folder.remove(name)


def _draft_name() -> str:
    return f".toolnexus-{secrets.token_hex(8)}.tmp"


def _stamp(found: os.stat_result | None) -> tuple[int, ...]:
    return () if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _write(folder: Folder, name: str, data: bytes, like: os.stat_result | None) -> None:
    # nobody may read a draft who may not read the file
    with open(folder.open(name, _NEW, 0o666 if like is None else 0o600), "wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            _resemble(file.fileno(), like)
        os.fsync(file.fileno())


def _resemble(descriptor: int, like: os.stat_result) -> None:
    """Give a file the permissions of another one, and its owner where we may."""
    if not hasattr(os, "fchown"):  # what Windows calls a mode says only whether one may write
        return
    mode = stat.S_IMODE(like.st_mode)
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        except OSError:
            mode &= ~_PRIVILEGED  # they were granted to somebody else
    os.fchmod(descriptor, mode)


def _second_name(folder: Folder, name: str, into: Folder, new: str) -> None:
    """Another name for a file; a copy where the file system has no such thing."""
    try:
        folder.link(name, into, new)
    except OSError:
        with open(folder.open(name, _OLD), "rb") as old:
            like = os.fstat(old.fileno())
            with open(into.open(new, _NEW, 0o600), "wb") as file:
                shutil.copyfileobj(old, file)
                file.flush()
                _resemble(file.fileno(), like)
                os.fsync(file.fileno())
