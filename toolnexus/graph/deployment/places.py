"""Workspaces, sandboxes and stores: what of a deployment lies on a disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolnexus.graph.deployment.resources import ResourceInput
from toolnexus.graph.durations import Duration
from toolnexus.graph.sandbox import Sandbox
from toolnexus.graph.workspace import Workspace


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PathSettings(_Strict):
    """Where checkpoints are kept."""

    path: str = Field(min_length=1)
    """Seen from the folder of the deployment."""


class WorkspaceSettings(_Strict):
    """The settings of `workspace.Workspace/local`."""

    root: str = Field(min_length=1)
    """The folder, seen from that of the deployment."""
    allow: list[str] | None = None
    deny: list[str] = Field(default_factory=list[str])


def make_workspace(given: ResourceInput) -> Workspace:
    """The folder of the settings. Raises `ConfigError` for one that is none, and for a wrong glob."""
    settings: WorkspaceSettings = given.settings
    return Workspace(given.path(settings.root), allow=settings.allow, deny=settings.deny)


class SandboxSettings(_Strict):
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


def stored(kind: Callable[[Path], Any]) -> Callable[[ResourceInput], Any]:
    """The factory of a store at a path."""
    return lambda given: kind(given.path(given.settings.path))
