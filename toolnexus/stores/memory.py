"""Conversations in memory: the default store. They end with the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from toolnexus.core.messages import Message
from toolnexus.errors import StoreConflict


def conflict(id: str, expected: int, found: int) -> StoreConflict:
    """The error of a writer that came second."""
    return StoreConflict(
        f"conversation {id!r} is at version {found}, not {expected}; load it and write again", version=found
    )


class MemoryStore:
    """Keeps conversations as long as the object lives, for any number of tasks and threads."""

    def __init__(self) -> None:
        self._conversations: dict[str, tuple[list[Message], int]] = {}
        self._writes = 0
        """The last version given; none is given twice, so a deleted and recreated conversation is
        never mistaken for the one that somebody loaded before."""
        self._lock = threading.Lock()  # two clients on two loops may share one store

    async def load(self, id: str) -> tuple[tuple[Message, ...], int]:
        """All messages and the version; `((), 0)` for a conversation that does not exist."""
        with self._lock:
            messages, version = self._conversations.get(id, ((), 0))
            return tuple(messages), version

    async def append(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Add `messages` and return the new version. Raises `StoreConflict`, writing nothing."""
        with self._lock:
            kept, version = self._conversations.get(id, ([], 0))
            if version != expected:
                raise conflict(id, expected, version)
            if not messages:
                return version
            kept.extend(messages)
            return self._put(id, kept)

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Put `messages` in place of all, or delete the conversation when there are none.

        Returns the new version, 0 when deleted. Raises `StoreConflict`, writing nothing.
        """
        with self._lock:
            _, version = self._conversations.get(id, ([], 0))
            if version != expected:
                raise conflict(id, expected, version)
            if messages:
                return self._put(id, list(messages))
            self._conversations.pop(id, None)
            return 0

    async def aclose(self) -> None:
        """Nothing to release: the conversations stay."""

    def _put(self, id: str, messages: list[Message]) -> int:
        self._writes += 1
        self._conversations[id] = (messages, self._writes)
        return self._writes
