"""The agent over HTTP: JSON-RPC and REST, protocol 1.0 and 0.3, and its card."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import AgentCard, CancelTaskRequest, SendMessageRequest, SubscribeToTaskRequest
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from a2a.utils.errors import A2AError, InvalidParamsError, UnsupportedOperationError
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount

from toolnexus.client import Client
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import Runnable
from toolnexus.serving.a2a.card import JSONRPC, REST, add_skills, make_card
from toolnexus.serving.a2a.executor import STREAMS, Executor
from toolnexus.serving.a2a.streams import Streams
from toolnexus.serving.a2a.tasks import Tasks
from toolnexus.serving.gate import Door
from toolnexus.serving.load import TICKET, Load
from toolnexus.serving.options import A2AOptions, Limits
from toolnexus.stores.memory import MemoryStore

logger = logging.getLogger("toolnexus.serving")

CARDS = (AGENT_CARD_WELL_KNOWN_PATH, "/.well-known/agent.json")
_PARKED_SECONDS = 60.0
"""After which a task that waits for input is only in its store."""
_STARTS = frozenset(("SendMessage", "SendStreamingMessage", "message/send", "message/stream"))
_STOPPED = "The server was stopped before this was done."


class A2AHttp:
    """Everything below `/`."""

    def __init__(self, client: Client, options: A2AOptions, load: Load, limits: Limits, url: str) -> None:
        self._client = client
        self._tasks = Tasks(options.tasks, options.retention_days, load.most, self._forget)
        target = None if options.agent is None else _target(client, options.agent)
        self._executor = Executor(client, target, self._tasks, load, limits.deadline)
        self._target = target
        self._card = make_card(client, options, options.url or url, target)
        self._handler = _Handler(self._executor, self._tasks, self._card)
        self.door = Door("", options.token, _starts, open_paths=CARDS)
        builder, handler = _ContextBuilder(), self._handler
        rest = create_rest_routes(handler, builder, enable_v0_3_compat=True, path_prefix=REST)
        self.routes: list[BaseRoute] = [
            *(route for path in CARDS for route in create_agent_card_routes(self._card, card_url=path)),
            *create_jsonrpc_routes(handler, JSONRPC, builder, enable_v0_3_compat=True),
            *(route for route in rest if not isinstance(route, Mount)),  # there are no tenants
        ]

    @property
    def tools(self) -> list[str]:
        """An agent offers none."""
        return []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve as long as the block lasts. Behind it every run is cancelled, stored, and told as such."""
        add_skills(self._card, self._client, self._target)
        async with self._tasks.running():
            try:
                yield
            finally:
                self._executor.stopping(_STOPPED)
                await asyncio.gather(*(self._stop(task_id) for task_id in self._executor.running))
                await self._handler.aclose()

    async def _forget(self, context_id: str) -> None:
        """Let go of a conversation that nobody comes back to. What is kept outside of memory stays."""
        if isinstance(self._client.store, MemoryStore):
            await self._executor.forget(context_id)

    async def _stop(self, task_id: str) -> None:
        try:
            handler: Any = self._handler
            await handler.on_cancel_task(CancelTaskRequest(id=task_id), ServerCallContext())
        except A2AError:  # it ended by itself
            return
        except Exception as error:  # the others have to be stopped, too
            why = self._client._redact(f"{type(error).__name__}: {error}")
            logger.warning("A2A task %s did not end in order: %s", task_id, why)


class _Handler(DefaultRequestHandler):
    """Refuses at once what could not be answered."""

    def __init__(self, executor: Executor, tasks: Tasks, card: AgentCard) -> None:
        super().__init__(executor, tasks, card, interrupted_task_timeout=_PARKED_SECONDS)
        self._executor = executor
        self._tasks = tasks
        self._streams = Streams()

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Any:
        self._check(params)
        handler: Any = super()
        return await handler.on_message_send(params, context)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any]:
        self._check(params)
        handler: Any = super()
        async with aclosing(self._streams.read(handler.on_message_send_stream(params, context))) as events:
            async for event in events:
                yield event

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any]:
        handler: Any = super()
        async with aclosing(self._streams.read(handler.on_subscribe_to_task(params, context))) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        handler: Any = super()
        await handler.aclose()
        await self._streams.ended()

    def _check(self, params: SendMessageRequest) -> None:
        message, longest = params.message, self._tasks.longest_context
        if len(message.context_id) > longest or not message.context_id.isprintable():
            raise InvalidParamsError(f"contextId: at most {longest} printable characters")
        if message.task_id and self._executor.is_running(message.task_id):
            raise UnsupportedOperationError(
                f"Task {message.task_id} is under way: wait until it is done, or send without its id"
            )


class _ContextBuilder(DefaultServerCallContextBuilder):
    """Lets a run know which request it came with, and whether that wants pieces."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state["headers"].pop("authorization", None)
        context.state[TICKET] = request.scope.get(TICKET)
        context.state[STREAMS] = request.url.path.endswith(":stream")
        return context


def _target(client: Client, agent: str | Runnable) -> Runnable:
    try:
        return client._target(agent)
    except ConfigError as error:
        raise ConfigError(f"a2a.agent: {error}") from None


def _starts(path: str, body: Any) -> bool:
    if path.endswith(("/message:send", "/message:stream")):
        return True
    return isinstance(body, dict) and str(cast("dict[str, Any]", body).get("method")) in _STARTS
