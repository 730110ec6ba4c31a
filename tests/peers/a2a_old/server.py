"""An agent of protocol 0.3: server.py PORT, with JSON-RPC below /jsonrpc and REST below /rest.

Runs with a2a-sdk 0.3, which knows nothing of this repository.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false

import asyncio
import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_agent_text_message, new_task
from starlette.applications import Starlette
from starlette.routing import Mount


def text(words):
    return [Part(root=TextPart(text=words))]


class Agent(AgentExecutor):
    """Does what the first word of a message says."""

    def __init__(self):
        self.cancelled = 0

    async def execute(self, context, queue):
        word, _, rest = context.get_user_input().partition(" ")
        if word == "message":
            await queue.enqueue_event(new_agent_text_message(f"said: {rest}"))
            return
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        await updater.start_work()
        if word == "ask":
            await updater.requires_input(updater.new_agent_message(text("which colour?")), final=True)
        elif word == "fail":
            await updater.failed(updater.new_agent_message(text("out of paper")))
        elif word == "hang":
            await updater.add_artifact(text("hanging"))
            await asyncio.Event().wait()
        elif word == "stream":
            for i in range(3):
                await updater.add_artifact(
                    text(f"chunk{i} "), artifact_id="a", append=i > 0, last_chunk=i == 2
                )
            await updater.complete()
        else:
            await updater.add_artifact(
                text(f"{self.cancelled} cancelled" if word == "cancelled" else f"did: {word}")
            )
            await updater.complete()

    async def cancel(self, context, queue):
        self.cancelled += 1
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def main(port):
    agent, mounts = Agent(), []
    for path, binding, application in (
        ("jsonrpc", "JSONRPC", A2AStarletteApplication),
        ("rest", "HTTP+JSON", A2ARESTFastAPIApplication),
    ):
        card = AgentCard(
            name="old",
            description="Speaks 0.3.",
            version="1",
            url=f"http://127.0.0.1:{port}/{path}/"
            if binding == "JSONRPC"
            else f"http://127.0.0.1:{port}/{path}",
            preferred_transport=binding,
            capabilities=AgentCapabilities(streaming=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="paint", name="Paint", description="Paints.", tags=[])],
        )
        handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore())
        mounts.append(Mount(f"/{path}", application(agent_card=card, http_handler=handler).build()))
    uvicorn.run(Starlette(routes=mounts), port=port, log_level="info")


main(int(sys.argv[1]))
