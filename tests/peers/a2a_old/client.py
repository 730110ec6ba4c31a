"""What a caller of protocol 0.3 sees of an agent, as JSON: client.py URL TOKEN BINDING.

Runs with a2a-sdk 0.3, which knows nothing of this repository.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError
from a2a.types import Message, Role, TaskIdParams, TaskQueryParams, TextPart


def message(text, task=None):
    given = {"task_id": task.id, "context_id": task.context_id} if task else {}
    return Message(role=Role.user, message_id=uuid.uuid4().hex, parts=[TextPart(text=text)], **given)


def seen(task):
    texts = [part.root.text for artifact in task.artifacts or [] for part in artifact.parts]
    status = task.status.message
    said = [part.root.text for part in status.parts if part.root.kind == "text"] if status else []
    return {"state": task.status.state.value, "text": "".join(texts), "said": "".join(said)}


async def main(url, token, binding):
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=20) as http:
        card = await A2ACardResolver(http, url).get_agent_card()

        def client(streaming, polling=False, http=http):
            config = ClientConfig(
                streaming=streaming, polling=polling, httpx_client=http, supported_transports=[binding]
            )
            return ClientFactory(config).create(card)

        async def send(text, task=None, polling=False):
            events = [event async for event in client(False, polling).send_message(message(text, task))]
            return events[-1][0]

        out = {"name": card.name, "skills": [skill.name for skill in card.skills]}
        out["plain"] = seen(await send("hello"))

        events = [event async for event in client(True).send_message(message("hello"))]
        out["kinds"] = sorted({update.kind if update else "task" for _, update in events})
        out["streamed"] = seen(await client(True).get_task(TaskQueryParams(id=events[-1][0].id)))

        waiting = await send("pay ann")
        out["asked"] = seen(waiting)
        out["answered"] = seen(await send("yes", waiting))

        running = await send("call hang", polling=True)
        out["cancelled"] = seen(await client(False).cancel_task(TaskIdParams(id=running.id)))

        async with httpx.AsyncClient(timeout=20) as stranger:
            try:
                async for _ in client(False, http=stranger).send_message(message("hello")):
                    pass
            except A2AClientHTTPError as error:
                out["stranger"] = error.status_code
    print(json.dumps(out))


asyncio.run(main(*sys.argv[1:]))
