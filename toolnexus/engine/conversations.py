"""Conversations: one ask at a time each, nothing lost, whatever way a run ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from toolnexus.core.messages import Message, Prompt, close_transcript
from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Request
from toolnexus.errors import RunError, StoreConflict, Suspended
from toolnexus.stores.base import Store

logger = logging.getLogger("toolnexus.conversations")

INTERRUPTED = "interrupted: the run that made this call ended before it finished"


class _Ask:
    """One ask in flight. A task that a tool starts keeps its context, and may ask again afterwards."""

    def __init__(self, conversation: tuple[object, str]) -> None:
        self.conversation = conversation
        self.over = False


_asking: ContextVar[tuple[_Ask, ...]] = ContextVar("toolnexus_asking", default=())

Body = Callable[[Sequence[Message], list[Message]], Awaitable[RunResult]]
"""Runs on a history and an inbox. Raises only `CancelledError`, with `.result`."""


class _Ended(NamedTuple):
    """A run of a conversation that is over but not stored yet."""

    result: RunResult
    added: tuple[Message, ...]
    version: int
    cancelled: asyncio.CancelledError | None


class Conversations:
    """The conversations of one client over its store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key = object()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._inboxes: dict[str, list[Message]] = {}
        self._pending: dict[str, tuple[Request, ...]] = {}
        self._saves: dict[str, asyncio.Task[None]] = {}

    async def ask(self, id: str, body: Body) -> RunResult:
        """Run `body` on the conversation and append what it added.

        Asks of one conversation run one after the other. The write survives any number of cancels.
        Raises `Suspended` when the last run still waits for answers, `RunError` when the asking
        run is part of this very conversation, and `StoreError` with the result when it cannot be
        stored.
        """
        if any(ask.conversation == (self._key, id) and not ask.over for ask in _asking.get()):
            raise RunError(
                f"conversation {id!r} is asked by a tool of its own run, which would wait for itself; "
                "use another conversation, or none"
            )
        lock = self._locks.setdefault(id, asyncio.Lock())
        await lock.acquire()
        mine = _Ask((self._key, id))
        token = _asking.set((*_asking.get(), mine))
        try:
            ended = await self._run(id, body)
        except BaseException:
            lock.release()
            raise
        finally:
            mine.over = True
            _asking.reset(token)
            self._inboxes.pop(id, None)
        saving = self._saves[id] = asyncio.create_task(self._save(id, ended.added, ended.version))
        saving.add_done_callback(lambda _: self._saves.pop(id))
        saving.add_done_callback(lambda _: lock.release())
        saving.add_done_callback(lambda task: _log_loss(id, task))
        try:
            await asyncio.shield(saving)
        except (Exception, asyncio.CancelledError) as failure:
            failure.result = ended.result  # type: ignore[union-attr]
            if ended.cancelled is not None:
                raise ended.cancelled from failure
            raise
        if ended.cancelled is not None:
            raise ended.cancelled
        return ended.result

    async def _run(self, id: str, body: Body) -> _Ended:
        if waiting := self._pending.get(id):
            raise Suspended(waiting, f"conversation {id!r} waits; discard_pending() gives up")
        loaded, version = await self._store.load(id)
        history = close_transcript(loaded, INTERRUPTED)
        inbox = self._inboxes[id] = []
        cancelled: asyncio.CancelledError | None = None
        try:
            result = await body(history, inbox)
        except asyncio.CancelledError as cancel:
            cancelled, result = cancel, getattr(cancel, "result", None)
            if not isinstance(result, RunResult):
                raise
        if result.pending:
            self._pending[id] = result.pending
        # what came in too late for the run is not lost: the next ask reads it
        return _Ended(result, (*result.messages[len(history) :], *inbox), version, cancelled)

    def steer(self, id: str, messages: Sequence[Message]) -> None:
        """Put messages before the next turn of the run in flight. Raises `RunError` when none is."""
        inbox = self._inboxes.get(id)
        if inbox is None:
            raise RunError(f"conversation {id!r} has no run in flight to steer; ask it instead")
        inbox.extend(messages)

    def pending(self, id: str) -> tuple[Request, ...]:
        """The open questions of the last run."""
        return self._pending.get(id, ())

    def discard_pending(self, id: str) -> None:
        """Give up the open questions; their calls stay answered with "no answer yet"."""
        self._pending.pop(id, None)

    async def messages(self, id: str) -> tuple[Message, ...]:
        """The stored messages, every call answered."""
        if id in self._saves:  # a cancelled ask does not wait for its own write
            await asyncio.wait([self._saves[id]])
        loaded, _ = await self._store.load(id)
        return close_transcript(loaded, INTERRUPTED)

    async def delete(self, id: str) -> None:
        """Remove the conversation, after the ask in flight."""
        async with self._locks.setdefault(id, asyncio.Lock()):
            self._pending.pop(id, None)
            while True:
                _, version = await self._store.load(id)
                try:
                    await self._store.replace(id, (), version)
                    return
                except StoreConflict:
                    continue

    async def settle(self) -> None:
        """Wait until everything is written."""
        while self._saves:
            await asyncio.wait(self._saves.values())

    async def _save(self, id: str, messages: Sequence[Message], version: int) -> None:
        while messages:
            try:
                await self._store.append(id, messages, version)
                return
            except StoreConflict as conflict:  # somebody else's ask came between: ours goes after it
                version = conflict.version


def _log_loss(id: str, save: asyncio.Task[None]) -> None:
    """Say what was lost, also when nobody waits for it any more."""
    if not save.cancelled() and (failure := save.exception()) is not None:
        logger.error("what conversation %r gained was not stored: %s", id, failure)


class Conversation:
    """One conversation of a client: `client.conversation(id)`."""

    def __init__(
        self, id: str, conversations: Conversations, ask: Callable[..., Awaitable[RunResult]]
    ) -> None:
        self.id = id
        self._conversations = conversations
        self._ask = ask

    async def messages(self) -> tuple[Message, ...]:
        """The stored messages, every call answered."""
        return await self._conversations.messages(self.id)

    async def ask(self, prompt: Prompt, *, deps: Any = None) -> RunResult:
        """`client.ask(prompt, conversation=id, deps=deps)`."""
        return await self._ask(prompt, conversation=self.id, deps=deps)

    @property
    def pending(self) -> tuple[Request, ...]:
        """The questions that the last run waits for."""
        return self._conversations.pending(self.id)

    def discard_pending(self) -> None:
        """Give up the open questions, so that the conversation can go on without them."""
        self._conversations.discard_pending(self.id)

    async def delete(self) -> None:
        """Remove the conversation from the store."""
        await self._conversations.delete(self.id)
