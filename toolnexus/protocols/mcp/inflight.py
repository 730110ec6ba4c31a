"""The calls that a connection has in flight, and the questions that the server asks meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

import mcp_types as types

from toolnexus.core.suspension import Answer, Request
from toolnexus.protocols.mcp.call import Call
from toolnexus.protocols.mcp.convert import elicit_result, question
from toolnexus.runtime.redact import Redactor

logger = logging.getLogger("toolnexus.mcp")

_current: ContextVar[Call | None] = ContextVar("mcp_call", default=None)


class InFlight:
    """Calls in the order in which they began. `idle` is set while there are none."""

    def __init__(self, server: str, redact: Redactor) -> None:
        self._server = server
        self._redact = redact
        self._calls: dict[Call, None] = {}
        self.idle = asyncio.Event()
        self.idle.set()

    @contextmanager
    def holding(self, call: Call) -> Generator[None]:
        """`call` is in flight inside; its open questions end with it."""
        self._calls[call] = None
        self.idle.clear()
        token = _current.set(call)
        try:
            yield
        finally:
            _current.reset(token)
            del self._calls[call]
            if not self._calls:
                self.idle.set()
            for open_question in call.questions:
                open_question.cancel()

    async def answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Have somebody answer a question of the server.

        Over HTTP the question comes in the context of its call. Over stdio nothing says which call
        it belongs to: the latest is asked, and the clocks of all stand still.
        When nobody answers now, the server hears that it was cancelled, and the call is made anew later;
        of several calls it is not known which, so the question is declined.
        """
        request = question(params, self._server)
        asker = _current.get()
        calls = list(self._calls) if asker is None else [asker]
        if not calls or (len(calls) > 1 and not calls[-1].answerer.somebody):
            return elicit_result(request, None)
        call = calls[-1]
        if not call.gave_up:
            with ExitStack() as stack:
                for one in calls:
                    stack.enter_context(one.clock.stopped())
                answer = await _ask(call, request, self._redact, again=True)
            if answer is not None:
                return elicit_result(request, answer)
            call.gave_up = True
        return elicit_result(request, Answer(id=request.id, ok=False, reason="cancelled"))

    async def ask(self, call: Call, request: Request) -> Answer | None:
        """Have somebody answer a question that came as the answer to `call`; None: nobody does now."""
        with call.clock.stopped():
            return await _ask(call, request, self._redact, again=False)


async def _ask(call: Call, request: Request, redact: Redactor, *, again: bool) -> Answer | None:
    # In a task of its own: when the call ends first, the question must end too, and a cancel of
    # the SDK's task that we are in would take its whole session down.
    asking = asyncio.ensure_future(call.answerer.ask(request, again=again))
    call.questions.add(asking)
    try:
        await asyncio.wait({asking})
        return asking.result()
    except asyncio.CancelledError:
        if not asking.cancelled():
            raise
    except Exception as error:
        why = redact(f"{type(error).__name__}: {error}")
        logger.warning("the question of an MCP server could not be put: %s", why)
    finally:
        asking.cancel()
        call.questions.discard(asking)
    return Answer(id=request.id, ok=False, reason="cancelled")
