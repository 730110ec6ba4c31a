"""The lines that were typed, kept for the next time."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.history import History


def line_history() -> History:
    """The history of this user, readable by nobody else; in memory where no file can be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Kept(FileHistory):
        def store_string(self, string: str) -> None:
            with suppress(OSError):  # it was writable at the start, and is no reason to end a talk
                super().store_string(string)

    home = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):  # so says the specification of these folders
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
    file = Path(home) / "toolnexus" / "chat_history"
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return InMemoryHistory()
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        return Kept(file)
    return InMemoryHistory()
