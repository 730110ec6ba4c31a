"""One call of a tool, and the time it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolnexus.core.suspension import Answer, Request
from toolnexus.core.values import frozen

CAP = 10
"""How many timeouts a call may last when it keeps reporting progress."""


class Answerer(Protocol):
    """Whoever answers for the run that makes a call."""

    @property
    def somebody(self) -> bool:
        """Whether questions are answered in place."""
        ...

    def ask(self, request: Request, *, again: bool) -> Awaitable[Answer | None]:
        """The answer to a question of the server; None: nobody answers now.

        `again`: it is asked in the middle of the call, and anew when the call is repeated.
        """
        ...


@frozen(kw_only=True)
class Round:
    """Where a call stands that the server answered with questions."""

    questions: Mapping[str, Request]
    """By the server's own keys."""
    state: str | None
    """What the server wants to hear with the answers."""


class Waiting(Exception):
    """The questions of `round` are not all answered: the call goes on from there, later."""

    def __init__(self, round: Round) -> None:
        super().__init__("the call waits for answers")
        self.round = round


OnProgress = Callable[[float, float | None, str | None], None]


class Clock:
    """An async context manager: `TimeoutError` after `timeout` seconds without progress.

    However much progress there is, `CAP` timeouts are the end. It stands still while a human is
    asked.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._limit = self._loop.time() + timeout * CAP
        self._timer = asyncio.timeout(timeout)
        self._holds = 0
        self._left = 0.0
        self._done = False

    async def __aenter__(self) -> Clock:
        await self._timer.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        self._done = True
        return await self._timer.__aexit__(*error)

    def progress(self) -> None:
        """There was a sign of life: the timeout begins anew."""
        if not self._holds:
            self._set(min(self._loop.time() + self.timeout, self._limit))

    @contextmanager
    def stopped(self) -> Generator[None]:
        """The clock does not run inside."""
        begin = self._loop.time()
        if not self._holds:
            self._left = (self._timer.when() or begin) - begin
            self._set(None)
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                now = self._loop.time()
                self._limit += now - begin
                self._set(min(now + self._left, self._limit))

    def _set(self, when: float | None) -> None:
        if not self._done and not self._timer.expired():
            self._timer.reschedule(when)


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """What the owner of a server needs to know of one call."""

    tool: str
    arguments: dict[str, Any]
    clock: Clock
    answerer: Answerer
    on_progress: OnProgress
    round: Round | None = None
    """Where it goes on."""
    gave_up: bool = False
    """Whether a question in its middle was left open: then nothing that it asks is worth asking."""
    questions: set[asyncio.Task[Answer | None]] = field(default_factory=set[Any])
    """Open questions; they end with the call."""

    def reported(self, progress: float, total: float | None, message: str | None) -> None:
        """The server reports how far it is."""
        self.clock.progress()
        self.on_progress(progress, total, message)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """The same, for the SDK."""
        self.reported(progress, total, message)
