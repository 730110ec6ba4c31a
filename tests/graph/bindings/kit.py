"""Small graphs around one script, and a host that keeps what it is told."""

from collections.abc import Mapping
from typing import Any

from toolnexus import graph
from toolnexus.core.messages import Message, TextPart
from toolnexus.core.usage import Usage

RUNTIMES = ("js", "lua")


def said(role: str, text: str) -> Message:
    return Message(role, (TextPart(text),))  # pyright: ignore[reportArgumentType]


class RecordingHost:
    """Keeps what a run tells it. `steer` and `reply` are what it answers with."""

    def __init__(self, *, steer: list[Message] | None = None, reply: Any = None) -> None:
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.usage: list[Usage] = []
        self.asked: list[Mapping[str, Any]] = []
        self.interrupt: graph.Interrupt | None = None
        self.reply = reply
        self.limit: int | None = None
        if steer is not None:
            self.queue = steer
            self.drain_steer = self._drain

    def _drain(self) -> list[Message]:
        taken, self.queue = self.queue, []
        return taken

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.events.append((subject, payload))

    async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.asked.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    async def checkpoint(self, checkpoint: graph.Checkpoint) -> None:
        pass

    async def report_usage(self, usage: Usage) -> None:
        self.usage.append(usage)
        if self.limit is not None and sum(u.total_tokens for u in self.usage) > self.limit:
            raise graph.BudgetExceeded("the host allows no more tokens")

    def poll_interrupt(self) -> graph.Interrupt | None:
        return self.interrupt

    @property
    def deltas(self) -> list[Mapping[str, Any]]:
        return [payload for subject, payload in self.events if subject.endswith(".delta")]


def built(
    scripts: Mapping[str, Any], runtime: str, source: str, *, config: Any = None, **services: Any
) -> graph.Graph:
    """A graph of one script."""
    node = {"runtime": runtime, "source": source, **({} if config is None else {"config": config})}
    data = {"name": "g", "entry": "s", "nodes": [{"id": "s", "type": "script", "config": node}]}
    wired = graph.Services(scripts=scripts, **services)
    registry = graph.Registry.standard(wired)
    return graph.build(graph.GraphDefinition.from_data(data), registry, script_runtime_name=runtime)


async def run(
    scripts: Mapping[str, Any],
    runtime: str,
    source: str,
    board: graph.Board | None = None,
    *,
    host: Any = None,
    config: Any = None,
    **services: Any,
) -> graph.Board:
    """The board that a graph of one script leaves."""
    made = built(scripts, runtime, source, config=config, **services)
    return await made.run(board, host=host, run_id="run-1", agent_id="agent-1", context_id="chat-1")
