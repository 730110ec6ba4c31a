"""Our ends of a server's pipes."""

from __future__ import annotations

import asyncio
import os
from io import FileIO
from pathlib import Path

import pytest

from tests.mcp.helpers import opened, server, use
from toolnexus.protocols.mcp import pipes

pytestmark = pytest.mark.anyio


async def test_lines_come_whole_and_in_order_however_they_are_cut() -> None:
    """[MCP-13] Lines arrive whole and in order, whatever the pieces in the pipe are, and the last
    ones before the end are not lost."""
    out, into = os.pipe()
    lines = pipes.Lines(asyncio.get_running_loop(), FileIO(out))
    wanted = [b"", b"a", b"b" * 300_000, b"c\r", "ü".encode()]
    data = b"\n".join(wanted) + b"\nno newline"

    def write() -> None:
        for at in range(0, len(data), 7001):
            os.write(into, data[at : at + 7001])
        os.close(into)

    writing = asyncio.create_task(asyncio.to_thread(write))
    async with asyncio.timeout(10):
        assert [await lines.next() for _ in wanted] == wanted
        with pytest.raises(EOFError):
            await lines.next()
        await writing
    lines.close()


async def test_reading_stops_while_nobody_takes_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-07] A server that says more than anybody takes is slowed down, and nothing is lost."""
    monkeypatch.setattr(pipes, "_QUEUE", 200_000)
    out, into = os.pipe()
    lines = pipes.Lines(asyncio.get_running_loop(), FileIO(out))
    count, line = 100, b"x" * 20_000

    def write() -> None:
        for _ in range(count):
            os.write(into, line + b"\n")
        os.close(into)

    writing = asyncio.create_task(asyncio.to_thread(write))
    await asyncio.sleep(0.3)
    assert not writing.done()
    async with asyncio.timeout(10):
        for _ in range(count):
            assert await lines.next() == line
        await writing
    lines.close()


async def test_a_sink_sends_everything_in_order() -> None:
    """[MCP-13] What is written faster than it is read arrives whole and in order."""
    out, into = os.pipe()
    sink = pipes.Sink(asyncio.get_running_loop(), FileIO(into, "wb"))
    pieces = [str(n).encode() * 200_000 for n in range(10)]
    for piece in pieces:
        sink.write(piece)
    got = bytearray()

    def read() -> None:
        while data := os.read(out, 1 << 16):
            got.extend(data)

    reading = asyncio.create_task(asyncio.to_thread(read))
    async with asyncio.timeout(10):
        await sink.drain()
        while len(got) < sum(map(len, pieces)):
            await asyncio.sleep(0.01)
        sink.close()
        await reading
    os.close(out)
    assert bytes(got) == b"".join(pieces)
    with pytest.raises(BrokenPipeError):
        sink.write(b"x")


async def test_a_line_without_end_costs_the_connection_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[MCP-14] A server that writes without ever ending a line is cut off with a reason, and
    started again."""
    monkeypatch.setattr(pipes, "_MAX_LINE", 1 << 20)
    async with opened(server()) as source:
        result = await use(source, "large", size=3 << 20)
        assert result.is_error and "it wrote more than 1 MiB without a newline" in result.output
        assert (await use(source, "echo", s="x")).output == "x"
