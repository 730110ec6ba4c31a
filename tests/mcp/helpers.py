"""Real servers, and calls to them, for the tests of this folder."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.warm import Warm
from toolnexus.core.events import Event
from toolnexus.core.messages import ToolCallPart
from toolnexus.core.tools import ToolResult
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.emitter import Emitter
from toolnexus.runtime.questions import Asker, OnRequest
from toolnexus.tools.invoke import detached, invoke
from toolnexus.tools.mcp import McpSource
from toolnexus.tools.mcp_config import ServerConfig, load_mcp_config

SERVERS = Path(__file__).resolve().parents[1] / "servers"
ROUGH = SERVERS / "rough_mcp.py"
SDK = SERVERS / "sdk_mcp.py"


def server(*flags: str, script: Path = ROUGH, name: str = "srv", **keys: Any) -> ServerConfig:
    """The configuration of a test server over stdio; `keys` as in a file."""
    entry = {"command": sys.executable, "args": [*_options(script), str(script), *flags], **keys}
    return load_mcp_config({"mcpServers": {name: entry}})[0]


def _options(script: Path) -> list[str]:
    """Ours need the standard library alone, and start sooner without the rest."""
    return ["-S"] if script.parent == SERVERS and script != SDK else []


def remote(url: str, *, name: str = "srv", **keys: Any) -> ServerConfig:
    """The configuration of a server behind a URL; `keys` as in a file."""
    return load_mcp_config({"mcpServers": {name: {"url": url, **keys}}})[0]


@asynccontextmanager
async def opened(
    config: ServerConfig, on_change: Callable[[], None] = lambda: None
) -> AsyncGenerator[McpSource]:
    """A source that is open inside."""
    source = McpSource(config)
    try:
        async with asyncio.timeout(30):
            await source.open(on_change)
        yield source
    finally:
        async with asyncio.timeout(10):
            await source.aclose()


def context(on_request: OnRequest | None = None, events: list[Event] | None = None) -> RunContext:
    """A context outside any run, with somebody to ask and somebody who watches."""
    ctx = detached()
    if on_request is not None:
        ctx.frame.asker = Asker(on_request)
    if events is not None:
        ctx.run.emit = Emitter(events.append)
    return ctx


async def use(source: McpSource, tool: str, ctx: RunContext | None = None, **arguments: Any) -> ToolResult:
    """Call a tool by its original name, the way a run does."""
    found = next(t for t in source.tools if t.original_name == tool)
    call = ToolCallPart("call_1", found.name, json.dumps(arguments))
    async with asyncio.timeout(60):
        return await invoke(found, call, ctx or detached())


@contextmanager
def http_server(*flags: str, script: Path = ROUGH, port: int = 0) -> Generator[str]:
    """A test server over HTTP in its own process; gives its URL."""
    command = [sys.executable, *_options(script), str(script), "--http", str(port), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}/mcp"
        finally:
            process.kill()


@contextmanager
def official_server(warm: Warm) -> Generator[str]:
    """A server of the official SDK over HTTP; gives its URL."""
    with warm.start(SDK, "--http", "0") as process:
        yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}/mcp"


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/")[0])


def entries(log: Path) -> list[dict[str, Any]]:
    """What a server has logged so far."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def logged(log: Path, key: str) -> list[Any]:
    return [entry[key] for entry in entries(log) if key in entry]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(pids: Iterable[int], seconds: float) -> bool:
    """Whether all of them end within `seconds`."""
    deadline = time.monotonic() + seconds
    left = list(pids)
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [pid for pid in left if alive(pid)]
    return not left


async def until(holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for something that shows from outside only."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def children() -> set[int]:
    """The processes that this one has started and that still exist."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # the thread has just ended
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found
