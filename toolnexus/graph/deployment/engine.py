"""`agent.Engine/graph`: a graph of the document, over the resources that are wired to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from toolnexus.errors import ErrorKind
from toolnexus.graph.build import build
from toolnexus.graph.definition import GraphDefinition, lines_of, placed
from toolnexus.graph.deployment.resources import Dep, ResourceInput
from toolnexus.graph.errors import GraphError, Issue
from toolnexus.graph.graph import Graph
from toolnexus.graph.options import BuildOptions
from toolnexus.graph.registry import Registry
from toolnexus.graph.services import Services

DEPS: Mapping[str, Dep] = {
    "inference": Dep("inference.Assembly"),
    "router": Dep("inference.Router"),
    "tools": Dep("tool.Assembly"),
    "script_runtime": Dep("agent.ScriptRuntime"),
    "script_bindings": Dep("agent.ScriptBindings"),
    "workspace": Dep("workspace.Workspace"),
    "sandbox": Dep("sandbox.Runner"),
    "node_type": Dep("graph.NodeType", many=True),
}
"""What an engine takes. What it must have follows from its graph."""


def _graph(value: Any) -> Any:
    if not isinstance(value, (str, Mapping)):
        raise ValueError("write the graph itself, as a table or as text, or {file: path}, or {embed: name}")
    return cast("Any", value)


class GraphSettings(BaseModel):
    """The settings of a graph engine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    graph: Annotated[str | dict[str, Any], BeforeValidator(_graph)]
    """The graph: a table, a text, `{file: path}` or `{embed: name}`."""
    script_runtime_name: str = Field(default="js", min_length=1, strict=True)
    """How script nodes call the runtime that is wired as `script_runtime`."""
    build: BuildOptions = BuildOptions()


def make_graph(given: ResourceInput) -> Graph:
    """The graph of an agent. Raises `GraphError` with paths below `engine`."""
    settings: GraphSettings = given.settings
    name = settings.script_runtime_name
    definition, read_from, lines = _definition(given, settings.graph)
    services = services_of(given, name)
    registry = Registry.standard(services)
    issues: list[Issue] = []
    if "script_runtime" not in given.deps and "script_runtime_name" in settings.model_fields_set:
        issues.append(
            Issue(
                message="it names the dep 'script_runtime', which is not wired",
                path="settings.script_runtime_name",
            )
        )
    for key, node_type in given.deps.get("node_type", {}).items():
        try:
            registry.add(node_type)
        except GraphError as error:
            issues += [
                replace(issue, path=f'deps."{key}"' if "." in key else f"deps.{key}")
                for issue in error.issues
            ]
    issues += _needs(definition, registry, name)
    if issues:
        raise GraphError(definition.name, issues)
    try:
        return build(
            definition,
            registry,
            settings.build,
            script_runtime_name=name,
            embedded=given.embedded,
        )
    except GraphError as error:
        raise GraphError(definition.name, _located(error.issues, read_from, lines)) from None


def services_of(given: ResourceInput, script_runtime_name: str) -> Services:
    """The services of an engine, or of a node type of its own, out of its deps."""
    deps = given.deps
    runtime, models, tools = deps.get("script_runtime"), deps.get("inference"), deps.get("tools")
    return Services(
        models=None if models is None else models.targets,
        router=deps.get("router", False),
        extensions={} if models is None else models.extensions,
        toolkit=tools() if tools is not None and tools.fixed else tools,
        scripts={} if runtime is None else {script_runtime_name: runtime},
        agents=given.agents,
        workspace=deps.get("workspace"),
        sandbox=deps.get("sandbox"),
        script_bindings=deps.get("script_bindings"),
    )


def _definition(
    given: ResourceInput, graph: str | Mapping[str, Any]
) -> tuple[GraphDefinition, str, Mapping[str, int]]:
    """The definition, where its text was read from (empty: the document itself), and its lines."""
    if isinstance(graph, Mapping) and not (set(graph) & {"file", "embed"}):
        try:
            return GraphDefinition.from_data(graph, folder=given.folder), "", {}
        except GraphError as error:
            raise GraphError("", _located(error.issues, "", {})) from None
    try:
        text = given.text(graph)
    except ValueError as error:
        raise GraphError("", [Issue(message=str(error), path="settings.graph")]) from None
    read_from = "the text" if isinstance(graph, str) else next(iter(graph.values()))
    try:
        return GraphDefinition.from_text(text, folder=given.folder), read_from, lines_of(text)
    except GraphError as error:
        raise GraphError("", _located(error.issues, read_from, {})) from None


def _located(issues: Sequence[Issue], read_from: str, lines: Mapping[str, int]) -> list[Issue]:
    """Issues of a graph at their place in the document; of a graph in a text of its own also there."""
    if not read_from:
        return [replace(i, path=f"settings.graph{'.' if i.path else ''}{i.path}", line=None) for i in issues]
    found = placed(issues, lines) if lines else issues
    return [Issue(message=f"{read_from}: {i}", path="settings.graph", kind=i.kind) for i in found]


def _needs(definition: GraphDefinition, registry: Registry, script_runtime_name: str) -> list[Issue]:
    """The deps that the nodes cannot be without and that are not wired."""
    missing: dict[str, list[str]] = {}
    for node in definition.nodes:
        node_type = registry.get(node.type)
        if node_type is None or node_type.needs is None:
            continue
        services = node_type.services or registry.services
        for dep in node_type.needs(node.config):
            if not services.wired(dep, script_runtime_name):
                missing.setdefault(dep.partition(":")[0], []).append(node.id)
    return [
        Issue(
            message=f"the dep {dep!r} is missing, which {'nodes' if len(ids) > 1 else 'the node'} "
            f"{', '.join(map(repr, ids))} need{'' if len(ids) > 1 else 's'}: "
            f"a resource of kind {DEPS[dep].kind if dep in DEPS else dep}",
            path="deps",
            kind=ErrorKind.NOT_FOUND,
        )
        for dep, ids in missing.items()
    ]
