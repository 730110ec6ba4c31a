"""The scripted endpoint: a process of its own, so that its work is not counted as ours.

Speaks OpenAI chat completions, whole and streamed, over HTTP/1.1 on the loopback. Stateless: what
it answers depends on the request only (see `script`). It checks the transcript of every request and
counts; `/stats` gives the counters, `/reset` sets them to zero, `/deltas/N` makes an answer of N deltas
ready.

`python -m benchmarks.endpoint` prints the address that it listens on, and ends with its stdin.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from functools import lru_cache
from http.client import HTTPConnection
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from benchmarks import script

EVENTS_PER_WRITE = 16
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_BAD = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Counters:
    """What happened since the last reset."""

    def __init__(self) -> None:
        self.requests = 0
        self.connections = 0
        """Connections that carried at least one model request."""
        self.in_flight = 0
        self.max_in_flight = 0
        self.tokens = 0
        """All tokens that the answers reported."""
        self.faults = script.Faults()

    def add(self, faults: script.Faults) -> None:
        """Note the faults of one more request."""
        if any(faults):
            self.faults = script.Faults(*[a + b for a, b in zip(self.faults, faults, strict=True)])

    def to_json(self) -> dict[str, int]:
        """All counters by name."""
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        return counts | self.faults._asdict()


class Connection(asyncio.Protocol):
    """One client connection: requests with a content-length, answered in order."""

    counters = Counters()
    """Shared by all connections."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = bytearray()
        self._counted: Counters | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._streams: set[asyncio.Task[None]] = set()

    def connection_lost(self, exc: Exception | None) -> None:
        for task in self._streams:
            task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end])
            _, found, value = head.lower().partition(b"\r\ncontent-length:")
            size = int(value.split(b"\r\n", 1)[0]) if found else 0
            if len(self._buffer) < end + 4 + size:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + size])
            del self._buffer[: end + 4 + size]
            self._serve(head.split(b" ", 2)[1], body)

    def _serve(self, path: bytes, body: bytes) -> None:
        if path.startswith(b"/deltas/"):
            self._send(_OK, {"deltas": len(script.text_events(int(path.rsplit(b"/", 1)[1])))})
        elif path == b"/stats":
            self._send(_OK, self.counters.to_json())
        elif path == b"/reset":
            Connection.counters = Counters()
            self._send(_OK, {})
        elif path.endswith(b"/chat/completions"):
            try:
                self._answer(body)
            except (ValueError, LookupError, StopIteration, TypeError) as error:
                self._send(_BAD, {"error": {"message": f"no plan to follow: {error!r}"}})
        else:
            self._send(_BAD, {"error": {"message": f"nothing is served at {path.decode()!r}"}})

    def _answer(self, body: bytes) -> None:
        request = json.loads(body)
        messages = request["messages"]
        text, turn, faults = script.inspect(messages)
        counters = self.counters
        counters.requests += 1
        counters.add(faults)
        counters.tokens += script.usage(len(messages), len(script.calls_of(text, turn)))["total_tokens"]
        if self._counted is not counters:
            self._counted = counters
            counters.connections += 1
        counters.in_flight += 1
        counters.max_in_flight = max(counters.max_in_flight, counters.in_flight)
        answer = (script.events if request.get("stream") else _whole)(text, turn, len(messages))
        delay = script.read_plan(text).get("delay", 0)
        if delay:
            asyncio.get_running_loop().call_later(delay, self._finish, answer, counters)
        else:
            self._finish(answer, counters)

    def _finish(self, answer: bytes | Iterator[bytes], counters: Counters) -> None:
        counters.in_flight -= 1
        if isinstance(answer, bytes):
            self._transport.write(answer)
            return
        task = asyncio.get_running_loop().create_task(self._stream(answer))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)

    async def _stream(self, events: Iterator[bytes]) -> None:
        """A few events at a time, each an HTTP chunk of its own."""
        head = _STREAM
        while some := [b"%x\r\n%b\r\n" % (len(e), e) for e in islice(events, EVENTS_PER_WRITE)]:
            await self._writable.wait()
            self._transport.write(head + b"".join(some))
            head = b""
            await asyncio.sleep(0)
        self._transport.write(b"0\r\n\r\n")

    def _send(self, form: bytes, value: Any) -> None:
        data = json.dumps(value).encode()
        self._transport.write(form % (len(data), data))


@lru_cache(maxsize=8192)
def _whole(text: str, turn: int, messages: int) -> bytes:
    body = script.reply(text, turn, messages)
    return _OK % (len(body), body)


def control(url: str, command: str) -> dict[str, int]:
    """Ask the endpoint at `url` for `stats`, to `reset`, or for `deltas/N`."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET", f"/{command}")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


async def serve() -> None:
    """Listen on a free port of the loopback until stdin ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=2048)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
