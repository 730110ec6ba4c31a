"""Repairs what a model sends, where a schema leaves only one reading of it.

Models write numbers, flags and whole objects as strings. Such a string becomes what it says, and
only where the schema has no place for a string: what is valid is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from toolnexus.core.schema_words import Node, json_type
from toolnexus.core.strict_json import decode
from toolnexus.tools.forms import Forms, of_item, of_member

MAX_STEPS = 50_000
"""At how many places of a schema a value is looked at; unions inside each other can multiply them."""

_WORDS = {"True": True, "False": False, "None": None}
"""Models that write Python where JSON is due."""
_COMPOUND = frozenset(("$ref", "allOf", "anyOf", "oneOf"))


def coerce(value: Any, schema: Any, forms: Forms | None = None) -> Any:
    """`value` with strings read as JSON wherever `schema` allows no string but what they say.

    `"3"` becomes 3 for an integer, `"[1]"` a list for an array; an integral float becomes an int for
    an integer. A valid value is never changed, the argument never mutated, and what has no single
    reading is left for the check that follows. `forms` are those of `schema`, when they are at hand.
    """
    if not isinstance(schema, dict):
        return value
    return _Repair(forms or Forms(cast(Node, schema))).value(value, schema)


class _Repair:
    """The repair of one value."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._left = MAX_STEPS

    def value(self, value: Any, schema: Any) -> Any:
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0:
            return value
        node = cast(Node, schema)
        if isinstance(value, str):
            if node.get("type") == "string":
                return value
            value = _as_json(value, self._forms.types(node))
        elif isinstance(value, float) and value.is_integer():
            allowed = self._forms.types(node)
            return int(value) if "integer" in allowed and "number" not in allowed else value
        return self._inside(value, node) if isinstance(value, (dict, list)) else value

    def _inside(self, value: Any, schema: Node) -> Any:
        if _COMPOUND.isdisjoint(schema):
            return self._parts(value, schema)
        layers = list(self._forms.layers(schema))
        for layer in layers:
            value = self._parts(value, layer)
        for layer in layers:
            for word in ("anyOf", "oneOf"):
                fitting = [branch for branch in layer.get(word, ()) if self._forms.may_fit(value, branch)]
                self._left -= len(layer.get(word, ()))
                if len(fitting) == 1 and isinstance(fitting[0], dict) and self._left > 0:
                    value = self._inside(value, cast(Node, fitting[0]))
        return value

    def _parts(self, value: Any, layer: Node) -> Any:
        if isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            return [self.value(item, of_item(layer, index)) for index, item in items]
        members = cast(Node, value)
        if "patternProperties" in layer:
            return {name: self._every(v, of_member(layer, name)) for name, v in members.items()}
        known, rest = layer.get("properties", {}), layer.get("additionalProperties")
        return {name: self.value(v, known.get(name, rest)) for name, v in members.items()}

    def _every(self, value: Any, schemas: Iterable[Any]) -> Any:
        for schema in schemas:
            value = self.value(value, schema)
        return value


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
