"""Deployment: everything that a document describes, made once, opened and closed together."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from toolnexus.errors import ConfigError
from toolnexus.graph.bus import EventBus
from toolnexus.graph.checkpoint import CheckpointStore
from toolnexus.graph.deployment.agent import DeployedAgent, Hooks, settings_of
from toolnexus.graph.deployment.document import Document, read
from toolnexus.graph.deployment.make import Maker
from toolnexus.graph.deployment.plan import Plan, Ref, plan
from toolnexus.graph.deployment.resources import ResourceRegistry
from toolnexus.graph.graph import Graph
from toolnexus.runtime.context import RunContext
from toolnexus.tools.source import ToolSource


class Deployment:
    """The agents of a deployment document, and what they share. `deploy` makes it.

    `async with deployment:` opens its resources, in the order in which they need each other, and closes them
    in reverse; a bare one opens with the first run of an agent, and wants `aclose()`.
    """

    def __init__(self, document: Document, made: Plan, embedded: Mapping[str, str]) -> None:
        maker = Maker(document, embedded, lambda: self.agents)
        maker.make(made)
        self.resources: Mapping[str, Any] = maker.resources
        """What was made of the resources, by name."""
        runtime = document.shape.runtime
        bus, store = (None, None) if runtime is None else (runtime.event_bus, runtime.checkpoint_store)
        self.event_bus: EventBus | None = None if bus is None else maker.value(Ref.of(bus))
        """Where the events of all runs can be subscribed to; None: nowhere."""
        self.checkpoints: CheckpointStore | None = None if store is None else maker.value(Ref.of(store))
        """Where runs that are under way are kept; None: nowhere."""
        self.agents: dict[str, DeployedAgent] = {
            name: self._agent(name, document, made, maker) for name in document.shape.agents
        }
        """By name. Each is a Runnable."""
        self._narrowed = maker.narrowed
        self._open = 0
        self._opening = asyncio.Lock()
        self._closed = False

    def _agent(self, name: str, document: Document, made: Plan, maker: Maker) -> DeployedAgent:
        entry, engine = document.shape.agents[name], maker.engines[name]
        if isinstance(engine, Graph):
            engine.checkpoints, engine.event_bus = self.checkpoints, self.event_bus
        workspace = made.engines[name].deps.get("workspace")
        folder = None if workspace is None else maker.value(workspace).root  # a `Workspace`
        return DeployedAgent(
            name=name,
            title=entry.card.name or name,
            description=entry.card.description or engine.description or f"The agent {name}.",
            engine=engine,
            hooks=Hooks(**maker.hooks[name]),
            max_revise=entry.policy.max_revise,
            settings=settings_of(entry.policy.run_timeout, folder),
            opened=self._ready,
        )

    @property
    def secrets(self) -> list[str]:
        """What must never be shown: keys of models, and what the configuration of servers holds."""
        return [s for value in self.resources.values() for s in getattr(value, "secrets", ())]

    async def _ready(self, ctx: RunContext) -> None:
        await self.open()
        for secret in self.secrets:
            ctx.run.redact.add(secret)

    async def open(self) -> None:
        """Open what is not open yet. Raises `ConfigError` when it is closed, and what a resource raises."""
        async with self._opening:
            if self._closed:
                raise ConfigError("this deployment is closed; deploy the document again")
            values = list(self.resources.values())
            if self._open == len(values):
                return
            for value in values[self._open :]:
                await _open(value)
                self._open += 1
            for tools in self._narrowed:
                tools.check()

    async def aclose(self) -> None:
        """Close every resource, the last one first, also when one of them fails to. Idempotent."""
        async with self._opening:
            if self._closed:
                return
            self._closed = True
            async with AsyncExitStack() as stack:
                for value in {id(value): value for value in self.resources.values()}.values():
                    stack.push_async_callback(_close, value)

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_open", 0) and not self._closed:
            warnings.warn("unclosed Deployment: call aclose()", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"Deployment(agents={list(self.agents)}, resources={list(self.resources)})"


async def _open(value: Any) -> None:
    if isinstance(value, ToolSource):
        await value.open(lambda: None)
    elif callable(start := getattr(value, "open", None)):
        given: Any = start()
        if inspect.isawaitable(given):
            await given


async def _close(value: Any) -> None:
    end = getattr(value, "aclose", None) or getattr(value, "close", None)
    if callable(end):
        given: Any = end()
        if inspect.isawaitable(given):
            await given


def deploy(
    source: str | Path | Mapping[str, Any],
    *,
    registry: ResourceRegistry | None = None,
    embedded: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
) -> Deployment:
    """The agents of a deployment document: a JSON, YAML or TOML file, or a mapping of the same shape.

    `registry` says who makes the resources (None: `ResourceRegistry.standard()`), `embedded` has the texts
    of `{embed: name}`, `folder` is what relative paths are relative to and may not leave (None: that of the
    file). Nothing is started yet. Raises `GraphError` with everything that is wrong, with paths and lines.
    """
    document = read(source, folder)
    return Deployment(document, plan(document, registry or ResourceRegistry.standard()), embedded or {})
