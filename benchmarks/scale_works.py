"""What `benchmarks.scale` measures: each does its work at one size and says how much of it was lost."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks import script
from benchmarks.endpoint import control
from benchmarks.memory import peak_memory
from benchmarks.ours import Ours
from benchmarks.side import noop
from toolnexus import Client, FunctionModel, ModelRequest, SqliteStore, TextDelta, assistant, tool
from toolnexus.core.messages import Message, ToolCallPart

WRITERS = 8
ROUNDS_WITH_TOOLS = 5


class Done(NamedTuple):
    """What one piece of work came to; the figures are those of other processes, where they did it."""

    lost: int
    figures: Mapping[str, float] = {}


class Work(NamedTuple):
    """One kind of work, and the sizes at which it is done."""

    label: str
    sizes: tuple[int, ...]
    quick: int
    run: Callable[[str, int], Awaitable[Done]]


async def _job(url: str, plan: script.Plan, *, agents: bool = False, asks: int = 1) -> Done:
    """`asks` runs of `plan` at once: texts, requests, tokens and results that are not as they must be."""
    side = Ours(url, max_turns=10_000)
    try:
        control(url, "reset")
        run = side.delegate if agents else side.ask
        answers = await asyncio.gather(*[run(script.prompt(**plan)) for _ in range(asks)])
        stats = control(url, "stats")
    finally:
        await side.aclose()
    lost = sum(text != script.final_text(plan) for text, _ in answers)
    lost += abs(stats["requests"] - asks * script.requests_needed(plan))
    lost += abs(stats["tokens"] - sum(tokens for _, tokens in answers))
    return Done(lost + sum(stats[name] for name in script.Faults._fields))


async def agents(url: str, size: int) -> Done:
    """One ask whose first turn starts `size` sub-agents of two tool rounds each."""
    return await _job(url, {"agents": size, "each": {"rounds": 2}}, agents=True)


async def asks(url: str, size: int) -> Done:
    """`size` asks at once, three rounds of two tools each."""
    return await _job(url, {"rounds": 3, "calls": 2}, asks=size)


async def rounds(url: str, size: int) -> Done:
    """One ask of `size` rounds: a transcript that grows by a call in each."""
    return await _job(url, {"rounds": size})


async def deltas(url: str, size: int) -> Done:
    """One streamed answer of `size` deltas, all of them read."""
    side = Ours(url, max_turns=10)
    try:
        told = "".join([piece async for piece in side.stream(script.prompt(deltas=size))])
    finally:
        await side.aclose()
    return Done(len(set(script.pieces(size)) ^ set(re.findall(r"w\d+ ", told))) + (told.count("w") != size))


async def unread(url: str, size: int) -> Done:
    """One streamed answer of `size` deltas for a reader who looks only when all of it is there."""

    def reply(request: ModelRequest) -> Message:
        assert request.sink is not None
        for piece in script.pieces(size):
            request.sink.text(piece)
        return assistant("".join(script.pieces(size)))

    async with Client(model=FunctionModel(reply), builtins=False) as client, client.stream("go") as events:
        told = "".join([event.text async for event in events if isinstance(event, TextDelta)])
    return Done(told != "".join(script.pieces(size)))


async def mcp_tools(url: str, size: int) -> Done:
    """A server of `size` tools: connect, a few turns that offer all of them, a call of each."""
    server = {"command": sys.executable, "args": ["-m", "benchmarks.many_tools", str(size)]}
    async with Client(
        model="openai:bench",
        base_url=url,
        api_key="bench",
        mcp={"many": server | {"cwd": str(Path(__file__).parents[1])}},
        tools=[tool(noop)],
        builtins=False,
    ) as client:
        plan = {"rounds": ROUNDS_WITH_TOOLS}
        result = await client.ask(script.prompt(**plan))
        names = [f"many_tool{n}" for n in range(size)]
        lost = len(set(names) - set(client.toolkit.names())) + (result.text != script.final_text(plan))
        outputs = await asyncio.gather(*[client.toolkit.execute(name, {"x": 7}) for name in names])
        return Done(lost + sum(out.output != f"tool{n} 7" for n, out in enumerate(outputs)))


async def output(url: str, size: int) -> Done:
    """A tool result of `size` megabytes, ten times: bounded for the model, whole in its file."""
    whole = "".join([f"line {n:9}\n" for n in range(size * 1_000_000 // 15)])

    @tool
    def much() -> str:
        """Give much."""
        return whole

    def reply(request: ModelRequest) -> Message:
        if request.turn <= 10:
            return assistant("", ToolCallPart(f"c{request.turn}", "much"))
        return assistant("done")

    async with Client(model=FunctionModel(reply), tools=[much], builtins=["read"], max_turns=20) as client:
        result = await client.ask("go")
        outputs = [part.output for message in result.messages for part in message.tool_results]
        paths = [re.search(r"in (\S*output-\S+\.txt)", output) for output in outputs]
        kept = sum(found is not None and _text(found[1]) == whole for found in paths)
        return Done(10 - kept + sum(len(output) > 60_000 for output in outputs))


def _text(path: str) -> str:
    return Path(path).read_text()


async def store(url: str, size: int) -> Done:
    """Eight processes, `size` asks each on one SQLite file: half in one conversation of all, half in their
    own. Counts turns that are not there once, whole and in the order of who wrote them."""
    with TemporaryDirectory(prefix="toolnexus-bench-") as folder:
        path = Path(folder, "chats.db")
        told = await asyncio.gather(*[_writer(path, n, size) for n in range(WRITERS)])
        kept = SqliteStore(path)
        try:
            lost = len(kept.problems)
            for name in ("shared", *[f"own-{n}" for n in range(WRITERS)]):
                writers = range(WRITERS) if name == "shared" else [int(name[4:])]
                messages, _ = await kept.load(name)
                texts = [message.text for message in messages]
                lost += sum(a != f"re {q}" for q, a in zip(texts[::2], texts[1::2], strict=True))
                for n in writers:
                    due = [f"{n} {turn}" for turn in range(size) if (turn % 2 == 0) == (name == "shared")]
                    lost += [text for text in texts[::2] if text.startswith(f"{n} ")] != due
                lost += len(texts) != 2 * len(writers) * ((size + (name == "shared")) // 2)
        finally:
            await kept.aclose()
    wall, cpu, memory = ([figures[key] for figures in told] for key in ("wall", "cpu", "memory"))
    return Done(lost, {"wall": max(wall), "cpu": sum(cpu), "memory": max(memory)})


async def _writer(path: Path, number: int, size: int) -> dict[str, float]:
    """The figures of a process that writes. Raises `RuntimeError` when it failed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.scale_works", str(path), str(number), str(size)),
        cwd=Path(__file__).parents[1],
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"writer {number} ended with {process.returncode}")
    return json.loads(said)


async def write(path: str, number: int, size: int) -> None:
    """The asks of one writer."""
    model = FunctionModel(lambda request: assistant(f"re {request.messages[-1].text}"))
    async with Client(model=model, store=SqliteStore(path), builtins=False) as client:
        before, wall, cpu = peak_memory(), time.perf_counter(), time.process_time()
        for turn in range(size):
            place = "shared" if turn % 2 == 0 else f"own-{number}"
            await client.ask(f"{number} {turn}", conversation=place)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(json.dumps({"cpu": cpu, "wall": wall, "memory": peak_memory() - before}))


WORKS: dict[str, Work] = {
    "agents": Work("sub-agents in one ask", (100, 300, 1000), 20, agents),
    "asks": Work("asks at once", (50, 100, 200), 10, asks),
    "mcp": Work("tools of one MCP server, 6 turns, each called", (50, 150, 500), 20, mcp_tools),
    "rounds": Work("rounds in one run", (50, 150, 500), 20, rounds),
    "deltas": Work("deltas in one stream", (2000, 6000, 20_000), 500, deltas),
    "unread": Work("deltas in one stream, not read until its end", (10_000, 30_000, 100_000), 500, unread),
    "output": Work("MB of one tool's result, ten times", (1, 2, 5), 1, output),
    "store": Work("asks by each of 8 processes on one SQLite store", (10, 20, 40), 2, store),
}

if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
