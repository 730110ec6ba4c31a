"""What callers may see: part of a client's tools, and agents of it as tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolnexus.client import Client
from toolnexus.core.names import did_you_mean, listed, sanitize
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.engine.delegate import delegated
from toolnexus.errors import UnknownNames
from toolnexus.runtime.context import Runnable, ToolContext
from toolnexus.serving.options import McpOptions
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.toolkit import check_unique

_PROMPT = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "The whole request: it knows nothing but this text.",
        }
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


class Offer:
    """The tools of one MCP server, by name. Raises `ConfigError` for an agent that does not exist."""

    def __init__(self, client: Client, options: McpOptions) -> None:
        self._client = client
        self._filter = NameFilter.of(options.tools, "mcp.tools")
        self._agents = [_agent_tool(agent) for agent in _chosen(client.agents, options.agents)]
        self._seen: object = None
        self._tools: Mapping[str, Tool] = {}

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What is offered now; the same object while nothing changes."""
        base = self._client._environment.toolkit
        if base is not self._seen:
            tools = [tool for tool in self._all() if self._filter.admits(tool.name)]
            check_unique([*tools, *self._agents], "mcp")
            self._tools = {tool.name: tool for tool in (*tools, *self._agents)}
            self._seen = base
        return self._tools

    def check(self) -> None:
        """Raises `ConfigError` for a tool that is named and does not exist. The client is open by now."""
        self._filter.check([tool.name for tool in self._all()], "mcp.tools", awaited=self._awaited())
        _ = self.tools

    def _all(self) -> Sequence[Tool]:
        """What the client's own model is offered."""
        rules = self._client._settings.permissions
        denied = () if rules is None else (rules,)
        return self._client._environment.offer(self._client._main, denied, deepest=False).tools

    def _awaited(self) -> list[str]:
        """What may yet come: the tools of servers that are not there."""
        status = self._client.mcp_status().items()
        return [f"{sanitize(name)}_*" for name, s in status if s["status"] not in ("connected", "disabled")]


def _chosen(agents: Iterable[Runnable], chosen: Iterable[str | Runnable]) -> list[Runnable]:
    known = {agent.name: agent for agent in agents}
    if unknown := tuple(name for name in chosen if isinstance(name, str) and name not in known):
        near = did_you_mean(unknown[0], known)
        raise UnknownNames(
            f"mcp.agents: there is no {unknown[0]!r}; available: {listed(known)}{near}", unknown
        )
    return [known[one] if isinstance(one, str) else one for one in chosen]


def _agent_tool(agent: Runnable) -> Tool:
    """An agent as a tool: a call delegates to it."""

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        return await delegated(agent, arguments["prompt"], ctx)

    about = agent.description or f"Ask {agent.name!r}."
    return Tool(sanitize(agent.name), about, _PROMPT, execute, source="agent")
