"""Cancelling an ask, wherever it is: nothing goes on, nothing is lost, the conversation goes on."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import pid_in, running
from tests.loop.support import (
    ANTHROPIC,
    OPENAI,
    Bench,
    Stage,
    Way,
    bench,
    each_streamed_way,
    each_way,
    paired,
    sent,
    task,
    use,
)
from tests.mcp.helpers import ROUGH, all_gone, logged, until
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    MemoryStore,
    Request,
    ToolContext,
    ToolResult,
    pending,
    tool,
)
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

each_number = pytest.mark.parametrize("times", [1, 2, 20], ids=["once", "twice", "again and again"])

FAST = Agent(name="fast", model="fast", tools=[])
HELPED = [Turn(text="fast is done")]


class Watch:
    """A hook that knows when the agent `fast` has been answered."""

    def __init__(self) -> None:
        self.fast = asyncio.Event()

    def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
        if ctx.arguments.get("agent") == "fast":
            self.fast.set()


async def cancelled(b: Bench, ready: Callable[[], Awaitable[object]], times: int) -> None:
    """Ask on conversation `t`, cancel `times` times once it is `ready`, and see that all is over."""
    asking = asyncio.create_task(b.ask(conversation="t"))
    await ready()
    requests, began = len(b.endpoint.requests), time.monotonic()
    for _ in range(times):
        asking.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asking
    await b.endpoint.until(lambda: all(s.gone for s in b.endpoint.requests if s.model == "hung"))
    assert time.monotonic() - began < 10
    await asyncio.sleep(0.05)  # time for what must not come
    assert len(b.endpoint.requests) == requests


async def goes_on(b: Bench, store: MemoryStore, *kept: str) -> None:
    """The stored conversation holds `kept` as results, in this order, and goes on on both styles."""
    await b.client.conversation("t").messages()
    messages, _ = await store.load("t")
    assert paired(messages) and messages[-1].role != "assistant"
    outputs = [r.output for m in messages for r in m.tool_results]
    assert [o if o in kept else "cancelled" for o in outputs] == list(kept)
    assert all("interrupted" in o or "cancelled" in o for o in outputs if o not in kept)
    for style in (OPENAI, ANTHROPIC):
        stage = Stage({"main": [Turn(text=f"on with {style}")]})
        async with stage, Client(model=Way(style).model(stage), builtins=False, store=store) as client:
            assert (await client.ask("go on", conversation="t")).text == f"on with {style}"
        sent(stage)


@each_way
@each_number
async def test_during_a_model_request(way: Way, times: int) -> None:
    """[RUN-60] The connection is closed and no further request is sent; what had finished is kept."""
    store = MemoryStore()
    turns = {
        "main": [Turn(calls=[task("fast"), task("slow")])],
        "fast": HELPED,
        "hung": [Turn(hang=True)],
    }
    agents = [FAST, Agent(name="slow", model="hung", tools=[])]
    watch = Watch()
    async with bench(way, turns, agents=agents, store=store, hooks=[watch]) as b:

        async def ready() -> None:
            await watch.fast.wait()
            await b.endpoint.until(lambda: len(b.endpoint.requests) == 3)

        await cancelled(b, ready, times)
        await goes_on(b, store, "fast is done", "cancelled")


@each_way
async def test_in_the_middle_of_a_streamed_reply(way: Way) -> None:
    """[RUN-60] Half of a reply, its call included, is nothing: it is not stored and does not run."""
    store, ran = MemoryStore(), list[str]()
    half = asyncio.Event()

    @tool
    async def probe() -> str:
        """Probe."""
        ran.append("probe")
        return "ok"

    def slowly(seen: Any) -> Turn:
        half.set()
        return Turn(text="a long story " * 50, calls=[use("probe")], chunk=1, split=1)

    async with bench(way, {"main": [slowly, Turn(text="went on")]}, tools=[probe], store=store) as b:
        asking = asyncio.create_task(b.ask(conversation="t"))
        await half.wait()
        if way.streamed:
            await until(lambda: len(b.events) > 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert [m.role for m in await b.client.conversation("t").messages()] == ["user"]
        assert (await b.ask("go on", conversation="t")).text == "went on"
        assert b.sent()[-1].users == (["go", "go on"] if way.style == OPENAI else ["gogo on"])
    assert ran == []


@each_streamed_way
async def test_leaving_a_stream_closes_the_connection(way: Way) -> None:
    """[RUN-60] [EV-03] A reader who goes after the first words: the endpoint sees the client gone, nothing is
    raised, and the conversation goes on."""
    store = MemoryStore()
    story = Turn(text="a long story " * 3_000, chunk=1, split=1)
    async with bench(way, {"main": [story, Turn(text="went on")]}, store=store) as b:
        async with b.client.stream("go", conversation="t") as stream:
            async for event in stream:
                if event.type == "text":
                    break
        (seen,) = b.endpoint.requests
        await b.endpoint.until(lambda: seen.gone)
        assert stream.result.status == "incomplete" and stream.result.usage.requests == 1
        assert (await b.ask("go on", conversation="t")).text == "went on"


@each_way
@each_number
async def test_during_a_childs_bash(way: Way, times: int, tmp_path: Path) -> None:
    """[RUN-61] The command, what it started, and what that started in a session of its own are gone."""
    store = MemoryStore()
    command = "sleep 300 & echo $! > one; setsid sh -c 'sleep 300 & echo $! > two; wait' & wait"
    turns = {
        "main": [Turn(calls=[task("shell"), task("fast")])],
        "shell": [Turn(calls=[use("bash", {"command": command})])],
        "fast": HELPED,
    }
    agents = [FAST, Agent(name="shell", model="shell", tools=["bash"])]
    pids: list[int] = []
    watch = Watch()

    async def ready() -> None:
        await watch.fast.wait()
        pids.extend([await pid_in(tmp_path / "one"), await pid_in(tmp_path / "two")])
        assert all(map(running, pids))

    options: dict[str, Any] = {"builtins": ["bash"], "workdir": tmp_path}
    async with bench(way, turns, agents=agents, store=store, hooks=[watch], **options) as b:
        await cancelled(b, ready, times)
        assert not any(map(running, pids))
        await goes_on(b, store, "cancelled", "fast is done")


@each_way
@each_number
async def test_during_a_childs_mcp_call(way: Way, times: int, tmp_path: Path) -> None:
    """[RUN-62] The server is told, stays, and serves the next ask; it ends with the client."""
    store, log = MemoryStore(), tmp_path / "log"
    server = {"command": sys.executable, "args": ["-S", str(ROUGH), "--log", str(log)]}
    turns = {
        "main": [
            Turn(calls=[task("far"), task("fast")]),
            Turn(calls=[use("srv_echo", {"s": "still here"}, "e")]),
            Turn(text="end"),
        ],
        "far": [Turn(calls=[use("srv_never")])],
        "fast": HELPED,
    }
    agents = [FAST, Agent(name="far", model="far", tools=["srv_never"])]
    watch = Watch()

    async def ready() -> None:
        await watch.fast.wait()
        await until(lambda: logged(log, "executed"))

    options: dict[str, Any] = {"mcp": {"mcpServers": {"srv": server}}, "hooks": [watch]}
    async with bench(way, turns, agents=agents, store=store, **options) as b:
        await cancelled(b, ready, times)
        await until(lambda: "notifications/cancelled" in logged(log, "method"))
        assert (await b.ask("and?")).text == "end"
        assert b.sent()[-1].results[-1].text == "still here"
        await goes_on(b, store, "cancelled", "fast is done")
        assert len(logged(log, "pid")) == 1
    assert all_gone(logged(log, "pid"), 1)


@each_way
@each_number
async def test_while_waiting_for_a_slot(way: Way, times: int) -> None:
    """[RUN-63] The child that waits never starts, and the next ask has all its slots."""
    store = MemoryStore()
    turns = {
        "main": [
            Turn(calls=[task("slow"), task("fast")]),
            Turn(calls=[task("fast")]),
            Turn(text="end"),
        ],
        "hung": [Turn(hang=True)],
        "fast": HELPED,
    }
    agents = [FAST, Agent(name="slow", model="hung", tools=[])]
    async with bench(way, turns, agents=agents, store=store, budget=Budget(concurrency=1)) as b:
        await cancelled(b, lambda: b.endpoint.until(lambda: len(b.endpoint.requests) == 2), times)
        assert b.sent("fast") == []
        assert (await b.ask("and?")).text == "end"
        await goes_on(b, store, "cancelled", "cancelled")


@each_way
@each_number
async def test_while_a_question_is_open(way: Way, times: int) -> None:
    """[RUN-64] The handler is cancelled, and the next question is asked: the queue is free."""
    store, asked, left = MemoryStore(), asyncio.Event(), list[str]()

    async def answer(request: Request) -> Answer:
        if asked.is_set():
            return Answer(id=request.id, data="yes")
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.append(request.prompt)
        raise AssertionError

    @tool
    async def confirm(ctx: ToolContext) -> ToolResult:
        """Confirm."""
        if ctx.answer is None:
            return pending(kind="approval", prompt="sure?")
        return ToolResult(output=str(ctx.answer.data))

    turns = {
        "main": [
            Turn(calls=[task("asks"), task("fast"), use("confirm")]),
            Turn(calls=[use("confirm")]),
            Turn(text="end"),
        ],
        "asks": [Turn(calls=[use("confirm")])],
        "fast": HELPED,
    }
    agents = [FAST, Agent(name="asks", model="asks", tools=["confirm"])]
    watch = Watch()

    async def ready() -> None:
        await watch.fast.wait()
        await asked.wait()

    options: dict[str, Any] = {"tools": [confirm], "on_request": answer, "hooks": [watch]}
    async with bench(way, turns, agents=agents, store=store, **options) as b:
        await cancelled(b, ready, times)
        assert left == ["sure?"]
        assert (await b.ask("and?")).text == "end"
        assert b.sent()[-1].results[-1].text == "yes"
        await goes_on(b, store, "cancelled", "fast is done", "cancelled")


@each_way
async def test_a_sync_tool_learns_that_it_was_given_up(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """[RUN-65] `ctx.cancelled` turns true in its thread, so that it can stop; the cancel does not wait for
    it."""

    store, started, stopped = MemoryStore(), threading.Event(), threading.Event()

    @tool
    def stubborn(ctx: ToolContext) -> str:
        """Work until told to stop."""
        started.set()
        while not ctx.cancelled:
            time.sleep(0.005)
        stopped.set()
        return "never read"

    async with bench(way, {"main": [Turn(calls=[use("stubborn")])]}, tools=[stubborn], store=store) as b:
        await cancelled(b, lambda: until(started.is_set), 1)
        await until(stopped.is_set)
        await goes_on(b, store, "cancelled")
    assert "stubborn" in caplog.text  # a thread that goes on alone is logged, never silent
