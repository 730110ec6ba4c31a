"""A client for others: an A2A agent and an MCP server on one port.

What to look at: an agent elsewhere asks, and its order waits for a yes; a program elsewhere calls a tool
without any model; neither gets in without the token.
"""

import asyncio
import os
import secrets

import httpx
import httpx2
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client import Client as A2AClient
from a2a.helpers import new_text_message
from a2a.types import Message, Role, SendMessageRequest, Task, TaskState
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from script import scripted

from toolnexus import Client, serve, tool

STOCK = {"tea": 3, "cocoa": 12}
TOKEN = secrets.token_urlsafe()
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@tool
async def levels() -> dict[str, int]:
    """How much of everything is there."""
    return STOCK


@tool
async def order(item: str, count: int) -> str:
    """Order more of an item."""
    STOCK[item] += count
    return f"ordered {count} {item}"


async def ask(url: str) -> None:
    """An agent of somebody else, over A2A."""
    async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        print(f"card: {card.name}: {card.description}")
        agent = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        message = new_text_message("Tea is low: order 20 packs.", role=Role.ROLE_USER)
        task = await send(agent, message)
        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            print("it asks:", task.status.message.parts[0].text)
            yes = new_text_message("yes", role=Role.ROLE_USER, task_id=task.id, context_id=task.context_id)
            task = await send(agent, yes)
        print("it says:", "".join(part.text for artifact in task.artifacts for part in artifact.parts))


async def send(agent: A2AClient, message: Message) -> Task:
    """The task as it stands after a message."""
    return [event.task async for event in agent.send_message(SendMessageRequest(message=message))][-1]


async def call(url: str) -> None:
    """A program of somebody else, over MCP."""
    async with httpx2.AsyncClient(headers=HEADERS) as http:
        async with McpClient(streamable_http_client(f"{url}/mcp", http_client=http)) as server:
            print("tools:", ", ".join(t.name for t in (await server.list_tools()).tools))
            result = await server.call_tool("levels", {})
            print("levels:", *(block.text for block in result.content if block.type == "text"))


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    client = Client(model=model, builtins=False, tools=[levels, order], permissions={"order": "ask"})
    async with (
        client,
        serve(
            client,
            a2a={"name": "Storekeeper", "description": "Keeps the shop in stock.", "token": TOKEN},
            mcp={"tools": ["levels"], "token": TOKEN},
        ) as server,
    ):
        await ask(server.url)
        await call(server.url)
        async with httpx.AsyncClient() as stranger:
            print("without the token:", (await stranger.post(server.url, json={})).status_code)


if __name__ == "__main__":
    asyncio.run(main())
