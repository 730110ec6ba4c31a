"""What can go wrong with a server, in words that a model and a human can use."""

from __future__ import annotations

import signal
from typing import Literal

from toolnexus.protocols.mcp.process import ServerProcess

_LAST_WORDS = 400


class Fault(Exception):
    """A server could not be reached or did not do what it was asked. `reason` says why."""

    def __init__(self, reason: str, *, status: Literal["failed", "needs_auth"] = "failed") -> None:
        super().__init__(reason)
        self.reason = reason
        self.status: Literal["failed", "needs_auth"] = status


class SessionLost(Fault):
    """The server no longer knows our session: a new one will do."""


class Gone(Fault):
    """The connection ended under the call."""


async def obituary(process: ServerProcess) -> str:
    """How a server process ended, with its last words. The words may hold secrets."""
    await process.gone(0.3)
    said = last_words(process)
    silent = not said and process.output.fault is None
    return f"{_how(process)}{'; it said nothing: check its command and args' if silent else said}"


def last_words(process: ServerProcess) -> str:
    """What it said last on stderr, as the end of a sentence. May hold secrets."""
    said = process.errors.text
    return f"; its stderr ends with: {said[-_LAST_WORDS:]}" if said else ""


def _how(process: ServerProcess) -> str:
    if process.output.fault is not None:
        return process.output.fault
    if process.status is None:
        return "it closed its output"
    if process.status < 0:
        try:
            return f"it was killed by {signal.Signals(-process.status).name}"
        except ValueError:
            return f"it was killed by signal {-process.status}"
    return f"it exited with status {process.status}"
