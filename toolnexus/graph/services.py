"""What the nodes of a graph may use of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import toolnexus.graph
from toolnexus.core.options import wrong
from toolnexus.runtime.context import Runnable


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Models, tools, script runtimes and the rest, each optional: a graph that needs what is missing
    cannot be built.

    * `models`: a `Model`, or models by name (`"provider/name"` or `"name"`): what `inference` nodes may ask.
    * `router`: the models, in order, among which a node without `model` chooses; None: those of `models`.
      False: there is none, each node must name its model.
    * `extensions`: by `"provider/id"`, what settings of one provider mean: a function of their fields that
      returns members of a request's body, and raises `ValueError` for fields that it refuses.
    * `toolkit`: a `Toolkit`, a list of tools, or a function that returns one of these.
    * `scripts`: script runtimes by name.
    * `agents`: what `agent` nodes may run, by name.
    * `workspace`: the folder of `fs` in scripts, or a `Workspace`. `sandbox`: a `Sandbox` for `shell`.
    * `script_bindings`: a provider that replaces the globals of all scripts.
    """

    models: Any = None
    router: Any = None
    extensions: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = field(
        default_factory=dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]
    )
    toolkit: Any = None
    scripts: Mapping[str, toolnexus.graph.scripts.runtime.ScriptRuntime] = field(
        default_factory=dict[str, Any]
    )
    agents: Mapping[str, Runnable] | Callable[[], Mapping[str, Runnable]] = field(
        default_factory=dict[str, Runnable]
    )
    workspace: Any = None
    sandbox: Any = None
    script_bindings: Any = None

    def __post_init__(self) -> None:
        """Raises `ConfigError` for models, a workspace, a sandbox and a provider that is none."""
        if self.models is not None or self.router is not None:
            from toolnexus.graph.inference.targets import check_models

            check_models(self.models, self.router)
        if isinstance(self.workspace, str | Path):
            from toolnexus.graph.workspace import Workspace

            object.__setattr__(self, "workspace", Workspace(self.workspace))
        if self.sandbox is not None and not hasattr(self.sandbox, "exec"):
            raise wrong("Services: sandbox", self.sandbox, "give a Sandbox")
        if self.script_bindings is not None and not hasattr(self.script_bindings, "bind"):
            raise wrong(
                "Services: script_bindings", self.script_bindings, "give a provider with a method bind"
            )

    def wired(self, dep: str, script_runtime_name: str = "js") -> bool:
        """Whether a dependency of a node is there: `inference`, `router`, `tools`, `agents`, `workspace`,
        `sandbox`, `script_bindings` or `script_runtime`, which is the one of the given name, unless the
        dependency names another: `script_runtime:lua`."""
        dep, _, named = dep.partition(":")
        if dep == "script_runtime":
            return (named or script_runtime_name) in self.scripts
        if dep == "router":
            return self.router is not False and (self.models is not None or self.router is not None)
        held = {"inference": self.models, "tools": self.toolkit, "agents": self.agents}
        value = held[dep] if dep in held else getattr(self, dep)
        return bool(value) if dep == "agents" else value is not None
