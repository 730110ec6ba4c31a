"""Real A2A agents on loopback, made with the official SDK: both versions, both bindings."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from a2a.helpers import (
    new_data_part,
    new_raw_part,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
    new_url_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role, TaskState
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.a2a.faulty import faulty
from tests.a2a.seen import LIMIT, PNG, VARIANTS, Seen


class Agent(AgentExecutor):
    """Does what the first word of a message says."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        assert message is not None
        self.seen.messages.append({**MessageToDict(message), "request": dict(context.metadata)})
        words = context.get_user_input().split(maxsplit=1) or ["data"]
        word, rest = words[0], words[1] if len(words) > 1 else ""
        if word == "message":
            reply = new_text_message(f"said: {rest}", role=Role.ROLE_AGENT)
            reply.context_id = context.context_id or ""
            await event_queue.enqueue_event(reply)
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(message)
            await event_queue.enqueue_event(task)
        elif word == "snapshot":  # agents of other SDKs begin every turn so
            await event_queue.enqueue_event(task)
        turn = Turn(TaskUpdater(event_queue, task.id, task.context_id), self.seen, rest, len(task.history))
        await turn.up.start_work(turn.words("at work"))
        work = getattr(turn, f"do_{word}", None)
        await (turn.answered(context.get_user_input()) if work is None else work())

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen.cancelled.set()
        while self.seen.stubborn.is_set():
            await asyncio.sleep(0.01)
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


class Turn:
    """One message to a task."""

    def __init__(self, up: TaskUpdater, seen: Seen, rest: str, said: int) -> None:
        self.up, self.seen, self.rest, self.said = up, seen, rest, said

    def words(self, text: str) -> Any:
        return self.up.new_agent_message([new_text_part(text)])

    async def wait(self) -> None:
        self.seen.started.set()
        while not self.seen.release.is_set():  # of another thread: there is nothing to await
            await asyncio.sleep(0.01)

    async def artifact(self, *parts: Any, **options: Any) -> None:
        await self.up.add_artifact(list(parts), **options)

    async def answered(self, text: str) -> None:
        await self.artifact(new_text_part(f"answer: {text}"))
        await self.up.complete()

    async def do_echo(self) -> None:
        await self.artifact(new_text_part(f"echo: {self.rest}"))
        await self.up.complete(self.words("done"))

    async def do_said(self) -> None:
        await self.up.complete(self.words(f"said: {self.rest}"))

    async def do_ask(self) -> None:
        if self.rest:
            await self.artifact(new_text_part(f"before: {self.rest}. "), artifact_id="first")
        await self.up.requires_input(self.words("Which colour?"))

    async def do_form(self) -> None:
        parts = [new_text_part("Which colour?"), new_data_part({"colours": ["red", "blue"]})]
        await self.up.requires_input(self.up.new_agent_message(parts if self.rest != "only" else parts[1:]))

    async def do_again(self) -> None:
        await self.up.requires_input(self.words("And which size?"))

    async def do_auth(self) -> None:
        await self.up.requires_auth(self.words("Sign in at https://login.example/x, please."))

    async def do_elsewhere(self) -> None:
        """Asks for an authorization, hears of it from somebody else and goes on."""
        await self.do_auth()
        await self.wait()
        await self.answered("authorized")
        self.seen.finished.set()

    async def do_fail(self) -> None:
        await self.up.failed(self.words("out of paper"))

    async def do_reject(self) -> None:
        await self.up.reject()

    async def do_cancelled(self) -> None:
        await self.up.cancel(self.words("somebody pulled the plug"))

    async def do_stream(self) -> None:
        for n in range(5):
            await self.artifact(
                new_text_part(f"chunk{n} "), artifact_id="out", append=n > 0, last_chunk=n == 4
            )
        await self.artifact(new_text_part("second"), artifact_id="other")
        await self.artifact(new_text_part("the other"), artifact_id="other")
        await self.up.complete()

    async def do_parts(self) -> None:
        await self.artifact(
            new_data_part({"total": 3, "share": 0.5}),
            new_raw_part(PNG, media_type="image/png", filename="dot.png"),
            new_url_part("https://files.example/report.pdf", media_type="application/pdf"),
        )
        await self.up.complete()

    async def do_wait(self) -> None:
        await self.wait()
        await self.answered(self.rest)

    async def do_chunks(self) -> None:
        """Two chunks, and the rest once it is released."""
        await self.artifact(new_text_part("one "), artifact_id="out")
        await self.artifact(new_text_part("two "), artifact_id="out", append=True)
        await self.wait()
        await self.artifact(new_text_part("three"), artifact_id="out", append=True, last_chunk=True)
        await self.up.complete()

    async def do_usage(self) -> None:
        await self.artifact(new_text_part("cheap"))
        await self.up.update_status(
            TaskState.TASK_STATE_COMPLETED, metadata={"usage": {"promptTokens": 7, "completionTokens": 5}}
        )


def card(base: str, variant: str) -> AgentCard:
    """The card of a variant."""
    old, rest = variant.startswith("old"), variant.endswith("rest")
    at = AgentInterface(
        url=f"{base}/{variant}" if rest else f"{base}/{variant}/rpc",
        protocol_binding="HTTP+JSON" if rest else "JSONRPC",
        protocol_version="0.3" if old else "1.0",
    )
    skills = [
        AgentSkill(id="tell.fortune", name="Fortune", description="tells what comes", tags=["t"]),
        AgentSkill(id="weather", name="Weather", description="tells how it is", tags=["t"]),
    ]
    return AgentCard(
        name=f"Far {variant}",
        description=f"An agent of kind {variant}.",
        version="1",
        supported_interfaces=[at],
        capabilities=AgentCapabilities(streaming=not variant.endswith("poll")),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=skills,
    )


class Cut:
    """Breaks the connection after a few pieces of a stream, as a proxy does; other answers pass."""

    def __init__(self, app: ASGIApp, pieces: int) -> None:
        self.app, self.pieces = app, pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = self.pieces
        streams = False

        async def some(message: Message) -> None:
            nonlocal left, streams
            if message["type"] == "http.response.start":
                streams = any(b"event-stream" in value for _, value in message["headers"])
            elif streams and message.get("body"):
                left -= 1
                if left < 0:
                    raise ConnectionResetError
            await send(message)

        try:
            await self.app(scope, receive, some)
        except (ConnectionResetError, ExceptionGroup):
            return  # without an end: the server closes the connection


class Noted:
    """Notes the headers of what arrives."""

    def __init__(self, app: ASGIApp, seen: Seen) -> None:
        self.app, self.seen = app, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {k.decode(): v.decode() for k, v in scope["headers"]}
            self.seen.headers.append((scope["path"], headers))
        await self.app(scope, receive, send)


def _agent(base: str, variant: str, seen: Seen) -> list[BaseRoute]:
    about = card(base, variant)
    handler = DefaultRequestHandler(
        agent_executor=Agent(seen), task_store=InMemoryTaskStore(), agent_card=about
    )
    speaks: list[BaseRoute] = [
        *create_agent_card_routes(about, card_url=f"/{variant}/.well-known/agent-card.json"),
        *create_agent_card_routes(about, card_url=f"/{variant}-before/.well-known/agent.json"),
    ]
    if variant.endswith("rest"):
        rest = create_rest_routes(handler, enable_v0_3_compat=True, path_prefix=f"/{variant}")
        speaks += [route for route in rest if not isinstance(route, Mount)]  # that one takes any path
    else:
        speaks += create_jsonrpc_routes(handler, f"/{variant}/rpc", enable_v0_3_compat=True)
    return speaks


@contextmanager
def agents() -> Generator[tuple[str, Seen]]:
    """The base address of all agents, and what they see; one server in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    base, seen = f"http://127.0.0.1:{listener.getsockname()[1]}", Seen()
    speaks = [route for variant in VARIANTS for route in _agent(base, variant, seen)]
    whole = Starlette(routes=[*speaks, *faulty(base)])
    about = card(base, "v1")
    about.supported_interfaces[0].url = f"{base}/cut/v1/rpc"
    app = Starlette(
        routes=[
            *create_agent_card_routes(about, card_url="/cut/.well-known/agent-card.json"),
            Mount("/cut", Cut(whole, 4)),
            Mount("/", whole),
        ]
    )
    config = uvicorn.Config(
        Noted(app, seen), log_level="critical", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    try:
        yield base, seen
    finally:
        seen.release.set()
        seen.stubborn.clear()
        server.should_exit = True
        thread.join(LIMIT)
        listener.close()
