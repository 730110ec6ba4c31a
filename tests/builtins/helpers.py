"""Calling one builtin on a folder, with a context of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolnexus.core.messages import ToolCallPart
from toolnexus.core.suspension import Answer
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.runtime.context import ContextKey, ToolContext
from toolnexus.runtime.spill import Spill
from toolnexus.tools.builtin.catalog import builtin_tools
from toolnexus.tools.invoke import detached

TOOLS: dict[str, Tool] = {tool.name: tool for tool in builtin_tools()}


async def call(
    name: str,
    root: Path,
    *,
    host: Mapping[ContextKey[Any], Any] | None = None,
    spill: Spill | None = None,
    answer: Answer | None = None,
    **arguments: Any,
) -> ToolResult:
    """What a builtin gives or raises; paths are below `root`."""
    tool = TOOLS[name]
    context = detached().having(host or {})
    context.frame.workdir = root
    context.run.spill = spill or context.run.spill
    ctx = ToolContext(
        context=context,
        call=ToolCallPart("call_1", name, json.dumps(arguments)),
        tool=tool,
        arguments=arguments,
        answer=answer,
    )
    result = await tool.execute(arguments, ctx)
    assert isinstance(result, ToolResult)
    return result


async def output(name: str, root: Path, **arguments: Any) -> str:
    """The text of a call that succeeds."""
    result = await call(name, root, **arguments)
    assert not result.is_error, result.output
    return result.output


def tree(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` below `folder`."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@asynccontextmanager
async def lively_loop(longest: float = 0.2) -> AsyncGenerator[None]:
    """The event loop is never held longer than `longest` seconds inside this block."""
    gaps = [0.0]
    last = time.monotonic()

    def look() -> None:
        nonlocal last
        now = time.monotonic()
        gaps.append(now - last)
        last = now

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            look()

    ticker = asyncio.create_task(tick())
    try:
        yield
    finally:
        look()
        ticker.cancel()
        await asyncio.wait([ticker])
    assert max(gaps) < longest, f"the loop stood still for {max(gaps):.3f} s"


def running(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


async def until(condition: Callable[[], bool], seconds: float = 5) -> None:
    """Wait for `condition`; fail when it does not come true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def pid_in(file: Path) -> int:
    """The process number that a command writes to `file`."""
    await until(lambda: file.exists() and file.read_text().strip() != "")
    return int(file.read_text())


def git(folder: Path, *arguments: str, given: str = "") -> str:
    """Run git in `folder`, without any configuration of this machine."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=env, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
