"""Node types and a host for tests of the kernel."""

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from toolnexus import Message, TextPart, Usage
from toolnexus.graph import (
    Board,
    BuildOptions,
    Checkpoint,
    Graph,
    GraphDefinition,
    GraphRunError,
    Interrupt,
    NodeContext,
    ParallelOptions,
    Registry,
    build,
)

PARALLEL = BuildOptions(parallel=ParallelOptions(enabled=True))


class Set(BaseModel):
    vars: dict[str, Any] = {}
    delete: list[str] = []
    say: str | None = None
    trace: str | None = None


class World:
    """What nodes of a test wait for and tell."""

    def __init__(self) -> None:
        self.began: dict[str, asyncio.Event] = {}
        self.go = asyncio.Event()
        self.ran: list[str] = []

    def started(self, node: str) -> asyncio.Event:
        return self.began.setdefault(node, asyncio.Event())

    def registry(self) -> Registry:
        registry = Registry.standard()

        @registry.node_type("set", config=Set)
        async def set_(ctx: NodeContext, board: Board, config: Set) -> None:  # pyright: ignore
            self.ran.append(ctx.node_id)
            board.update(config.vars)
            for name in config.delete:
                board.pop(name, None)
            if config.say:
                board.append("", said(config.say))
            if config.trace:
                board.append_var("trace", config.trace)

        @registry.node_type("wait")
        async def wait(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            self.ran.append(ctx.node_id)
            self.started(ctx.node_id).set()
            await self.go.wait()
            board[f"{ctx.node_id}_done"] = True

        @registry.node_type("fail")
        async def fail(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            self.ran.append(ctx.node_id)
            raise GraphRunError(config.get("error", "boom"), kind=config.get("kind", "internal"))

        return registry

    def graph(self, document: Mapping[str, Any], options: BuildOptions | None = None) -> Graph:
        return build(GraphDefinition.from_data(document), self.registry(), options)


def said(text: str) -> Message:
    return Message("assistant", (TextPart(text),))


def line(*nodes: Mapping[str, Any], name: str = "g") -> dict[str, Any]:
    """A document whose nodes follow one another."""
    ids = [node["id"] for node in nodes]
    edges = [{"from": a, "to": b} for a, b in zip(ids, [*ids[1:], "__end__"], strict=True)]
    return {"name": name, "entry": ids[0], "nodes": list(nodes), "edges": edges}


def fork(*branches: Mapping[str, Any], first: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A document with a first node `s` and branches that run at once."""
    start = {"id": "s", "type": "set", "config": dict(first or {})}
    ids = [branch["id"] for branch in branches]
    edges = [{"from": "s", "to": id} for id in ids] + [{"from": id, "to": "__end__"} for id in ids]
    return {"name": "g", "entry": "s", "nodes": [start, *branches], "edges": edges}


def a_set(id: str, **config: Any) -> dict[str, Any]:
    return {"id": id, "type": "set", "config": config}


class Recorder:
    """A host that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.checkpoints: list[Checkpoint] = []
        self.interrupt: Interrupt | None = None
        self.failing: set[str] = set()

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.events.append((subject.split(".", 3)[3], dict(payload)))
        if any(subject.endswith(end) for end in self.failing):
            raise RuntimeError("the bus is down")

    async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        raise GraphRunError("nobody is here", kind="not_available")

    async def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)

    async def report_usage(self, usage: Usage) -> None:
        pass

    def poll_interrupt(self) -> Interrupt | None:
        return self.interrupt

    @property
    def subjects(self) -> list[str]:
        return [subject for subject, _ in self.events]
