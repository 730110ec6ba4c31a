"""The MCP server over standard input and output: one caller, which started this process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any, cast

from mcp.server.stdio import stdio_server

from toolnexus.client import Client
from toolnexus.core.options import expect
from toolnexus.runtime.concurrency import stop
from toolnexus.serving.load import Load
from toolnexus.serving.mcp.server import ClientServer
from toolnexus.serving.options import Limits, McpOptions, read_options

_MOST_QUEUED = 64


async def serve_stdio(
    client: Client,
    *,
    mcp: bool | Mapping[str, Any] | McpOptions = True,
    max_concurrent: int = Limits.max_concurrent,
    max_body: int = Limits.max_body,
    deadline: float = Limits.deadline,
) -> None:
    """Serve a client's tools to the program that started this one, as an MCP server over its pipes.

    The options are those of `serve`; nobody needs a token. Ends when the caller closes our input, or
    when it is cancelled; what runs is stopped then. Nothing but the protocol reaches standard output:
    what tools print goes to standard error. Raises `ConfigError`.
    """
    expect("client", client, Client, "give a toolnexus.Client")
    limits = Limits(max_concurrent=max_concurrent, max_body=max_body, deadline=deadline)
    options = read_options("mcp", McpOptions, mcp) or McpOptions()
    served = ClientServer(client, options, Load(limits.max_concurrent), limits)
    async with (
        _input(limits.max_body) as lines,
        stdio_server(stdin=cast("Any", lines)) as (read, write),
        _output(),
    ):
        await client._life.open()
        async with served.running():
            server = served.server
            work = asyncio.create_task(server.run(read, write, server.create_initialization_options()))
            try:
                await asyncio.wait([work])
            finally:
                await stop([work])
        work.result()


@asynccontextmanager
async def _output() -> AsyncGenerator[None]:
    """What is printed goes to standard error, as the descriptor does by now; also what was held back."""
    printed = sys.stdout
    printed.flush()
    with redirect_stdout(sys.stderr):
        yield
    printed.flush()


@asynccontextmanager
async def _input(longest: int) -> AsyncGenerator[_Lines]:
    """Our input, line by line. Whoever else reads standard input meanwhile finds its end."""
    private = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    lines = _Lines(private, longest)
    try:
        yield lines
    finally:
        lines.close()
        os.dup2(private, 0)  # the thread may still wait on it, so it is never closed


class _Lines:
    """Lines of a descriptor, read by a daemon thread: whoever waits for one can be cancelled."""

    def __init__(self, fd: int, longest: int) -> None:
        self._fd = fd
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        self._lines: deque[str] = deque()
        self._ready = asyncio.Event()
        self._room = threading.Semaphore(_MOST_QUEUED)
        self._ended = False
        threading.Thread(target=self._read, name="toolnexus stdin", daemon=True).start()

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        self._room.release()
        return self._lines.popleft()

    def close(self) -> None:
        self._ended = True
        self._ready.set()
        self._room.release()

    def _read(self) -> None:
        """A line that is longer than a request may be is cut, so that it is refused."""
        partial = bytearray()
        while not self._ended:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:
                data = b""
            *whole, rest = data.split(b"\n")
            for line in whole if data else [b""]:
                partial += line
                if partial.strip():
                    self._room.acquire()
                    self._hand_over(bytes(partial[: self._longest]))
                partial.clear()
            partial += rest[: max(self._longest + 1 - len(partial), 0)]
            if not data:
                break
        self._hand_over(None)

    def _hand_over(self, line: bytes | None) -> None:
        def take() -> None:
            if line is None:
                self._ended = True
            else:
                self._lines.append(line.decode("utf-8", "replace"))
            self._ready.set()

        try:
            self._loop.call_soon_threadsafe(take)
        except RuntimeError:  # the loop is gone, and nobody waits
            self._ended = True
