"""A check for plain schemas that is sure when it says yes.

Most arguments of most calls are valid, and most schemas say no more than types and members; a full
validator spends longer on such a call than everything else together. Whatever this check does not
understand, and whatever it does not accept, goes to the full one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, cast

Check = Callable[[Any], bool]

_ANNOTATIONS = {"title", "description", "default", "examples", "deprecated", "$schema", "$id"}
_OF_OBJECT = {"type", "properties", "required", "additionalProperties"}
_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (NoneType,),
}


def quick_check(schema: Any) -> Check | None:
    """The check for `schema`; None when it says more than types, members, items and choices of text."""
    if not isinstance(schema, Mapping):
        return None
    node = cast("Mapping[str, Any]", schema)
    says, kind = node.keys() - _ANNOTATIONS, node.get("type")
    if not says:
        return _anything
    if not isinstance(kind, str):
        return None
    if kind in _CLASSES and says <= {"type", "enum", "minLength"}:
        return _scalar(node, _CLASSES[kind])
    if kind == "array" and says <= {"type", "items"}:
        return _array(node)
    return _object(node) if kind == "object" and says <= _OF_OBJECT else None


def _anything(value: Any) -> bool:
    return True


def _scalar(node: Mapping[str, Any], classes: tuple[type, ...]) -> Check | None:
    least, options = node.get("minLength", 0), node.get("enum")
    if not isinstance(least, int) or not isinstance(options, (list, NoneType)):
        return None
    if options is not None:
        texts = frozenset([o for o in cast("list[object]", options) if isinstance(o, str)])
        return (lambda value: type(value) is str and value in texts) if classes == (str,) else None
    if classes == (str,):
        return lambda value: type(value) is str and len(value) >= least
    return lambda value: type(value) in classes


def _array(node: Mapping[str, Any]) -> Check | None:
    item = quick_check(node.get("items", {}))
    if item is None:
        return None
    return lambda value: type(value) is list and all(map(item, cast("list[Any]", value)))


def _object(node: Mapping[str, Any]) -> Check | None:
    rest, duties = node.get("additionalProperties", True), node.get("required", [])
    properties = node.get("properties", {})
    if not (isinstance(rest, bool) and isinstance(duties, list) and isinstance(properties, Mapping)):
        return None
    members = {name: quick_check(part) for name, part in cast("Mapping[str, Any]", properties).items()}
    if None in members.values():
        return None
    checks, required = cast("dict[str, Check]", members), frozenset(cast("list[str]", duties))

    def check(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys():
            return False
        for name, part in cast("dict[str, Any]", value).items():
            known = checks.get(name)
            if not (rest if known is None else known(part)):
                return False
        return True

    return check
