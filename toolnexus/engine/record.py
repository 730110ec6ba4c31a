"""What a store knows of one run of a conversation: after every step, and at its end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from toolnexus.core.messages import Message
from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Answer
from toolnexus.core.wire import message_to_json
from toolnexus.errors import StoreConflict, StoreError
from toolnexus.runtime.snapshot import Snapshot
from toolnexus.stores.base import Store

logger = logging.getLogger("toolnexus.conversations")


class Record:
    """One run of the conversation `id`.

    `kept`: how many messages of its transcript are stored; `start`: where its own begin in the store;
    `answers`: what it goes on with.
    """

    def __init__(
        self,
        store: Store,
        id: str,
        version: int,
        *,
        kept: int,
        start: int,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        self.id = id
        self._answers = answers or {}
        self.kept = kept
        self._store = store
        self._version = version
        self._start = start
        self._broken = False

    async def step(self, transcript: Sequence[Message], snapshot: Snapshot) -> None:
        """Keep what was done so far: a run that ends without another word can go on from here.

        A store that fails is tried again at the end of the run, and then its error is raised.
        """
        if self._broken:
            return
        try:
            await self._write(transcript[self.kept :], {"snapshot": snapshot.to_json(), "start": self._start})
        except StoreError as error:
            self._broken = True
            logger.warning("conversation %r is not stored while it runs: %s", self.id, error)

    async def end(self, result: RunResult, inbox: Sequence[Message]) -> None:
        """Keep how it ended. What came in too late for the run is not lost: the next one reads it.

        The results of a batch that waits are kept in its snapshot only, until the batch is whole.
        """
        if result.snapshot is None:
            await self._write([*result.messages[self.kept :], *inbox], self._ended(result))
            return
        waits = bool(result.snapshot["frame"]["waiting"])
        has_batch = waits and result.messages and result.messages[-1].role == "tool"
        messages = result.messages[: -1 if has_batch else None]
        state = {
            "snapshot": result.snapshot,
            "start": self._start,
            "inbox": [message_to_json(message) for message in inbox],
        }
        await self._write(messages[self.kept :], state)

    def _ended(self, result: RunResult) -> Mapping[str, Any] | None:
        """What tells that a second answer to the same question has nothing left to do."""
        if not self._answers:
            return None
        answers = {id: answer.to_json() for id, answer in self._answers.items()}
        return {"ended": {"status": result.status, "text": result.text, "answers": answers}}

    async def _write(self, messages: Sequence[Message], state: Mapping[str, Any] | None) -> None:
        while True:
            try:
                self._version = await self._store.append(self.id, messages, self._version, state)
            except StoreConflict as conflict:  # somebody else's ask came between: ours goes after it
                self._version = conflict.version
            else:
                self.kept += len(messages)
                return
