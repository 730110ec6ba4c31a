"""A JSON Schema as the form of an answer: the value is plain JSON."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from toolnexus.core.model import OutputSpec
from toolnexus.core.names import sanitize
from toolnexus.core.schema_words import NESTED, types_of
from toolnexus.engine.output import VALUE, Misfit
from toolnexus.engine.output_nodes import drop, in_member, rooted
from toolnexus.errors import ConfigError
from toolnexus.tools.arguments import explain
from toolnexus.tools.coerce import coerce
from toolnexus.tools.validator import Validator, checkable

_WORDS = NESTED | {"type", "enum", "const", "$ref", "format", "pattern"}
_EXAMPLE = '{"type": "object", "properties": {"risk": {"type": "integer"}}}'


class SchemaOutput:
    """A JSON Schema as the form of an answer.

    Raises `ConfigError` for a mapping that is none, and for one that is broken.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        if schema.keys().isdisjoint(_WORDS):
            raise ConfigError(f"the mapping says no JSON Schema (keys {list(schema)}); one is {_EXAMPLE}")
        node, flaws = checkable(rooted(schema), foreign=False)
        if flaws:
            raise ConfigError(f"the JSON Schema has broken words: {', '.join(map(repr, flaws))}")
        types = types_of(node)
        self.wrapped = types != ["object"] and (bool(types) or "properties" not in node)
        name = sanitize(str(node.get("title") or "answer"))[:64]
        description = str(node.get("description", ""))
        self._schema = in_member(node, VALUE) if self.wrapped else node
        self._validator = Validator(self._schema)
        self.spec = OutputSpec(name=name, schema=self._schema, description=description)

    def value(self, data: dict[str, Any]) -> Any:
        """See `OutputType.value`."""
        data = coerce(data, self._schema, self._validator.forms)
        try:
            nulls, fits = self._validator.read(data, _refused)
            lean = copy.deepcopy(data)
            if not fits and any([drop(lean, path) for path in nulls]):
                data, fits = (lean, True) if self._validator.read(lean, _refused)[1] else (data, False)
            problems = [] if fits else explain(self._schema, data)
        except Exception as error:  # a reference without end, a number that no float holds
            raise Misfit([f"the answer cannot be checked: {type(error).__name__} {error}"]) from None
        if not fits:
            raise Misfit([line.replace("the arguments:", "the answer:", 1) for line in problems])
        return data[VALUE] if self.wrapped else data

    def to_json(self, value: Any) -> Any:
        """See `OutputType.to_json`."""
        return value


def _refused(errors: Iterator[Any]) -> tuple[list[list[int | str]], bool]:
    """The places of nulls that are refused, and whether nothing is."""
    found = list(errors)
    return [list(e.absolute_path) for e in _every(found) if e.instance is None], not found


def _every(errors: Iterable[Any]) -> Iterator[Any]:
    for error in errors:
        yield error
        yield from _every(error.context or ())
