"""Files that somebody names: read at once, up to a bound, and never waited for.

A name may lead to a pipe that nobody writes to or a device without end, and what it leads to may
change between a look and the opening: so the open file itself is asked what it is.
"""

from __future__ import annotations

import errno
import os
import stat

NOT_REGULAR = "it is no regular file"

_AT_ONCE = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)


def read_start(path: str | os.PathLike[str], most: int) -> bytes:
    """The first `most` bytes of the regular file at `path`, links followed.

    Raises `OSError` whose `strerror` says why; also for a path that can be none, and for a folder, a
    pipe or a device. Blocks no longer than the disk does.
    """
    try:
        descriptor = os.open(path, _AT_ONCE)
    except ValueError as error:  # a NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, str(error)) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, NOT_REGULAR)
        file = os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
    with file:
        return file.read(most)


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The whole content of the regular file at `path`: `read_start`, and a larger file is an `OSError`."""
    content = read_start(path, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes")
    return content


def read_text(path: str | os.PathLike[str], most: int) -> str:
    """`read_regular` as UTF-8 text without its byte order mark.

    Raises `OSError` also where the content is something else.
    """
    content = read_regular(path, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 at byte {error.start}") from None


def reason(error: OSError) -> str:
    """Why a file could not be read, without its path."""
    return error.strerror or str(error)
