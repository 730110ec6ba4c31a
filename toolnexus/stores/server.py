"""Conversations on a server: what PostgresStore and RedisStore have in common.

All that is said to a server is said on an event loop of the store's own, on a daemon thread. So one
store serves any number of loops and threads, and no cancel tears a write that has begun.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import threading
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from toolnexus.core.messages import Message
from toolnexus.errors import StoreError
from toolnexus.runtime.loop_thread import LoopThread
from toolnexus.runtime.redact import Redactor
from toolnexus.stores.records import StoreProblem, read_records, records_of, state_text

logger = logging.getLogger("toolnexus.stores")

T = TypeVar("T")

CONNECTIONS = 8
"""How many a store opens at most."""
PATIENCE = 30.0
"""Seconds that one step may take before the server counts as lost."""
CONNECT_SECONDS = 10

_inherited: list[object] = []
"""Connections of a parent process: whoever closed them here would close them there."""


class Unusable(Exception):
    """The server can be reached and yet keeps nothing for us; the text says why."""


class Link(Protocol):
    """A kind of server, spoken to on one event loop.

    Every method opens what it needs and raises what is in `errors`. A write that is repeated with the
    same `version`, because nobody knows whether it arrived, happens once.
    """

    @property
    def errors(self) -> tuple[type[Exception], ...]: ...

    async def load(self, id: str) -> tuple[int, Sequence[tuple[Any, str | bytes]]]:
        """The version, and every record with where it stands."""
        ...

    async def load_state(self, id: str) -> str | bytes | None: ...

    async def append(
        self, id: str, records: Sequence[str], expected: int, version: int, state: str | None
    ) -> int:
        """The new version, or `expected` when there is nothing to write. Raises `StoreConflict`."""
        ...

    async def replace(self, id: str, records: Sequence[str], expected: int, version: int) -> int:
        """The new version, or 0 when the conversation is deleted. Raises `StoreConflict`."""
        ...

    async def set_aside(self, id: str, broken: Sequence[tuple[Any, str]]) -> None:
        """Move records that cannot be read, with the reasons."""
        ...

    async def close(self) -> None: ...


class _Line:
    """A link and the thread that it is used on. Knows nothing of the store."""

    def __init__(self, link: Link, where: str, redact: Redactor) -> None:
        self.process = os.getpid()
        self.thread = LoopThread("toolnexus-store")
        self._link, self._where, self._redact = link, where, redact
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._busy: set[asyncio.Task[Any]] = set()

    def run(self, work: Callable[[Link], Coroutine[Any, Any, T]], done: asyncio.Future[T]) -> None:
        """Do `work` there and settle `done`, which belongs to the loop of the caller."""
        asyncio.run_coroutine_threadsafe(self._serve(work, done), self.thread.loop)

    async def _serve(self, work: Callable[[Link], Coroutine[Any, Any, T]], done: asyncio.Future[T]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        result, failure = None, None
        try:
            async with self._free:
                if done.cancelled():
                    return
                async with asyncio.timeout(PATIENCE):
                    result = await work(self._link)
        except TimeoutError:
            failure = self._told(TimeoutError(f"no answer within {PATIENCE:g} s"))
        except (*self._link.errors, Unusable, OSError) as error:
            failure = self._told(error)
        except Exception as error:
            failure = error
        finally:
            self._busy.discard(task)
        with suppress(RuntimeError):  # the loop that asked has ended
            done.get_loop().call_soon_threadsafe(_settle, done, result, failure)

    def _told(self, error: BaseException) -> StoreError:
        """What a user reads. The driver's error stays out of it, which may know the address."""
        text = " ".join(str(error).split()) or "no reason was given"
        kind = "" if isinstance(error, Unusable) else f"{type(error).__name__}: "
        return StoreError(f"store {self._where!r}: {kind}{self._redact(text)}")

    async def end(self) -> None:
        """Finish what was asked for, and close the connections."""
        if self._busy:
            await asyncio.wait(self._busy)
        await self._link.close()

    def drop(self) -> None:
        """The same without waiting for it."""

        async def ended() -> None:
            await self.end()
            self.thread.loop.stop()

        asyncio.run_coroutine_threadsafe(ended(), self.thread.loop)


def _settle(done: asyncio.Future[Any], result: Any, failure: Exception | None) -> None:
    if done.done():
        return
    if failure is not None:
        done.set_exception(failure)
    else:
        done.set_result(result)


class ServerStore:
    """Keeps conversations on a server. Opened at the first use; closed, it opens again at the next.

    Safe for many tasks, threads, event loops and processes. A connection that is lost is opened again;
    when that fails, too, the method raises `StoreError`, and the next one tries anew. A write whose
    caller is cancelled may still happen, whole. No password is in any error, log line or `repr`.
    """

    def __init__(self, where: str, passwords: Sequence[str], link: Callable[[], Link]) -> None:
        self.where = where
        """The server, without user and password."""
        self.secrets = tuple(passwords)
        """What nobody may see."""
        self.problems: list[StoreProblem] = []
        """Records that this object set aside, in the order they were met."""
        self._redact = Redactor(passwords)
        self._link = link
        self._line: _Line | None = None
        self._starting = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r})"

    async def load(self, id: str) -> tuple[tuple[Message, ...], int]:
        """All messages and the version; `((), 0)` for a conversation that does not exist.

        A record that is torn or foreign is set aside and reported in `problems`, never raised.
        """
        version, records = await self._do(lambda link: link.load(id))
        messages, broken = read_records(records)
        if broken:
            with suppress(StoreError):  # unread is what matters; moving it can wait
                await self._do(lambda link: link.set_aside(id, broken))
        for _, reason in broken:
            logger.warning("%s: a record of conversation %r was set aside: %s", self.where, id, reason)
            self.problems.append(StoreProblem(id, reason))
        return messages, version

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        """Add `messages` and put `state` in place of the old one, in one transaction.

        Returns the new version. Raises `StoreConflict`, writing nothing, when the version is no longer
        `expected`.
        """
        records, text, version = records_of(id, messages), state_text(id, state), _new_version()
        return await self._do(lambda link: link.append(id, records, expected, version, text))

    async def load_state(self, id: str) -> Mapping[str, Any] | None:
        """The state that the last write left; one that is torn is reported in the log, never raised."""
        text = await self._do(lambda link: link.load_state(id))
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            logger.warning("%s: the state of conversation %r is torn: %s", self.where, id, error)
            return None

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        """Put `messages` in place of all, in one transaction, and return the new version.

        Raises `StoreConflict` like `append`. An empty sequence deletes the conversation and what
        was set aside of it; the version is then 0.
        """
        records, version = records_of(id, messages), _new_version()
        return await self._do(lambda link: link.replace(id, records, expected, version))

    async def aclose(self) -> None:
        """Finish what was asked for and close the connections. Idempotent."""
        with self._starting:
            line, self._line = self._line, None
        if line is not None and line.process == os.getpid():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(line.end(), line.thread.loop))
            line.thread.close()

    def __del__(self) -> None:
        line = getattr(self, "_line", None)
        if line is not None and line.process == os.getpid():
            line.drop()
            text = f"store {self.where!r} was never closed; await its aclose()"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    async def _do(self, work: Callable[[Link], Coroutine[Any, Any, T]]) -> T:
        """Do `work` on the store's own loop. Withdrawn when cancelled before it began."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._starting:
            if self._line is None or self._line.process != os.getpid():  # a fork keeps no thread
                if self._line is not None:
                    _inherited.append(self._line)
                self._line = _Line(self._link(), self.where, self._redact)
            self._line.run(work, done)
        return await done


def _new_version() -> int:
    """Never given twice: a conversation that was deleted and made anew is not taken for the old one, and a
    write whose connection is lost can see whether it arrived."""
    return 1 + secrets.randbits(62)
