"""Schemas as endpoints take them that hold a model to every word of them.

Such a schema is closed: it says every type and every member. What an endpoint does not enforce is
told in the description; the answer is checked against the original anyway.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from toolnexus.core.model import OutputSpec
from toolnexus.core.names import sanitize
from toolnexus.core.schema import merged, normalise, target
from toolnexus.core.schema_words import Node, json_type, modern, types_of

logger = logging.getLogger("toolnexus.models")

_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_ABOUT = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
_SHAPE = (
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "oneOf",
)
_OF_TEXTS = ("pattern", "format")
_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_LISTS = ("minItems", "maxItems")
_OF = {"string": _OF_TEXTS, "integer": _OF_NUMBERS, "number": _OF_NUMBERS, "array": _OF_LISTS}
_TOLD = (
    *(*_OF_TEXTS, *_OF_NUMBERS, *_OF_LISTS),
    *("minLength", "maxLength", "contentEncoding", "contentMediaType"),
    *("uniqueItems", "minProperties", "maxProperties"),
)
"""Words that narrow a value and can be told in a sentence instead."""


class Inexpressible(Exception):
    """A schema cannot be closed. The text says where and why."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What one style takes in a closed schema."""

    words: frozenset[str]
    """Those of `_TOLD` that it enforces."""
    all_required: bool
    """Whether a member that may be left out must be written as one that may be null."""
    recursive: bool


OPENAI = Dialect(words=frozenset((*_OF_TEXTS, *_OF_NUMBERS, *_OF_LISTS)), all_required=True, recursive=True)
ANTHROPIC = Dialect(words=frozenset(("format",)), all_required=False, recursive=False)


def strict_schema(output: OutputSpec, dialect: Dialect) -> Node | None:
    """The closed form of what `output` asks for, or None, with a line in the log. Made once."""
    forms = _known.setdefault(output, {})
    if dialect not in forms:
        try:
            forms[dialect] = _Closer(output.schema, dialect).result()
        except (Inexpressible, RecursionError) as reason:
            logger.warning("the schema of output type %r is not enforced: %s", output.name, reason)
            forms[dialect] = None
    return forms[dialect]


_known: WeakKeyDictionary[OutputSpec, dict[Dialect, Node | None]] = WeakKeyDictionary()


def loose_schema(output: OutputSpec) -> Node:
    """What `output` asks for, for an endpoint that takes the schema as a hint."""
    return normalise(output.schema)


class _Closer:
    """Copies a schema and closes it. Never mutates the original."""

    def __init__(self, root: Mapping[str, Any], dialect: Dialect) -> None:
        self._root = dict(root)
        self._dialect = dialect
        self._names: dict[str, str] = {}
        self._definitions: Node = {}
        self._open: list[str] = []
        """The references whose definition is being written."""

    def result(self) -> Node:
        out = self._node(self._root, "the root", ())
        if out.get("type") != "object":
            raise Inexpressible("the root is no object")
        if self._definitions:
            out["$defs"] = self._definitions
        return out

    def _node(self, schema: Any, where: str, chain: tuple[str, ...]) -> Node:
        if not isinstance(schema, dict):
            raise Inexpressible(f"{where} may be anything")
        node = cast(Node, schema)
        if isinstance(ref := node.get("$ref"), str):
            beside = {key: value for key, value in node.items() if key != "$ref"}
            if not beside or (ref in chain and beside.keys() <= {*_ABOUT, "$defs", "definitions"}):
                return {"$ref": f"#/$defs/{self._definition(ref, where)}"}
            if ref in chain:
                raise Inexpressible(f"{where} narrows a form that holds itself")
            return self._node(merged(self._target(ref, where), beside), where, (*chain, ref))
        parts = cast("list[Any]", node.get("allOf", []))
        if len(parts) == 1 and isinstance(parts[0], dict):
            beside = {key: value for key, value in node.items() if key != "allOf"}
            return self._node(merged(cast(Node, parts[0]), beside), where, chain)
        return self._plain(modern(node), where, chain)

    def _plain(self, node: Node, where: str, chain: tuple[str, ...]) -> Node:
        left = node.keys() - {*_ABOUT, *_SHAPE, *_TOLD} - {k for k in node if k[:1] == "$"}
        if left:
            raise Inexpressible(f"{where} uses {', '.join(sorted(left))}")
        out = self._described(node)
        forms = node.get("anyOf") or node.get("oneOf")
        if forms:
            out["anyOf"] = [self._node(form, f"{where} (form {n})", chain) for n, form in enumerate(forms, 1)]
            return out
        if "enum" in node or "const" in node:
            return out | _choice(node["enum"] if "enum" in node else [node["const"]], where)
        types = types_of(node) or (["object"] if "properties" in node else [])
        if not types:
            raise Inexpressible(f"{where} may be anything")
        each = [self._of_type(name, node, where, chain) for name in types]
        if len(each) == 1:
            return out | each[0]
        return out | {"anyOf": each}

    def _of_type(self, name: str, node: Node, where: str, chain: tuple[str, ...]) -> Node:
        out: Node = {"type": name}
        if name == "object":
            out |= self._members(node, where, chain)
        elif name == "array":
            out["items"] = self._node(node.get("items") or True, f"the items of {where}", chain)
        return out | {
            word: node[word] for word in _OF.get(name, ()) if word in node and self._enforces(word, node)
        }

    def _members(self, node: Node, where: str, chain: tuple[str, ...]) -> Node:
        if node.get("additionalProperties", "properties" not in node) is not False:
            raise Inexpressible(f"{where} may have members of any name")
        duties = [name for name in node.get("required", ()) if name in node.get("properties", {})]
        members: Node = {}
        for name, schema in node.get("properties", {}).items():
            members[name] = self._node(schema, _at(where, name), chain)
            if self._dialect.all_required and name not in duties:
                members[name] = _nullable(members[name], schema)
        required = list(members) if self._dialect.all_required else duties
        return {"properties": members, "required": required, "additionalProperties": False}

    def _described(self, node: Node) -> Node:
        """The words about a value, and those that only a reader can heed."""
        untold = [word for word in _TOLD if word in node and not self._enforces(word, node)]
        told = ", ".join([f"{word} {json.dumps(node[word], ensure_ascii=False)}" for word in untold])
        text = " ".join([part for part in (node.get("description"), told and f"({told})") if part])
        return {"description": text} if text else {}

    def _enforces(self, word: str, node: Node) -> bool:
        if word == "format":
            return node[word] in _FORMATS
        return word in self._dialect.words and not (word == "pattern" and "(?" in node[word])

    def _target(self, ref: str, where: str) -> Node:
        found = target(ref, self._root)
        if not isinstance(found, dict):
            raise Inexpressible(f"{where} refers to {ref!r}, which is not there")
        return cast(Node, found)

    def _definition(self, ref: str, where: str) -> str:
        """The name under which what `ref` points to is defined."""
        if ref in self._open and not self._dialect.recursive:
            raise Inexpressible(f"{where} holds itself")
        if ref not in self._names:
            name = base = "root" if ref == "#" else sanitize(ref.rpartition("/")[2])
            while name in self._names.values():
                name = f"{base}_{len(self._names)}"
            self._names[ref] = name
            self._open.append(ref)
            self._definitions[name] = self._node(self._target(ref, where), where, (ref,))
            self._open.pop()
        return self._names[ref]


def _at(where: str, name: str) -> str:
    return name if where == "the root" else f"{where}.{name}"


def _choice(options: list[Any], where: str) -> Node:
    kinds = list(dict.fromkeys(map(json_type, options)))
    if not kinds or {"object", "array"} & set(kinds):
        raise Inexpressible(f"{where} chooses from values that are no plain ones")
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": options}


def _nullable(node: Node, original: Any) -> Node:
    """`node` for a member that may be left out: null stands for that."""
    about = {key: node[key] for key in ("description",) if key in node}
    if isinstance(original, dict) and (default := cast(Node, original).get("default")) is not None:
        hint = f"Null stands for {json.dumps(default, ensure_ascii=False)}."
        about["description"] = f"{about['description']} {hint}" if about else hint
    null = {"type": "null"}
    if "enum" in node:
        if None in node["enum"]:
            return {**node, **about}
        return {**node, **about, "type": [*types_of(node), "null"], "enum": [*node["enum"], None]}
    if "anyOf" in node:
        forms = node["anyOf"] if null in node["anyOf"] else [*node["anyOf"], null]
        return {**node, **about, "anyOf": forms}
    if node == null:
        return node
    return {**about, "anyOf": [{key: value for key, value in node.items() if key != "description"}, null]}
