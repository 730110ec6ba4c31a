"""agent-framework: an agent, and another as a tool of the first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("agent-framework-core>=1.23", "agent-framework-openai>=1", "mcp>=1", "tenacity>=9")
SETTINGS: Mapping[str, str] = {}


class Peer:
    """One agent for all asks, a parent that has a copy of it as a tool."""

    plan: Mapping[str, Any] = {"wrapped": True, "task": ["task", "task", {}]}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._lib: Any = import_module("agent_framework")
        client: Any = import_module("agent_framework.openai").OpenAIChatCompletionClient
        limits = {"max_iterations": max_turns}
        self._client = client(
            model="bench", base_url=url, api_key="bench", function_invocation_configuration=limits
        )
        self._agent = self._lib.Agent(self._client, name="worker", tools=[function])
        self._parent: Any = None

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return _told(await self._agent.run(prompt))

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """A parent whose only tool is the agent."""
        if self._parent is None:
            task = self._agent.as_tool(name="task", description="Delegate.")
            self._parent = self._lib.Agent(self._client, tools=[task])
        return _told(await self._parent.run(prompt))

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        async for update in self._agent.run(prompt, stream=True):
            if update.text:
                yield update.text

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The tools of that server."""
        tool: Any = self._lib.MCPStdioTool(name="many", command=command, args=arguments, load_prompts=False)

        async def call(x: int) -> str:
            return (await tool.call_tool("tool0", x=x))[0].text

        await tool.connect()
        try:
            yield Server(call)
        finally:
            await tool.close()

    async def aclose(self) -> None:
        """Nothing is to be closed."""


def _told(result: Any) -> tuple[str, int]:
    return result.text, result.usage_details["total_token_count"]
