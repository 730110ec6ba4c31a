"""Counterparts as programs on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@asynccontextmanager
async def listening(*command: str, ready: str, env: Mapping[str, str]) -> AsyncGenerator[None]:
    """A program that has said `ready`; it is killed behind the block."""
    program = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert program.stdout is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(30):
            while not said or ready not in said[-1]:
                said.append((await program.stdout.readline()).decode())
                assert said[-1], f"{command} ended: {''.join(said)}"
        drained = asyncio.create_task(program.stdout.read())
        try:
            yield
        finally:
            drained.cancel()
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()
