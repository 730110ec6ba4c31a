"""The kinds and impls that come along. What is made elsewhere in the package is met here, and only here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError
from toolnexus.graph.bus import EventBus
from toolnexus.graph.checkpoint import FileCheckpoints, MemoryCheckpoints
from toolnexus.graph.checkpoint_sqlite import SqliteCheckpoints
from toolnexus.graph.deployment import engine, models, surfaces, tools
from toolnexus.graph.deployment.resources import Dep, ResourceInput, ResourceRegistry, ResourceType
from toolnexus.graph.durations import Duration
from toolnexus.graph.nodes.script import script_backed
from toolnexus.graph.registry import NodeType, Role
from toolnexus.graph.sandbox import Sandbox
from toolnexus.graph.scripts import JsRuntime, LuaRuntime
from toolnexus.graph.scripts.bindings import NoBindings
from toolnexus.graph.workspace import Workspace
from toolnexus.runtime.context import Runnable
from toolnexus.tools.source import ToolSource


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PathSettings(_Settings):
    """Where checkpoints are kept."""

    path: str = Field(min_length=1)
    """Seen from the folder of the deployment."""


class WorkspaceSettings(_Settings):
    """The settings of `workspace.Workspace/local`."""

    root: str = Field(min_length=1)
    """The folder, seen from that of the deployment."""
    allow: list[str] | None = None
    deny: list[str] = Field(default_factory=list[str])


def make_workspace(given: ResourceInput) -> Workspace:
    """The folder of the settings. Raises `ConfigError` for one that is none, and for a wrong glob."""
    settings: WorkspaceSettings = given.settings
    return Workspace(given.path(settings.root), allow=settings.allow, deny=settings.deny)


class SandboxSettings(_Settings):
    """The settings of `sandbox.Runner/local`."""

    root: str = Field(min_length=1)
    """The folder, seen from that of the deployment."""
    allow: list[str] | None = None
    timeout: Annotated[Duration, Field(ge=0, strict=False)] = 30.0
    environment: dict[str, str] | None = None
    isolation: Literal["auto"] | bool = "auto"
    network: bool = False


def make_sandbox(given: ResourceInput) -> Sandbox:
    """The sandbox of the settings. Raises `ConfigError` for a folder that is none."""
    settings: SandboxSettings = given.settings
    return Sandbox(given.path(settings.root), **settings.model_dump(exclude={"root"}))


class LuaSettings(_Settings):
    """The settings of `agent.ScriptRuntime/lua`."""

    pool_size: Annotated[int, Field(gt=0)] | None = None
    max_exec_time: Annotated[Duration, Field(ge=0, strict=False)] = 30.0


class JsSettings(LuaSettings):
    """The settings of `agent.ScriptRuntime/js`."""

    max_call_stack_size: Annotated[int, Field(gt=0)] | None = None


def _runtime(kind: Callable[..., Any]) -> Callable[[ResourceInput], Any]:
    def make(given: ResourceInput) -> Any:
        settings: LuaSettings = given.settings
        return kind(**{name: getattr(settings, name) for name in settings.model_fields_set})

    return make


class RoleSettings(_Settings):
    """What a node reads or writes."""

    kind: Literal["var", "messages"] = "var"
    name: str | None = Field(default=None, min_length=1)
    config_key: str | None = Field(default=None, min_length=1)
    required: bool = False

    @model_validator(mode="after")
    def _one_name(self) -> RoleSettings:
        if bool(self.name) == bool(self.config_key):
            raise ValueError("a role needs exactly one of name and config_key")
        return self


class NodeTypeSettings(_Settings):
    """The settings of `graph.NodeType/script`."""

    type: str = Field(min_length=1)
    source: str | dict[str, str]
    desc: str = ""
    reads: list[RoleSettings] = Field(default_factory=list[RoleSettings])
    writes: list[RoleSettings] = Field(default_factory=list[RoleSettings])


def make_node_type(given: ResourceInput) -> NodeType:
    """A type of nodes that are scripts. Raises `GraphError`, and `ValueError` for its source."""
    settings: NodeTypeSettings = given.settings
    try:
        source = given.text(settings.source)
    except ValueError as error:
        raise ValueError(f"settings.source: {error}") from None
    return script_backed(
        settings.type,
        source,
        [_role(role) for role in settings.reads],
        [_role(role) for role in settings.writes],
        settings.desc,
        engine.services_of(given, _RUNTIME),
        _RUNTIME,
    )


def _role(settings: RoleSettings) -> Role:
    return Role(**settings.model_dump())


_RUNTIME = "script_runtime"
"""How a type of nodes calls its own runtime, whatever its graph calls the one of its script nodes."""

_SURFACE: Mapping[str, Dep] = {
    name: engine.DEPS[name] for name in ("tools", "inference", "router", "workspace", "sandbox")
}
"""What globals of scripts are made of."""


def add_standard(registry: ResourceRegistry) -> None:
    """Register everything that comes along."""
    add = registry.register
    add("event.Bus", "memory", lambda _: EventBus())
    add("workspace.Workspace", "local", make_workspace, settings=WorkspaceSettings)
    add("sandbox.Runner", "local", make_sandbox, settings=SandboxSettings)
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
    add("agent.ScriptRuntime", "js", _runtime(JsRuntime), settings=JsSettings)
    add("agent.ScriptRuntime", "lua", _runtime(LuaRuntime), settings=LuaSettings)
    scripted = {_RUNTIME: Dep("agent.ScriptRuntime", required=True)}
    add("graph.NodeType", "script", make_node_type, deps={**scripted, **_SURFACE}, settings=NodeTypeSettings)
    standard = (surfaces.make_standard, _SURFACE, surfaces.SurfaceSettings)
    add("agent.ScriptBindings", "standard", standard[0], deps=standard[1], settings=standard[2])
    add("agent.ScriptBindings", "none", lambda _: NoBindings())
    add("checkpoint.Store", "memory", lambda _: MemoryCheckpoints())
    add("checkpoint.Store", "sqlite", _stored(SqliteCheckpoints), settings=PathSettings)
    add("checkpoint.Store", "files", _stored(FileCheckpoints), settings=PathSettings)
    add("agent.Engine", "graph", engine.make_graph, deps=engine.DEPS, settings=engine.GraphSettings)


def _stored(kind: Callable[[Path], Any]) -> Callable[[ResourceInput], Any]:
    return lambda given: kind(given.path(given.settings.path))


def _has(*methods: str) -> Callable[[Any], bool]:
    return lambda value: all(callable(getattr(value, method, None)) for method in methods)


def _provider(value: Any) -> bool:
    return models.Provider.of(value) is not None


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
    "event.Bus": ("an object with publish(...) and subscribe(...)", _has("publish", "subscribe")),
    "graph.NodeType": ("a NodeType", lambda value: isinstance(value, NodeType)),
    "hook.commit": ("a function of the board", callable),
    "hook.prepare": ("a function of the board", callable),
    "hook.referee": ("a function of the board", callable),
    "inference.Extension": ("functions by 'provider/id'", _functions),
    "inference.Provider": ("models by 'provider/name', or Target objects", _provider),
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


def narrowed(assembly: Any, names: Sequence[str]) -> Any:
    """A view of the tools of these names. Raises `ConfigError` for an unknown one."""
    return assembly.only(names)
