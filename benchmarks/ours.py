"""The same work through the public API."""

from __future__ import annotations

from collections.abc import AsyncGenerator

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


@tool
async def noop(x: int) -> str:
    """Do nothing."""
    return f"{x} ok"


class Ours:
    """One client for everything."""

    def __init__(self, url: str, max_turns: int) -> None:
        self._client = Client(
            model="openai:bench",
            base_url=url,
            api_key="bench",
            tools=[noop],
            builtins=False,
            max_turns=max_turns,
        )
        worker = Agent(name="worker", description="Does the work.", tools=["noop"])
        self._delegating = Client(
            model="openai:bench",
            base_url=url,
            api_key="bench",
            tools=[noop],
            builtins=["task"],
            agents=[worker],
            max_turns=max_turns,
            max_sub_agents=MOST_AGENTS,
            budget=Budget(concurrency=MOST_AGENTS),
        )

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        result = await self._client.ask(prompt)
        result.raise_for_status()
        return result.text, result.usage.total_tokens

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """The same for a parent that starts sub-agents with `task`."""
        result = await self._delegating.ask(prompt)
        result.raise_for_status()
        return result.text, result.usage.total_tokens

    async def stream(self, prompt: str) -> AsyncGenerator[str]:
        """The deltas of one streamed answer."""
        async with self._client.stream(prompt) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

    async def aclose(self) -> None:
        """Close both clients."""
        await self._client.aclose()
        await self._delegating.aclose()
