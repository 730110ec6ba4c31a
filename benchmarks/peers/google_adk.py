"""google-adk with the model of litellm: a runner of an agent, and an agent as a tool of another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.side import Function, Server, noop

REQUIRES = ("google-adk>=2.13", "litellm>=1.80", "mcp>=1")
SETTINGS: Mapping[str, str] = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OTEL_SDK_DISABLED": "true"}

PLACE = {"app_name": "bench", "user_id": "bench"}


class Peer:
    """One runner for all asks, each in a session of its own."""

    plan: Mapping[str, Any] = {"wrapped": True, "task": ["worker", "request", {}]}

    def __init__(self, url: str, max_turns: int, function: Function = noop) -> None:
        self._agents: Any = import_module("google.adk.agents")
        self._config: Any = import_module("google.adk.agents.run_config")
        self._types: Any = import_module("google.genai.types")
        self._runner_of: Any = import_module("google.adk.runners").InMemoryRunner
        model: Any = import_module("google.adk.models.lite_llm").LiteLlm
        self._model = model(model="openai/bench", api_base=url, api_key="bench")
        self._limits = {"max_llm_calls": 100 * max_turns}
        self._worker = self._agent("worker", [function])
        self._runner = self._runner_of(self._worker, app_name="bench")
        self._parent: Any = None

    def _agent(self, name: str, tools: list[Any]) -> Any:
        return self._agents.LlmAgent(name=name, model=self._model, description="Works.", tools=tools)

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        return await self._run(self._runner, prompt)

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """A parent whose only tool is the agent."""
        if self._parent is None:
            tool: Any = import_module("google.adk.tools.agent_tool").AgentTool
            self._parent = self._runner_of(self._agent("parent", [tool(self._worker)]), app_name="bench")
        return await self._run(self._parent, prompt)

    async def _run(self, runner: Any, prompt: str) -> tuple[str, int]:
        text, tokens = "", 0
        async for event in self._events(runner, prompt, self._config.StreamingMode.NONE):
            if event.usage_metadata:
                tokens += event.usage_metadata.total_token_count or 0
            text = _text(event) or text
        return text, tokens

    async def _events(self, runner: Any, prompt: str, mode: Any) -> AsyncIterator[Any]:
        session = await runner.session_service.create_session(**PLACE)
        message = self._types.Content(role="user", parts=[self._types.Part(text=prompt)])
        config = self._config.RunConfig(streaming_mode=mode, **self._limits)
        run = runner.run_async(user_id="bench", session_id=session.id, new_message=message, run_config=config)
        async for event in run:
            yield event

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        async for event in self._events(self._runner, prompt, self._config.StreamingMode.SSE):
            if event.partial and (text := _text(event)):
                yield text

    @asynccontextmanager
    async def mcp(self, command: str, arguments: list[str]) -> AsyncGenerator[Server]:
        """The tools of that server; they want the context of a run, so they are called by their session."""
        toolset: Any = import_module("google.adk.tools.mcp_tool").McpToolset
        manager: Any = import_module("google.adk.tools.mcp_tool.mcp_session_manager")
        parameters: Any = import_module("mcp").StdioServerParameters(command=command, args=arguments)
        stdio = manager.StdioConnectionParams(server_params=parameters, timeout=60)
        tools = toolset(connection_params=stdio)
        try:
            (tool,) = await tools.get_tools()
            yield Server(lambda x: tool.run_async(args={"x": x}, tool_context=None))
        finally:
            await tools.close()

    async def aclose(self) -> None:
        """Nothing is to be closed."""


def _text(event: Any) -> str:
    parts = event.content.parts if event.content and event.content.parts else ()
    return "".join([part.text or "" for part in parts])
