"""An agent of somebody else: it knows prices, and asks for the currency before it tells one."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

PRICES = {"EUR": "an anchor costs 80 EUR", "USD": "an anchor costs 92 USD"}


class Pricing(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if task is None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        update = TaskUpdater(event_queue, task.id, task.context_id)
        price = PRICES.get(context.get_user_input().strip())
        if price is None:
            question = update.new_agent_message([new_text_part("In which currency: EUR or USD?")])
            await update.requires_input(question)
            return
        await update.add_artifact([new_text_part(price)])
        await update.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


@asynccontextmanager
async def serving() -> AsyncGenerator[str]:
    """The address of the agent, as long as the block lasts."""
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    card = AgentCard(
        name="Pricing",
        description="Knows what things of a ship cost.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=f"{base}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id="price", name="Price", description="Tells the price of a thing.", tags=["shop"])
        ],
    )
    handler = DefaultRequestHandler(agent_executor=Pricing(), task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    running = asyncio.create_task(server.serve([listener]))
    try:
        yield base
    finally:
        server.should_exit = True
        await running
        listener.close()
