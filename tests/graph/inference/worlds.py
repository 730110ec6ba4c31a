"""Graphs of one or two inference nodes, hosts that remember, and models over real HTTP in either style."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolnexus import AnthropicModel, OpenAIModel, Tool, Usage, graph, user
from toolnexus.graph import Board, GraphRunError, Interrupt, Message, Services
from toolnexus.models.base import Model
from toolnexus.testing import ScriptedEndpoint

EITHER_STYLE = pytest.mark.parametrize("style", ["openai", "anthropic"])


@dataclass
class Host:
    """Remembers what it is told. `interrupt_after` is how many deltas are published before an interrupt is
    pending, `limit` how many tokens may be used."""

    interrupt_after: int | None = None
    limit: int | None = None
    fails_on: str | None = None
    deltas: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    subjects: list[str] = field(default_factory=list[str])
    reported: list[Usage] = field(default_factory=list[Usage])

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        if self.fails_on is not None and subject.endswith(self.fails_on):
            raise OSError("the bus is down")
        self.subjects.append(subject)
        if subject.endswith(".delta"):
            self.deltas.append(payload)

    async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        raise GraphRunError("nobody is here", kind="not_available")

    async def checkpoint(self, checkpoint: graph.Checkpoint) -> None: ...

    async def report_usage(self, usage: Usage) -> None:
        self.reported.append(usage)
        if self.limit is not None and sum(u.total_tokens for u in self.reported) > self.limit:
            raise GraphRunError("the tokens are used up", kind="budget_exceeded")

    def poll_interrupt(self) -> Interrupt | None:
        due = self.interrupt_after is not None and len(self.deltas) >= self.interrupt_after
        return Interrupt("user_cancel", "stop") if due else None

    @property
    def usage(self) -> list[tuple[int, int]]:
        """Input and output of what was reported."""
        return [(usage.prompt_tokens, usage.completion_tokens) for usage in self.reported]

    @property
    def types(self) -> list[str]:
        """The types of the deltas, in order."""
        return [delta["type"] for delta in self.deltas]


def tool(name: str, answer: str = "done") -> Tool:
    async def run(arguments: dict[str, Any], ctx: Any) -> str:
        return answer

    return Tool(name, f"The tool {name}.", {"type": "object"}, run)


def one(config: Mapping[str, Any], services: Services, **options: Any) -> graph.Graph:
    """A graph of one inference node `llm`."""
    return built([{"id": "llm", "type": "inference", "config": dict(config)}], services, **options)


def built(
    nodes: Sequence[Mapping[str, Any]],
    services: Services,
    edges: Sequence[Mapping[str, str]] = (),
    **options: Any,
) -> graph.Graph:
    document = {"name": "g", "entry": nodes[0]["id"], "nodes": list(nodes), "edges": list(edges)}
    definition = graph.GraphDefinition.from_data(document)
    settings = graph.BuildOptions(retry_backoff=0.0, **options)
    return graph.build(definition, graph.Registry.standard(services), settings)


def said(*texts: str | Message, channel: str = graph.MAIN_CHANNEL, **vars: Any) -> Board:
    """A board whose channel ends with what the user says."""
    return Board(vars, {channel: [user(t) if isinstance(t, str) else t for t in texts]})


def channel(board: Board | None, name: str = graph.MAIN_CHANNEL) -> list[str]:
    """`role:text` of the messages of a channel."""
    assert board is not None
    return [f"{message.role}:{message.text}" for message in board.channel(name)]


async def failure(graph_: graph.Graph, board: Board, host: Host | None = None) -> GraphRunError:
    """What the run fails with."""
    with pytest.raises(GraphRunError) as caught:
        await graph_.run(board, host=host, run_id="run-1")
    return caught.value


@asynccontextmanager
async def served(
    style: str, turns: Any, key: str = "k", **options: Any
) -> AsyncGenerator[tuple[ScriptedEndpoint, Model]]:
    """An endpoint that answers with `turns`, and a model of that style behind it."""
    async with ScriptedEndpoint(turns) as endpoint:
        kind = OpenAIModel if style == "openai" else AnthropicModel
        model = kind("m", base_url=endpoint.url, api_key=key, retries=0, **options)
        try:
            yield endpoint, model
        finally:
            await model.aclose()
