"""The declarations of tools in the form of each vendor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolnexus.core.schema import anthropic_declaration, declared, merged, openai_declaration
from toolnexus.core.schema_words import UNIONS, Node, json_type, types_of
from toolnexus.core.tools import Tool
from toolnexus.tools.arguments import shown


def to_openai(tools: Iterable[Tool]) -> list[Node]:
    """The declarations of `tools` for an OpenAI-style endpoint (chat completions)."""
    return [openai_declaration(tool) for tool in tools]


def to_anthropic(tools: Iterable[Tool]) -> list[Node]:
    """The declarations of `tools` for an Anthropic-style endpoint."""
    return [anthropic_declaration(tool) for tool in tools]


def to_gemini(tools: Iterable[Tool]) -> list[Node]:
    """The declarations of `tools` for the Gemini API: one entry with all functions, or `[]`.

    Only the fields of the API's own `Schema` object (its reference page "Schema", a subset of
    OpenAPI 3.0) are kept; the endpoint refuses a whole request over one that it does not know.
    """
    functions: list[Node] = []
    for tool in tools:
        function: Node = {"name": tool.name, "description": tool.description}
        schema = declared(tool)
        if schema["properties"]:  # it refuses an object without members
            function["parameters"] = _gemini(schema)
        functions.append(function)
    return [{"functionDeclarations": functions}] if functions else []


# Gemini: every place has one `type`, or a bare `anyOf`; null is `nullable`; an `enum` holds strings

_KEPT = (
    *("title", "description", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minimum", "maximum", "minLength", "maxLength", "pattern"),
)
_FORMATS = {"string": ("date-time",), "integer": ("int32", "int64"), "number": ("float", "double")}
_WIDER = {"integer": "number"}
_ANYTHING = ("string", "number", "boolean", "object")


def _gemini(schema: Node) -> Node:
    forms = list(_forms(schema))
    out = [_gemini_form(form) for form in forms if form["type"] != "null"] or [{"type": "string"}]
    if len(out) < len(forms) or forms[0]["type"] == "null":
        out = [{**form, "nullable": True} for form in out]
    return out[0] if len(out) == 1 else {"anyOf": out}


def _forms(schema: Node) -> Iterator[Node]:
    """The forms that `schema` leaves open, each with one type and no union."""
    union = next((word for word in UNIONS if word in schema), None)
    if union is None:
        yield from ({**schema, "type": name} for name in types_of(schema) or _implied(schema))
        return
    rest = {key: value for key, value in schema.items() if key != union}
    if union == "allOf":
        for part in schema["allOf"]:
            rest = merged(part, rest)
        yield from _forms(rest)
    else:
        for form in schema[union]:
            yield from _forms(merged(rest, form))


def _implied(schema: Node) -> Iterable[str]:
    if "properties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    return dict.fromkeys(map(json_type, _options(schema))) or _ANYTHING


def _options(schema: Node) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def _gemini_form(schema: Node) -> Node:
    kind = schema["type"]
    out: Node = {"type": kind, **{key: schema[key] for key in _KEPT if key in schema}}
    if schema.get("format") in _FORMATS.get(kind, ()):
        out["format"] = schema["format"]
    options = [o for o in _options(schema) if o != "" and kind in (json_type(o), _WIDER.get(json_type(o)))]
    if options:
        if kind == "string":
            out["enum"] = options
        else:
            allowed = f"One of: {', '.join(map(shown, options))}."
            out["description"] = f"{out['description']} {allowed}" if "description" in out else allowed
    if kind == "object" and schema.get("properties"):
        out["properties"] = {name: _gemini(part) for name, part in schema["properties"].items()}
        if required := [name for name in schema.get("required", ()) if name in out["properties"]]:
            out["required"] = required
    if kind == "array":
        first = schema.get("prefixItems", [])
        out["items"] = _gemini({"anyOf": first} if first else schema.get("items", {}))
    return out
