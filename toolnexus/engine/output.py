"""Typed answers: what a run must answer with, how its text is read, and the one repair.

Above: the loop and the client. Below: `output_types` (pydantic) and `output_schema` (JSON Schema), each
loaded when the first of its kind is asked for; `output_text` finds the JSON in a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from toolnexus.core.messages import Message, user
from toolnexus.engine.output_text import ABSENT, json_values, whole
from toolnexus.errors import ConfigError, OutputError
from toolnexus.runtime.context import ContextKey, Frame, Outcome

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


class Answering:
    """The typed answer of one run."""

    def __init__(self, kind: OutputType, frame: Frame) -> None:
        self._kind = kind
        self._frame = frame
        self._repairing = False
        frame.typed = True

    @classmethod
    def of(cls, kind: OutputType | None, frame: Frame) -> Answering | None:
        """None when the run answers with any text."""
        return None if kind is None else cls(kind, frame)

    @property
    def spec(self) -> OutputSpec:
        return self._kind.spec

    def outcome(self, message: Message) -> Outcome | None:
        """The end of the run when `message` holds its answer.

        None when it does not: then the transcript asks for a better one. Raises `OutputError` when
        that was asked for already.
        """
        try:
            value = read(self._kind, message.text)
        except Misfit as misfit:
            problems = tuple(misfit.problems[:MAX_PROBLEMS])
            if self._repairing:
                raise OutputError(self.spec.name, problems) from None
            self._repairing = True
            self._frame.transcript.append(user(self._repair(message, problems)))
            return None
        self._repairing = False
        return Outcome(output=value, text=self._text(message, value))

    def _repair(self, message: Message, problems: tuple[str, ...]) -> str:
        lines = ["Your answer does not fit what was asked for:", *[f"- {line}" for line in problems]]
        lines.append("Give the whole answer again, as JSON that fits.")
        if not any(True for _ in json_values(message.text)):  # perhaps it was never told the form
            lines.append(self.spec.instructions)
        return "\n".join(lines)

    def _text(self, message: Message, value: Any) -> str | None:
        """The value as JSON, for whoever reads the run's text; None when that is what the model wrote."""
        data = self._kind.to_json(value)
        return None if whole(message.text) == data else json.dumps(data, ensure_ascii=False)


def read(kind: OutputType, text: str) -> Any:
    """The value of type `kind` that `text` holds. Raises `Misfit`."""
    first: Misfit | None = None
    for data in _readings(kind, text):
        try:
            return kind.value(data)
        except Misfit as misfit:
            first = first or misfit
        except RecursionError:
            first = first or Misfit(["the answer is nested too deeply"])
    if first is not None:
        raise first
    if not text.strip():
        raise Misfit(["the answer is empty"])
    raise Misfit([f"the answer holds no JSON object: {_excerpt(text)}"])


def _readings(kind: OutputType, text: str) -> list[dict[str, Any]]:
    """What `text` may mean, the likeliest first."""
    found: list[dict[str, Any]] = []
    for data in json_values(text):
        if isinstance(data, dict):
            members = cast("dict[str, Any]", data)
            if not kind.wrapped or members.keys() == {VALUE}:
                found.append(members)
        if kind.wrapped:
            found.append({VALUE: data})
    if kind.wrapped and text.strip() and isinstance(whole(text), (str, int, float, bool, type(ABSENT))):
        found.append({VALUE: text.strip()})  # a text that is not written as JSON
    return found


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
