"""Conversations in memory: the default store. They end with the process."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from toolnexus.core.messages import Message
from toolnexus.stores.records import conflict, state_text


class MemoryStore:
    """Keeps conversations as long as the object lives, for any number of tasks and threads."""

    def __init__(self) -> None:
        self._conversations: dict[str, tuple[list[Message], int]] = {}
        self._states: dict[str, str] = {}
        self._writes = 0
        """The last version given; none is given twice, so a deleted and recreated conversation is
        never mistaken for the one that somebody loaded before."""
        self._lock = threading.Lock()  # two clients on two loops may share one store

    async def load(self, id: str) -> tuple[tuple[Message, ...], int]:
        """All messages and the version; `((), 0)` for a conversation that does not exist."""
        with self._lock:
            messages, version = self._conversations.get(id, ((), 0))
            return tuple(messages), version

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        """Add `messages`, put `state` in place of the old one, and return the new version.

        Raises `StoreConflict`, writing nothing.
        """
        text = state_text(id, state)
        with self._lock:
            kept, version = self._conversations.get(id, ([], 0))
            if version != expected:
                raise conflict(id, expected, version)
            if not messages and text == self._states.get(id):
                return version
            kept.extend(messages)
            self._keep(id, text)
            return self._put(id, kept)

    async def load_state(self, id: str) -> Mapping[str, Any] | None:
        """The state that the last write left."""
        with self._lock:
            text = self._states.get(id)
        return None if text is None else json.loads(text)

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Put `messages` in place of all, or delete the conversation when there are none.

        Returns the new version, 0 when deleted. Raises `StoreConflict`, writing nothing.
        """
        with self._lock:
            _, version = self._conversations.get(id, ([], 0))
            if version != expected:
                raise conflict(id, expected, version)
            self._keep(id, None)
            if messages:
                return self._put(id, list(messages))
            self._conversations.pop(id, None)
            return 0

    async def aclose(self) -> None:
        """Nothing to release: the conversations stay."""

    def _keep(self, id: str, text: str | None) -> None:
        if text is None:
            self._states.pop(id, None)
        else:
            self._states[id] = text

    def _put(self, id: str, messages: list[Message]) -> int:
        self._writes += 1
        self._conversations[id] = (messages, self._writes)
        return self._writes
