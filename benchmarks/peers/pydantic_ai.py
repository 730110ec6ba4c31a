"""pydantic-ai: an agent, and a tool that runs another and shares its usage."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("pydantic-ai-slim[openai,mcp]>=2.68",)
SETTINGS: Mapping[str, str] = {}


class Peer:
    """One agent for all asks, a parent whose tool runs it."""

    plan: Mapping[str, Any] = {"wrapped": True, "task": ["task", "prompt", {}]}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._lib: Any = import_module("pydantic_ai")
        provider: Any = import_module("pydantic_ai.providers.openai").OpenAIProvider
        model: Any = import_module("pydantic_ai.models.openai").OpenAIChatModel
        limits: Any = import_module("pydantic_ai.usage").UsageLimits
        self._model = model("bench", provider=provider(base_url=url, api_key="bench"))
        self._limits = limits(request_limit=None)
        self._agent = self._lib.Agent(self._model, tools=[function])
        self._parent: Any = None

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return _told(await self._agent.run(prompt, usage_limits=self._limits))

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """A parent with a tool that hands its usage on."""
        if self._parent is None:

            async def task(ctx: Any, prompt: str) -> str:
                """Delegate."""
                result = await self._agent.run(prompt, usage=ctx.usage, usage_limits=self._limits)
                return result.output

            task.__annotations__["ctx"] = self._lib.RunContext[None]
            self._parent = self._lib.Agent(self._model, tools=[self._lib.Tool(task, takes_ctx=True)])
        return _told(await self._parent.run(prompt, usage_limits=self._limits))

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        async with self._agent.run_stream(prompt) as result:
            async for text in result.stream_text(delta=True, debounce_by=None):
                yield text

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The tools of that server."""
        toolset: Any = import_module("pydantic_ai.mcp").MCPToolset
        transport: Any = import_module("fastmcp.client.transports").StdioTransport
        async with toolset(transport(command=command, args=arguments)) as connected:
            await connected.list_tools()
            yield Server(lambda x: connected.direct_call_tool("tool0", {"x": x}))

    async def aclose(self) -> None:
        """Nothing is to be closed."""


def _told(result: Any) -> tuple[str, int]:
    return result.output, result.usage.total_tokens
