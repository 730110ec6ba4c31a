"""From a definition to a graph that runs: types, conditions, roles, files and services, all checked."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

import toolnexus.graph
from toolnexus.core.files import read_text, reason
from toolnexus.core.names import did_you_mean
from toolnexus.errors import ErrorKind
from toolnexus.graph.analyze import analyze
from toolnexus.graph.board import MAIN_CHANNEL, copied
from toolnexus.graph.definition import (
    END,
    MOST_BYTES,
    GraphDefinition,
    NodeDef,
    digest_of,
    issues_of,
    placed,
    validate,
)
from toolnexus.graph.errors import GraphError, GraphRunError, Issue
from toolnexus.graph.expr import Condition, ExprSyntaxError
from toolnexus.graph.options import BuildOptions
from toolnexus.graph.registry import NodeType, Registry, Role
from toolnexus.graph.services import Services

logger = logging.getLogger("toolnexus.graph.build")

LONGEST_TOKEN = 255
"""Bytes; so the three of a subject are together less than the 1,024 that it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRole:
    """A role with the name of what it reads or writes."""

    kind: str
    key: str
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltNode:
    """A node that can run."""

    id: str
    type: NodeType
    config: Mapping[str, Any]
    """Files and embedded texts are in their places."""
    dynamic: bool
    """Whether the config holds references."""
    skip: Condition | None
    reads: tuple[BuiltRole, ...]
    writes: tuple[BuiltRole, ...]
    services: Services
    edges: tuple[tuple[str, Condition | None], ...]
    """Its targets but `__end__`, in the order of the document."""
    actor: str
    """How subjects call it, without the agent."""

    def decode(self, config: Mapping[str, Any]) -> Any:
        """The config as its type wants it. Raises `GraphRunError` (validation)."""
        model = self.type.config
        if model is None:
            return copied(config, "config")
        try:
            return model.model_validate(config)
        except ValidationError as error:
            found = "; ".join(str(issue) for issue in issues_of(error, "config"))
            raise GraphRunError(f"node {self.id!r}: {found}", kind="validation") from None


def build(
    definition: GraphDefinition | Mapping[str, Any],
    registry: Registry | None = None,
    options: BuildOptions | None = None,
    *,
    script_runtime_name: str = "js",
    embedded: Mapping[str, str] | None = None,
    description: str = "",
) -> toolnexus.graph.Graph:
    """A graph that runs, a Runnable. `definition` may also be the plain data of one.

    `registry` has the node types and their services (None: the built-in ones, with none), `embedded` the
    texts of `{embed: name}`, `description` is what the model of a caller chooses by. Findings about the
    shape are in `graph.warnings`, and logged. Raises `GraphError` with all that is wrong: `validation`, or
    `not_found` for a type or a service that is missing.
    """
    from toolnexus.graph.graph import Graph

    registry = registry or Registry.standard()
    if not isinstance(definition, GraphDefinition):
        definition = GraphDefinition.from_data(definition)
    if issues := validate(definition):
        raise GraphError(definition.name, placed(issues, definition.lines))
    builder = _Builder(definition, registry, script_runtime_name, embedded or {})
    nodes = [builder.node(n, node) for n, node in enumerate(definition.nodes)]
    if builder.issues:
        raise GraphError(definition.name, placed(builder.issues, definition.lines))
    built = {node.id: node for node in nodes if node is not None}
    warnings = analyze(definition, built)
    for finding in warnings:
        logger.warning("graph build warning: graph %r: %s", definition.name, finding)
    return Graph(
        definition=definition,
        nodes=built,
        options=options or BuildOptions(),
        script_runtime_name=script_runtime_name,
        warnings=tuple(warnings),
        description=description,
    )


class _Builder:
    def __init__(
        self,
        definition: GraphDefinition,
        registry: Registry,
        script_runtime_name: str,
        embedded: Mapping[str, str],
    ) -> None:
        self._definition = definition
        self._registry = registry
        self._script_runtime_name = script_runtime_name
        self._embedded = embedded
        self.issues: list[Issue] = []
        self._edges: dict[str, list[tuple[str, Condition | None]]] = {}
        for n, edge in enumerate(definition.edges):
            condition = self._condition(edge.condition, f"edges[{n}].condition")
            if edge.to != END:
                self._edges.setdefault(edge.from_, []).append((edge.to, condition))

    def node(self, n: int, node: NodeDef) -> BuiltNode | None:
        """The node, or None when something is wrong with it."""
        path = f"nodes[{n}]"
        skip = self._condition(node.skip_condition, f"{path}.skip_condition")
        node_type = self._registry.get(node.type)
        if node_type is None:
            known = self._registry.names()
            near = did_you_mean(node.type, known)
            self._wrong(
                f"{path}.type",
                f"no node type {node.type!r} is registered{near}; registered: {', '.join(known) or 'none'}",
                ErrorKind.NOT_FOUND,
            )
            return None
        services = self._services(node_type)
        self._check_fields(node_type.config, node.config, f"{path}.config")
        config = self._with_texts(node_type, node.config, f"{path}.config")
        told = {key: value for key, value in config.items() if key not in node_type.verbatim}
        dynamic = "${board" in json.dumps(told, default=str)  # also what is escaped or malformed
        if node_type.check is not None:
            for issue in node_type.check(config, self._script_runtime_name):
                where = f"{path}.config{'.' if issue.path else ''}{issue.path}"
                self.issues.append(replace(issue, path=where))
        if node_type.needs is not None:
            for dep in node_type.needs(config):
                if not services.wired(dep, self._script_runtime_name):
                    self._wrong(path, _missing(node, dep, self._script_runtime_name), ErrorKind.NOT_FOUND)
        return BuiltNode(
            id=node.id,
            type=node_type,
            config=config,
            dynamic=dynamic,
            skip=skip,
            reads=tuple(self._roles(node_type.reads, node, path)),
            writes=tuple(self._roles(node_type.writes, node, path)),
            services=services,
            edges=tuple(self._edges.get(node.id, ())),
            actor=token(f"node_{node.id}"),
        )

    def _services(self, node_type: NodeType) -> Services:
        """What nodes of a type may use. The globals of scripts are the registry's to say, for all types."""
        own, shared = node_type.services, self._registry.services
        if own is None:
            return shared
        return own if shared.script_bindings is None else replace(own, script_bindings=shared.script_bindings)

    def _wrong(self, path: str, message: str, kind: ErrorKind = ErrorKind.VALIDATION) -> None:
        self.issues.append(Issue(message=message, path=path, kind=kind))

    def _condition(self, text: str, path: str) -> Condition | None:
        if not text:
            return None
        try:
            return Condition(text)
        except ExprSyntaxError as error:
            self._wrong(path, f"the condition {text!r} does not compile: {error}")
            return None

    def _check_fields(self, model: type[BaseModel] | None, config: Mapping[str, Any], path: str) -> None:
        if model is None:
            return
        allowed = {name: None for key, f in model.model_fields.items() for name in (key, f.alias) if name}
        for key in config:
            if key not in allowed:
                near = did_you_mean(key, allowed)
                known = ", ".join(sorted(model.model_fields))
                self._wrong(f"{path}.{key}", f"unknown field {key!r}{near}; allowed: {known}")

    def _with_texts(self, node_type: NodeType, config: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        """The config with files and embedded texts in their places."""
        changed: dict[str, Any] = {}
        for key in node_type.texts:
            value = config.get(key)
            if isinstance(value, Mapping):
                text = self._text(cast("Mapping[str, Any]", value), f"{path}.{key}")
                if text is not None:
                    changed[key] = text
        return {**config, **changed}

    def _text(self, value: Mapping[str, Any], path: str) -> str | None:
        try:
            return literal(value, self._definition.folder, self._embedded)
        except ValueError as error:
            self._wrong(path, str(error))
            return None

    def _roles(self, roles: Sequence[Role], node: NodeDef, path: str) -> list[BuiltRole]:
        out: list[BuiltRole] = []
        for role in roles:
            key: Any = role.name
            where = f"{path}.config.{role.config_key}"
            if role.config_key is not None:
                key = node.config.get(role.config_key)
                if key is None and role.kind == "var":
                    if role.required:
                        self._wrong(where, "it must name a variable")
                    continue
                if key is not None and (not isinstance(key, str) or "${" in key):
                    self._wrong(where, f"{key!r} must be a plain name, which is known before the graph runs")
                    continue
                if key == "" and role.kind == "var":
                    self._wrong(where, "it must name a variable; it is empty")
                    continue
            out.append(BuiltRole(kind=role.kind, key=key or MAIN_CHANNEL, required=role.required))
        return out


def literal(value: Mapping[str, Any], folder: Path | None, embedded: Mapping[str, str]) -> str:
    """The text of `{file: path}` or `{embed: name}`. Raises `ValueError`."""
    if len(value) != 1 or not isinstance(next(iter(value.values())), str):
        raise ValueError("write text, {file: path} or {embed: name}")
    if "embed" in value:
        if value["embed"] not in embedded:
            known = ", ".join(sorted(embedded)) or "none"
            raise ValueError(f"no text {value['embed']!r} is embedded; embedded: {known}")
        return embedded[value["embed"]]
    if "file" not in value:
        raise ValueError(f"write text, {{file: path}} or {{embed: name}}, not {next(iter(value))!r}")
    name = value["file"]
    if folder is None:
        raise ValueError(f"the file {name!r} has no folder to lie in; read the graph from a file")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"the file {name!r} lies outside the folder of the graph")
    try:
        return read_text(path, MOST_BYTES)
    except OSError as error:
        raise ValueError(f"the file {name!r} cannot be read: {reason(error)}") from None
    except ValueError as error:
        raise ValueError(f"the file {name!r} cannot be read: {error}") from None


def token(text: str) -> str:
    """`text` as one token of a subject, of at most 255 bytes."""
    out = "".join(["_" if c in ".*> \t\r\n" else c for c in text]) or "_"
    if len(out) < 64 or len(raw := out.encode(errors="replace")) <= LONGEST_TOKEN:
        return out
    return f"{raw[: LONGEST_TOKEN - 17].decode(errors='ignore')}_{digest_of(text)}"


def _missing(node: NodeDef, dep: str, script_runtime_name: str) -> str:
    dep, _, named = dep.partition(":")
    script_runtime_name = named or script_runtime_name
    told = {
        "inference": "models: Services(models=...)",
        "router": "a router, for it names no model: Services(models=...)",
        "tools": "tools: Services(toolkit=...)",
        "script_runtime": f"the script runtime {script_runtime_name!r}: "
        f"Services(scripts={{{script_runtime_name!r}: ...}})",
        "agents": "agents: Services(agents={...})",
    }
    return f"node {node.id!r} of type {node.type!r} needs {told.get(dep, dep)}"
