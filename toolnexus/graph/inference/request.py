"""The request to a model, as nodes and scripts write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, ValidationError

from toolnexus.core.content import part_from_wire, parts_from_wire
from toolnexus.core.messages import MediaPart, Message, Part, TextPart
from toolnexus.graph.definition import issues_of
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import (
    FROM_SCRIPT,
    AudioFormat,
    Intent,
    Positive,
    Strict,
    TextIntent,
    of_encoding,
)

M = TypeVar("M", bound=BaseModel)


def _message(data: Any) -> Message:
    return data if isinstance(data, Message) else Message.from_wire(data)


def _parts(data: Any) -> tuple[Part, ...]:
    if isinstance(data, str):
        return (TextPart(data),)
    return cast("tuple[Part, ...]", data) if isinstance(data, tuple) else parts_from_wire(data)


def _sound(data: Any) -> MediaPart:
    if isinstance(data, MediaPart):
        return data
    given: Any = data
    if isinstance(data, dict) and "source" not in data:
        given = {"type": "audio", "source": cast("Any", data)}
    part = part_from_wire(given)
    if not isinstance(part, MediaPart):
        raise ValueError("it is no sound")
    return part


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


class EmbedItem(Strict):
    """One thing whose meaning is wanted."""

    content: Content


class EmbedRequest(Strict):
    """Vectors for texts."""

    model: ModelRef | None = None
    model_hint: str | None = None
    items: Annotated[list[EmbedItem], Field(min_length=1)]
    dimensions: Positive | None = None
    extensions: list[Extension] = Field(default_factory=list[Extension])


class TranscribeRequest(Strict):
    """What is said in a sound: `{type: audio, source}`, or its source alone."""

    model: ModelRef | None = None
    model_hint: str | None = None
    audio: Annotated[MediaPart, PlainValidator(_sound)]
    language: str | None = None
    prompt: str | None = None
    timestamps: Literal["segment", "word"] | None = None
    extensions: list[Extension] = Field(default_factory=list[Extension])


class SessionRequest(Strict):
    """What is said in a sound that comes in pieces. Those of the encoding `pcm` are 16 bit, little endian."""

    model: ModelRef | None = None
    model_hint: str | None = None
    input_format: Annotated[AudioFormat, BeforeValidator(of_encoding)]
    language: str | None = None
    prompt: str | None = None
    timestamps: Literal["segment", "word"] | None = None
    extensions: list[Extension] = Field(default_factory=list[Extension])


class AudioChunk(Strict):
    """A piece of sound: base64 in `data`; `sequence` grows."""

    data: Annotated[str, Field(min_length=1)]
    sequence: int | None = None


def read(model: type[M], data: Any, where: str) -> M:
    """`data` of a script as `model`. Raises `GraphRunError` (validation) that names every wrong field."""
    try:
        return model.model_validate(data, context=FROM_SCRIPT)
    except ValidationError as error:
        found = "; ".join(str(issue) for issue in issues_of(error))
        raise GraphRunError(f"{where}: {found}", kind="validation") from None
