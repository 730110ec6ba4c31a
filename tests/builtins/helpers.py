"""Calling one builtin on a folder, with a context of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
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


_BESIDE = """
import select, time
last, most = time.monotonic(), 0.0
while not select.select([0], [], [], 0.01)[0]:
    now = time.monotonic()
    last, most = now, max(most, now - last)
print(most)
"""


@contextmanager
def machine_gap() -> Generator[Callable[[], float]]:
    """Gives how long a process that only ticks was held up meanwhile: what is the machine's fault."""
    program = [sys.executable, "-I", "-S", "-c", _BESIDE]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        yield lambda: float(beside.communicate()[0])


@asynccontextmanager
async def lively_loop(longest: float = 0.2) -> AsyncGenerator[None]:
    """The event loop is never held longer than `longest` seconds inside this block.

    The time for which a machine with too much to do holds up another process as well does not count.
    """
    with machine_gap() as beside:
        async with _ticking() as gaps:
            yield
        held = max(gaps)
        assert held < longest + beside(), f"the loop stood still for {held:.3f} s"


@asynccontextmanager
async def _ticking() -> AsyncGenerator[list[float]]:
    """Gives the seconds between the turns that the loop gave, at the end all of them."""
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
        yield gaps
    finally:
        look()
        ticker.cancel()
        await asyncio.wait([ticker])


def running(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def no_ripgrep(root: str = "") -> str | None:
    """In the place of `search.ripgrep`: a machine without it."""
    return None


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
