"""An endpoint whose answers are bytes: what goes wrong in one is decided here, not by a web server."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from toolnexus.testing.turns import Turn, anthropic_events, anthropic_reply, openai_events, openai_reply

End = Literal["keep", "close", "reset", "hang"]


@dataclass(frozen=True)
class Answer:
    """What is written, and what happens to the connection then."""

    data: bytes
    end: End = "keep"


@dataclass(frozen=True)
class Asked:
    """A request that arrived. `head` is its first lines as they came, keys and all."""

    target: str
    head: str
    body: dict[str, Any]

    @property
    def model(self) -> str:
        return self.body["model"]

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def anthropic(self) -> bool:
        return self.target.partition("?")[0].endswith("/messages")


Make = Callable[[Asked], Answer]


@dataclass
class FaultyEndpoint:
    """Each model has its own list of answers; behind its end every one is a good reply."""

    port: int = 0
    answers: dict[str, list[Make]] = field(default_factory=dict[str, list[Make]])
    asked: list[Asked] = field(default_factory=list[Asked])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def of(self, model: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.model == model]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._one(reader, writer):
                    pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Whether another one may come on this connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        asked = Asked(head.split(" ", 2)[1], head, body)
        self.asked.append(asked)
        acts = self.answers.get(asked.model)
        answer = (acts.pop(0) if acts else good())(asked)
        if answer.end == "reset":
            await asyncio.sleep(0)  # what was written before goes out by itself
        writer.write(answer.data)
        await writer.drain()
        if answer.end == "hang":
            await reader.read()  # until the client goes
        if answer.end == "reset":
            if answer.data:
                await asyncio.sleep(0.02)  # a reset takes with it what nobody has read yet
            sock: Any = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return answer.end == "keep"


@asynccontextmanager
async def faulty_endpoint() -> AsyncGenerator[FaultyEndpoint]:
    endpoint = FaultyEndpoint()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        server.close()
        await server.wait_closed()


def http(
    body: bytes | str = b"",
    *,
    status: int = 200,
    kind: str | None = "application/json",
    headers: tuple[tuple[str, str], ...] = (),
    length: int | None = None,
    chunked: bool = False,
) -> bytes:
    """An answer as it goes over the wire; `length` may lie, `chunked` leaves the last chunk to the caller."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Because", *(f"{name}: {value}" for name, value in headers)]
    if kind is not None:
        lines.append(f"Content-Type: {kind}")
    lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {length or len(data)}")
    head = "\r\n".join([*lines, "", ""]).encode()
    return head + (b"%x\r\n%b\r\n" % (len(data), data) if chunked and data else data)


LAST_CHUNK = b"0\r\n\r\n"


def events_of(turn: Turn, asked: Asked) -> list[str]:
    """The stream of a turn, one event each; the OpenAI style's ends with `[DONE]`."""
    if asked.anthropic:
        found = list(anthropic_events(turn, asked.model))
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in found]
    found = list(openai_events(turn, asked.model))
    return [*(f"data: {json.dumps(event)}\n\n" for event in found), "data: [DONE]\n\n"]


def reply_of(turn: Turn, asked: Asked) -> dict[str, Any]:
    return (anthropic_reply if asked.anthropic else openai_reply)(turn, asked.model)


def good(turn: Turn | None = None, kind: str | None = None) -> Make:
    """A faultless answer, under another content type if one is given."""

    def make(asked: Asked) -> Answer:
        said = turn or Turn(text=f"fine from {asked.model}")
        if asked.streamed:
            text = "".join(events_of(said, asked))
            return Answer(http(text, kind=kind or "text/event-stream", chunked=True) + LAST_CHUNK)
        return Answer(http(json.dumps(reply_of(said, asked)), kind=kind or "application/json"))

    return make
