"""One case on its way: the runner's side of the driver protocol, whatever the link."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Coroutine
from types import TracebackType
from typing import Any

from toolnexus.testing.conformance import said
from toolnexus.testing.conformance.endpoint import Endpoint
from toolnexus.testing.conformance.fixture import Data, complaint
from toolnexus.testing.conformance.links import Link, LinkError
from toolnexus.testing.conformance.script import Script


class Unsupported(Exception):
    """The implementation says that it does not have what the case asks for."""


class Refused(Exception):
    """The implementation refused what it was asked, in these words."""


class ProtocolError(LinkError):
    """A message that the protocol does not have at this point."""


class Session:
    """Speaks with a driver about one case, and answers for its models, tools and people.

    A failure of an answer ends the conversation: it is raised by whoever waits for the driver.
    """

    def __init__(self, link: Link, case: Data) -> None:
        self._link = link
        self.script = Script(case, self._settled)
        self._messages: asyncio.Queue[Data | Exception] = asyncio.Queue()
        self._answers: dict[int, asyncio.Task[None]] = {}
        self._syncs: dict[int, asyncio.Event] = {}
        self._ids = itertools.count(1)
        self._reader: asyncio.Task[None] | None = None
        self.endpoint = Endpoint(self.script.reply)

    async def __aenter__(self) -> Session:
        self.join(self._link)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    async def leave(self) -> None:
        """Listen no more. What the driver asked is forgotten."""
        tasks = [task for task in (self._reader, *self._answers.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._answers.clear()
        self._messages = asyncio.Queue()

    def join(self, link: Link) -> None:
        """Listen to the driver at the other end of `link`."""
        self._link = link
        self._reader = asyncio.create_task(self._read())

    async def ask(self, message: Data, *kinds: str) -> Data:
        """Send `message` and wait for one of `kinds`.

        Raises `Refused` and `Unsupported` when the driver says so, and `LinkError`.
        """
        await self._link.send(message)
        answer = await self._messages.get()
        if isinstance(answer, Exception):
            raise answer
        may = message["type"] in ("case", "step")
        match answer["type"]:
            case kind if kind in kinds:
                return answer
            case "failed":
                raise LinkError(f"raised {answer['error']}")
            case "refused" if may:
                raise Refused(answer["error"])
            case "unsupported" if may:
                raise Unsupported(answer["feature"])
            case kind:
                raise ProtocolError(f"the driver said {kind!r} after {message['type']!r}; expected {kinds}")

    async def cancel(self) -> None:
        """Tell the driver to cancel the step on its way."""
        await self._link.send({"type": "cancel"})

    async def _read(self) -> None:
        """Answer what the driver asks; keep the rest for who waits for it."""
        try:
            while True:
                message = await self._link.receive()
                if (wrong := complaint(message, "driver")) is not None:
                    raise ProtocolError(f"the driver wrote a wrong message: {wrong}")
                self._take(message)
        except LinkError as error:
            self._messages.put_nowait(error)

    def _take(self, message: Data) -> None:
        match message["type"]:
            case "model" | "tool" | "question" | "continue" as kind:
                self._answer(message["id"], getattr(self, f"_{kind}")(message))
            case "abandoned":
                if (task := self._answers.get(message["id"])) is not None:
                    task.cancel()
            case "synced":
                if (waiting := self._syncs.get(message["id"])) is not None:
                    waiting.set()
            case _:
                self._messages.put_nowait(message)

    def _answer(self, id: int, work: Coroutine[Any, Any, Data]) -> None:
        if id in self._answers:
            work.close()
            raise ProtocolError(f"the driver asked twice with the id {id}")
        self._answers[id] = asyncio.create_task(self._return(id, work))

    async def _return(self, id: int, work: Awaitable[Data]) -> None:
        try:
            await self._link.send({"type": "return", "id": id, **await work})
        except Exception as error:  # a driver that asks for whom nobody answers, and the like
            failure = error if isinstance(error, LinkError) else ProtocolError(f"message {id}: {error!r}")
            self._messages.put_nowait(failure)

    async def _model(self, message: Data) -> Data:
        return await self.script.reply(said.request(message))

    async def _tool(self, message: Data) -> Data:
        name, path = message["name"], message["path"]
        if name not in self.script.calls:
            raise ProtocolError(f"the driver asked for the tool {name!r}, which the case does not declare")
        return await self.script.tool(name, message["arguments"], path, message.get("answer"))

    async def _question(self, message: Data) -> Data:
        return self.script.answer(message["of"])

    async def _continue(self, message: Data) -> Data:
        return {"continue": self.script.goes_on(message["of"])}

    async def _settled(self) -> None:
        """Until the driver has done and said all that it can."""
        id, synced = next(self._ids), asyncio.Event()
        self._syncs[id] = synced
        await self._link.send({"type": "sync", "id": id})
        await synced.wait()
