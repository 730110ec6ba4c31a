"""A client's tools over the pipes of a program."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.serving.programs import STDIO
from tests.warm import Piped, Warm

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def program(warm: Warm) -> AsyncGenerator[Piped]:
    with warm.piped(STDIO, env=ENVIRONMENT) as process:
        async with asyncio.timeout(120):
            yield process


async def test_nothing_but_the_protocol_is_on_standard_output(tmp_path: Path) -> None:
    """[MCPS-20] The official client lists and calls; what was printed, also before, is on standard error."""
    noise = tmp_path / "noise"
    with noise.open("w") as errors:
        parameters = StdioServerParameters(command=sys.executable, args=["-c", STDIO], env=ENVIRONMENT)
        transport = stdio_client(parameters, errlog=errors)
        async with asyncio.timeout(120), McpClient(transport, message_handler=_strict) as caller:
            assert caller.protocol_version == "2026-07-28"
            assert [tool.name for tool in (await caller.list_tools()).tools] == ["add", "hang"]
            (block,) = (await caller.call_tool("add", {"a": 1, "b": 2})).content
            assert block.type == "text" and block.text == "3"
    lines = noise.read_text().splitlines()
    assert sorted(lines) == ["closed", "noise before", "noise of a program", "noise of a tool"]


async def _strict(message: Any) -> None:
    """What is no message is one of these."""
    if isinstance(message, Exception):
        raise message


async def test_lines_that_are_none_harm_nobody_and_the_end_of_input_ends_it(warm: Warm) -> None:
    """[MCPS-21] Garbage and a line beyond the bound are passed over; the end stops what runs; exit 0."""
    async with program(warm) as process:

        def send(method: str, id: int | None = None, **params: Any) -> None:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            process.put(json.dumps(message if id is None else {**message, "id": id}))

        async def receive(id: int) -> dict[str, Any]:
            while line := await asyncio.to_thread(process.stdout.readline):
                message = json.loads(line)
                if message.get("id") == id:
                    return message
            raise AssertionError("no answer")

        os.write(process.stdin.fileno(), b"garbage\n\n\xff\xfe\n" + b"x" * 100_000 + b"\n")
        info = {"name": "t", "version": "1"}
        send("initialize", 1, protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        assert (await receive(1))["result"]["protocolVersion"] == "2025-11-25"
        send("notifications/initialized")
        send("tools/call", 2, name="add", arguments={"a": 2, "b": 2})
        assert (await receive(2))["result"]["content"][0]["text"] == "4"
        send("tools/call", 3, name="hang", arguments={})
        while "started" not in await asyncio.to_thread(process.stderr.readline):
            pass
        process.stdin.close()
        rest = await asyncio.to_thread(process.stderr.read)
        assert process.wait() == 0
    assert "cancelled" in rest and "closed" in rest and "Traceback" not in rest


async def test_a_signal_ends_it_although_its_input_is_open(warm: Warm) -> None:
    """[MCPS-22] It does not wait for a line that nobody writes."""
    async with program(warm) as process:
        while "noise before" not in await asyncio.to_thread(process.stderr.readline):
            pass
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.stderr.read)
        assert process.wait() == -signal.SIGINT
