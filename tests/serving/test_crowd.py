"""Many callers at once, some of which leave, stall or send nonsense: nobody else notices, nothing is left."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.server.agent_execution.active_task import ActiveTask

from tests.serving.test_frame import MODERN, calling
from toolnexus import Client, FunctionModel, Message, ModelRequest, ToolCallPart, assistant, serve, tool
from toolnexus.serving.a2a import recent
from toolnexus.serving.a2a.executor import Executor

pytestmark = pytest.mark.anyio

CALLERS = 200
MOST = CALLERS + 6
OVERSIZED = b"x" * 30_000


class Room:
    """Where the calls of one round meet: none goes on before the last one is there."""

    def __init__(self, size: int, leaving: int) -> None:
        self.full, self.left, self.open = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.exit = asyncio.Event()
        self.exit.set()
        self._size, self._leaving = size, leaving

    async def enter(self) -> None:
        self._size -= 1
        if not self._size:
            self.full.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self._leaving -= 1
            if not self._leaving:
                self.left.set()
            await self.exit.wait()
            raise


class Crowd:
    """A server for many, and its callers over plain sockets."""

    def __init__(self) -> None:
        self.port = 0
        self.room = Room(0, 0)

        @tool
        async def double(number: int) -> int:
            """Double a number, together with everybody else."""
            await self.room.enter()
            return number * 2

        self.client = Client(model=FunctionModel(_doubles), builtins=False, tools=[double])

    async def round(self, callers: int) -> None:
        """As many calls at once; every tenth caller leaves while all of them are under way."""
        ways: list[Callable[[int], bytes]] = [_tool_call, _tool_call, _message, _stream]
        way = {n: ways[(n + n // 10) % 4] for n in range(callers)}
        leaving = range(0, callers, 10)
        self.room = room = Room(callers, sum(way[n] is _tool_call for n in leaving))

        async def leave(n: int) -> None:
            _, writer = await self._sent(way[n](n))
            await room.full.wait()
            writer.transport.abort()
            await writer.wait_closed()

        async def stay(n: int) -> None:
            response = await self.answer(way[n](n))
            assert f'"text":"{2 * n}"' in response, response

        async with asyncio.TaskGroup() as group:
            for n in way:
                group.create_task(leave(n) if n in leaving else stay(n))
            await room.full.wait()
            await room.left.wait()  # whoever calls a tool and leaves has stopped it
            room.open.set()

    async def answer(self, request: bytes) -> str:
        reader, writer = await self._sent(request)
        try:
            return (await reader.read()).decode().replace('": ', '":')
        finally:
            writer.close()
            await writer.wait_closed()

    async def _sent(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        return reader, writer


def _doubles(request: ModelRequest) -> Message:
    """A model that has the number of its prompt doubled, and says what came of it."""
    last = request.messages[-1]
    if last.role == "tool":
        return assistant(last.tool_results[0].output)
    return assistant("", ToolCallPart("c1", "double", json.dumps({"number": int(last.text)})))


def _request(path: str, content: bytes, given: Mapping[str, str]) -> bytes:
    lines = {
        "host": "localhost",
        "connection": "close",
        "content-type": "application/json",
        "content-length": str(len(content)),
        **given,
    }
    head = "".join([f"{name}: {value}\r\n" for name, value in lines.items()])
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content


def _tool_call(n: int) -> bytes:
    body = json.dumps(calling("double", number=n)).encode()
    return _request("/mcp", body, {**MODERN, "mcp-method": "tools/call", "mcp-name": "double"})


def _message(text: object, method: str = "SendMessage") -> bytes:
    return _a2a(method, message={"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": str(text)}]})


def _a2a(method: str, **params: Any) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return _request("/", json.dumps(body).encode(), {"a2a-version": "1.0"})


def _stream(text: object) -> bytes:
    return _message(text, "SendStreamingMessage")


async def _task_of(stream: asyncio.StreamReader) -> str:
    """The task that a stream begins with."""
    while not (line := await stream.readline()).startswith(b"data:"):
        assert line, "the stream is over"
    return json.loads(line[5:])["result"]["task"]["id"]


NONSENSE = {
    _request("/", OVERSIZED, {}): (413, "a request may have 20,000 bytes"),
    _request("/mcp", OVERSIZED, MODERN): (413, "a request may have 20,000 bytes"),
    _request("/", b"{", {"a2a-version": "1.0"}): (200, '"code":-32700'),
    _request("/v1/message:send", b"{", {"a2a-version": "1.0"}): (400, "JSON"),
    _request("/mcp", b"{", MODERN): (400, '"code":-32700'),
    _request("/mcp", b"{", {"accept": MODERN["accept"]}): (400, '"code":-32700'),
}


@asynccontextmanager
async def crowd(**limits: Any) -> AsyncGenerator[Crowd]:
    found = Crowd()
    async with found.client, serve(found.client, a2a=True, mcp=True, **limits) as server:
        found.port = int(server.url.rpartition(":")[2])
        yield found


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def begun(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """The tasks since then, apart from the one that a library keeps for each event loop."""
    since = asyncio.all_tasks() - before
    return {task for task in since if getattr(task.get_coro(), "__name__", "") != "_shutdown_watcher"}


async def settled(before: set[asyncio.Task[Any]]) -> None:
    """Until everything that was begun since is over."""
    while left := begun(before):
        await asyncio.wait(left)
    gc.collect()


@pytest.mark.exhaustive
async def test_a_crowd_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """[SRV-15] 200 calls of both protocols at once, 20 callers gone, nonsense between them: the others have
    their own answers, and tasks, sockets and memory are what they were."""
    monkeypatch.setattr(recent, "MOST_TASKS", 0)  # as many as it takes on at once, and no more
    async with asyncio.timeout(120), crowd(max_concurrent=MOST, max_body=20_000) as server:
        before = asyncio.all_tasks()
        for _ in range(2):  # until there are as many tasks as it keeps
            await server.round(CALLERS)
            await settled(before)
        sockets, blocks = descriptors(), sys.getallocatedblocks()
        async with asyncio.TaskGroup() as group:
            group.create_task(server.round(CALLERS))
            wrong = [group.create_task(server.answer(request)) for request in NONSENSE]
        for (status, why), task in zip(NONSENSE.values(), wrong, strict=True):
            assert task.result().startswith(f"HTTP/1.1 {status} ") and why in task.result()
        await settled(before)
        while descriptors() > sockets:  # closed by the loop, a moment after their tasks
            await asyncio.sleep(0)
        assert not begun(before)
        assert (
            sys.getallocatedblocks() - blocks < CALLERS * 5
        )  # what one run alone takes is a hundred times that
        assert len(server.client.store._conversations) == MOST  # type: ignore[attr-defined]


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nhost: loc"])
async def test_a_request_that_does_not_come_is_not_waited_for(sent: bytes) -> None:
    """[SRV-16] Its connection ends, also when there was a whole request before it."""
    async with asyncio.timeout(20), crowd(deadline=0.1) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /.well-known/agent-card.json HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.write(sent)
        fresh, other = await asyncio.open_connection("127.0.0.1", server.port)
        other.write(sent)
        if sent:
            await reader.read()  # one that is only idle has five seconds
        assert await fresh.read() == b""
        for one in (writer, other):
            one.close()
            await one.wait_closed()


async def test_what_is_cancelled_and_left_is_not_kept() -> None:
    """[A2A-84] Also when a caller leaves while its run is being cancelled, nothing but the task is held."""
    async with asyncio.timeout(20), crowd() as server:
        before = asyncio.all_tasks()
        server.room = room = Room(3, 3)
        room.exit.clear()
        callers = [await server._sent(_stream(n)) for n in range(3)]
        tasks = [await _task_of(reader) for reader, _ in callers]
        await room.full.wait()
        requests = {task for task in begun(before) if "run_asgi" in str(task.get_coro())}
        cancelling = [asyncio.create_task(server.answer(_a2a("CancelTask", id=task))) for task in tasks]
        await room.left.wait()
        for _, writer in callers[1:]:
            writer.transport.abort()
        while len(requests) > 1:
            _, requests = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        room.exit.set()
        assert all(["TASK_STATE_CANCELED" in await answer for answer in cancelling])
        callers[0][1].close()
        await settled(before)
        held = [each for each in gc.get_objects() if isinstance(each, ActiveTask | Executor)]
        assert [each for each in held if not isinstance(each, Executor) or each.running] == []


@pytest.mark.parametrize("request_of", [_message, _stream, _tool_call])
async def test_a_caller_that_leaves_in_the_middle_of_its_request_is_no_error(
    request_of: Callable[[int], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """[SRV-17] Nothing begins, and no log speaks of it as a failure of the server."""
    async with asyncio.timeout(20), crowd() as server:
        before = asyncio.all_tasks()
        _, writer = await server._sent(request_of(1)[:-1])
        while not begun(before):  # until the server has what there is
            await asyncio.sleep(0)
        writer.close()
        await writer.wait_closed()
        await settled(before)
        assert not server.client.store._conversations  # type: ignore[attr-defined]
    assert [r.getMessage() for r in caplog.records if r.levelno > logging.INFO] == []


async def test_a_reader_that_stops_holds_nothing() -> None:
    """[SRV-16] An answer that nobody takes is given up, and what belongs to it ends."""
    async with asyncio.timeout(20), crowd(deadline=0.2) as server:
        before = asyncio.all_tasks()
        with socket.socket() as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(stalled, ("127.0.0.1", server.port))
            server.room.open.set()
            await loop.sock_sendall(stalled, _message("1" + " " * 8_000_000))  # a task has what was asked
            await settled(before)
