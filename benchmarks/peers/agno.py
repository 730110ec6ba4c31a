"""agno: an agent, and a team of one member."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("agno>=3.1", "openai>=3.50", "mcp>=2.3", "fastmcp>=4")
SETTINGS: Mapping[str, str] = {"AGNO_TELEMETRY": "false"}


class Peer:
    """One agent for all asks."""

    plan: Mapping[str, Any] = {
        "wrapped": True,
        "task": ["delegate_task_to_member", "task", {"member_id": "worker"}],
    }

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._url, self._function = url, function
        self._agent = self._made("main")
        self._team: Any = None

    def _model(self) -> Any:
        model: Any = import_module("agno.models.openai").OpenAIChat
        return model(id="bench", base_url=self._url, api_key="bench")

    def _made(self, name: str) -> Any:
        agent: Any = import_module("agno.agent").Agent
        return agent(name=name, id=name, model=self._model(), tools=[self._function], telemetry=False)

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return _told(await self._agent.arun(prompt))

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """The leader of a team whose member does the work."""
        if self._team is None:
            team: Any = import_module("agno.team").Team
            self._team = team(members=[self._made("worker")], model=self._model(), telemetry=False)
        return _told(await self._team.arun(prompt))

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        async for event in self._agent.arun(prompt, stream=True):
            if event.event == "RunContent" and event.content:
                yield event.content

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The tools of that server."""
        tools: Any = import_module("agno.tools.mcp").MCPTools
        parameters: Any = import_module("mcp").StdioServerParameters(command=command, args=arguments)
        async with tools(server_params=parameters, transport="stdio", timeout_seconds=60) as connected:
            call = connected.functions["tool0"].entrypoint
            yield Server(lambda x: call(x=x))

    async def aclose(self) -> None:
        """Nothing is to be closed."""


def _told(result: Any) -> tuple[str, int]:
    return result.content, result.metrics.total_tokens
