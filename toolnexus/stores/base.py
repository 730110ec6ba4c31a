"""The conversation store port.

What it is: an append-only list of messages per conversation id, with a version that finds out
concurrent writers. What it is not: a cache, or a place for settings.
Above: the client, which serialises the asks of one conversation. Below: `memory`, `sqlite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from toolnexus.core.messages import Message


@runtime_checkable
class Store(Protocol):
    """Keeps conversations. Safe to use from many tasks; the durable ones from many processes."""

    async def load(self, id: str) -> tuple[tuple[Message, ...], int]:
        """All messages and the version; `((), 0)` for a conversation that does not exist."""
        ...

    async def append(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Add `messages` in one transaction and return the new version.

        Raises `StoreConflict`, writing nothing, when the version is no longer `expected`.
        """
        ...

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Put `messages` in place of all, in one transaction, and return the new version.

        Raises `StoreConflict` like `append`. An empty sequence deletes the conversation.
        """
        ...

    async def aclose(self) -> None:
        """Release files and connections. Idempotent."""
        ...
