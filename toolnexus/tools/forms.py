"""What a schema says of a value that is cheap to see: types, members, choices.

Both the repair of arguments and the validator look here which forms of a union a value can be of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from toolnexus.core.schema import named_target, target
from toolnexus.core.schema_words import Node, json_type

ANY = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))


class Forms:
    """The forms that one schema leaves open, its references followed.

    Always too many rather than too few: a value that fits none of them is not valid.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._types: dict[str, frozenset[str]] = {}
        self._targets: dict[str, Any] = {}
        draft = str(root.get("$schema"))
        self._ref_alone = "/draft-0" in draft
        """Drafts before 2019-09 pass over what stands beside a `$ref`."""
        self._no_const = "/draft-03" in draft or "/draft-04" in draft
        inner = {key: value for key, value in root.items() if key not in ("$id", "id", "$schema")}
        self._lost = "'$id'" in repr(inner) or (self._no_const and "'id'" in repr(inner))
        """Whether pointers may start somewhere else than at the root."""

    def types(self, schema: Any) -> frozenset[str]:
        """The JSON types that `schema` leaves open."""
        if not isinstance(schema, dict):
            return ANY
        node, types = cast(Node, schema), ANY
        if isinstance(ref := node.get("$ref"), str):
            if ref not in self._types:
                self._types[ref] = ANY  # for a reference to itself
                self._types[ref] = self.types(self._target(ref))
            types = self._types[ref]
            if self._ref_alone:
                return types
        if "type" in node:
            names = frozenset([node["type"]] if isinstance(node["type"], str) else node["type"])
            types &= names | {"integer"} if "number" in names else names
        if "enum" in node or ("const" in node and not self._no_const):
            members = node["enum"] if "enum" in node else [node["const"]]
            types &= {json_type(m) for m in members} | {"integer" for m in members if isinstance(m, float)}
        for part in node.get("allOf", ()):
            types &= self.types(part)
        for word in ("anyOf", "oneOf"):
            if word in node:
                types &= frozenset[str]().union(*map(self.types, node[word]))
        return types

    def layers(self, schema: Any, seen: set[str] | None = None) -> Iterator[Node]:
        """`schema` and everything that always holds together with it."""
        if not isinstance(schema, dict):
            return
        seen = set() if seen is None else seen
        node = cast(Node, schema)
        ref = node.get("$ref")
        if not (self._ref_alone and isinstance(ref, str)):
            yield node
        if isinstance(ref, str) and ref not in seen:
            seen.add(ref)
            yield from self.layers(self._target(ref), seen)
        for part in node.get("allOf", ()):
            yield from self.layers(part, seen)

    def may_fit(self, value: Any, schema: Any) -> bool:
        """Whether nothing that is cheap to see keeps `value` from being valid."""
        if schema is False:
            return False
        if not self._is_listed(value, schema) or not self._has_type(value, schema):
            return False
        return not isinstance(value, dict) or all(
            self._has_members(cast(Node, value), layer) for layer in self.layers(schema)
        )

    def _has_type(self, value: Any, schema: Any) -> bool:
        kinds = self.types(schema)
        return json_type(value) in kinds or (
            isinstance(value, float) and value.is_integer() and "integer" in kinds
        )

    def _has_members(self, members: Node, layer: Node) -> bool:
        if any(name not in members for name in layer.get("required", ())):
            return False
        if any(of_member(layer, name) == [False] for name in members):
            return False
        properties: Node = layer.get("properties", {})
        return all(self._is_listed(members[name], properties[name]) for name in properties if name in members)

    def _is_listed(self, value: Any, schema: Any) -> bool:
        for layer in self.layers(schema):
            if "const" in layer and not self._no_const and value != layer["const"]:
                return False
            if "enum" in layer and value not in layer["enum"]:
                return False
        return True

    def _target(self, ref: str) -> Any:
        if ref not in self._targets:
            here = ref[:1] == "#"
            pointed = target(ref, self._root) if ref[:2] in ("#", "#/") else named_target(ref, self._root)
            self._targets[ref] = None if here and self._lost else pointed
        return self._targets[ref]


def of_member(layer: Node, name: str) -> list[Any]:
    """The schemas of the member `name` of an object."""
    properties = layer.get("properties", {})
    own = [properties[name]] if name in properties else []
    if patterns := layer.get("patternProperties"):
        own += [schema for pattern, schema in patterns.items() if re.search(pattern, name)]
    return own or [layer.get("additionalProperties", True)]


def of_item(layer: Node, index: int) -> Any:
    """The schema of the item at `index` of an array."""
    items: Any = layer.get("items")
    is_tuple = isinstance(items, list)  # as drafts before 2020-12 had it
    first = cast("list[Any]", items if is_tuple else layer.get("prefixItems", []))
    if index < len(first):
        return first[index]
    return layer.get("additionalItems") if is_tuple else items
