"""A long run of mixed work: whether memory grows, and whether anything is left behind.

`python -m benchmarks.soak [--minutes 30]`

Asks with tools, sub-agents, an MCP server, streams that are read and left, cancels, and questions that are
answered later, all at once on one client and one SQLite store. Ends with status 1 when an answer is wrong,
when memory grows by more than 1 MB in ten minutes after a warm-up of a quarter of the time, or when more
files, tasks, threads or child processes are there at the end than at the start.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from toolnexus import (
    Agent,
    Answer,
    Client,
    FunctionModel,
    Message,
    ModelRequest,
    SqliteStore,
    TextDelta,
    ToolCallPart,
    ToolContext,
    assistant,
    pending,
    tool,
)

ROOT = Path(__file__).resolve().parents[1]
BESIDE = 8
"""How much goes on at once."""
ASKS_OF_ONE = 10
"""A conversation is deleted after so many asks: a longer transcript is no leak."""
MOST = 1024**2
"""Bytes that memory may grow in ten minutes."""


class Left(NamedTuple):
    """What a process holds."""

    files: int
    tasks: int
    threads: int
    children: int


def left() -> Left:
    """What this process holds now."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    files = len(os.listdir("/proc/self/fd"))
    return Left(files, len(asyncio.all_tasks()), threading.active_count(), len(children))


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@tool
async def work(n: int) -> str:
    """Work."""
    await asyncio.sleep(0)
    return f"worked {n}"


@tool
async def confirm(ctx: ToolContext) -> Any:
    """Ask a person."""
    return pending(kind="approval", prompt="sure?") if ctx.answer is None else "confirmed"


def model(request: ModelRequest) -> Message:
    """What is asked for: `calls` names the tools of the first turn, then comes `done`."""
    last = request.messages[-1]
    if last.role == "tool":
        return assistant("done " + " ".join(["failed" if r.is_error else "ok" for r in last.tool_results]))
    calls = json.loads(last.text)
    mark = f"{time.perf_counter_ns()}"
    parts = [ToolCallPart(f"{mark}-{n}", name, json.dumps(args)) for n, (name, args) in enumerate(calls)]
    return assistant("", *parts)


CHILD: list[tuple[str, dict[str, Any]]] = [("work", {"n": 1})]
TASK = {"agent": "worker", "prompt": json.dumps(CHILD)}
MIXED: list[tuple[str, dict[str, Any]]] = [("work", {"n": 2}), ("task", TASK), ("many_tool1", {"x": 3})]


class Soak:
    """The work, and how often each kind of it was done."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._kinds: dict[str, Callable[[str], Awaitable[None]]] = {
            "ask": self._ask,
            "stream": self._stream,
            "left stream": self._leave,
            "cancel": self._cancel,
            "resume": self._resume,
        }

    async def worker(self, name: str, until: float) -> None:
        """Do one after the other, in an order that is the same in every soak, at least one conversation."""
        random = Random(name)
        while True:
            conversation = f"{name}-{sum(self.done.values())}"
            for kind in random.choices(list(self._kinds), k=ASKS_OF_ONE):
                await self._kinds[kind](conversation)
                self.done[kind] += 1
            await self.client.conversation(conversation).delete()
            if time.monotonic() >= until:
                return

    def _check(self, what: str, text: str, due: str) -> None:
        if text != due:
            self.wrong.append(f"{what}: {text[:200]!r}")

    async def _ask(self, conversation: str) -> None:
        result = await self.client.ask(json.dumps(MIXED), conversation=conversation)
        self._check("ask", result.text, "done ok ok ok")

    async def _stream(self, conversation: str) -> None:
        async with self.client.stream(json.dumps(MIXED), conversation=conversation) as events:
            text = "".join([e.text async for e in events if isinstance(e, TextDelta) and len(e.path) == 1])
        self._check("stream", text, "done ok ok ok")

    async def _leave(self, conversation: str) -> None:
        async with self.client.stream(json.dumps(MIXED), conversation=conversation) as events:
            async for _ in events:
                break

    async def _cancel(self, conversation: str) -> None:
        asking = asyncio.create_task(self.client.ask(json.dumps(MIXED), conversation=conversation))
        for _ in range(self.done["cancel"] % 40):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    async def _resume(self, conversation: str) -> None:
        result = await self.client.ask(json.dumps([("confirm", {}), *CHILD]), conversation=conversation)
        answers = [Answer(id=request.id) for request in result.pending]
        result = await self.client.resume(conversation, answers)
        self._check("resume", result.text, "done ok ok")


async def soak(seconds: float) -> tuple[Soak, list[tuple[float, int]], Left, Left]:
    """The work of so long, memory by time, and what the process held before and after."""
    server = {"command": sys.executable, "args": ["-m", "benchmarks.many_tools", "3"], "cwd": str(ROOT)}
    before, begun = left(), time.monotonic()
    memory: list[tuple[float, int]] = []
    with TemporaryDirectory(prefix="toolnexus-soak-") as folder:
        async with Client(
            model=FunctionModel(model),
            tools=[work, confirm],
            builtins=["task"],
            agents=[Agent(name="worker", description="Works.", tools=["work"])],
            mcp={"many": server},
            store=SqliteStore(Path(folder, "chats.db")),
        ) as client:
            going = Soak(client)
            workers = [asyncio.create_task(going.worker(f"w{n}", begun + seconds)) for n in range(BESIDE)]
            while not all(task.done() for task in workers):
                await asyncio.wait(workers, timeout=max(seconds / 60, 1))
                memory.append((time.monotonic() - begun, resident()))
            await asyncio.gather(*workers)
    return going, memory, before, left()


def growth(memory: Sequence[tuple[float, int]]) -> float:
    """Bytes in ten minutes after the first quarter, by the line that fits best."""
    points = [(t, float(size)) for t, size in memory if t >= memory[-1][0] / 4]
    middle = sum(t for t, _ in points) / len(points), sum(size for _, size in points) / len(points)
    spread = sum((t - middle[0]) ** 2 for t, _ in points)
    return 600 * sum((t - middle[0]) * (size - middle[1]) for t, size in points) / spread if spread else 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is its value."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="N", help="how long (default 30)")
    given = parser.parse_args(arguments)
    asyncio.run(soak(0))  # what is loaded and opened once is no growth
    going, memory, before, after = asyncio.run(soak(given.minutes * 60))
    grown = growth(memory)
    print(f"done: {dict(going.done)}")
    print(f"memory: {memory[0][1] / 1e6:.1f} MB, at the end {memory[-1][1] / 1e6:.1f} MB,", end=" ")
    print(f"{grown / 1024**2:+.2f} MB in ten minutes after the first quarter")
    print(f"before: {before}\nafter:  {after}")
    more = any(now > then for now, then in zip(after, before, strict=True))
    wrong = [*going.wrong[:10], *([f"left behind: {after}, before {before}"] if more else [])]
    if grown > MOST:
        wrong.append(f"memory grows by {grown / 1024**2:.2f} MB in ten minutes")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
