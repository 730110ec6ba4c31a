"""Typed answers: how the text of a run is read, and the one repair.

Above: the loop. Below: `output`, the type; `output_text` finds the JSON in a text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from toolnexus.core.messages import Message, user
from toolnexus.engine.output import MAX_PROBLEMS, VALUE, Misfit, OutputType
from toolnexus.engine.output_text import ABSENT, json_values, whole
from toolnexus.errors import OutputError
from toolnexus.runtime.context import Frame, Outcome

if TYPE_CHECKING:
    from toolnexus.core.model import OutputSpec


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
