"""openai-agents over chat completions: an agent, and another as a tool of the first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("openai-agents>=0.24",)
SETTINGS: Mapping[str, str] = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}


class Peer:
    """One agent for all asks, a parent that has a copy of it as a tool."""

    plan: Mapping[str, Any] = {"wrapped": True, "task": ["task", "input", {}]}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._lib: Any = import_module("agents")
        client = self._lib.AsyncOpenAI(base_url=url, api_key="bench")
        self._model = self._lib.OpenAIChatCompletionsModel(model="bench", openai_client=client)
        self._turns = {"max_turns": max_turns}
        tools = [self._lib.function_tool(function)]
        self._agent = self._lib.Agent(name="worker", model=self._model, tools=tools)
        self._parent: Any = None

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return await self._run(self._agent, prompt)

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """A parent whose only tool is the agent."""
        if self._parent is None:
            task = self._agent.as_tool(tool_name="task", tool_description="Delegate.", **self._turns)
            self._parent = self._lib.Agent(name="parent", model=self._model, tools=[task])
        return await self._run(self._parent, prompt)

    async def _run(self, agent: Any, prompt: str) -> tuple[str, int]:
        result = await self._lib.Runner.run(agent, prompt, **self._turns)
        return result.final_output, result.context_wrapper.usage.total_tokens

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        async for event in self._lib.Runner.run_streamed(self._agent, prompt).stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The tools of that server."""
        server: Any = import_module("agents.mcp").MCPServerStdio
        parameters = {"command": command, "args": arguments}
        async with server(
            params=parameters, cache_tools_list=True, client_session_timeout_seconds=60
        ) as connected:
            await connected.list_tools()
            yield Server(lambda x: connected.call_tool("tool0", {"x": x}))

    async def aclose(self) -> None:
        """Nothing is to be closed."""
