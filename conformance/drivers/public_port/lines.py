"""The protocol, on the lines of standard input and output."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Coroutine
from typing import Any

from case import Case, Data, Unsupported
from plain import Plain
from team import Team


class Driver:
    """Plays one case after the other."""

    def __init__(self, out: Any) -> None:
        self.out = out
        self.ids = itertools.count(1)
        self.asked: dict[int, asyncio.Future[Data]] = {}
        self.case: Case | None = None
        self.step: asyncio.Task[None] | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    def say(self, type: str, **fields: Any) -> None:
        """Send one message."""
        print(json.dumps({"type": type, **fields}, default=str), file=self.out, flush=True)

    async def ask(self, type: str, **fields: Any) -> Data:
        """Ask the runner, and wait for what it says."""
        id = next(self.ids)
        self.asked[id] = asyncio.get_running_loop().create_future()
        self.say(type, id=id, **fields)
        try:
            return await self.asked[id]
        except asyncio.CancelledError:
            self.say("abandoned", id=id)
            raise
        finally:
            del self.asked[id]

    async def take(self, message: Data) -> None:
        """Do what the runner says."""
        match message["type"]:
            case "return":
                if (waiting := self.asked.get(message["id"])) is not None and not waiting.done():
                    waiting.set_result(message)
            case "case":
                self.case = (Team if message["agents"] else Plain)(message, self.ask)
                await self.guarded(self.opened(self.case))
            case "step" if self.case is not None:
                self.step = self.start(self.guarded(self.played(self.case, message)))
            case "cancel" if self.case is not None and self.step is not None:
                self.case.cancel()
                self.step.cancel()
            case "sync":
                self.start(self.settled(message["id"]))
            case "end":
                self.case = None
                self.say("ended")
            case _:
                pass

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def opened(self, case: Case) -> None:
        await case.open()
        self.say("ready")

    async def played(self, case: Case, step: Data) -> None:
        self.say("result", result=await case.play(step))

    async def guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Say how `work` ends if it does not end well."""
        try:
            await work
        except asyncio.CancelledError:
            await asyncio.sleep(0.02)  # runs below end a moment later
            self.say("cancelled")
        except Unsupported as lacking:
            self.say("unsupported", feature=str(lacking))
        except Exception as error:
            self.say("refused", error=f"{type(error).__name__}: {error}")

    async def settled(self, id: int) -> None:
        await asyncio.sleep(0.02)  # its models are threads: time is all that there is to wait for
        self.say("synced", id=id)
