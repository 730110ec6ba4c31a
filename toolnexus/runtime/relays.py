"""Several relayed calls of one turn, asked as one question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from toolnexus.core.suspension import Request, relayed_calls

T = TypeVar("T")


class Relays:
    """The relayed calls of one batch: those that have come to be asked are one question."""

    def __init__(self, call_ids: Iterable[str]) -> None:
        self._order = list(call_ids)
        self._coming = set(self._order)
        self._all_here = asyncio.Event()
        self._asked: dict[str, Request] = {}
        self._whole: Request | None = None
        self._outcomes: dict[str, asyncio.Future[Any]] = {}

    def left(self, call_id: str) -> None:
        """This call will not ask any more. Idempotent."""
        self._coming.discard(call_id)
        if not self._coming:
            self._all_here.set()

    async def put(self, call_id: str, request: Request, ask: Callable[[Request], Awaitable[T]]) -> T:
        """What `ask` gives for the one question; it is called once for all calls that share it."""
        if call_id not in self._order:
            return await ask(request)
        if request.digest is None:  # a new one: wait for the others of the turn
            self._asked[call_id] = request
            self.left(call_id)
            await self._all_here.wait()
            request = self._joined()
        else:
            self.left(call_id)
        outcome = self._outcomes.get(request.id)
        if outcome is not None:
            return await asyncio.shield(outcome)
        outcome = self._outcomes[request.id] = asyncio.get_running_loop().create_future()
        try:
            given = await ask(request)
        except BaseException as error:
            failure = error if isinstance(error, Exception) else RuntimeError("the question was cancelled")
            outcome.set_exception(failure)
            outcome.exception()  # there may be nobody else who looks at it
            raise
        outcome.set_result(given)
        return given

    def _joined(self) -> Request:
        if self._whole is None:
            requests = [self._asked[id] for id in self._order if id in self._asked]
            calls = [call for request in requests for call in relayed_calls(request)]
            prompt = "; ".join([request.prompt for request in requests])
            self._whole = replace(requests[0], prompt=prompt, data={"calls": calls})
        return self._whole
