"""Typed answers: what a run must answer with.

Above: the client, and `answering`, which reads what a run says. Below: `output_types` (pydantic) and
`output_schema` (JSON Schema), each loaded when the first of its kind is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ContextKey

if TYPE_CHECKING:
    from toolnexus.core.model import OutputSpec

MAX_PROBLEMS = 10
"""How many wrong fields a repair names."""
VALUE = "value"
"""The member that holds what is no object itself: the root of a schema must be one."""


class Misfit(Exception):
    """A value is not of the asked type. `problems` says why, a line for each wrong field."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class OutputType(Protocol):
    """The parsed form of an `output_type`."""

    @property
    def spec(self) -> OutputSpec: ...
    @property
    def wrapped(self) -> bool:
        """Whether the value is the member `value` of the object that a model writes."""
        ...

    def value(self, data: dict[str, Any]) -> Any:
        """The value that `data`, fitting the schema of the spec, stands for. Raises `Misfit`."""
        ...

    def to_json(self, value: Any) -> Any:
        """`value` as plain JSON."""
        ...


OUTPUT: ContextKey[OutputType] = ContextKey("output type")
"""What one ask wants as its answer; it holds for the run at the top only."""


def output_type_of(given: Any, where: str = "") -> OutputType | None:
    """The parsed form of an `output_type` option; None stays None.

    Raises `ConfigError` that begins with `where` for what says no form of an answer.
    """
    if given is None:
        return None
    try:
        if isinstance(given, Mapping):
            return _of_schema(_as_text(cast("Mapping[str, Any]", given)))
        if _can_be_remembered(given):
            return _of_type(given)
        return _of_type.__wrapped__(given)
    except ConfigError as error:
        raise ConfigError(f"{where}output_type: {error}") from None


def _can_be_remembered(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:  # such as one with metadata that holds a list
        return False
    return True


def _as_text(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the mapping is no JSON Schema: {error}") from None


@lru_cache(maxsize=256)
def _of_schema(text: str) -> OutputType:
    from toolnexus.engine.output_schema import SchemaOutput

    return SchemaOutput(json.loads(text))


@lru_cache(maxsize=256)
def _of_type(hint: Any) -> OutputType:
    from toolnexus.engine.output_types import TypedOutput

    return TypedOutput(hint)
