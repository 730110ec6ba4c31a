"""What a run reports, as progress of the call that began it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from mcp.server.session import ServerSession

from toolnexus.core.events import Event, NodeStarted, SubAgentStarted, ToolProgress, TurnStarted
from toolnexus.core.unicode import encodable
from toolnexus.runtime.outbox import Outbox

Reader = Callable[[Event], None]


@asynccontextmanager
async def reported(session: ServerSession) -> AsyncGenerator[Reader]:
    """Gives what takes the events; all are told before the block is left."""
    outbox = Outbox()

    def read(event: Event) -> None:
        if isinstance(event, (ToolProgress, TurnStarted, SubAgentStarted, NodeStarted)):
            outbox.put(event)

    telling = asyncio.create_task(_tell(outbox, session))
    try:
        yield read
        outbox.close()
        await telling
    finally:
        telling.cancel()


async def _tell(outbox: Outbox, session: ServerSession) -> None:
    """Progress only rises: a figure of a tool that does not is replaced by the next one."""
    last = 0.0
    async for event in outbox:
        figure, total = last + 1, None
        if isinstance(event, ToolProgress):
            text, total = event.message, _number(event.data.get("total"))
            given = _number(event.data.get("progress"))
            figure = given if given is not None and given > last else figure
        else:
            text = _words(event)
        last = figure
        await session.report_progress(figure, total, encodable(text) or None)


def _words(event: Event) -> str:
    if isinstance(event, SubAgentStarted):
        return f"{event.agent} started"
    if isinstance(event, NodeStarted):
        return "/".join(event.node)
    return f"{event.path[-1].partition('.')[0]}: turn {event.turn}" if isinstance(event, TurnStarted) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
