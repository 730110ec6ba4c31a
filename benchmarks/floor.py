"""The hand-written loop: what a careful engineer writes for exactly this job.

One aiohttp session, one `json.dumps` per request, `asyncio.gather` over the tools; no validation, no
limits, no events, no retries. It is the least that the work costs with this wire and this JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp

COLD = "import asyncio, json\nimport aiohttp"
"""What a program has to load before it can start."""

Function = Callable[..., Awaitable[str]]


def _declaration(name: str, description: str, **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


NOOP = _declaration("noop", "Do nothing.", x="integer")
TASK = _declaration("task", "Delegate to a sub-agent.", agent="string", prompt="string")


async def noop(x: int) -> str:
    return f"{x} ok"


class HandWritten:
    """The loop, with a session that is opened at first use."""

    def __init__(self, url: str, max_turns: int) -> None:
        self._url = f"{url}/chat/completions"
        self._max_turns = max_turns
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return await self._run(prompt, {"noop": noop}, [NOOP])

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
        self, prompt: str, functions: Mapping[str, Function], tools: list[dict[str, Any]]
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


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
