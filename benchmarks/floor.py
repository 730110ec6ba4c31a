"""The hand-written loop: what a careful engineer writes for exactly this job.

One aiohttp session, one `json.dumps` per request, `asyncio.gather` over the tools; no validation, no
limits, no events, no retries. It is the least that the work costs with this wire and this JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks.side import Function, Server, noop

COLD = "import asyncio, json\nimport aiohttp"
"""What a program has to load before it can start."""


def _declaration(name: str, description: str, **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return _declared(name, description, schema)


def _declared(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


NOOP = _declaration("noop", "Do nothing.", x="integer")
TASK = _declaration("task", "Delegate to a sub-agent.", agent="string", prompt="string")


class HandWritten:
    """The loop, with a session that is opened at first use."""

    plan: Mapping[str, Any] = {}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._url = f"{url}/chat/completions"
        self._max_turns = max_turns
        self._functions = {"noop": function}
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return await self._run(prompt, self._functions, [NOOP])

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """The same for a parent whose tool starts sub-agents."""
        below = 0

        async def task(agent: str, prompt: str) -> str:
            nonlocal below
            text, tokens = await self.ask(prompt)
            below += tokens
            return text

        text, tokens = await self._run(prompt, {"task": task}, [TASK])
        return text, tokens + below

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        body = {
            "model": "bench",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": prompt}],
            "tools": [NOOP],
        }
        async with self._open().post(self._url, data=_dump(body)) as response:
            response.raise_for_status()
            rest = b""
            async for chunk in response.content.iter_any():
                *blocks, rest = (rest + chunk).split(b"\n\n")
                for block in blocks:
                    data = block.removeprefix(b"data: ")
                    if data == b"[DONE]":
                        return
                    for choice in json.loads(data)["choices"]:
                        if text := choice["delta"].get("content"):
                            yield text

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The official session, and a run that offers what it lists."""
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        async with (
            stdio_client(StdioServerParameters(command=command, args=arguments)) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            listed = (await session.list_tools()).tools

            async def call(x: int) -> Any:
                return await session.call_tool("tool0", {"x": x})

            async def ask(prompt: str) -> tuple[str, int]:
                return await self._run(prompt, self._functions, declared)

            declared = [NOOP, *[_declared(t.name, t.description or "", t.input_schema) for t in listed]]
            yield Server(call, ask)

    async def aclose(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_read=120),
                headers={"authorization": "Bearer bench", "content-type": "application/json"},
            )
        return self._session

    async def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        async with self._open().post(self._url, data=_dump(body)) as response:
            response.raise_for_status()
            return json.loads(await response.read())

    async def _run(
        self, prompt: str, functions: Mapping[str, Callable[..., Awaitable[str]]], tools: list[dict[str, Any]]
    ) -> tuple[str, int]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        tokens = 0
        for _ in range(self._max_turns):
            reply = await self._post({"model": "bench", "messages": messages, "tools": tools})
            message = reply["choices"][0]["message"]
            tokens += reply["usage"]["total_tokens"]
            calls = message.get("tool_calls")
            if not calls:
                return message["content"], tokens
            messages.append(message)
            outputs = await asyncio.gather(
                *[functions[c["function"]["name"]](**json.loads(c["function"]["arguments"])) for c in calls]
            )
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": output}
                for call, output in zip(calls, outputs, strict=True)
            ]
        raise RuntimeError(f"no end after {self._max_turns} turns")


class HandWrittenOverSdk(HandWritten):
    """The same loop, with the client of the OpenAI SDK for what goes over the wire, and no types of it."""

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        from openai import AsyncOpenAI

        super().__init__(url, max_turns, function)
        self._client = AsyncOpenAI(base_url=url, api_key="bench", max_retries=0)

    async def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        from httpx2 import Response

        response = await self._client.post(
            "/chat/completions",
            cast_to=Response,
            content=_dump(body),
            options={"headers": {"content-type": "application/json"}},
        )
        return json.loads(response.content)

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.close()


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
