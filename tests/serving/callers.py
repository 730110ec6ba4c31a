"""Callers of an A2A agent: the official client, over each binding and in both versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from google.protobuf.json_format import MessageToDict

TOKEN = "right-token"


class Caller:
    """Sends messages, and keeps what came."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def events(
        self, *parts: Part | str, task: Task | None = None, context: str = "", **configuration: Any
    ) -> AsyncGenerator[StreamResponse]:
        message = Message(
            role=Role.ROLE_USER,
            message_id=f"m{id(parts)}",
            parts=[Part(text=part) if isinstance(part, str) else part for part in parts],
            task_id=task.id if task is not None else "",
            context_id=task.context_id if task is not None else context,
        )
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))
        async for event in self.client.send_message(request):
            yield event

    async def send(
        self, *parts: Part | str, task: Task | None = None, context: str = "", **more: Any
    ) -> Task:
        """The task as it stands after a message."""
        seen: Task | None = None
        async for event in self.events(*parts, task=task, context=context, **more):
            if event.WhichOneof("payload") == "task":
                seen = event.task
            elif event.WhichOneof("payload") == "status_update":
                seen = seen or Task(id=event.status_update.task_id)
        assert seen is not None
        return await self.get(seen.id)

    async def get(self, task_id: str) -> Task:
        return await self.client.get_task(GetTaskRequest(id=task_id))

    async def cancel(self, task_id: str) -> Task:
        return await self.client.cancel_task(CancelTaskRequest(id=task_id))

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamResponse]:
        async for event in self.client.subscribe(SubscribeToTaskRequest(id=task_id)):
            yield event


@asynccontextmanager
async def calling(
    url: str, *, binding: str = "JSONRPC", streaming: bool = False, version: str = "1.0", token: str = TOKEN
) -> AsyncGenerator[Caller]:
    headers = {"authorization": f"Bearer {token}"}
    async with asyncio.timeout(20), httpx.AsyncClient(headers=headers, timeout=20) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        kept = [i for i in card.supported_interfaces if i.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(kept)
        config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding])
        yield Caller(ClientFactory(config).create(card))


def state(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


def text(task: Task) -> str:
    """Of the artifacts."""
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def said(task: Task) -> str:
    """What the agent says about the state."""
    return "".join(part.text for part in task.status.message.parts)


def asked(task: Task) -> list[dict[str, Any]]:
    """The questions that the task waits with."""
    return [request for data in _data(task.status.message.parts) for request in data["requests"]]


def _data(parts: Iterable[Part]) -> list[Any]:
    return [MessageToDict(part.data) for part in parts if part.HasField("data")]
