"""Finding out which of the two protocol eras a server speaks, without waiting for a timeout.

A server of the one era answers the other's opening request with an error at once, or not at all.
So the likelier opening goes out first; when it fails, or there is only silence, the other one
follows, and the first good answer counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp import MCPError
from mcp.client.session import ClientSession
from pydantic import ValidationError

from toolnexus.protocols.mcp.endpoint import Era

_SILENCE = 3.0


async def negotiate(session: ClientSession, protocol: str, first: Era, seconds: float) -> None:
    """Open `session` in the era that `protocol` names; `auto` begins with `first`.

    `seconds` is what the caller will wait: a third of it is silence enough.

    Raises what the SDK raises when the server takes none.
    """
    openings: dict[str, Callable[[], Awaitable[object]]] = {
        "handshake": session.initialize,
        "stateless": session.discover,
    }
    if protocol in openings:
        await openings[protocol]()
        return
    other = "stateless" if first == "handshake" else "handshake"
    await _first_good(openings[first], openings[other], min(_SILENCE, seconds / 3))


async def _first_good(
    likely: Callable[[], Awaitable[object]], other: Callable[[], Awaitable[object]], silence: float
) -> None:
    async def attempt(opening: Callable[[], Awaitable[object]]) -> Exception | None:
        try:
            await opening()
        except (MCPError, ValidationError, RuntimeError, OSError) as error:
            return error
        return None

    attempts = [asyncio.create_task(attempt(likely))]
    try:
        await asyncio.wait(attempts, timeout=silence)
        if attempts[0].done() and attempts[0].result() is None:
            return
        attempts.append(asyncio.create_task(attempt(other)))
        open_attempts = set(attempts)
        while open_attempts:
            done, open_attempts = await asyncio.wait(open_attempts, return_when=asyncio.FIRST_COMPLETED)
            if any(task.result() is None for task in done):
                return
        raise _telling([task.result() for task in attempts])
    finally:
        for task in attempts:
            task.cancel()
        await asyncio.wait(attempts)


def _telling(errors: list[Exception | None]) -> Exception:
    """The error that says most: a status of the server before `unknown method`."""
    known = [e for e in errors if e is not None]
    return next((e for e in known if isinstance(e, MCPError) and e.data is not None), known[0])
