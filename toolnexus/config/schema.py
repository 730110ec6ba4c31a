"""The JSON Schema of a config document, for editors. `schema.json` beside this file is its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from toolnexus.config.table import Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of what `Document.read` takes: every key in both spellings, each with its meaning."""
    from toolnexus.config.shape import Root

    schema = Root.model_json_schema()
    definitions: dict[str, Any] = schema.pop("$defs")
    kinds = _tables()
    for name, definition in definitions.items():
        _tidy(definition)
        if name in kinds:
            _spell(definition, kinds[name].twins(), f"#/$defs/{name}/properties/")
    _tidy(schema)
    _spell(schema, Root.twins(), "#/properties/")
    return {"$schema": DIALECT, "title": "toolnexus config document", **schema, "$defs": definitions}


def _tables() -> dict[str, type[Table]]:
    from toolnexus.config import shape, table

    kinds = [kind for kind in vars(shape).values() if isinstance(kind, type)]
    return {kind.__name__: kind for kind in kinds if issubclass(kind, table.Table)}


def _tidy(node: Any) -> None:
    """Without titles that repeat the key; alternatives as `anyOf`, since a table may fit two of them."""
    if isinstance(node, list):
        for item in cast("list[Any]", node):
            _tidy(item)
    elif isinstance(node, dict):
        table = cast("dict[str, Any]", node)
        if isinstance(table.get("title"), str):
            del table["title"]
        if "oneOf" in table:
            table["anyOf"] = table.pop("oneOf")
        if table.get("default", ...) is None:
            del table["default"]
        for value in table.values():
            _tidy(value)
        if "anyOf" in table:
            table["anyOf"] = [kind for option in table["anyOf"] for kind in option.get("anyOf", [option])]


def _spell(table: dict[str, Any], twins: Mapping[str, str], place: str) -> None:
    """Let each key be written in both ways, but not in both at once."""
    both: list[Any] = []
    for twin, key in twins.items():
        table["properties"][twin] = {"$ref": place + key, "description": f"The same as `{key}`."}
        both.append({"required": [key, twin]})
    if both:
        table["not"] = {"anyOf": both}
