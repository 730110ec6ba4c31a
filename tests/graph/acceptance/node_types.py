"""The node types of the cases: small nodes that write, wait, fail, swallow cancels, and the like."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from toolnexus import graph
from toolnexus.core.messages import Message, TextPart, assistant, user


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Set(Strict):
    """`inc` adds 1 to each variable, `trace` is appended to the variable of that name."""

    vars: dict[str, Any] = Field(default_factory=dict[str, Any])
    delete: list[str] = Field(default_factory=list[str])
    inc: list[str] = Field(default_factory=list[str])
    message: str | None = None
    role: str = "assistant"
    channel: str = graph.MAIN_CHANNEL
    trace: str | None = None
    var_key: str | None = None

    def write(self, board: graph.Board) -> None:
        board.update(self.vars)
        for name in self.delete:
            board.pop(name, None)
        for name in self.inc:
            board[name] = board.get(name, 0) + 1
        if self.message is not None:
            board.append(self.channel, said(f"{self.role}:{self.message}"))
        if self.trace is not None:
            board.append_var("trace", self.trace)
        if self.var_key is not None:
            board[self.var_key] = True


class Fail(Strict):
    kind: str = "internal"
    error: str = "boom"
    times: int | None = None
    retry_after: float | None = None
    vars: dict[str, Any] = Field(default_factory=dict[str, Any])
    message: str | None = None


class Sleep(Set):
    seconds: float = 0.0


class Probe(Strict):
    read: list[str]
    into: str


class Emit(Strict):
    text: str | None = None
    delta: dict[str, Any] | None = None


class Cancel(Strict):
    node: str
    reason: str = ""
    into: str = "cancelled"


class Interrupt(Set):
    note: str | None = None


class Ask(Strict):
    text: str
    into: str = "answer"


def said(text: str) -> Message:
    """The message of `role:text`."""
    role, _, rest = text.partition(":")
    return {"user": user, "assistant": assistant}[role](rest) if role != "system" else _system(rest)


def _system(text: str) -> Message:
    return Message("system", (TextPart(text),))


async def _set(ctx: graph.NodeContext, board: graph.Board, config: Set) -> None:
    config.write(board)


async def _fail(ctx: graph.NodeContext, board: graph.Board, config: Fail) -> None:
    Set(vars=config.vars, message=config.message).write(board)
    if config.times is not None and ctx.attempt > config.times:
        board["attempts"] = ctx.attempt
        return
    if config.kind == "unclassified":
        raise RuntimeError(config.error)
    if config.kind == "interrupted":
        raise graph.Interrupted("custom", config.error)
    raise graph.GraphRunError(config.error, kind=config.kind, retry_after=config.retry_after)


async def _sleep(ctx: graph.NodeContext, board: graph.Board, config: Sleep) -> None:
    await asyncio.sleep(config.seconds)
    config.write(board)


async def _stubborn(ctx: graph.NodeContext, board: graph.Board, config: Set) -> None:
    until = time.monotonic() + 0.3
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    config.write(board)


async def _probe(ctx: graph.NodeContext, board: graph.Board, config: Probe) -> None:
    board[config.into] = {name: board[name] for name in config.read if name in board}


async def _emit(ctx: graph.NodeContext, board: graph.Board, config: Emit) -> None:
    if config.text is not None:
        await ctx.emit_text(config.text)
    if config.delta is not None:
        await ctx.emit(config.delta)


async def _cancel(ctx: graph.NodeContext, board: graph.Board, config: Cancel) -> None:
    await asyncio.sleep(0.02)
    board[config.into] = ctx.cancel_node(config.node, config.reason)


async def _interrupt(ctx: graph.NodeContext, board: graph.Board, config: Interrupt) -> None:
    config.write(board)
    if config.note is not None:
        board.append("", user(config.note))
    raise graph.Interrupted("user_input", "the case asks for it")


async def _ask(ctx: graph.NodeContext, board: graph.Board, config: Ask) -> None:
    question = {"parts": [{"type": "text", "text": config.text}]}
    answer = await ctx.ask_user(question)
    board[config.into] = None if answer is None else dict(answer)


TYPES = (
    graph.NodeType(name="set", handler=_set, config=Set, writes=[graph.Role.var(config_key="var_key")]),
    graph.NodeType(name="fail", handler=_fail, config=Fail),
    graph.NodeType(name="sleep", handler=_sleep, config=Sleep),
    graph.NodeType(name="stubborn", handler=_stubborn, config=Set),
    graph.NodeType(name="probe", handler=_probe, config=Probe),
    graph.NodeType(name="emit", handler=_emit, config=Emit),
    graph.NodeType(name="cancel", handler=_cancel, config=Cancel),
    graph.NodeType(name="interrupt", handler=_interrupt, config=Interrupt),
    graph.NodeType(name="ask", handler=_ask, config=Ask),
    graph.NodeType(
        name="must_write", handler=_set, config=Set, writes=[graph.Role.var("result", required=True)]
    ),
    graph.NodeType(
        name="must_read", handler=_set, config=Set, reads=[graph.Role.var("input", required=True)]
    ),
)


def register(registry: graph.Registry, attempts: Counter[str]) -> None:
    """Add the types; `attempts` counts, by node, how often they were tried."""

    def counted(handler: graph.Handler) -> graph.Handler:
        async def count(ctx: graph.NodeContext, board: graph.Board, config: Any) -> None:
            attempts[ctx.node_id] += 1
            await handler(ctx, board, config)

        return count

    for node_type in TYPES:
        registry.add(replace(node_type, handler=counted(node_type.handler)))
