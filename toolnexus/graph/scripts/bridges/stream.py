"""`stream`: what other nodes of the wave do, while they do it."""

from __future__ import annotations

import asyncio
from typing import Any

from toolnexus.graph.bus import Event, EventBus, Subscription
from toolnexus.graph.context import NodeContext
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, items, table, text, whole
from toolnexus.graph.scripts.invocation import Function, Invocation
from toolnexus.graph.scripts.runtime import Handle, ScriptError

_OPTIONS = ("node_id", "node_ids", "run_id", "buffer_size")
_SIZE, _MOST = 256, 4096
_LOOK = 0.2
"""Seconds after which a silent node is looked at: not each one that ends says so."""
_STATUS = {"complete": "success", "error": "error"}
_LONGEST = 10**9


def stream(invocation: Invocation) -> Binding:
    """The global. Without a bus of events it is `not_available`."""

    def subscribe_node(options: Any = None) -> Handle:
        ctx = invocation.ctx
        bus: EventBus | None = ctx.event_bus
        if bus is None:
            raise ScriptError(
                "not_available", "stream.subscribe_node: the host of this run has no bus of events"
            )
        given = table(options, "the options", _OPTIONS)
        ids, size = _nodes(given), given.get("buffer_size")
        if given.get("run_id") not in (None, ctx.run.run_id):
            raise invalid(f"run_id is not that of this run, {ctx.run.run_id!r}; leave it out")
        size = _SIZE if size is None else whole(size, "buffer_size", 1, _MOST)
        it = _Iterator(ctx, bus, [id for id in ids if ctx.in_flight(id)], size)
        return invocation.handle(
            {
                "next": Function(it.next),
                "next_timeout_ms": Function(it.next_in, "value, err"),
                "current": Function(it.current),
                "close": Function(it.close, "err"),
            },
            it.close,
        )

    return Binding("stream", {"subscribe_node": Function(subscribe_node, "value, err")})


def _nodes(options: Any) -> list[str]:
    one, several = options.get("node_id"), options.get("node_ids")
    if (one is None) == (several is None):
        raise invalid("write either node_id or node_ids")
    given = [one] if several is None else items(several, "node_ids")
    if not given:
        raise invalid("node_ids must hold an id")
    return [text(id, "the id of a node") for id in given]


class _Iterator:
    """The events of nodes that are in flight, until all of them have ended."""

    def __init__(self, ctx: NodeContext, bus: EventBus, nodes: list[str], size: int) -> None:
        self._ctx = ctx
        self._by_actor = {ctx.actor(id): id for id in nodes}
        self._open = set(nodes)
        self._current: dict[str, Any] | None = None
        run = f"agent.run.{ctx.run_token}"
        patterns = [f"{run}.{what}" for a in self._by_actor for what in (f"step.{a}.*", f"stream.{a}.delta")]
        self._events: Subscription = bus.subscribe(*patterns, size=size)
        if not nodes:
            self._events.close()

    async def next(self) -> bool:
        return await self._next(None)

    async def next_in(self, milliseconds: Any) -> bool:
        return await self._next(whole(milliseconds, "the milliseconds", 0, _LONGEST) / 1000)

    def current(self) -> dict[str, Any] | None:
        return self._current

    async def close(self) -> None:
        self._events.close()

    async def _next(self, seconds: float | None) -> bool:
        clock = asyncio.get_running_loop().time
        until = None if seconds is None else clock() + seconds
        event = self._events.take()
        while event is None and not self._events.closed:
            left = _LOOK if until is None else min(_LOOK, until - clock())
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    event = await self._events.next()
            except TimeoutError:
                if not any(self._ctx.in_flight(id) for id in self._open):
                    event = self._events.take()
                    if event is None:
                        self._events.close()
        if event is None:
            return False
        self._take(event)
        return True

    def _take(self, event: Event) -> None:
        _, _, _, what, actor, last = event.subject.split(".")
        node = self._by_actor[actor]
        payload = dict(event.payload)
        if what == "stream":
            payload["event"] = "stream.delta"
            ended = payload.get("type") == "parallel_branch_cancel"
        elif payload.pop("skipped", False):
            payload |= {"event": "step.skipped", "status": "skipped"}
            ended = True
        else:
            ended = last in _STATUS
            payload["event"] = "step.ended" if ended else "step.started"
            if ended:
                payload["status"] = _STATUS[last]
        payload.setdefault("id", event.id)
        run = self._ctx.run
        self._current = payload | {
            "envelope_id": event.id,
            "subject": event.subject,
            "time": event.time,
            "run_id": run.run_id,
            "node_id": node,
            "agent_id": run.agent_id,
        }
        if ended:
            self._open.discard(node)
            if not self._open:
                self._events.close()
