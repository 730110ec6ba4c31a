"""`agent.ScriptBindings/standard`: the standard globals of scripts, and what they may do."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolnexus.graph.deployment.engine import services_of
from toolnexus.graph.deployment.resources import ResourceInput
from toolnexus.graph.deployment.tools import ToolAssembly
from toolnexus.graph.scripts.standard import StandardBindings

_Bytes = Annotated[int, Field(gt=0)] | None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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
