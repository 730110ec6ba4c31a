"""langgraph with the agent of langchain: an agent, and a tool that runs another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("langgraph>=1.2", "langchain>=1.3", "langchain-openai>=1.3", "langchain-mcp-adapters>=0.3")
SETTINGS: Mapping[str, str] = {"LANGSMITH_TRACING": "false"}


class Peer:
    """One agent for all asks, a parent whose tool runs it."""

    plan: Mapping[str, Any] = {"wrapped": True, "task": ["task", "prompt", {}]}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._create: Any = import_module("langchain.agents").create_agent
        model: Any = import_module("langchain_openai").ChatOpenAI
        self._model = model(model="bench", base_url=url, api_key="bench", stream_usage=True)
        self._config = {"recursion_limit": 3 * max_turns}
        self._agent = self._create(self._model, tools=[function])
        self._parent: Any = None

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return await self._run(self._agent, prompt)

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """A parent with a tool; its state has its own tokens only."""
        if self._parent is None:

            async def task(prompt: str) -> str:
                """Delegate."""
                return (await self.ask(prompt))[0]

            self._parent = self._create(self._model, tools=[task])
        return await self._run(self._parent, prompt)

    async def _run(self, agent: Any, prompt: str) -> tuple[str, int]:
        state = await agent.ainvoke(_input(prompt), self._config)
        used = [getattr(message, "usage_metadata", None) for message in state["messages"]]
        return state["messages"][-1].content, sum(usage["total_tokens"] for usage in used if usage)

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        chunks = self._agent.astream(_input(prompt), self._config, stream_mode="messages")
        async for message, _ in chunks:
            if message.type == "AIMessageChunk" and message.content:
                yield message.content

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The tools of that server, in one session that stays."""
        client: Any = import_module("langchain_mcp_adapters.client").MultiServerMCPClient
        load: Any = import_module("langchain_mcp_adapters.tools").load_mcp_tools
        servers = {"many": {"command": command, "args": arguments, "transport": "stdio"}}
        async with client(servers).session("many") as session:
            tools = {tool.name: tool for tool in await load(session)}
            yield Server(lambda x: tools["tool0"].ainvoke({"x": x}))

    async def aclose(self) -> None:
        """Nothing is to be closed."""


def _input(prompt: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}]}
