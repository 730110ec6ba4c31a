"""Asking whoever can answer, one question at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from toolnexus.core.suspension import Answer, Request, check_answer
from toolnexus.runtime.hooks import settled

if TYPE_CHECKING:
    from toolnexus.runtime.context import Frame

OnRequest = Callable[[Request], Answer | Awaitable[Answer]]
"""Answers a question in place, plain or async. Called for one question at a time, in call order."""


class Asker:
    """One `on_request` handler and the queue before it."""

    __slots__ = ("_handler", "_turn")

    def __init__(self, handler: OnRequest) -> None:
        self._handler = handler
        self._turn = asyncio.Lock()

    async def ask(self, request: Request, frame: Frame) -> Answer:
        """The answer to `request`; meanwhile the run's slot is lent and its clocks stand still.

        Raises whatever the handler raises, `TypeError` for what is no answer, and `ValueError` for an
        answer to another question, or without the results that were asked for.
        """
        async with waiting(frame), self._turn:
            answer = await settled(self._handler(request))
        if not isinstance(answer, Answer):
            kind = type(answer).__name__
            raise TypeError(f"on_request must return an Answer(id=request.id, …), not {kind}")
        if answer.id != request.id:
            raise ValueError(f"the answer is for {answer.id!r}, the question is {request.id!r}")
        check_answer(request, answer)
        return answer


@asynccontextmanager
async def waiting(frame: Frame) -> AsyncGenerator[None]:
    """The run waits for a human: it holds no slot, and no time limit above it runs."""
    clocks = [d for f in _upwards(frame) if (d := f.deadline) is not None]
    for clock in clocks:
        clock.pause()
    try:
        async with AsyncExitStack() as stack:
            if frame.slot is not None:
                await stack.enter_async_context(frame.slot.lent())
            yield
    finally:
        for clock in clocks:
            clock.resume()


def _upwards(frame: Frame) -> list[Frame]:
    out: list[Frame] = []
    at: Frame | None = frame
    while at is not None:
        out.append(at)
        at = at.parent
    return out
