"""Repairs what a model sends, where a schema leaves only one reading of it.

Models write numbers, flags and whole objects as strings. Such a string becomes what it says, and
only where the schema has no place for a string: what is valid is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from toolnexus.core.schema import Node, json_type, target
from toolnexus.core.strict_json import decode


def coerce(value: Any, schema: Any, root: Any = None) -> Any:
    """`value` with strings read as JSON wherever `schema` allows no string but what they say.

    `"3"` becomes 3 for an integer, `"[1]"` a list for an array; an integral float becomes an int for
    an integer. A valid value is never changed, the argument never mutated, and what has no single
    reading is left for the check that follows. `root` is what `$ref`s point into, by default `schema`.
    """
    if not isinstance(schema, dict):
        return value
    schema = cast(Node, schema)
    root = schema if root is None else root
    if isinstance(value, str):
        if schema.get("type") == "string":
            return value
        value = _as_json(value, _allowed(schema, root))
    elif isinstance(value, float) and value.is_integer():
        allowed = _allowed(schema, root)
        return int(value) if "integer" in allowed and "number" not in allowed else value
    return _coerce_inside(value, schema, root) if isinstance(value, (dict, list)) else value


_ANY = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_WORDS = {"True": True, "False": False, "None": None}
"""Models that write Python where JSON is due."""


def _as_json(text: str, allowed: frozenset[str]) -> Any:
    if "string" in allowed:
        return text
    try:
        value = _WORDS[text] if text in _WORDS else decode(text.strip())
    except (ValueError, RecursionError):
        return text
    if isinstance(value, float) and value.is_integer() and "number" not in allowed:
        value = int(value)
    return value if json_type(value) in allowed else text


def _allowed(schema: Any, root: Any, seen: tuple[str, ...] = ()) -> frozenset[str]:
    """The JSON types that `schema` leaves open; too many rather than too few."""
    if not isinstance(schema, dict):
        return _ANY
    node = cast(Node, schema)
    types = _ANY
    if "type" in node:
        names = frozenset([node["type"]] if isinstance(node["type"], str) else node["type"])
        types &= names | {"integer"} if "number" in names else names
    if "const" in node or "enum" in node:
        members = [node["const"]] if "const" in node else node["enum"]
        types &= {json_type(m) for m in members} | {"integer" for m in members if isinstance(m, float)}
    ref = node.get("$ref")
    if isinstance(ref, str) and ref not in seen:
        types &= _allowed(target(ref, root), root, (*seen, ref))
    for part in node.get("allOf", ()):
        types &= _allowed(part, root, seen)
    for word in ("anyOf", "oneOf"):
        if word in node:
            types &= frozenset[str]().union(*(_allowed(branch, root, seen) for branch in node[word]))
    return types


def _layers(schema: Any, root: Any, seen: tuple[str, ...] = ()) -> Iterator[Node]:
    """`schema` and everything that always holds together with it."""
    if isinstance(schema, dict):
        node = cast(Node, schema)
        yield node
        ref = node.get("$ref")
        if isinstance(ref, str) and ref not in seen:
            yield from _layers(target(ref, root), root, (*seen, ref))
        for part in node.get("allOf", ()):
            yield from _layers(part, root, seen)


_COMPOUND = frozenset(("$ref", "allOf", "anyOf", "oneOf"))


def _coerce_inside(value: Any, schema: Node, root: Any) -> Any:
    if _COMPOUND.isdisjoint(schema):
        return _coerce_parts(value, schema, root)
    layers = list(_layers(schema, root))
    for layer in layers:
        value = _coerce_parts(value, layer, root)
    for layer in layers:
        for word in ("anyOf", "oneOf"):
            fitting = [b for b in layer.get(word, ()) if _may_fit(value, b, root)]
            if len(fitting) == 1 and isinstance(fitting[0], dict):
                value = _coerce_inside(value, cast(Node, fitting[0]), root)
    return value


def _coerce_parts(value: Any, layer: Node, root: Any) -> Any:
    if isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        return [coerce(item, _of_item(layer, index), root) for index, item in items]
    members = cast(Node, value)
    if "patternProperties" in layer:
        return {name: _coerce_all(v, of_member(layer, name), root) for name, v in members.items()}
    known, rest = layer.get("properties", {}), layer.get("additionalProperties")
    return {name: coerce(v, known.get(name, rest), root) for name, v in members.items()}


def _coerce_all(value: Any, schemas: Iterable[Any], root: Any) -> Any:
    for schema in schemas:
        value = coerce(value, schema, root)
    return value


def of_member(layer: Node, name: str) -> list[Any]:
    """The schemas of the member `name` of an object."""
    properties = layer.get("properties", {})
    own = [properties[name]] if name in properties else []
    if patterns := layer.get("patternProperties"):
        own += [schema for pattern, schema in patterns.items() if re.search(pattern, name)]
    return own or [layer.get("additionalProperties", True)]


def _of_item(layer: Node, index: int) -> Any:
    """The schema of the item at `index` of an array."""
    items: Any = layer.get("items")
    is_tuple = isinstance(items, list)  # as drafts before 2020-12 had it
    first = cast("list[Any]", items if is_tuple else layer.get("prefixItems", []))
    if index < len(first):
        return first[index]
    return layer.get("additionalItems") if is_tuple else items


def _may_fit(value: Any, schema: Any, root: Any) -> bool:
    """Whether nothing that is cheap to see keeps `value`, an object or array, from being valid."""
    if schema is False or json_type(value) not in _allowed(schema, root):
        return False
    if not isinstance(value, dict):
        return True
    members = cast(Node, value)
    for layer in _layers(schema, root):
        properties = layer.get("properties", {})
        if any(name not in members for name in layer.get("required", ())):
            return False
        if any(of_member(layer, name) == [False] for name in members):
            return False
        for name in properties.keys() & members.keys():
            if not all(_is_listed(members[name], part) for part in _layers(properties[name], root)):
                return False
    return True


def _is_listed(value: Any, schema: Node) -> bool:
    if "const" in schema:
        return value == schema["const"]
    return "enum" not in schema or value in schema["enum"]
