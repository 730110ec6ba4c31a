"""Small changes to schemas and values of answers."""

from __future__ import annotations

from typing import Any, cast

from toolnexus.core.schema import target


def drop(data: Any, path: list[int | str]) -> bool:
    """Remove the null member at `path`; whether there was one."""
    if not path or not isinstance(path[-1], str):
        return False
    for step in path[:-1]:
        data = data[step]
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get(path[-1], data) is not None:
        return False
    del data[path[-1]]
    return True


def rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with what its root refers to in the root itself."""
    seen: set[str] = set()
    while isinstance(ref := schema.get("$ref"), str) and ref not in seen:
        seen.add(ref)
        found = target(ref, schema)
        if not isinstance(found, dict):
            break
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**cast("dict[str, Any]", found), **beside}
    return schema


def in_member(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """An object whose one member is of `schema`, which keeps its own references."""
    place = f"#/properties/{name}"
    inner = _moved(schema, place)
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


def _moved(value: Any, place: str) -> Any:
    if isinstance(value, list):
        return [_moved(item, place) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    out = {key: _moved(part, place) for key, part in cast("dict[str, Any]", value).items()}
    ref = out.get("$ref")
    if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")):
        out["$ref"] = place + ref[1:]
    return out
