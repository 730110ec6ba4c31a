"""What a request wants: text, an image, sound or a video, each with its controls."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

FROM_SCRIPT = {"from_script": True}
"""The context of data from a script: an empty table of Lua is an empty list or object, as one is wanted, and
1.0 is a whole number."""


class Strict(BaseModel):
    """Data that is read without guessing: unknown fields and other types are errors, null is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any, info: ValidationInfo) -> Any:
        script = info.context is FROM_SCRIPT
        if script and data == []:
            return {}
        if not isinstance(data, dict):
            return data
        given = cast("dict[str, Any]", data)
        fields = {key: value for key, value in given.items() if value is not None}
        if not script:
            return fields
        return {key: _from_script(value, cls.model_fields.get(key)) for key, value in fields.items()}


def _from_script(value: Any, field: FieldInfo | None) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value == {} and field is not None:
        wanted = (field.annotation, *get_args(field.annotation))
        return [] if any(get_origin(one) is list for one in wanted) else value
    return value


OUTPUTS = ("text", "image", "audio", "video")
"""What an intent can want, in this order."""

AspectRatio = Annotated[str, Field(pattern=r"^[1-9]\d*:[1-9]\d*$")]
Positive = Annotated[int, Field(gt=0)]


class ToolChoice(Strict):
    """Whether the model may, must or must not call a tool; `named`: which one it must call."""

    kind: Literal["auto", "none", "required", "named"]
    name: str = ""

    @model_validator(mode="after")
    def _named(self) -> ToolChoice:
        if (self.kind == "named") != bool(self.name):
            raise ValueError("a tool choice has a name when its kind is 'named', and only then")
        return self


class ToolDefinition(Strict):
    """A tool that the model may call and somebody else runs. `input_schema` is a JSON Schema."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: str = ""
    input_schema: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object"},
        description="The JSON Schema of the arguments, an object.",
    )


class ResponseFormat(Strict):
    """The form of the text: any, one JSON object, or one that fits a JSON Schema."""

    kind: Literal["text", "json_object", "json_schema"]
    name: str = ""
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _schema(self) -> ResponseFormat:
        if self.kind != "json_schema":
            if self.name or self.schema_ is not None:
                raise ValueError(f"a response of kind {self.kind!r} has neither name nor schema")
        elif not self.name or not self.schema_:
            raise ValueError("a response of kind 'json_schema' needs a name and a schema")
        elif self.schema_.get("type", "object") != "object":
            raise ValueError("the root of the schema must be an object")
        return self


Effort = Literal["minimal", "low", "medium", "high", "xhigh"]


class TextIntent(Strict):
    """Text, and the calls of tools."""

    response: ResponseFormat | None = None
    max_output_tokens: Positive | None = None
    tools: list[ToolDefinition] | None = None
    tool_choice: ToolChoice | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    reasoning_enabled: bool | None = None
    reasoning_effort: Effort | None = None

    @model_validator(mode="after")
    def _consistent(self) -> TextIntent:
        names = [tool.name for tool in self.tools or ()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"tools: {', '.join(map(repr, twice))} are there more than once")
        if self.reasoning_enabled is False and self.reasoning_effort is not None:
            raise ValueError("reasoning that is off has no reasoning_effort")
        return self


class ImageSize(Strict):
    """In pixels."""

    width: Positive
    height: Positive


class ImageIntent(Strict):
    """Images. `delivery`: as data in the reply, or as an address."""

    size: ImageSize | None = None
    aspect_ratio: AspectRatio | None = None
    count: Positive | None = None
    seed: int | None = None
    output_format: Literal["png", "jpeg", "webp"] | None = None
    delivery: Literal["data", "url"] | None = None
    quality: str | None = None

    @model_validator(mode="after")
    def _one_shape(self) -> ImageIntent:
        if self.size is not None and self.aspect_ratio is not None:
            raise ValueError("an image has a size or an aspect_ratio, not both")
        return self


def of_id(data: Any) -> Any:
    """A text as the `id` of an object."""
    return {"id": data} if isinstance(data, str) else data


def of_encoding(data: Any) -> Any:
    """A text as the `encoding` of an object."""
    return {"encoding": data} if isinstance(data, str) else data


class Voice(Strict):
    """Who speaks; a plain text is its `id`."""

    id: Annotated[str, Field(min_length=1)]
    language: str = ""


class AudioFormat(Strict):
    """How sound is encoded; a plain text is its `encoding`, such as `mp3` or `wav`."""

    encoding: Annotated[str, Field(min_length=1)]
    sample_rate_hz: Positive | None = None
    channels: Positive | None = None


class AudioIntent(Strict):
    """Speech. `speed` is 1 for the ordinary one."""

    voice: Annotated[Voice | None, BeforeValidator(of_id)] = None
    format: Annotated[AudioFormat | None, BeforeValidator(of_encoding)] = None
    speed: Annotated[float, Field(ge=0.25, le=4)] | None = None
    count: Positive | None = None


class VideoIntent(Strict):
    """A video. `resolution` is such as `720p` or `4k`."""

    duration_millis: Positive | None = None
    resolution: Annotated[str, Field(pattern=r"^\d+[pPkK]$")] | None = None
    aspect_ratio: AspectRatio | None = None
    seed: int | None = None
    watermark: bool | None = None


class Intent(Strict):
    """What a request wants; at least one kind."""

    text: TextIntent | None = None
    image: ImageIntent | None = None
    audio: AudioIntent | None = None
    video: VideoIntent | None = None

    @model_validator(mode="after")
    def _something(self) -> Intent:
        if not self.kinds:
            raise ValueError("an intent wants at least one of text, image, audio and video")
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of content that it wants."""
        return tuple([kind for kind in OUTPUTS if getattr(self, kind) is not None])
