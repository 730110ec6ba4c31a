"""The JSON Schema of a graph document, for editors. `schema.json` beside this file is its output."""

from __future__ import annotations

from typing import Any

from toolnexus.graph.definition import END, GraphDefinition
from toolnexus.graph.registry import NodeType

_TOLD = {
    "name": "What it is called.",
    "version": "What checkpoints are stamped with; when it changes they are refused. Default: the name.",
    "entry": "The id of the first node.",
    "nodes": "The nodes, in any order.",
    "edges": "The ways between them. Of one node they are looked at in this order.",
    "id": "What edges call it.",
    "type": "inference, tool, script, agent, or a type of the host.",
    "config": "What its type wants. In texts ${board:name} and ${board:name:default} stand for variables.",
    "skip_condition": "An expression over the variables; when true it is passed over, and its edges hold.",
    "from": "The id of a node.",
    "to": f"The id of a node, or {END}, which ends this path.",
    "condition": "An expression over the variables and __iterations; without one the edge always holds.",
}


def json_schema() -> dict[str, Any]:
    """The schema. Of the built-in node types it knows the fields of `config`, not their values.

    These may be references, and are checked when a graph is built and run.
    """
    from toolnexus.graph.nodes import BUILT_IN

    schema: dict[str, Any] = GraphDefinition.model_json_schema(by_alias=True)
    node, edge = schema["$defs"]["NodeDef"], schema["$defs"]["EdgeDef"]
    for table, needed in (
        (schema, ("name", "entry", "nodes")),
        (node, ("id", "type")),
        (edge, ("from", "to")),
    ):
        table["required"] = list(needed)
        for name, told in table["properties"].items():
            told.pop("title", None)
            told.pop("default", None)
            told["description"] = _TOLD[name]
    for table, name in ((schema, "name"), (schema, "entry"), (node, "type")):
        table["properties"][name]["minLength"] = 1
    node["properties"]["id"]["pattern"] = "^(?!__)."
    schema["properties"]["nodes"]["minItems"] = 1
    node["allOf"] = [_of_type(built_in) for built_in in BUILT_IN]
    schema["title"], schema["description"] = "toolnexus graph document", "Nodes, and the ways between them."
    node["title"], edge["title"] = "node", "edge"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _of_type(node_type: NodeType) -> dict[str, Any]:
    """What holds for nodes of one type."""
    assert node_type.config is not None
    fields = node_type.config.model_fields
    config: dict[str, Any] = {"properties": {f.alias or key: {} for key, f in fields.items()}}
    then: dict[str, Any] = {"properties": {"config": {**config, "additionalProperties": False}}}
    if needed := [f.alias or key for key, f in fields.items() if f.is_required()]:
        then["properties"]["config"]["required"] = needed
        then["required"] = ["config"]
    return {"if": {"properties": {"type": {"const": node_type.name}}, "required": ["type"]}, "then": then}
