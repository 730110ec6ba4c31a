"""Scripts of a deployment: runtimes, types of nodes that are scripts, and the standard globals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolnexus.graph.deployment.engine import DEPS, services_of
from toolnexus.graph.deployment.resources import Dep, ResourceInput
from toolnexus.graph.deployment.tools import ToolAssembly
from toolnexus.graph.durations import Duration
from toolnexus.graph.nodes.script import script_backed
from toolnexus.graph.registry import NodeType, Role
from toolnexus.graph.scripts.standard import StandardBindings

_Bytes = Annotated[int, Field(gt=0)] | None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LuaSettings(_Strict):
    """The settings of `agent.ScriptRuntime/lua`."""

    pool_size: Annotated[int, Field(gt=0)] | None = None
    max_exec_time: Annotated[Duration, Field(ge=0, strict=False)] = 30.0


class JsSettings(LuaSettings):
    """The settings of `agent.ScriptRuntime/js`."""

    max_call_stack_size: Annotated[int, Field(gt=0)] | None = None


def runtime(kind: Callable[..., Any]) -> Callable[[ResourceInput], Any]:
    """The factory of a runtime. What the document does not say is up to the runtime."""

    def make(given: ResourceInput) -> Any:
        settings: LuaSettings = given.settings
        return kind(**settings.model_dump(exclude_unset=True, exclude_none=True))

    return make


class RoleSettings(_Strict):
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


class NodeTypeSettings(_Strict):
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
        services_of(given, RUNTIME),
        RUNTIME,
    )


def _role(settings: RoleSettings) -> Role:
    return Role(**settings.model_dump())


RUNTIME = "script_runtime"
"""How a type of nodes calls its own runtime, whatever its graph calls the one of its script nodes."""

SURFACE: Mapping[str, Dep] = {
    name: DEPS[name] for name in ("tools", "inference", "router", "workspace", "sandbox")
}
"""What globals of scripts are made of."""


class ToolsPolicy(_Strict):
    """Which tools scripts may call: those of `allow` (`[]`: none), or all."""

    allow: list[str] | None = None
    allow_all: bool = False

    @model_validator(mode="after")
    def _one(self) -> ToolsPolicy:
        if (self.allow is not None) == self.allow_all:
            raise ValueError("give either allow, a list of names, or allow_all: true")
        return self


class FsPolicy(_Strict):
    """How much one call may read or write."""

    max_read_bytes: _Bytes = None
    max_write_bytes: _Bytes = None


class ShellPolicy(_Strict):
    """The commands that may run, as written or by their last name; `[]`: none."""

    allow: list[str]


class SurfaceSettings(_Strict):
    """The settings of `agent.ScriptBindings/standard`."""

    tools: ToolsPolicy | None = None
    fs: FsPolicy | None = None
    shell: ShellPolicy | None = None


class _Checked(StandardBindings):
    """Bindings whose tools are known once they are open."""

    view: ToolAssembly

    async def open(self) -> None:
        self.view.check()


def make_standard(given: ResourceInput) -> StandardBindings:
    """The standard globals over the wired deps.

    Raises `ValueError` for a section without its dep, and `ConfigError` for a tool that is not there; where
    tools are known later, that comes when the deployment is opened.
    """
    settings: SurfaceSettings = given.settings
    for section, dep in (("tools", "tools"), ("fs", "workspace"), ("shell", "sandbox")):
        if getattr(settings, section) is not None and dep not in given.deps:
            raise ValueError(f"settings.{section}: the dep {dep!r} is missing, which it is about")
    tools, fs = settings.tools, settings.fs or FsPolicy()
    options: dict[str, Any] = {
        "tools": None if tools is None else tools.allow_all or tools.allow,
        "max_read_bytes": fs.max_read_bytes,
        "max_write_bytes": fs.max_write_bytes,
        "shell": None if settings.shell is None else settings.shell.allow,
    }
    services = services_of(given, "")
    assembly: ToolAssembly | None = given.deps.get("tools")
    if assembly is None or assembly.fixed or tools is None or not tools.allow:
        return StandardBindings(services, **options)
    surface = _Checked(services, **options)
    surface.view = assembly.only(tools.allow)
    return surface
