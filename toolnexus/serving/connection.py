"""One connection of the server: what uvicorn leaves open for ever, ends here."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def punctual(patience: float) -> type[H11Protocol]:
    """Connections that end when a request does not come, or an answer is not taken, for so many seconds."""

    class Punctual(H11Protocol):
        _late: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # whatever cannot be sent at once is told
            self._late = self.loop.call_later(patience, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle: Any = self.cycle  # None before the first request
            if cycle is not None and not cycle.response_complete:
                self._late = _cancelled(self._late)
            elif self._late is None:
                self._late = self.loop.call_later(patience, self.transport.abort)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stuck = _cancelled(self._stuck)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._late, self._stuck = _cancelled(self._late), _cancelled(self._stuck)

        def _watch(self) -> None:
            transport: Any = self.transport
            unsent = transport.get_write_buffer_size()

            def look() -> None:
                if transport.get_write_buffer_size() < unsent:
                    self._watch()
                else:
                    transport.abort()

            self._stuck = self.loop.call_later(patience, look)

    return Punctual


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
