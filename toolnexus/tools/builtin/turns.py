"""One change of a file at a time, from whatever loop or thread it comes."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from toolnexus.tools.builtin.bounded import Clock


class _Turn:
    """The lock of one file; it is there as long as somebody holds or awaits it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


_guard = threading.Lock()
_turns: dict[str, _Turn] = {}


@contextmanager
def turn(*targets: Path, clock: Clock | None = None) -> Generator[None]:
    """Hold the turns of all `targets` (resolved paths), taken in one order, so that nobody deadlocks.

    Blocks. Raises `ToolError` when the clock runs out before.
    """
    with ExitStack() as held:
        for name in sorted({_name(target) for target in targets}):
            held.enter_context(_held(name, clock))
        yield


@contextmanager
def _held(name: str, clock: Clock | None) -> Generator[None]:
    with _guard:
        mine = _turns.setdefault(name, _Turn())
        mine.users += 1
    try:
        if not mine.lock.acquire(timeout=-1 if clock is None else clock.left) and clock is not None:
            raise clock.expired()
        try:
            yield
        finally:
            mine.lock.release()
    finally:
        with _guard:
            mine.users -= 1
            if not mine.users:
                del _turns[name]


def _name(target: Path) -> str:
    """One name for all spellings that some system takes for the same file."""
    return unicodedata.normalize("NFC", str(target).casefold())
