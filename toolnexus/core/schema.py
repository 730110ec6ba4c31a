"""The schema of a tool as endpoints take it.

Foreign schemas use more of JSON Schema than endpoints accept, and one that is refused takes the
whole request down. So what is shown is simpler; arguments are still checked against the original.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from toolnexus.core.names import hashed, model_names
from toolnexus.core.schema_words import MANY, NAMED, NESTED, ONE, SWITCH, UNIONS, Node, modern, types_of
from toolnexus.core.tools import Tool

MAX_LEVELS = 4
"""How often a `$ref` is inlined inside itself before the recursion is cut."""
MAX_REPEATS = 64
"""How many `$ref`s are inlined inside themselves in one schema, nearest to the root first."""
MAX_INLINED = 1024
"""How many `$ref`s are inlined in one schema at all, nearest to the root first."""
MAX_DEPTH = 64
"""How many schemas may lie in each other; what is deeper is shown as anything."""
MIN_SIZE, MAX_SIZE = 16_000, 100_000
"""About how many characters a schema may have, nearest to the root first: thrice what came, within these."""
CUT = "The same form again, nested deeper."

_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OF_ROOT = (
    "if",
    "then",
    "else",
    "propertyNames",
    "patternProperties",
    "dependentRequired",
    "dependentSchemas",
)


class Declared:
    """What a model is shown of one schema, and what its words mean. Read only."""

    __slots__ = ("keys", "schema", "source")

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source
        self.schema = normalise(source)
        """The shown schema."""
        self.keys = shown_keys(self.schema["properties"])
        """Members that are shown under a name which endpoints take: `{shown: original}`."""
        if self.keys:
            self.schema = _renamed(self.schema, self.keys)


def declared(tool: Tool) -> Node:
    """The schema of `tool` as a model is shown it. Made once per tool and shared: read only."""
    return _declared(tool).schema


def openai_declaration(tool: Tool) -> Node:
    """`tool` as an OpenAI-style endpoint (chat completions) is told of it."""
    function = {"name": tool.name, "description": tool.description, "parameters": declared(tool)}
    return {"type": "function", "function": function}


def anthropic_declaration(tool: Tool) -> Node:
    """`tool` as an Anthropic-style endpoint is told of it."""
    return {"name": tool.name, "description": tool.description, "input_schema": declared(tool)}


def original_keys(tool: Tool) -> Mapping[str, str]:
    """The members that are shown under another name: `{shown: original}`, usually empty."""
    return _declared(tool).keys


def _declared(tool: Tool) -> Declared:
    known = _known.get(tool)
    if known is None or known.source is not tool.input_schema:
        known = _known[tool] = Declared(tool.input_schema)
    return known


_known: WeakKeyDictionary[Tool, Declared] = WeakKeyDictionary()


def shown_keys(keys: Iterable[str]) -> dict[str, str]:
    """Safe names for those of `keys` that endpoints refuse as members of an object: `{shown: key}`."""
    odd = [key for key in keys if not _KEY.fullmatch(key)]
    plain = {key for key in keys if _KEY.fullmatch(key)}
    names = model_names([(key, key) for key in odd])
    return {hashed(name, key) if name in plain else name: key for name, key in zip(names, odd, strict=True)}


def _renamed(schema: Node, keys: Mapping[str, str]) -> Node:
    names = {key: shown for shown, key in keys.items()}
    out = {word: value for word, value in schema.items() if word not in _OF_ROOT}
    out["properties"] = {names.get(key, key): value for key, value in schema["properties"].items()}
    if "required" in out:
        out["required"] = [names.get(key, key) for key in out["required"]]
    return out


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
        self._waiting: deque[tuple[Node, Node, tuple[str, ...], int]] = deque()
        self._found: dict[str, Any] = {}
        self._repeats = 0
        self._inlined = 0
        self._room = _room(root)

    def result(self) -> Node:
        out = self._place(self._root, (), 0)
        while self._waiting:
            place, node, chain, depth = self._waiting.popleft()
            if self._room > 0 and depth <= MAX_DEPTH:
                node, chain = self._resolved(modern(node), chain)
                place.update(self._copied(node, chain, depth + 1))
        return out

    def _place(self, schema: Any, chain: tuple[str, ...], depth: int) -> Node:
        """Where a copy of `schema` will be; `chain` is the references it lies in."""
        if not isinstance(schema, dict):
            return {"not": {}} if schema is False else {}
        place: Node = {}
        self._waiting.append((place, cast(Node, schema), chain, depth))
        return place

    def _copied(self, node: Node, chain: tuple[str, ...], depth: int) -> Node:
        out = {key: self._member(key, value, chain, depth) for key, value in node.items() if key[:1] != "$"}
        data = {key: value for key, value in out.items() if key not in NESTED}
        self._room -= len(json.dumps(data)) + sum(len(name) + 4 for key in NAMED for name in out.get(key, ()))
        return out

    def _member(self, key: str, value: Any, chain: tuple[str, ...], depth: int) -> Any:
        if key in ONE or (key in SWITCH and isinstance(value, dict)):
            return self._place(value, chain, depth)
        if key in MANY:
            return [self._place(part, chain, depth) for part in value]
        if key in NAMED:
            return {name: self._place(part, chain, depth) for name, part in value.items()}
        return value

    def _resolved(self, node: Node, chain: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
        """What a node stands for. What stands beside a `$ref` wins over its target."""
        beside: Node = {}
        while isinstance(ref := node.get("$ref"), str):
            beside = {**{key: value for key, value in node.items() if key != "$ref"}, **beside}
            if self._is_cut(ref, chain):
                return {"description": CUT, **beside}, chain
            chain = (*chain, ref)
            found = self._target(ref)
            node = modern(cast(Node, found)) if isinstance(found, dict) else self._place(found, chain, 0)
        return (modern(merged(node, beside)) if beside else node), chain

    def _target(self, ref: str) -> Any:
        if ref not in self._found:
            self._found[ref] = (
                target(ref, self._root) if ref[:2] in ("#", "#/") else named_target(ref, self._root)
            )
        return self._found[ref]

    def _is_cut(self, ref: str, chain: tuple[str, ...]) -> bool:
        self._inlined += 1
        self._repeats += ref in chain
        return (
            self._inlined > MAX_INLINED
            or (ref in chain and self._repeats > MAX_REPEATS)
            or chain.count(ref) >= MAX_LEVELS
        )


def _room(schema: Node) -> int:
    try:
        return min(max(MIN_SIZE, 3 * len(json.dumps(schema))), MAX_SIZE)
    except (TypeError, ValueError, RecursionError):  # it holds what is no JSON, or is very deep
        return MAX_SIZE


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
    members: dict[str, dict[str, Node]] = {}
    for form in forms:
        for name, schema in form["properties"].items():
            members.setdefault(name, {}).setdefault(json.dumps(schema, sort_keys=True), schema)
    shared = set[str].intersection(*(set(form.get("required", ())) for form in forms))
    duties = [name for name in forms[0].get("required", ()) if name in shared]
    properties = {
        name: {"anyOf": list(known.values())} if len(known) > 1 else next(iter(known.values()))
        for name, known in members.items()
    }
    return {"properties": properties, **({"required": duties} if duties else {})}


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


def named_target(ref: str, root: Mapping[str, Any]) -> Any:
    """What an `$id` or `$anchor` in `root` makes of a `$ref` that is no pointer; None for a remote one."""
    base, _, fragment = ref.partition("#")
    home: Any = root
    if base:
        home = next((n for n in _every(root) if base in (n.get("$id"), n.get("id"))), None)
    if not isinstance(home, dict) or not fragment or fragment[0] == "/":
        return target(f"#{fragment}", home)
    anchors = (fragment, f"#{fragment}")
    return next((n for n in _every(cast(Node, home)) if _anchor(n) in anchors), None)


def _anchor(node: Node) -> Any:
    return node.get("$anchor", node.get("$id", node.get("id")))


def _every(root: Mapping[str, Any]) -> Iterator[Node]:
    """Every mapping in `root`, breadth first; some of them are data and no schemas."""
    waiting: deque[Any] = deque([root])
    for _ in range(MAX_SIZE):
        if not waiting:
            return
        value = waiting.popleft()
        if isinstance(value, dict):
            yield cast(Node, value)
            waiting.extend(cast(Node, value).values())
        elif isinstance(value, list):
            waiting.extend(cast("list[Any]", value))
