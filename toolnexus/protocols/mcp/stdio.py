"""A server process as the pair of message streams that the SDK's session takes."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TextIO

import anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic_core import from_json

from toolnexus.protocols.mcp.endpoint import Endpoint
from toolnexus.protocols.mcp.lane import Lane
from toolnexus.protocols.mcp.lenient import MendedStream, mend, salvaged
from toolnexus.protocols.mcp.process import ServerProcess, server_environment
from toolnexus.runtime.redact import Redactor

logger = logging.getLogger("toolnexus.mcp")


class _Stream:
    async def aclose(self) -> None:
        """The process outlives its streams: its owner ends it."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class ReadMessages(_Stream):
    """What the server says. Lines that are no message (banners, debug prints) are skipped, and so are
    messages for a call in the `lane`.

    `on_end` is called when there is nothing more to read: the server has gone.
    """

    def __init__(
        self, process: ServerProcess, lane: Lane, redact: Redactor, on_end: Callable[[], None]
    ) -> None:
        self._process = process
        self._lane = lane
        self._redact = redact
        self._on_end = on_end

    def __aiter__(self) -> ReadMessages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            try:
                line = await self._process.output.next()
            except EOFError:
                self._on_end()
                raise StopAsyncIteration from None
            try:
                # Parsed apart from its validation: a long listing takes a quarter of the time so.
                message = jsonrpc_message_adapter.validate_python(from_json(line), by_name=False)
            except ValueError:
                message = salvaged(line)
            if message is None:
                logger.debug("skipped a line of %d bytes on stdout that is no message", len(line))
                continue
            if not self._lane.takes(message := mend(message, self._redact)):
                return SessionMessage(message)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None


class WriteMessages(_Stream):
    """What we say to the server. A message is sent whole, also when its sender is cancelled."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process

    async def send(self, item: SessionMessage, /) -> None:
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            await self._process.send(data)
        except BrokenPipeError:
            raise anyio.BrokenResourceError from None


@asynccontextmanager
async def sdk_streams(
    endpoint: Endpoint, redact: Redactor, on_end: Callable[[], None]
) -> AsyncGenerator[tuple[MendedStream, Any]]:
    """The streams of a process that the SDK starts and ends: for systems without process groups."""
    program, *arguments = endpoint.command
    parameters = StdioServerParameters(
        command=program, args=arguments, env=server_environment(endpoint.env), cwd=endpoint.cwd
    )
    with _nowhere() as nowhere:
        async with stdio_client(parameters, errlog=nowhere) as (read, write):
            yield MendedStream(read, redact, on_end), write


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")
