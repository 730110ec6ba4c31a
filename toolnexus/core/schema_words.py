"""The words of a JSON Schema as endpoints take them: draft 2020-12, and none with a broken value.

An endpoint holds every declared schema against the metaschema and refuses the whole request over one
that fails. What cannot be said is left out; arguments are still checked against the original.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, cast

Node = dict[str, Any]
"""A JSON Schema that is not a boolean."""

MAX_OPTIONS = 1000
"""How many values of an `enum` are listed; a longer one is described."""

ONE = ("items", "contains", "not", "if", "then", "else", "propertyNames", "contentSchema")
SWITCH = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas")
UNIONS = ("allOf", "anyOf", "oneOf")
NESTED = frozenset((*ONE, *SWITCH, *MANY, *NAMED))

_LEFT_OUT = ("definitions", "additionalItems", "dependencies", "id", "nullable", "discriminator", "xml")
"""Words of older drafts, and those of OpenAPI that point to what is not there any more."""
_KINDS = ("string", "integer", "number", "boolean", "object", "array", "null")

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


def types_of(node: Mapping[str, Any]) -> list[str]:
    """The types that `node` names, without those that do not exist."""
    types = node.get("type", [])
    named = cast("list[Any]", types if isinstance(types, list) else [types])
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name in _KINDS))


def _is_types(value: Any) -> bool:
    known = types_of({"type": value})
    return bool(known) and value in (known, known[0])


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_schema(value: Any) -> bool:
    return isinstance(value, (bool, dict))


def _is_texts(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    texts = cast("list[Any]", value)
    return all(isinstance(t, str) for t in texts) and len(set(texts)) == len(texts)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_duties(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_texts, cast("dict[str, Any]", value).values()))


_SOUND: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "pattern"), _is(str)),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "$ref", "$id", "$anchor"), _is(str)),
    **dict.fromkeys(("$dynamicRef", "$recursiveRef", "$dynamicAnchor"), _is(str)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is(bool)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("enum", "examples"), _is(list)),
    **dict.fromkeys(MANY, lambda value: isinstance(value, list) and bool(cast("list[Any]", value))),
    **dict.fromkeys(NAMED, _is(dict)),
    **dict.fromkeys((*ONE, *SWITCH), _is_schema),
    "type": _is_types,
    "required": _is_texts,
    "dependentRequired": _is_duties,
}
_BEFORE: dict[str, type] = {"items": list, "exclusiveMinimum": bool, "exclusiveMaximum": bool}
"""What these words held before 2020-12."""


def repaired(node: Node, *, older: bool = False) -> tuple[Node, list[str]]:
    """`node` with what JSON Schema lets its words hold, and the words that held something else.

    Those are left out, or keep what is right in them. Unless the schema says that it is of an `older`
    draft, leftovers of one are said in today's words; OpenAPI's `nullable` becomes a type. What lies
    inside of `node` is not looked at.
    """
    out = {key: value for key, value in node.items() if isinstance(key, str)}
    if not older:
        _rename_tuples(out)
        _rename_bounds(out)
    if out.get("nullable") is True:
        _allow_null(out)
    flaws: list[str] = []
    for key, value in list(out.items()):
        sound = _SOUND.get(key)
        if sound is None or sound(value) or (older and isinstance(value, _BEFORE.get(key, ()))):
            continue
        flaws.append(key)
        del out[key]
        if key == "type" and (types := types_of(node)):
            out[key] = types
        if key == "required" and isinstance(value, list):
            names = [name for name in cast("list[Any]", value) if isinstance(name, str)]
            out[key] = list(dict.fromkeys(names))
    return out, flaws


def modern(node: Node) -> Node:
    """`node` as an endpoint takes it, with data of its own. What lies inside of it is left as it is."""
    out, _ = repaired(node)
    for key in list(out):
        if key in _LEFT_OUT:
            del out[key]
        elif key not in NESTED:
            _copy(out, key)
    if len(out.get("enum", ())) > MAX_OPTIONS:
        _describe(out)
    if ("array" in types_of(out) or "prefixItems" in out) and not out.keys() & {"items", "$ref"}:
        out["items"] = {}  # an array must say what it holds
    return out


def _rename_tuples(out: Node) -> None:
    if isinstance(out.get("items"), list):
        out["prefixItems"] = out.pop("items")
        if "additionalItems" in out:
            out["items"] = out["additionalItems"]


def _rename_bounds(out: Node) -> None:
    """Draft 4 had flags beside `minimum` and `maximum`."""
    for bound, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(out.get(bound), bool):
            if out.pop(bound) and inclusive in out:
                out[bound] = out.pop(inclusive)


def _allow_null(out: Node) -> None:
    null = {"type": "null"}
    if types := types_of(out):
        out["type"] = list(dict.fromkeys([*types, "null"]))
    for word, option in (("enum", None), ("anyOf", null), ("oneOf", null)):
        if isinstance(out.get(word), list) and option not in out[word]:
            out[word] = [*out[word], option]
    inner = {word: out.pop(word) for word in ("$ref", "allOf") if word in out and "anyOf" not in out}
    if inner:
        out["anyOf"] = [inner, null]


def _copy(out: Node, key: str) -> None:
    """Replace a value by a copy of its own; drop one that is no JSON."""
    value = out[key]
    if value is None or isinstance(value, (str, bool, int)):
        return
    try:
        out[key] = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        del out[key]


def _describe(out: Node) -> None:
    """In the place of a very long `enum` its type and some of its values."""
    options = out.pop("enum")
    out.setdefault("type", list(dict.fromkeys(map(json_type, options))))
    shown = ", ".join(json.dumps(option, ensure_ascii=False)[:40] for option in options[:10])
    text = f"One of {len(options)} values, such as {shown}."
    out["description"] = f"{out['description']} {text}" if "description" in out else text
