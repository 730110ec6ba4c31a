"""strands: an agent for each ask (an agent is one conversation), and a tool that runs another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("strands-agents[openai]>=1.62",)
SETTINGS: Mapping[str, str] = {}


class Peer:
    """One model with one client for all agents; by default it makes a client for each request."""

    plan: Mapping[str, Any] = {"wrapped": True, "task": ["task", "prompt", {}]}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._lib: Any = import_module("strands")
        model: Any = import_module("strands.models.openai").OpenAIModel
        client: Any = import_module("openai").AsyncOpenAI(base_url=url, api_key="bench")
        self._model = model(client=client, model_id="bench")
        self._tools = [self._lib.tool(function)]

    def _agent(self, tools: list[Any]) -> Any:
        return self._lib.Agent(model=self._model, tools=tools, callback_handler=None)

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return _told(await self._agent(self._tools).invoke_async(prompt))

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """A parent with a tool; its metrics have its own tokens only."""

        async def task(prompt: str) -> str:
            """Delegate.

            Args:
                prompt: what is to be done
            """
            return (await self.ask(prompt))[0]

        return _told(await self._agent([self._lib.tool(task)]).invoke_async(prompt))

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        async for event in self._agent(self._tools).stream_async(prompt):
            if text := event.get("data"):
                yield text

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The tools of that server."""
        client: Any = import_module("strands.tools.mcp").MCPClient
        stdio: Any = import_module("mcp.client.stdio").stdio_client
        parameters: Any = import_module("mcp").StdioServerParameters(command=command, args=arguments)
        with client(lambda: stdio(parameters)) as connected:
            connected.list_tools_sync()
            yield Server(lambda x: connected.call_tool_async("id", "tool0", {"x": x}))

    async def aclose(self) -> None:
        """Nothing is to be closed."""


def _told(result: Any) -> tuple[str, int]:
    return str(result).strip(), result.metrics.accumulated_usage["totalTokens"]
