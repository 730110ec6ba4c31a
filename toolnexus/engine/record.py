"""What a store knows of one run of a conversation: after every step, and at its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from toolnexus.core.messages import Message
from toolnexus.core.result import RunResult
from toolnexus.core.wire import message_to_json
from toolnexus.engine.stored import StoredRun, is_taken, mark_of
from toolnexus.engine.transcripts import Transcripts
from toolnexus.errors import StoreConflict, StoreError
from toolnexus.runtime.snapshot import Snapshot
from toolnexus.stores.base import Store

logger = logging.getLogger("toolnexus.conversations")


class Record:
    """One run of the conversation `id`.

    `kept`: how many messages of its transcript are stored; `start`: where its own begin in the store;
    `resumed`: the run that it goes on with, marked as ours.
    """

    def __init__(
        self,
        store: Store,
        id: str,
        version: int,
        *,
        kept: int,
        start: int,
        resumed: StoredRun | None = None,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        self.id = id
        self._resumed = resumed
        self.kept = kept
        self._store = store
        self._version = version
        self._start = start
        self._broken = False
        self._beside = beside
        """The state of a run that waits in the same conversation: it is not ours to end."""
        self.below = Transcripts(store, id)
        self._stepping: asyncio.Task[None] | None = None

    async def claim(self) -> None:
        """Mark the run as resumed by us, before any of it runs. Raises `StoreConflict` when it changed."""
        assert self._resumed is not None
        self._version = await self._store.append(self.id, (), self._version, self._resumed.state)

    async def release(self, before: StoredRun) -> None:
        """Nothing of it ran: let it stand as it stood before `claim`."""
        await self._write((), before.state)

    async def step(self, transcript: Sequence[Message], snapshot: Snapshot) -> None:
        """Keep what was done so far: a run that ends without another word can go on from here.

        A store that fails is tried again at the end of the run, and then its error is raised. A cancel
        ends the wait and not the write: nobody could know whether it happened, and it would be made twice.
        Raises `StoreConflict` when somebody else took the run over.
        """
        if self._broken:
            return
        state: dict[str, Any] = {"snapshot": snapshot.to_json(), "start": self._start}
        if self._resumed is not None:
            state["resumed"] = self._resumed.state["resumed"]
        self._stepping = asyncio.create_task(self._step(transcript[self.kept :], state))
        await asyncio.shield(self._stepping)

    async def _step(self, messages: Sequence[Message], state: Mapping[str, Any]) -> None:
        try:
            await self._write(messages, state)
        except StoreConflict:
            raise
        except StoreError as error:
            self._broken = True
            logger.warning("conversation %r is not stored while it runs: %s", self.id, error)

    async def end(self, result: RunResult, inbox: Sequence[Message]) -> None:
        """Keep how it ended. What came in too late for the run is not lost: the next one reads it.

        The results of a batch that waits are kept in its snapshot only, until the batch is whole.
        """
        if self._stepping is not None:
            if not self._stepping.done():
                await asyncio.wait([self._stepping])
            if not self._stepping.cancelled():
                self._stepping.exception()  # a conflict shows again at the write below
        await self._own_end(result, inbox)
        await self.below.keep_all(result.sub_agents)

    async def _own_end(self, result: RunResult, inbox: Sequence[Message]) -> None:
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
        if self._resumed is None or not self._resumed.snapshot.answers:
            return None
        answers = {id: answer.to_json() for id, answer in self._resumed.snapshot.answers.items()}
        why = None if result.error is None else str(result.error) or type(result.error).__name__
        return {"ended": {"status": result.status, "text": result.text, "error": why, "answers": answers}}

    async def _write(self, messages: Sequence[Message], state: Mapping[str, Any] | None) -> None:
        while True:
            if self._beside is not None and is_taken(state):
                text = "waits for answers of another run, so this one cannot wait there, too"
                raise StoreConflict(f"conversation {self.id!r} {text}", version=self._version)
            try:
                self._version = await self._store.append(
                    self.id, messages, self._version, state if self._beside is None else self._beside
                )
            except StoreConflict as conflict:
                await self._look(conflict)
                self._version = conflict.version
            else:
                self.kept += len(messages)
                return

    async def _look(self, conflict: StoreConflict) -> None:
        """Somebody else wrote, and ours goes after that. A run that waits there keeps its state.

        Raises `StoreConflict` when the run that we resume is not ours any more.
        """
        found = await self._store.load_state(self.id)
        if self._resumed is None:
            self._beside = found if is_taken(found) else None
        elif mark_of(found) != mark_of(self._resumed.state):
            text = "was taken over or given up elsewhere; what this process did since is not stored"
            raise StoreConflict(f"the run of conversation {self.id!r} {text}", version=conflict.version)
