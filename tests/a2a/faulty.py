"""Agents that have a card and then answer nonsense, or have no sound card."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

Answer = Callable[[Request], Awaitable[Response]]


def faulty(base: str) -> list[BaseRoute]:
    """The routes of all of them."""
    real = f"{base}/v1/rpc"
    odd = {"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_DANCING"}}}
    return [
        *agent(base, "html", html),
        *agent(base, "unauthorized", unauthorized),
        *agent(base, "moved", moved),
        *agent(base, "hang", hang),
        *agent(base, "flood", flood),
        *agent(base, "packed", packed),
        *agent(base, "flaky", failing(2)),
        *agent(base, "lost", failing(1000)),
        *agent(base, "odd", result(odd)),
        *agent(base, "torn", result({"task": {"id": "t1", "contextId": "c1"}})),
        *agent(base, "empty", result({})),
        *agent(base, "number", result(7)),
        *agent(base, "deep", deep),
        *agent(base, "wordy", wordy),
        *agent(base, "foreign", html, [interface(real.replace("127.0.0.1", "localhost"))]),
        *agent(base, "relative", html, [interface("../../../v1/rpc")]),
        *agent(base, "nowhere", html, [interface("file:///etc/passwd")]),
        *agent(base, "future", html, [interface(real, "2.0")]),
        Route("/page/.well-known/agent-card.json", html),
        Route("/list/.well-known/agent-card.json", a_list),
        Route("/secret/.well-known/agent-card.json", unauthorized),
        Route("/late/.well-known/agent-card.json", hang),
    ]


def agent(base: str, name: str, answer: Answer, offers: list[Any] | None = None) -> list[BaseRoute]:
    """An agent with a card, whose messages are answered so."""

    async def card(request: Request) -> Response:
        places = offers or [interface(f"{base}/{name}/rpc")]
        able = {"streaming": answer is wordy}
        return JSONResponse({"name": name, "capabilities": able, "supportedInterfaces": places})

    return [
        Route(f"/{name}/.well-known/agent-card.json", card),
        Route(f"/{name}/rpc", answer, methods=["POST"]),
    ]


def interface(url: str, version: str = "1.0") -> dict[str, str]:
    return {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}


def result(value: Any) -> Answer:
    """A JSON-RPC answer with this result."""

    async def answer(request: Request) -> Response:
        body = json.loads(await request.body())
        return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": value})

    return answer


def failing(most: int) -> Answer:
    """A task at work; the first `most` looks at it fail, then it is done."""
    looks = 0

    async def answer(request: Request) -> Response:
        nonlocal looks
        body = json.loads(await request.body())
        task: dict[str, Any] = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
        if body["method"] == "SendMessage":
            return await result({"task": task})(request)
        looks += 1
        if looks <= most:
            return Response("later", status_code=503)
        done = {"state": "TASK_STATE_COMPLETED"}
        parts = [{"artifactId": "a", "parts": [{"text": "at last"}]}]
        return await result({**task, "status": done, "artifacts": parts})(request)

    return answer


async def html(request: Request) -> Response:
    return HTMLResponse("<h1>Welcome</h1>")


async def unauthorized(request: Request) -> Response:
    return Response("who are you?", status_code=401)


async def moved(request: Request) -> Response:
    return RedirectResponse("http://127.0.0.1:1/elsewhere")


async def hang(request: Request) -> Response:
    while not await request.is_disconnected():
        await asyncio.sleep(0.02)
    return Response()


async def flood(request: Request) -> Response:
    return Response(b"x" * (33 << 20), media_type="application/json")


async def packed(request: Request) -> Response:
    return Response(b"x", media_type="application/json", headers={"content-encoding": "gzip"})


async def deep(request: Request) -> Response:
    return Response("[" * 100_000, media_type="application/json")


async def wordy(request: Request) -> Response:
    body = json.loads(await request.body())
    task = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
    other = {"taskId": "x" * 100_000, "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
    events = [{"task": task}, {"statusUpdate": other}]
    lines = [json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": event}) for event in events]
    return Response("".join([f"data: {line}\n\n" for line in lines]), media_type="text/event-stream")


async def a_list(request: Request) -> Response:
    return JSONResponse([1])
