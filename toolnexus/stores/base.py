"""The conversation store port.

What it is: an append-only list of messages per conversation id, with a version that finds out
concurrent writers. What it is not: a cache, or a place for settings.
Above: the client, which serialises the asks of one conversation. Below: `memory`, `sqlite`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from toolnexus.core.messages import Message


@runtime_checkable
class Store(Protocol):
    """Keeps conversations. Safe to use from many tasks; the durable ones from many processes."""

    async def load(self, id: str) -> tuple[tuple[Message, ...], int]:
        """All messages and the version; `((), 0)` for a conversation that does not exist."""
        ...

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        """Add `messages` and put `state` in place of the old one, in one transaction.

        Returns the new version. `state` is what a run needs to go on, JSON values only; None: there
        is no such run. Raises `StoreConflict`, writing nothing, when the version is no longer `expected`.
        """
        ...

    async def load_state(self, id: str) -> Mapping[str, Any] | None:
        """The state that the last write left."""
        ...

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Put `messages` in place of all, in one transaction, and return the new version.

        The state is gone. Raises `StoreConflict` like `append`. An empty sequence deletes the
        conversation.
        """
        ...

    async def aclose(self) -> None:
        """Release files and connections. Idempotent."""
        ...
