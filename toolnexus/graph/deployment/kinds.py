"""The kinds and impls that come along, and what a value of each kind must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError
from toolnexus.graph.bus import EventBus
from toolnexus.graph.checkpoint import FileCheckpoints, MemoryCheckpoints
from toolnexus.graph.checkpoint_sqlite import SqliteCheckpoints
from toolnexus.graph.deployment import engine, models, places, scripts, tools
from toolnexus.graph.deployment.resources import Dep, ResourceRegistry, ResourceType
from toolnexus.graph.registry import NodeType
from toolnexus.graph.sandbox import Sandbox
from toolnexus.graph.scripts import JsRuntime, LuaRuntime
from toolnexus.graph.scripts.bindings import NoBindings
from toolnexus.graph.workspace import Workspace
from toolnexus.runtime.context import Runnable
from toolnexus.tools.source import ToolSource


def add_standard(registry: ResourceRegistry) -> None:
    """Register everything that comes along."""
    add = registry.register
    add("event.Bus", "memory", lambda _: EventBus())
    add("workspace.Workspace", "local", places.make_workspace, settings=places.WorkspaceSettings)
    add("sandbox.Runner", "local", places.make_sandbox, settings=places.SandboxSettings)
    provider = {
        "provider": Dep("inference.Provider", required=True, many=True),
        "extension": Dep("inference.Extension", many=True),
    }
    for style in ("openai", "anthropic"):
        add("inference.Provider", style, models.make_provider, settings=models.ProviderSettings)
    add("inference.Assembly", "unified", models.make_assembly, deps=provider)
    add(
        "inference.Router",
        "unified",
        models.make_router,
        deps={"target": Dep("inference.Assembly", required=True)},
        settings=models.RouterSettings,
    )
    add("tool.Source", "builtins", tools.make_builtins, settings=tools.BuiltinSettings)
    add("tool.Source", "mcp", tools.make_mcp, settings=tools.McpSettings)
    source = {"tool": Dep("tool.Source", required=True, many=True)}
    add("tool.Assembly", "memory", tools.make_assembly, deps=source)
    add("agent.ScriptRuntime", "js", scripts.runtime(JsRuntime), settings=scripts.JsSettings)
    add("agent.ScriptRuntime", "lua", scripts.runtime(LuaRuntime), settings=scripts.LuaSettings)
    add(
        "graph.NodeType",
        "script",
        scripts.make_node_type,
        deps={scripts.RUNTIME: Dep("agent.ScriptRuntime", required=True), **scripts.SURFACE},
        settings=scripts.NodeTypeSettings,
    )
    add(
        "agent.ScriptBindings",
        "standard",
        scripts.make_standard,
        deps=scripts.SURFACE,
        settings=scripts.SurfaceSettings,
    )
    add("agent.ScriptBindings", "none", lambda _: NoBindings())
    add("checkpoint.Store", "memory", lambda _: MemoryCheckpoints())
    add("checkpoint.Store", "sqlite", places.stored(SqliteCheckpoints), settings=places.PathSettings)
    add("checkpoint.Store", "files", places.stored(FileCheckpoints), settings=places.PathSettings)
    add("agent.Engine", "graph", engine.make_graph, deps=engine.DEPS, settings=engine.GraphSettings)


def _has(*methods: str) -> Callable[[Any], bool]:
    return lambda value: all(callable(getattr(value, method, None)) for method in methods)


def _provider(value: Any) -> bool:
    return models.Provider.of(value) is not None


def _router(value: Any) -> bool:
    return isinstance(value, list) and models.Provider.of(value) is not None


def _functions(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(callable, cast("Mapping[str, Any]", value).values()))


def _tools(value: Any) -> bool:
    return isinstance(value, ToolSource) or (
        isinstance(value, Sequence) and all(isinstance(item, Tool) for item in cast("Sequence[Any]", value))
    )


_VALUES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "agent.Engine": ("a Runnable", lambda value: isinstance(value, Runnable)),
    "agent.ScriptBindings": ("an object with bind(invocation)", _has("bind")),
    "agent.ScriptRuntime": ("an object with exec(...) and close()", _has("exec", "close")),
    "checkpoint.Store": ("a CheckpointStore", _has("save", "load", "list", "delete")),
    "event.Bus": ("an EventBus", lambda value: isinstance(value, EventBus)),
    "graph.NodeType": ("a NodeType", lambda value: isinstance(value, NodeType)),
    "hook.commit": ("a function of the board", callable),
    "hook.prepare": ("a function of the board", callable),
    "hook.referee": ("a function of the board", callable),
    "inference.Extension": ("functions by 'provider/id'", _functions),
    "inference.Provider": ("models by 'provider/name', or Target objects", _provider),
    "inference.Assembly": ("an Assembly", lambda value: isinstance(value, models.Assembly)),
    "inference.Router": ("a list of Target objects", _router),
    "sandbox.Runner": ("a Sandbox", lambda value: isinstance(value, Sandbox)),
    "tool.Assembly": ("a ToolAssembly", lambda value: isinstance(value, tools.ToolAssembly)),
    "workspace.Workspace": ("a Workspace", lambda value: isinstance(value, Workspace)),
    "tool.Source": ("a list of Tool objects, or a ToolSource", _tools),
}
"""By kind: what its value must be, in words and as a check."""


def checked(type: ResourceType, value: Any) -> Any:
    """What is used of `value`, which is what its kind needs. Raises `ConfigError`."""
    if type.items is not None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{type.kind}/{type.impl} has items, so it is a mapping, not {_kind(value)}")
        kind, values = type.items, list(cast("Mapping[str, Any]", value).values())
    else:
        kind, values = type.kind, [value]
    needed, fits = _VALUES.get(kind, ("", lambda _: True))
    for one in values:
        if not fits(one):
            raise ConfigError(f"the factory of {type.kind}/{type.impl} gave {_kind(one)}; {kind} is {needed}")
    return models.Provider.of(value) if type.kind == "inference.Provider" else cast("Any", value)


def _kind(value: object) -> str:
    return type(value).__name__
