"""The JSON Schema of a deployment document, for editors. `schema.json` beside this file is its output."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel

from toolnexus.graph.deployment.document import NAME, Shape
from toolnexus.graph.deployment.resources import ResourceRegistry, ResourceType

_TOLD = {
    "version": "The version of this format.",
    "resources": "What agents use, by name. Each is made once.",
    "agents": "The agents, by name.",
    "runtime": "What all agents share.",
    "kind": "What it is: inference.Provider, tool.Source, agent.Engine, or a kind of the host.",
    "impl": "Which of that kind.",
    "deps": "What it takes from others: the name of a resource, or resource/item.",
    "settings": "What its impl wants. ${NAME}, ${NAME:-default}, ${base} and ${home} are filled in.",
    "card": "How others see it.",
    "name": "What others call it.",
    "description": "What it is for.",
    "tools": "The names of the tools that it may use. Default: all of its engine.",
    "engine": "What answers: a resource of kind agent.Engine.",
    "policy": "Bounds of one run.",
    "max_revise": "How many other attempts referees may ask for.",
    "run_timeout": "The time of all attempts together, such as 30s or 1h30m; 0: no limit.",
    "prepare": "Hooks before the first attempt.",
    "referees": "Hooks that may ask for another attempt.",
    "commit": "Hooks behind an attempt that nobody objects to.",
    "type": "The impl of a hook that the host registered.",
    "event_bus": "The name of a resource of kind event.Bus.",
    "checkpoint_store": "The name of a resource of kind checkpoint.Store.",
}


def deployment_schema() -> dict[str, Any]:
    """The JSON Schema of deployment documents.

    Of the resources that come along it knows deps and the fields of `settings`, not their values: these may
    be variables, and are checked when a document is deployed. Of resources of a host it says nothing.
    """
    schema: dict[str, Any] = Shape.model_json_schema()
    definitions = schema["$defs"]
    for table in (schema, *definitions.values()):
        del table["title"]
        for key, told in table["properties"].items():
            told.pop("title", None)
            told.pop("default", None)
            if key in ("deps", "settings"):  # nothing may stand behind these keys
                told["type"] = ["object", "null"]
            told["description"] = _TOLD[key]
    for key in ("resources", "agents"):
        schema["properties"][key]["propertyNames"] = {"pattern": f"^{NAME.pattern}$"}
    definitions["Policy"]["properties"]["run_timeout"] = {
        "description": _TOLD["run_timeout"],
        "anyOf": [{"type": "string"}, {"const": 0}],
    }
    definitions["ResourceEntry"]["allOf"] = [_of_type(known) for known in ResourceRegistry.standard()]
    schema["title"], schema["description"] = "toolnexus deployment document", "Agents, and what they use."
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _of_type(known: ResourceType) -> dict[str, Any]:
    """What holds for resources of one kind and impl."""
    keys = [re.escape(key) + (r"(\..+)?" if dep.many else "") for key, dep in known.deps.items()]
    deps: dict[str, Any] = (
        {"propertyNames": {"pattern": f"^({'|'.join(keys)})$"}} if keys else {"maxProperties": 0}
    )
    if needed := [key for key, dep in known.deps.items() if dep.required and not dep.many]:
        deps["required"] = needed
    then: dict[str, Any] = {"properties": {"deps": deps, "settings": _of_settings(known)}}
    if required := [key for key in ("deps", "settings") if "required" in then["properties"][key]]:
        then["required"] = required
    is_it = {"kind": {"const": known.kind}, "impl": {"const": known.impl}}
    return {"if": {"properties": is_it, "required": list(is_it)}, "then": then}


def _of_settings(known: ResourceType) -> dict[str, Any]:
    if known.settings is None:
        return {"maxProperties": 0}
    if not issubclass(known.settings, BaseModel):
        return {}
    fields = known.settings.model_fields
    settings: dict[str, Any] = {
        "properties": {field.alias or key: {} for key, field in fields.items()},
        "additionalProperties": False,
    }
    if needed := [field.alias or key for key, field in fields.items() if field.is_required()]:
        settings["required"] = needed
    return settings
