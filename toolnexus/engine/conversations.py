"""Conversations: one ask at a time each, nothing lost, whatever way a run ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast
from weakref import WeakValueDictionary

from toolnexus.core.messages import Message, Prompt, close_transcript
from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Answer, Request
from toolnexus.engine.record import Record
from toolnexus.engine.stored import INTERRUPTED, StoredRun, given_up, has_ended, is_taken
from toolnexus.engine.transcripts import Transcripts
from toolnexus.errors import RunError, StoreConflict, StoreError
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.snapshot import Snapshot, taken
from toolnexus.stores.base import Store

if TYPE_CHECKING:
    from toolnexus.engine.runner import Journal

logger = logging.getLogger("toolnexus.conversations")


Withdraw = Callable[[Sequence[Request]], Awaitable[None]]
"""Tells whoever asked that nobody answers any more. Raises nothing."""


class _Ask:
    """One ask in flight. A task that a tool starts keeps its context, and may ask again afterwards."""

    def __init__(self, conversation: tuple[object, str]) -> None:
        self.conversation = conversation
        self.over = False


_asking: ContextVar[tuple[_Ask, ...]] = ContextVar("toolnexus_asking", default=())


class Body(Protocol):
    """Runs on a history, an inbox and a journal. Raises only `CancelledError`, with `.result`."""

    async def __call__(
        self,
        history: Sequence[Message],
        inbox: list[Message],
        journal: Journal | None = None,
        resumed: Snapshot | None = None,
    ) -> RunResult: ...


class _Ended(NamedTuple):
    """A run of a conversation that is over but not stored yet."""

    result: RunResult
    record: Record
    inbox: list[Message]
    cancelled: asyncio.CancelledError | None


class Conversations:
    """The conversations of one client over its store."""

    def __init__(self, store: Store, redact: Redactor, withdraw: Withdraw) -> None:
        self._store = store
        self._redact = redact
        self._withdraw = withdraw
        self._key = object()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._inboxes: dict[str, list[Message]] = {}
        self._saves: dict[str, asyncio.Task[None]] = {}

    async def ask(self, id: str, body: Body) -> RunResult:
        """Run `body` on the conversation and append what it adds.

        Asks of one conversation run one after the other. What was done is stored after every step, and
        the last write survives any number of cancels. Raises `Suspended` when the last run still waits
        for answers, `RunError` when the asking run is part of this very conversation, and `StoreError`
        with the result when it cannot be stored.
        """

        async def begin() -> _Ended:
            loaded, version = await self._store.load(id)
            state = await self._store.load_state(id)
            if is_taken(state) and (stored := StoredRun.read(id, state)) is not None:
                raise stored.suspended()
            history = close_transcript(loaded, INTERRUPTED)
            record = Record(self._store, id, version, kept=len(history), start=len(loaded))
            return await self._run(record, body, history, [], None)

        return await self._one(id, begin)

    async def resume(self, id: str, answers: Sequence[Answer], body: Body, *, asks: bool) -> RunResult:
        """Let the run of the conversation go on that waits, or that a crash left open.

        `asks`: somebody answers in place what `answers` leave open. Raises `RunError` when there is
        nothing to go on with, and what `ask` raises.
        """

        async def begin() -> _Ended | RunResult:
            while True:
                loaded, version = await self._store.load(id)
                state = await self._store.load_state(id)
                if state is not None and has_ended(state):
                    return _ended_result(id, state["ended"], answers, close_transcript(loaded, INTERRUPTED))
                stored = StoredRun.read(id, state)
                if stored is None:
                    raise RunError(f"conversation {id!r} has no run that waits; ask it instead")
                new = taken(stored.snapshot, answers)
                if stored.resumed_by is not None and new:
                    raise stored.suspended()
                if stored.stands(new, answers, asks):
                    return stored.result(loaded)
                history, point = stored.taken_up(loaded)
                ours = stored.marked(new, asks)
                whole = replace(point, answers=ours.snapshot.answers)
                kept = len(history) + len(point.frame.messages)
                record = Record(self._store, id, version, kept=kept, start=stored.start, resumed=ours)
                try:
                    await self._claim(record, stored)
                except StoreConflict as conflict:
                    if not answers:  # whoever was first goes on with it
                        raise ours.suspended() from conflict
                    continue
                try:
                    return await self._run(record, body, history, list(stored.inbox), whole)
                except BaseException:  # it did not even begin
                    self._save(id, record.release(stored))
                    raise

        return await self._one(id, begin)

    async def follow(
        self,
        id: str,
        run: Callable[[Sequence[Message]], Awaitable[RunResult]],
        resumed: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Let a step of another tree continue the conversation: `run` gets its messages.

        Ordered with the asks of the conversation. What the step adds is appended when it is over; one that
        waits adds nothing until then, and one that is cancelled nothing at all. `resumed` is where it
        stood, with the messages of then. Raises what `ask` raises.
        """

        async def begin() -> _Ended | RunResult:
            loaded, version = await self._store.load(id)
            state = await self._store.load_state(id)
            beside = state if is_taken(state) else None
            if resumed is None and (stored := StoredRun.read(id, beside)) is not None:
                raise stored.suspended()
            history = () if resumed is not None else close_transcript(loaded, INTERRUPTED)
            result = await run(history)
            if result.status == "pending":
                return result
            kept = len(history) if resumed is None else resumed.get("start", 0)
            record = Record(self._store, id, version, kept=kept, start=len(loaded), beside=beside)
            return _Ended(result, record, [], None)

        return await self._one(id, begin)

    async def _claim(self, record: Record, stored: StoredRun) -> None:
        """Mark the run as ours, or leave it as it is. Raises `StoreConflict` when it changed."""
        claiming = asyncio.ensure_future(record.claim())

        async def undo() -> None:
            await asyncio.wait([claiming])
            if not isinstance(
                claiming.exception(), StoreConflict
            ):  # after others nobody knows what was written
                await record.release(stored)

        try:
            await asyncio.shield(claiming)
        except StoreConflict:
            raise
        except (StoreError, asyncio.CancelledError):
            self._save(record.id, undo())
            raise

    def _save(self, id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Write something whether anybody waits for it or not; the conversation is ours until then."""
        saving = self._saves[id] = asyncio.create_task(work)
        saving.add_done_callback(lambda _: self._saves.pop(id))
        saving.add_done_callback(lambda task: _log_loss(id, task))
        return saving

    async def _one(self, id: str, begin: Callable[[], Awaitable[_Ended | RunResult]]) -> RunResult:
        """One run of the conversation at a time, and its end stored."""
        if any(ask.conversation == (self._key, id) and not ask.over for ask in _asking.get()):
            raise RunError(
                f"conversation {id!r} is asked from within its own run, which would wait for itself; "
                "use another conversation, or none"
            )
        lock = self._locks.setdefault(id, asyncio.Lock())
        await lock.acquire()
        mine = _Ask((self._key, id))
        token = _asking.set((*_asking.get(), mine))
        try:
            ended = await begin()
        except BaseException:
            if (saving := self._saves.get(id)) is None:
                lock.release()
            else:
                saving.add_done_callback(lambda _: lock.release())
            raise
        finally:
            mine.over = True
            _asking.reset(token)
            self._inboxes.pop(id, None)
        if isinstance(ended, RunResult):
            lock.release()
            return ended
        saving = self._save(id, ended.record.end(ended.result, ended.inbox))
        saving.add_done_callback(lambda _: lock.release())
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

    async def _run(
        self,
        record: Record,
        body: Body,
        history: Sequence[Message],
        inbox: list[Message],
        resumed: Snapshot | None,
    ) -> _Ended:
        self._inboxes[record.id] = inbox
        cancelled: asyncio.CancelledError | None = None
        try:
            result = await body(history, inbox, record, resumed)
        except asyncio.CancelledError as cancel:
            cancelled, result = cancel, cast("RunResult", cancel.result)  # type: ignore[attr-defined]
        if result.snapshot is not None:
            result = replace(result, snapshot={**result.snapshot, "conversation": record.id})
        return _Ended(result, record, inbox, cancelled)

    def steer(self, id: str, messages: Sequence[Message]) -> None:
        """Put messages before the next turn of the run in flight. Raises `RunError` when none is."""
        inbox = self._inboxes.get(id)
        if inbox is None:
            raise RunError(f"conversation {id!r} has no run in flight to steer; ask it instead")
        inbox.extend(messages)

    async def pending(self, id: str) -> tuple[Request, ...]:
        """The open questions of the last run. Raises `RunError` when its state cannot be read."""
        if id in self._saves:
            await asyncio.wait([self._saves[id]])
        stored = StoredRun.read(id, await self._store.load_state(id))
        return () if stored is None else stored.open

    async def discard_pending(self, id: str) -> None:
        """Give up the open run, whatever state it is in: its calls are answered, what is done stays."""
        async with self._locks.setdefault(id, asyncio.Lock()):
            while True:
                loaded, version = await self._store.load(id)
                state = await self._store.load_state(id)
                end = given_up(id, state, loaded, self._redact)
                if end is None:
                    return
                await Transcripts(self._store, id).keep_all(end.below)
                try:
                    await self._store.append(id, end.messages, version)
                    break
                except StoreConflict:
                    continue
        await self._withdraw(end.requests)

    async def messages(self, id: str) -> tuple[Message, ...]:
        """The stored messages, every call answered."""
        if id in self._saves:  # a cancelled ask does not wait for its own write
            await asyncio.wait([self._saves[id]])
        loaded, _ = await self._store.load(id)
        return close_transcript(loaded, INTERRUPTED)

    async def delete(self, id: str) -> None:
        """Remove the conversation, after the ask in flight."""
        async with self._locks.setdefault(id, asyncio.Lock()):
            while True:
                _, version = await self._store.load(id)
                await Transcripts(self._store, id).delete()
                try:
                    await self._store.replace(id, (), version)
                    return
                except StoreConflict:
                    continue

    async def below(self, id: str) -> Transcripts:
        """The runs below it that ended."""
        if id in self._saves:
            await asyncio.wait([self._saves[id]])
        return Transcripts(self._store, id)

    async def settle(self) -> None:
        """Wait until everything is written."""
        while self._saves:
            await asyncio.wait(self._saves.values())


def _ended_result(
    id: str, ended: Mapping[str, Any], answers: Sequence[Answer], messages: tuple[Message, ...]
) -> RunResult:
    """What a run gave that went on already: the same answers again change nothing."""
    known = {i: Answer.from_json(answer) for i, answer in ended["answers"].items()}
    for answer in answers:
        if answer.id not in known:
            raise RunError(f"no open request has the id {answer.id!r}; conversation {id!r} waits for none")
        if known[answer.id] != answer and known[answer.id].reason != "expired":
            raise RunError(f"request {answer.id!r} was answered already, and differently")
    if not answers:
        raise RunError(f"conversation {id!r} has no run that waits; ask it instead")
    why, text = ended.get("error"), ended["text"]
    error = None if why is None else RunError(why)
    return RunResult(status=ended["status"], text=text, output=text, messages=messages, error=error)


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

    async def ask(self, prompt: Prompt, *, output_type: Any = None, deps: Any = None) -> RunResult:
        """`client.ask(prompt, conversation=id, …)`."""
        return await self._ask(prompt, conversation=self.id, output_type=output_type, deps=deps)

    async def pending(self) -> tuple[Request, ...]:
        """The questions that the last run waits for, whichever process it ran in.

        Raises `RunError` when what is stored of it cannot be read; `discard_pending` needs not read it.
        """
        return await self._conversations.pending(self.id)

    async def discard_pending(self) -> None:
        """Give up the open run, also one that is being resumed: the conversation goes on without it.

        Its calls are answered, finished results stay; of a run that cannot be read they are lost. Tasks of
        remote agents that wait for an answer are cancelled, if that takes no longer than a few seconds.
        """
        await self._conversations.discard_pending(self.id)

    async def sub_agents(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the runs below it that ended, in that order, at any depth."""
        below = await self._conversations.below(self.id)
        return tuple(await below.index())

    async def sub_agent(self, path: Sequence[str]) -> tuple[Message, ...]:
        """The transcript of the run at `path`: of a result's `sub_agents`, or one of `sub_agents()`.

        Raises `RunError` that lists the paths when there is none.
        """
        below = await self._conversations.below(self.id)
        messages = () if isinstance(path, str) else await below.load(path)
        if not messages:
            known = [list(known) for known in await below.index()]
            raise RunError(f"conversation {self.id!r} has no run at {path!r}; there are: {known}")
        return messages

    async def delete(self) -> None:
        """Remove the conversation from the store, and the runs below it."""
        await self._conversations.delete(self.id)
