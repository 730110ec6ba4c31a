"""The JSON Schema validator: offline, bounded, and forgiving where a schema is broken.

`jsonschema` itself is loaded at the first schema that needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar, cast

from toolnexus.core.schema_words import NAMED, Node, repaired
from toolnexus.tools.forms import Forms

T = TypeVar("T")

MAX_STEPS = 4_000
"""How many references one check follows. Without them its work is bounded; with them it can multiply."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED = (*NAMED, "$defs", "definitions", "dependencies")
_DATA = ("enum", "const", "default", "examples")
_OLDER = ("/draft-0", "/2019-09/")


class TooManySteps(Exception):
    """The check of one value does not end in reasonable time."""


class Validator:
    """Holds values against `schema`, as `checkable` gave it.

    The draft is the one that it names, 2020-12 without one. Remote references are never fetched; one
    that leads nowhere allows anything, and `lost` is told why.
    """

    def __init__(self, schema: Node, lost: Callable[[Exception], None] | None = None) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from jsonschema_specifications import REGISTRY

        cls = _guarded(validator_for(schema, default=Draft202012Validator))
        plain = {key: value for key, value in schema.items() if key != "$schema"}  # it leads to other classes
        self._validator = cls(plain, registry=REGISTRY)  # without a registry it would fetch
        self.forms = Forms(schema)
        self._lost = lost

    def read(self, value: Any, reader: Callable[[Iterator[Any]], T]) -> T:
        """What `reader` makes of the errors of `value`.

        Raises `TooManySteps` when there is no end to the check, and anything for a broken schema.
        """
        token = _checking.set(_Checking(self.forms, self._lost))
        try:
            return reader(self._validator.iter_errors(value))
        finally:
            _checking.reset(token)


class _Checking:
    """What the keywords know of the check that goes on."""

    def __init__(self, forms: Forms, lost: Callable[[Exception], None] | None) -> None:
        self.forms = forms
        self.lost = lost
        self.left = MAX_STEPS


_checking: ContextVar[_Checking] = ContextVar("checking")


@cache
def _guarded(cls: Any) -> Any:
    from jsonschema import validators

    library: Any = validators  # its stub leaves half of it untyped
    words: Any = {word: _following(cls.VALIDATORS[word]) for word in _REFERENCES if word in cls.VALIDATORS}
    for word in ("anyOf", "oneOf"):
        if word in cls.VALIDATORS:
            words[word] = _narrowing(cls.VALIDATORS[word])
    return library.extend(cls, words)


def _following(keyword: Any) -> Any:
    from referencing.exceptions import Unresolvable

    def follow(validator: Any, ref: Any, instance: Any, schema: Any) -> Iterator[Any]:
        checking = _checking.get()
        checking.left -= 1
        if checking.left < 0:
            raise TooManySteps(f"a value was held against more than {MAX_STEPS} references")
        try:
            yield from keyword(validator, ref, instance, schema) or ()
        except Unresolvable as error:
            if checking.lost is not None:
                checking.lost(error)

    return follow


def _narrowing(keyword: Any) -> Any:
    """Look closer only at those forms of a union that the value can be of, if it can be of any."""

    def choose(validator: Any, branches: Any, instance: Any, schema: Any) -> Iterator[Any]:
        may_fit = _checking.get().forms.may_fit
        fitting = [branch for branch in branches if may_fit(instance, branch)]
        return keyword(validator, fitting or branches, instance, schema)

    return choose


def checkable(schema: Mapping[str, Any], *, foreign: bool) -> tuple[Node, list[str]]:
    """`schema` as a `Validator` takes it, and the words in it that hold something else than they may.

    These are left out. Patterns that Python cannot read are, too, and those of a `foreign` schema: one
    can hold the event loop for hours.
    """
    flaws: list[str] = []
    named = str(schema.get("$schema"))
    node = _checkable(schema, any(draft in named for draft in _OLDER), foreign, flaws)
    if "$schema" in schema:
        node["$schema"] = schema["$schema"]
    return node, list(dict.fromkeys(flaws))


def _checkable(schema: Mapping[str, Any], older: bool, foreign: bool, flaws: list[str]) -> Node:
    node, bad = repaired(dict(schema), older=older)
    flaws += bad
    flaws += _drop_patterns(node, foreign)

    def inside(value: Any) -> Any:
        if isinstance(value, Mapping):
            return _checkable(cast("Mapping[str, Any]", value), older, foreign, flaws)
        return [inside(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value

    def member(key: str, value: Any) -> Any:
        if key in _NAMED and isinstance(value, Mapping):
            return {name: inside(part) for name, part in cast(Node, value).items()}
        return value if key in _DATA else inside(value)

    return {key: member(key, value) for key, value in node.items() if key != "$schema"}


def _drop_patterns(node: Node, foreign: bool) -> list[str]:
    bad = [pattern for pattern in node.get("patternProperties", ()) if not _is_pattern(pattern)]
    if "patternProperties" in node and (foreign or bad):
        for word in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            node.pop(word, None)  # `all other members` means nothing without the patterns
    if "pattern" in node and (foreign or not _is_pattern(node["pattern"])):
        bad.append(node.pop("pattern"))
    return [] if foreign else bad


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
