"""A client before real scripted endpoints, in each style, streamed and not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.loop.bodies import Sent
from toolnexus import AnthropicModel, Client, OpenAIModel, RunResult
from toolnexus.core.events import Event
from toolnexus.core.messages import Message
from toolnexus.models.hosted import HostedModel
from toolnexus.models.retry import RetryPolicy
from toolnexus.testing.endpoint import ScriptedEndpoint, Seen
from toolnexus.testing.turns import Turn

OPENAI = "openai"
ANTHROPIC = "anthropic"
KEYS = {OPENAI: "sk-open-0123456789abcdef", ANTHROPIC: "sk-anth-fedcba9876543210"}
HEADER = "header-secret-31415926"
PATIENCE = 30
"""Seconds after which a test that hangs fails."""
QUICK = RetryPolicy(retries=2, base=0.001, cap=1.0)


@dataclass(frozen=True)
class Way:
    """One way to ask: a style, with or without a reader."""

    style: str
    streamed: bool = False

    def __str__(self) -> str:
        return f"{self.style}-{'stream' if self.streamed else 'ask'}"

    def model(self, endpoint: ScriptedEndpoint, name: str = "main", **options: Any) -> HostedModel:
        """A model at `endpoint` with a key of its own, a secret header and quick retries."""
        cls = OpenAIModel if self.style == OPENAI else AnthropicModel
        given: dict[str, Any] = {"api_key": KEYS[self.style], "headers": {"x-team": HEADER}, "retries": QUICK}
        return cls(name, base_url=endpoint.url, **{**given, **options})

    async def ask(
        self, client: Client, prompt: Any, events: list[Event] | None = None, **options: Any
    ) -> RunResult:
        """Ask, and put what a reader sees into `events`. Raises what the run raises."""
        if not self.streamed:
            return await client.ask(prompt, **options)
        async with client.stream(prompt, **options) as stream:
            async for event in stream:
                if events is not None:
                    events.append(event)
        return stream.result


WAYS = [Way(style, streamed) for style in (OPENAI, ANTHROPIC) for streamed in (False, True)]
two_ways = pytest.mark.parametrize("way", [WAYS[0], WAYS[3]], ids=str)
"""Each style once and each transport once: for what the two cannot change together."""
each_way = pytest.mark.parametrize("way", WAYS, ids=str)
each_streamed_way = pytest.mark.parametrize("way", [way for way in WAYS if way.streamed], ids=str)
each_style = pytest.mark.parametrize("way", [way for way in WAYS if not way.streamed], ids=str)


Act = Callable[[Seen], Turn | Awaitable[Turn]]
"""A turn that looks at the request it answers."""


class Stage(ScriptedEndpoint):
    """An endpoint with a list of turns for each model; a turn may be made when its request is there."""

    def __init__(self, turns: Mapping[str, Sequence[Turn | Act]]) -> None:
        self._acts = {model: list(acts) for model, acts in turns.items()}
        super().__init__(self._play)

    async def _play(self, body: dict[str, Any]) -> Turn:
        seen = next(s for s in self.requests if s.body is body)
        acts = self._acts.get(seen.model)
        if not acts:
            return Turn(status=400, body=f"no turn is left for model {seen.model}")
        act = acts.pop(0)
        if isinstance(act, Turn):
            return act
        turn = act(seen)
        return turn if isinstance(turn, Turn) else await turn


@dataclass
class Bench:
    """A client and the endpoint that its model is at."""

    endpoint: ScriptedEndpoint
    client: Client
    way: Way
    events: list[Event] = field(default_factory=list[Event])

    async def ask(self, prompt: Any = "go", **options: Any) -> RunResult:
        return await self.way.ask(self.client, prompt, self.events, **options)

    def sent(self, model: str | None = None) -> list[Sent]:
        """The requests so far (to one model), read and held against the rules of their style."""
        return sent(self.endpoint, model)


def sent(endpoint: ScriptedEndpoint, model: str | None = None) -> list[Sent]:
    """The requests that reached `endpoint` so far (for one model), each valid in its style."""
    seen = [Sent(s.body, anthropic=is_anthropic(s)) for s in endpoint.requests if model in (None, s.model)]
    for request in seen:
        request.check()
    return seen


def is_anthropic(seen: Seen) -> bool:
    return seen.path.endswith("/messages")


@asynccontextmanager
async def bench(way: Way, turns: Mapping[str, Sequence[Turn | Act]], **options: Any) -> AsyncGenerator[Bench]:
    """A client with `options` before a stage with `turns`, and a time limit on all of it."""
    async with asyncio.timeout(PATIENCE), Stage(turns) as endpoint:
        given: dict[str, Any] = {"model": way.model(endpoint), "builtins": False, **options}
        async with Client(**given) as client:
            yield Bench(endpoint, client, way)


def use(name: str, args: Any = None, id: str | None = "") -> dict[str, Any]:
    """A call in a scripted turn. `id` None: the endpoint gives none; without one it is the name."""
    given = {} if id is None else {"id": id or f"call_{name}"}
    return {"name": name, "args": {} if args is None else args, **given}


def task(agent: str, prompt: str = "work", id: str = "", **more: Any) -> dict[str, Any]:
    """A call of `task` in a scripted turn."""
    return use("task", {"agent": agent, "prompt": prompt, **more}, id or f"call_{agent}")


class Gate:
    """Holds answers back until `count` requests have arrived: nobody gets one before all are in flight."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._open = asyncio.Event()

    def then(self, turn: Turn) -> Act:
        async def act(seen: Seen) -> Turn:
            self._left -= 1
            if self._left <= 0:
                self._open.set()
            await self._open.wait()
            return turn

        return act


def paired(messages: Sequence[Message]) -> bool:
    """Whether every call is answered once, at once, in call order, and all ids differ."""
    ids: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            if [r.call_id for r in message.tool_results] != open_calls:
                return False
            open_calls = []
            continue
        if open_calls:
            return False
        open_calls = [c.id for c in message.tool_calls]
        ids += open_calls
    return not open_calls and len(set(ids)) == len(ids)


def everything(result: RunResult) -> list[RunResult]:
    """A run and all below it."""
    return [result, *(run for child in result.sub_agents for run in everything(child))]


def as_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
