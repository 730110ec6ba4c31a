"""The request to a model, as nodes and scripts write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, Field, PlainValidator, ValidationError

from toolnexus.core.content import parts_from_wire
from toolnexus.core.messages import Message, Part, TextPart
from toolnexus.graph.definition import issues_of
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import Intent, Strict, TextIntent

M = TypeVar("M", bound=BaseModel)


def _message(data: Any) -> Message:
    return data if isinstance(data, Message) else Message.from_wire(data)


def _parts(data: Any) -> tuple[Part, ...]:
    if isinstance(data, str):
        return (TextPart(data),)
    return cast("tuple[Part, ...]", data) if isinstance(data, tuple) else parts_from_wire(data)


WireMessage = Annotated[Message, PlainValidator(_message)]
Content = Annotated[tuple[Part, ...], PlainValidator(_parts)]
"""`{parts: [...]}`, or a text."""


class ModelId(Strict):
    """Who offers a model, and how they call it."""

    provider: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]


class ModelRef(Strict):
    """One model; `profile` tells apart several ways to it, such as two keys."""

    id: ModelId
    profile: str = ""


class Extension(Strict):
    """Settings that only one provider knows. What `fields` mean, the host has said under `provider/id`."""

    provider: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(min_length=1)]
    fields: dict[str, Any] = Field(default_factory=dict[str, Any])


class InputContent(Strict):
    """What is said now, and what is wanted for it."""

    content: Content
    intent: Intent = Intent(text=TextIntent())


class GenerateInput(Strict):
    """The current turn: of the user, or the results of tools."""

    role: Literal["user", "tool"]
    content: InputContent

    @property
    def message(self) -> Message:
        """The same as a message."""
        return Message(self.role, self.content.content)


class GenerateRequest(Strict):
    """One request: what was said before, what is said now, and what is wanted.

    With `model` that one answers, without it the router finds one, the one that `model_hint` means first.
    """

    model: ModelRef | None = None
    model_hint: str | None = None
    context: list[WireMessage] = Field(default_factory=list[Message])
    input: GenerateInput
    extensions: list[Extension] = Field(default_factory=list[Extension])
    request_metadata: dict[str, str] = Field(default_factory=dict[str, str])

    @property
    def intent(self) -> Intent:
        """What is wanted."""
        return self.input.content.intent


def read(model: type[M], data: Any, where: str) -> M:
    """`data` as `model`. Raises `GraphRunError` (validation) that names every field that is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = "; ".join(str(issue) for issue in issues_of(error))
        raise GraphRunError(f"{where}: {found}", kind="validation") from None
