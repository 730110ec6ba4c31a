"""The schema of a tool as endpoints take it.

Foreign schemas use more of JSON Schema than endpoints accept, and one that is refused takes the
whole request down. So what is shown is simpler; arguments are still checked against the original.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from toolnexus.core.tools import Tool

Node = dict[str, Any]
"""A JSON Schema that is not a boolean."""

MAX_LEVELS = 4
"""How often a `$ref` is inlined inside itself before the recursion is cut."""
MAX_REPEATS = 64
"""How many `$ref`s are inlined inside themselves in one schema, nearest to the root first."""
MAX_INLINED = 1024
"""How many `$ref`s are inlined in one schema at all, nearest to the root first."""
CUT = "The same form again, nested deeper."

_ONE = ("items", "contains", "not", "if", "then", "else", "propertyNames", "contentSchema")
_SWITCH = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
UNIONS = ("allOf", "anyOf", "oneOf")
_OUTDATED = ("definitions", "additionalItems", "dependencies")
_SHAPES = {**dict.fromkeys((*_MANY, "required", "enum"), list), **dict.fromkeys(_NAMED, dict)}


def declared(tool: Tool) -> Node:
    """The schema of `tool` as a model is shown it. Made once per tool and shared: read only."""
    known = _declared.get(tool)
    if known is None or known[0] is not tool.input_schema:
        known = _declared[tool] = (tool.input_schema, normalise(tool.input_schema))
    return known[1]


_declared: WeakKeyDictionary[Tool, tuple[Mapping[str, Any], Node]] = WeakKeyDictionary()


def normalise(schema: Mapping[str, Any]) -> Node:
    """An equal of `schema` without `$ref`, for an endpoint.

    The root is an object with `properties` and no union; references are inlined, recursion is cut
    after `MAX_LEVELS`, what points nowhere allows anything; older drafts become 2020-12. The same
    input gives the same bytes. Never mutates `schema`, never fetches, never recurses endlessly.
    """
    return _rooted(_Inliner(dict(schema)).result())


class _Inliner:
    """Copies a schema and puts in the place of each `$ref` what it points to.

    Breadth first, so that when a limit is reached everything near the root is whole.
    """

    def __init__(self, root: Node) -> None:
        self._root = root
        self._waiting: deque[tuple[Node, Node, tuple[str, ...]]] = deque()
        self._repeats = 0
        self._inlined = 0

    def result(self) -> Node:
        out = self._copy(self._root, ())
        while self._waiting:
            place, node, chain = self._waiting.popleft()
            place.update(self._resolved(node, chain))
        return out

    def _copy(self, schema: Any, chain: tuple[str, ...]) -> Node:
        """A copy of `schema` in which references wait; `chain` is the references it lies in."""
        if not isinstance(schema, dict):
            return {"not": {}} if schema is False else {}
        node = _modern(cast(Node, schema))
        if isinstance(node.get("$ref"), str):
            place: Node = {}
            self._waiting.append((place, node, chain))
            return place
        return {key: self._member(key, value, chain) for key, value in node.items() if key[:1] != "$"}

    def _member(self, key: str, value: Any, chain: tuple[str, ...]) -> Any:
        if key in _ONE or (key in _SWITCH and isinstance(value, dict)):
            return self._copy(value, chain)
        if key in _MANY and isinstance(value, list):
            return [self._copy(part, chain) for part in cast("list[Any]", value)]
        if key in _NAMED and isinstance(value, dict):
            return {name: self._copy(part, chain) for name, part in cast(Node, value).items()}
        return copy.deepcopy(value)

    def _resolved(self, node: Node, chain: tuple[str, ...]) -> Node:
        """What a node with a `$ref` stands for. What stands beside the `$ref` wins over its target."""
        beside: Node = {}
        while isinstance(ref := node.get("$ref"), str):
            beside = {**{key: value for key, value in node.items() if key != "$ref"}, **beside}
            if self._is_cut(ref, chain):
                return {"description": CUT, **self._copy(beside, chain)}
            chain = (*chain, ref)
            found = target(ref, self._root)
            node = _modern(cast(Node, found)) if isinstance(found, dict) else self._copy(found, chain)
        return self._copy(merged(node, beside), chain)

    def _is_cut(self, ref: str, chain: tuple[str, ...]) -> bool:
        self._inlined += 1
        self._repeats += ref in chain
        return (
            self._inlined > MAX_INLINED
            or (ref in chain and self._repeats > MAX_REPEATS)
            or chain.count(ref) >= MAX_LEVELS
        )


def _modern(node: Node) -> Node:
    """`node` in the words of draft 2020-12, which endpoints hold schemas against; no broken ones."""
    out = {key: value for key, value in node.items() if key not in _OUTDATED}
    if isinstance(node.get("items"), list):
        out["prefixItems"] = out.pop("items")
        if "additionalItems" in node:
            out["items"] = node["additionalItems"]
    for bound, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(bound), bool):
            del out[bound]
            if node[bound] and inclusive in out:
                out[bound] = out.pop(inclusive)
    for key, shape in _SHAPES.items():
        if key in out and (not isinstance(out[key], shape) or (key in _MANY and not out[key])):
            del out[key]
    if "array" in types_of(node) and not out.keys() & {"items", "prefixItems", "$ref"}:
        out["items"] = {}  # an array must say what it holds
    return out


def types_of(node: Node) -> list[str]:
    types = node.get("type", [])
    return [types] if isinstance(types, str) else cast("list[str]", types) if isinstance(types, list) else []


def merged(below: Node, above: Node) -> Node:
    """Both at once; where they disagree `above` wins, except that members and duties add up."""
    out = {**below, **above}
    if "properties" in below and "properties" in above:
        out["properties"] = {**below["properties"], **above["properties"]}
    if "required" in below and "required" in above:
        out["required"] = list(dict.fromkeys([*below["required"], *above["required"]]))
    return out


def _rooted(schema: Node) -> Node:
    """`schema` as endpoints want the root: `type: object`, `properties`, and no union."""
    plain = {key: value for key, value in schema.items() if key not in (*UNIONS, "enum", "const", "not")}
    for word in UNIONS:
        forms = [_rooted(form) for form in schema.get(word, ()) if "object" in (types_of(form) or ["object"])]
        if word == "allOf":
            for form in forms:
                plain = merged(form, plain)
        elif forms:
            plain = merged(_either(forms), plain)
    return {**plain, "type": "object", "properties": plain.get("properties", {})}


def _either(forms: list[Node]) -> Node:
    """One object that leaves room for each of `forms`: all members, and the duties they share."""
    members: dict[str, list[Node]] = {}
    for form in forms:
        for name, schema in form["properties"].items():
            known = members.setdefault(name, [])
            if schema not in known:
                known.append(schema)
    duties = [
        name for name in forms[0].get("required", ()) if all(name in f.get("required", ()) for f in forms)
    ]
    properties = {name: known[0] if len(known) == 1 else {"anyOf": known} for name, known in members.items()}
    return {"properties": properties, **({"required": duties} if duties else {})}


_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "string"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    ((list, tuple), "array"),
    (type(None), "null"),
)


def json_type(value: Any) -> str:
    """The JSON Schema type of `value`; `number` only for a float."""
    return next((name for cls, name in _TYPES if isinstance(value, cls)), "object")


def target(ref: str, root: Any) -> Any:
    """What a JSON pointer such as `#/$defs/a` points to; None when that is nowhere in `root`."""
    steps = ref.split("/")
    if steps[0] != "#":
        return None
    for step in steps[1:]:
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(root, dict) and step in root:
            root = cast(Node, root)[step]
        elif isinstance(root, list) and step.isdecimal() and int(step) < len(cast("list[Any]", root)):
            root = cast("list[Any]", root)[int(step)]
        else:
            return None
    return root
