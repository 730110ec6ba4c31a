"""The driver of this package: `python -m toolnexus.testing.conformance.driver` speaks JSON lines.

What it is: DRIVER.md from the side of an implementation. It builds a Client out of each case, like any
host, and asks the runner for whatever a model, a tool or a person would say.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import toolnexus
from toolnexus.testing.conformance.fixture import Data
from toolnexus.testing.conformance.host import Host

PROTOCOL = 1
SETTLING = 50
"""Turns of the event loop after which everything that can go on has gone on."""


class Driver:
    """Speaks with a runner: `receive` gives its next line, None at the end; `send` takes one."""

    def __init__(self, receive: Callable[[], Awaitable[str | None]], send: Callable[[str], None]) -> None:
        self._receive = receive
        self._send = send
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Data]] = {}
        self._host: Host | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._step: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Until the runner has no more to say."""
        self.say("hello", protocol=PROTOCOL, name="toolnexus", version=toolnexus.__version__)
        try:
            while (line := await self._receive()) is not None:
                await self._take(json.loads(line))
        finally:
            await self._end()

    def say(self, type: str, **fields: Any) -> None:
        """Send one message."""
        self._send(json.dumps({"type": type, **fields}))

    async def ask(self, type: str, **fields: Any) -> Data:
        """Ask the runner, and wait for what it says."""
        id, answered = next(self._ids), asyncio.get_running_loop().create_future()
        self._asked[id] = answered
        self.say(type, id=id, **fields)
        try:
            return await answered
        except asyncio.CancelledError:
            self.say("abandoned", id=id)
            raise
        finally:
            del self._asked[id]

    async def _take(self, message: Data) -> None:
        match message["type"]:
            case "return":
                waiting = self._asked.get(message["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            case "case":
                self._host = Host(message, self.ask)
                await self._do(self._host.open())
            case "step" if self._host is not None:
                self._step = self._start(self._do(self._host.play(message)))
            case "cancel" if self._step is not None:
                self._step.cancel()
            case "sync":
                self._start(self._settled(message["id"]))
            case "end":
                await self._end()
                self.say("ended")
            case _:
                pass

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _do(self, work: Awaitable[Data]) -> None:
        """Say what comes of it, whatever it is."""
        try:
            self.say(**await work)
        except asyncio.CancelledError:
            self.say("cancelled")
        except Exception as error:  # whatever a wrong implementation lets through
            self.say("failed", error=repr(error))

    async def _settled(self, id: int) -> None:
        for _ in range(SETTLING):
            await asyncio.sleep(0)
        self.say("synced", id=id)

    async def _end(self) -> None:
        for task in (left := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._host is not None:
            await self._host.aclose()
            self._host = None


async def _over_pipes() -> None:
    """Lines of standard input and output. What anybody else prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    await Driver(lines.get, lambda line: print(line, file=out)).serve()


if __name__ == "__main__":
    asyncio.run(_over_pipes())
