"""The same work through the public API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.side import Function, Server, noop
from toolnexus import Agent, Budget, Client, tool
from toolnexus.core.events import TextDelta

COLD = """
from toolnexus import Client, tool
@tool
async def noop(x: int) -> str:
    "Do nothing."
    return f"{x} ok"
client = Client(model="openai:bench", base_url="http://127.0.0.1:9/v1", api_key="bench", tools=[noop])
"""
"""What a program has to load before it can start, and a client with one tool."""

MOST_AGENTS = 100_000


class Ours:
    """One client for everything."""

    plan: Mapping[str, Any] = {}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._options: dict[str, Any] = {
            **self._model(url),
            "tools": [tool(name="noop")(function)],
            "max_turns": max_turns,
        }
        self._client = Client(**self._options, builtins=False)
        worker = Agent(name="worker", description="Does the work.", tools=["noop"])
        self._delegating = Client(
            **self._options,
            builtins=["task"],
            agents=[worker],
            max_sub_agents=MOST_AGENTS,
            budget=Budget(concurrency=MOST_AGENTS),
        )

    def _model(self, url: str) -> dict[str, Any]:
        return {"model": "openai:bench", "base_url": url, "api_key": "bench"}

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return await _asked(self._client, prompt)

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """The same for a parent that starts sub-agents with `task`."""
        return await _asked(self._delegating, prompt)

    async def stream(self, prompt: str) -> AsyncGenerator[str]:
        """The deltas of one streamed answer."""
        async with self._client.stream(prompt) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """A client with that server."""
        servers: Any = {"many": {"command": command, "args": arguments}}
        async with Client(**self._options, builtins=False, mcp=servers) as client:

            async def call(x: int) -> str:
                return (await client.toolkit.execute("many_tool0", {"x": x})).output

            yield Server(call, lambda prompt: _asked(client, prompt))

    async def aclose(self) -> None:
        """Close both clients."""
        await self._client.aclose()
        await self._delegating.aclose()


class OursOverSdk(Ours):
    """The same over a client of the OpenAI SDK that the host hands over."""

    def _model(self, url: str) -> dict[str, Any]:
        from openai import AsyncOpenAI

        from toolnexus import OpenAIModel

        self._sdk = AsyncOpenAI(base_url=url, api_key="bench")
        return {"model": OpenAIModel("bench", wire=self._sdk)}

    async def aclose(self) -> None:
        """Close both clients, and that of the host."""
        await super().aclose()
        await self._sdk.close()


async def _asked(client: Client, prompt: str) -> tuple[str, int]:
    result = await client.ask(prompt)
    result.raise_for_status()
    return result.text, result.usage.total_tokens
