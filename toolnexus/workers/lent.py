"""A store that somebody else closes."""

from __future__ import annotations

from collections.abc import Sequence

from toolnexus.stores.base import Store


class LentStore:
    """`store`, open for others after the client that has it was closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.secrets: Sequence[str] = getattr(store, "secrets", ())
        self.load = store.load
        self.append = store.append
        self.load_state = store.load_state
        self.replace = store.replace

    async def aclose(self) -> None:
        """Nothing: whoever made the store closes it."""
