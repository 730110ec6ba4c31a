"""toolnexus: tools from everywhere, one run loop, sub-agents with one builtin."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolnexus import graph as graph
    from toolnexus import workflow as workflow
    from toolnexus.agents.files import load_agents
    from toolnexus.agents.project import Project, load_project
    from toolnexus.agents.remote import RemoteAgent
    from toolnexus.agents.role import Capability, Role
    from toolnexus.client import Client
    from toolnexus.config.document import load
    from toolnexus.core.events import (
        Compacted,
        Event,
        GraphEvent,
        LimitHit,
        NodeFinished,
        NodeStarted,
        Pending,
        ReasoningDelta,
        Retrying,
        RunFinished,
        RunStarted,
        SubAgentFinished,
        SubAgentStarted,
        TextDelta,
        ToolFinished,
        ToolProgress,
        ToolStarted,
        TurnStarted,
        UsageReported,
    )
    from toolnexus.core.messages import (
        MediaPart,
        Message,
        Prompt,
        TextPart,
        ToolCallPart,
        ToolResultPart,
        assistant,
        user,
    )
    from toolnexus.core.model import ModelRequest, ModelResponse, OutputSpec
    from toolnexus.core.result import Limit, RunResult
    from toolnexus.core.suspension import Answer, Request
    from toolnexus.core.tools import ToolResult, pending
    from toolnexus.core.usage import Budget, Price, Usage
    from toolnexus.engine.agent import Agent
    from toolnexus.engine.compaction.compactor import compactor
    from toolnexus.engine.conversations import Conversation
    from toolnexus.engine.scope import ToolSpec
    from toolnexus.engine.stream import Stream
    from toolnexus.errors import (
        ConfigError,
        LimitReached,
        ModelConnectionError,
        ModelContextError,
        ModelError,
        ModelHTTPError,
        ModelResponseError,
        NameConflict,
        OutputError,
        RunError,
        SourceError,
        StoreConflict,
        StoreError,
        Suspended,
        ToolError,
        ToolnexusError,
    )
    from toolnexus.models.anthropic import AnthropicModel
    from toolnexus.models.base import Model
    from toolnexus.models.fallback import FallbackModel
    from toolnexus.models.function import FunctionModel
    from toolnexus.models.openai import OpenAIModel
    from toolnexus.once import run
    from toolnexus.runtime.context import ContextKey, Outcome, RunContext, Runnable, ToolContext
    from toolnexus.runtime.hooks import Hooks
    from toolnexus.runtime.questions import OnRequest
    from toolnexus.serving.app import serve_app
    from toolnexus.serving.mcp.stdio import serve_stdio
    from toolnexus.serving.server import serve
    from toolnexus.stores.base import Store
    from toolnexus.stores.memory import MemoryStore
    from toolnexus.stores.postgres import PostgresStore
    from toolnexus.stores.redis import RedisStore
    from toolnexus.stores.sqlite import SqliteStore
    from toolnexus.tools.function import FunctionTool, Tool, tool
    from toolnexus.tools.http.tool import HttpTool, http_tool
    from toolnexus.tools.mcp import list_mcp_tools, mcp_sources
    from toolnexus.tools.mcp_config import load_mcp_config, mcp_report
    from toolnexus.tools.openapi.tools import openapi_tools
    from toolnexus.tools.relay import relay_tool
    from toolnexus.tools.skills import SkillDef, SkillIssue
    from toolnexus.tools.source import ToolSource
    from toolnexus.tools.toolkit import Toolkit
    from toolnexus.workers.bus import Bus
    from toolnexus.workers.worker import Worker

    __version__: str

_HOMES = {
    "agents.files": ("load_agents",),
    "agents.project": ("Project", "load_project"),
    "agents.remote": ("RemoteAgent",),
    "agents.role": ("Capability", "Role"),
    "client": ("Client",),
    "config.document": ("load",),
    "core.events": (
        "Compacted",
        "Event",
        "GraphEvent",
        "LimitHit",
        "NodeFinished",
        "NodeStarted",
        "Pending",
        "ReasoningDelta",
        "Retrying",
        "RunFinished",
        "RunStarted",
        "SubAgentFinished",
        "SubAgentStarted",
        "TextDelta",
        "ToolFinished",
        "ToolProgress",
        "ToolStarted",
        "TurnStarted",
        "UsageReported",
    ),
    "core.messages": (
        "MediaPart",
        "Message",
        "Prompt",
        "TextPart",
        "ToolCallPart",
        "ToolResultPart",
        "assistant",
        "user",
    ),
    "core.model": ("ModelRequest", "ModelResponse", "OutputSpec"),
    "core.result": ("Limit", "RunResult"),
    "core.suspension": ("Answer", "Request"),
    "core.tools": ("ToolResult", "pending"),
    "core.usage": ("Budget", "Price", "Usage"),
    "engine.agent": ("Agent",),
    "engine.compaction.compactor": ("compactor",),
    "engine.conversations": ("Conversation",),
    "engine.scope": ("ToolSpec",),
    "engine.stream": ("Stream",),
    "errors": (
        "ConfigError",
        "LimitReached",
        "ModelConnectionError",
        "ModelContextError",
        "ModelError",
        "ModelHTTPError",
        "ModelResponseError",
        "NameConflict",
        "OutputError",
        "RunError",
        "SourceError",
        "StoreConflict",
        "StoreError",
        "Suspended",
        "ToolError",
        "ToolnexusError",
    ),
    "models.anthropic": ("AnthropicModel",),
    "models.base": ("Model",),
    "models.fallback": ("FallbackModel",),
    "models.function": ("FunctionModel",),
    "models.openai": ("OpenAIModel",),
    "once": ("run",),
    "runtime.context": ("ContextKey", "Outcome", "RunContext", "Runnable", "ToolContext"),
    "runtime.hooks": ("Hooks",),
    "runtime.questions": ("OnRequest",),
    "serving.app": ("serve_app",),
    "serving.mcp.stdio": ("serve_stdio",),
    "serving.server": ("serve",),
    "stores.base": ("Store",),
    "stores.memory": ("MemoryStore",),
    "stores.postgres": ("PostgresStore",),
    "stores.redis": ("RedisStore",),
    "stores.sqlite": ("SqliteStore",),
    "tools.function": ("FunctionTool", "Tool", "tool"),
    "tools.http.tool": ("HttpTool", "http_tool"),
    "tools.mcp": ("list_mcp_tools", "mcp_sources"),
    "tools.mcp_config": ("load_mcp_config", "mcp_report"),
    "tools.openapi.tools": ("openapi_tools",),
    "tools.relay": ("relay_tool",),
    "tools.skills": ("SkillDef", "SkillIssue"),
    "tools.source": ("ToolSource",),
    "tools.toolkit": ("Toolkit",),
    "workers.bus": ("Bus",),
    "workers.worker": ("Worker",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "Answer",
    "AnthropicModel",
    "Budget",
    "Bus",
    "Capability",
    "Client",
    "Compacted",
    "ConfigError",
    "ContextKey",
    "Conversation",
    "Event",
    "FallbackModel",
    "FunctionModel",
    "FunctionTool",
    "GraphEvent",
    "Hooks",
    "HttpTool",
    "Limit",
    "LimitHit",
    "LimitReached",
    "MediaPart",
    "MemoryStore",
    "Message",
    "Model",
    "ModelConnectionError",
    "ModelContextError",
    "ModelError",
    "ModelHTTPError",
    "ModelRequest",
    "ModelResponse",
    "ModelResponseError",
    "NameConflict",
    "NodeFinished",
    "NodeStarted",
    "OnRequest",
    "OpenAIModel",
    "Outcome",
    "OutputError",
    "OutputSpec",
    "Pending",
    "PostgresStore",
    "Price",
    "Project",
    "Prompt",
    "ReasoningDelta",
    "RedisStore",
    "RemoteAgent",
    "Request",
    "Retrying",
    "Role",
    "RunContext",
    "RunError",
    "RunFinished",
    "RunResult",
    "RunStarted",
    "Runnable",
    "SkillDef",
    "SkillIssue",
    "SourceError",
    "SqliteStore",
    "Store",
    "StoreConflict",
    "StoreError",
    "Stream",
    "SubAgentFinished",
    "SubAgentStarted",
    "Suspended",
    "TextDelta",
    "TextPart",
    "Tool",
    "ToolCallPart",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolProgress",
    "ToolResult",
    "ToolResultPart",
    "ToolSource",
    "ToolSpec",
    "ToolStarted",
    "Toolkit",
    "ToolnexusError",
    "TurnStarted",
    "Usage",
    "UsageReported",
    "Worker",
    "assistant",
    "compactor",
    "http_tool",
    "list_mcp_tools",
    "load",
    "load_agents",
    "load_mcp_config",
    "load_project",
    "mcp_report",
    "mcp_sources",
    "openapi_tools",
    "pending",
    "relay_tool",
    "run",
    "serve",
    "serve_app",
    "serve_stdio",
    "tool",
    "user",
]


def __getattr__(name: str) -> object:
    """Load a public name at its first use, so that importing the package costs nothing."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version(__name__)
        except PackageNotFoundError:  # run from its sources
            return "0+unknown"
    if name in ("graph", "workflow"):
        return import_module(f"{__name__}.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
