"""Servers, skills and leaks for tests of a whole client."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mcp.helpers import ROUGH, children


def stdio(*flags: str, script: Path = ROUGH, **keys: Any) -> dict[str, Any]:
    """A server in a configuration: the rough one with `flags`."""
    return {"command": sys.executable, "args": [str(script), *flags], **keys}


def skill(folder: Path, name: str, body: str = "Do it.") -> Path:
    """Write a skill below `folder`."""
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"---\nname: {name}\ndescription: What {name} is for.\n---\n{body}\n")
    return folder


_WORKERS = ("toolnexus-worker", "asyncio_")


@dataclass(frozen=True)
class Census:
    """What a process has: tasks of its loop, threads, open files, children."""

    tasks: int
    threads: tuple[str, ...]
    files: int
    children: frozenset[int]

    @classmethod
    def take(cls) -> Census:
        # idle workers stay a while on purpose: ours for seconds, those of the event loop for its life
        threads = [t.name for t in threading.enumerate() if not t.name.startswith(_WORKERS)]
        files = len(os.listdir("/proc/self/fd"))
        return cls(len(asyncio.all_tasks()), tuple(sorted(threads)), files, frozenset(children()))


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None]:
    """After this block there are no more tasks, threads, open files and processes than before it, and
    nothing was reported to the event loop as unhandled."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    gc.collect()
    before = Census.take()
    try:
        yield
    finally:
        loop.set_exception_handler(None)
    gc.collect()  # what was dropped without closing complains now
    after = Census.take()
    with suppress(TimeoutError):
        async with asyncio.timeout(2):
            while after != before:
                await asyncio.sleep(0.01)  # transports close in the loop's next rounds
                after = Census.take()
    assert after == before, f"{after} is left of {before}"
    assert complaints == [], complaints
