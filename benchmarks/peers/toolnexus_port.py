"""The public package of our name, an older port with another API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("toolnexus==0.21.*",)
SETTINGS: Mapping[str, str] = {}

MANY = 100_000


class Peer:
    """A client, and a toolkit that is made at first use."""

    plan: Mapping[str, Any] = {"wrapped": True}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._lib: Any = import_module("toolnexus")
        self._llm = {"base_url": url, "style": "openai", "model": "bench", "api_key": "bench"}
        self._tools = [self._lib.define_tool(function, name="noop", description="Do nothing.")]
        self._client = self._lib.create_client(**self._llm, max_turns=max_turns)
        self._toolkit: Any = None

    async def _kit(self) -> Any:
        if self._toolkit is None:
            self._toolkit = await self._lib.create_toolkit(extra_tools=self._tools, builtins=False)
        return self._toolkit

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        result = await self._client.run(prompt, await self._kit())
        return result.text, result.usage["total_tokens"]

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """A parent with a team of one."""
        agents: Any = import_module("toolnexus.agents")
        budget = agents.Budget(max_turns=50, max_children=MANY, max_concurrent=MANY)
        worker = agents.agent(
            "worker", does="works", uses={"tools": self._tools}, soul="Work.", budget=budget
        )
        parent = agents.agent("parent", does="delegates", team=[worker], soul="Delegate.", budget=budget)
        result = await parent.run(prompt, llm=self._llm, max_concurrent_turns=MANY, inbox_cap=MANY)
        return result.text, result.total_tokens

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        async for event in self._client.stream(prompt, await self._kit()):
            if event["type"] == "text":
                yield event.get("delta") or event["text"]

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """A toolkit of that server."""
        server = {"type": "local", "command": [command, *arguments], "enabled": True, "timeout": 30_000}
        kit = await self._lib.create_toolkit(mcp_config={"mcpServers": {"many": server}}, builtins=False)
        (name,) = [tool.name for tool in kit.tools() if tool.name.endswith("tool0")]
        try:
            yield Server(lambda x: kit.execute(name, {"x": x}))
        finally:
            await kit.close()

    async def aclose(self) -> None:
        """Close the toolkit."""
        if self._toolkit is not None:
            await self._toolkit.close()
