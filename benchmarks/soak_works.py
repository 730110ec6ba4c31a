"""What the soak does: each kind of work once more, with its answer checked."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import script
from benchmarks.ours import Ours
from toolnexus import (
    Agent,
    Answer,
    Client,
    FunctionModel,
    Message,
    ModelRequest,
    RemoteAgent,
    SqliteStore,
    TextDelta,
    ToolCallPart,
    ToolContext,
    assistant,
    graph,
    pending,
    serve,
    tool,
)

ROOT = Path(__file__).resolve().parents[1]
Calls = list[tuple[str, dict[str, Any]]]
CHILD: Calls = [("work", {"n": 1})]


def _task(agent: str) -> tuple[str, dict[str, Any]]:
    return "task", {"agent": agent, "prompt": json.dumps(CHILD)}


MIXED: Calls = [("work", {"n": 2}), _task("worker"), ("many_tool1", {"x": 3})]
SERVED: Calls = [("served_work", {"n": 4}), _task("far")]
DELEGATED: dict[str, Any] = {"agents": 2, "each": {"rounds": 2, "calls": 2}}
DELTAS = 200
GRAPH = graph.GraphDefinition.from_data(
    {
        "name": "rounds",
        "version": "1",
        "entry": "chat",
        "nodes": [
            {"id": "chat", "type": "inference", "config": {"tool_pending_key": "busy", "tools": ["work"]}},
            {"id": "tools", "type": "tool"},
        ],
        "edges": [
            {"from": "chat", "to": "tools", "condition": "busy == true"},
            {"from": "chat", "to": "__end__"},
            {"from": "tools", "to": "chat"},
        ],
    }
)


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
        return assistant("done " + " ".join([r.output if r.is_error else "ok" for r in last.tool_results]))
    calls = json.loads(last.text)
    mark = f"{time.perf_counter_ns()}"
    parts = [ToolCallPart(f"{mark}-{n}", name, json.dumps(args)) for n, (name, args) in enumerate(calls)]
    return assistant("", *parts)


@dataclass
class Tally:
    """How often each kind of work was done, and what was wrong."""

    done: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


class Works:
    """Every kind of work."""

    def __init__(self, client: Client, caller: Client, wire: Ours) -> None:
        self.client = client
        """With a store, a sub-agent and an MCP server; what is asked names its calls."""
        self._caller = caller
        """Reaches what `client` serves, over MCP and A2A."""
        self._wire = wire
        """Speaks to an endpoint over HTTP."""
        self._graph = graph.build(GRAPH, graph.Registry.standard(client.services))
        self.tally = Tally()
        self.kinds: dict[str, Callable[[str], Awaitable[None]]] = {
            "ask": self._ask,
            "stream": self._stream,
            "left stream": self._leave,
            "cancel": self._cancel,
            "resume": self._resume,
            "graph": self._run_graph,
            "over HTTP": self._delegate,
            "stream over HTTP": self._read,
            "left stream over HTTP": self._hang_up,
            "cancel over HTTP": self._cancel_wire,
            "served": self._call_served,
            "cancel of served": self._cancel_served,
        }

    async def once(self, kind: str, conversation: str) -> None:
        """Do one kind of work in a conversation."""
        await self.kinds[kind](conversation)
        self.tally.done[kind] += 1

    def _check(self, what: str, text: str, due: str) -> None:
        if text != due:
            self.tally.wrong.append(f"{what}: {text[:200]!r}")

    async def _cancelled(self, what: str, asking: Awaitable[object]) -> None:
        task = asyncio.ensure_future(asking)
        for _ in range(self.tally.done[what] % 40):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

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
        await self._cancelled("cancel", self.client.ask(json.dumps(MIXED), conversation=conversation))

    async def _resume(self, conversation: str) -> None:
        result = await self.client.ask(json.dumps([("confirm", {}), *CHILD]), conversation=conversation)
        answers = [Answer(id=request.id) for request in result.pending]
        result = await self.client.resume(conversation, answers)
        self._check("resume", result.text, "done ok ok")

    async def _run_graph(self, conversation: str) -> None:
        result = await self.client.run(self._graph, json.dumps([*CHILD, *CHILD]), conversation=conversation)
        self._check("graph", result.text, "done ok ok")

    async def _delegate(self, conversation: str) -> None:
        text, _ = await self._wire.delegate(script.prompt(id=conversation, **DELEGATED))
        self._check("over HTTP", text, f"done {conversation}")

    async def _read(self, conversation: str) -> None:
        text = "".join([part async for part in self._wire.stream(script.prompt(deltas=DELTAS))])
        self._check("stream over HTTP", text, "".join(script.pieces(DELTAS)))

    async def _hang_up(self, conversation: str) -> None:
        parts = self._wire.stream(script.prompt(deltas=DELTAS))
        await anext(parts)
        await parts.aclose()

    async def _cancel_wire(self, conversation: str) -> None:
        asking = self._wire.delegate(script.prompt(id=conversation, **DELEGATED))
        await self._cancelled("cancel over HTTP", asking)

    async def _call_served(self, conversation: str) -> None:
        result = await self._caller.ask(json.dumps(SERVED))
        self._check("served", result.text, "done ok ok")

    async def _cancel_served(self, conversation: str) -> None:
        await self._cancelled("cancel of served", self._caller.ask(json.dumps(SERVED)))


@asynccontextmanager
async def _endpoint() -> AsyncGenerator[str]:
    """The address of a scripted endpoint in a process of its own."""
    arguments = [sys.executable, "-m", "benchmarks.endpoint"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*arguments, cwd=ROOT, stdin=pipe, stdout=pipe)
    assert process.stdin and process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def works(folder: Path) -> AsyncGenerator[Works]:
    """Everything that the work needs, with its store in `folder`; closed at the end."""
    server = {"command": sys.executable, "args": ["-m", "benchmarks.many_tools", "3"], "cwd": str(ROOT)}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(
                model=FunctionModel(model),
                tools=[work, confirm],
                builtins=["task"],
                agents=[Agent(name="worker", description="Works.", tools=["work"])],
                mcp={"many": server},
                store=SqliteStore(folder / "chats.db"),
            )
        )
        served = await stack.enter_async_context(serve(client, a2a=True, mcp={"tools": ["work"]}))
        caller = await stack.enter_async_context(
            Client(
                model=FunctionModel(model),
                builtins=["task"],
                agents=[RemoteAgent("far", url=served.url)],
                mcp={"served": {"url": f"{served.url}/mcp"}},
            )
        )
        wire = Ours(await stack.enter_async_context(_endpoint()), max_turns=10)
        stack.push_async_callback(wire.aclose)
        yield Works(client, caller, wire)
