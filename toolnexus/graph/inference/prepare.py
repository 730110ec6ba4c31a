"""From what a graph asks to what a model is sent."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NoReturn, cast

from toolnexus.core.content import DATA, text_of
from toolnexus.core.messages import Message, OpaquePart, TextPart
from toolnexus.core.model import OutputSpec
from toolnexus.core.names import sanitize
from toolnexus.core.strict_json import decode
from toolnexus.core.tools import Tool
from toolnexus.engine.output import Misfit, OutputType, output_type_of
from toolnexus.errors import ConfigError
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import ResponseFormat, TextIntent, ToolChoice, ToolDefinition
from toolnexus.graph.inference.request import Extension, GenerateRequest
from toolnexus.graph.inference.targets import Target
from toolnexus.graph.services import Services

logger = logging.getLogger("toolnexus.graph")

_ANY_OBJECT = OutputSpec(name="answer", schema={"type": "object"})


@dataclass(frozen=True, slots=True)
class Form:
    """The form that the text of a reply must have."""

    spec: OutputSpec
    type: OutputType | None = None
    """What checks it; None: any object fits."""

    def problem(self, text: str) -> str:
        """What is wrong with `text`, empty when it fits."""
        try:
            data: Any = decode(text)
        except (ValueError, RecursionError) as error:
            return f"it is no JSON: {error}"
        if not isinstance(data, dict):
            return "it is no JSON object"
        try:
            if self.type is not None:
                self.type.value(cast("dict[str, Any]", data))
        except Misfit as misfit:
            return "; ".join(misfit.problems)
        return ""


def form_of(response: ResponseFormat | None) -> Form | None:
    """The form that is wanted, None: any text. Raises `GraphRunError` (validation) for a broken schema."""
    if response is None or response.kind == "text":
        return None
    if response.kind == "json_object":
        return Form(_ANY_OBJECT)
    try:
        return _form(response.name, json.dumps(response.schema_))
    except ConfigError as error:
        raise GraphRunError(f"intent.text.response.schema: {error}", kind="validation") from error


@lru_cache(maxsize=256)
def _form(name: str, schema: str) -> Form:
    made = output_type_of(json.loads(schema))
    assert made is not None
    if made.wrapped:
        raise ConfigError("its root must be an object")
    return Form(replace(made.spec, name=sanitize(name)[:64]), made)


def transcript_of(request: GenerateRequest) -> tuple[str, Sequence[Message]]:
    """The system prompt, which is all that the messages of that role say, and the others.

    Parts of data are JSON text in them.
    """
    system = [m.text for m in request.context if m.role == "system"]
    spoken = [m for m in (*request.context, request.input.message) if m.role != "system"]
    return "\n\n".join(filter(None, system)), tuple([_readable(message) for message in spoken])


def _readable(message: Message) -> Message:
    if not any(isinstance(part, OpaquePart) and part.origin == DATA for part in message.parts):
        return message
    parts = [
        TextPart(text_of(part)) if isinstance(part, OpaquePart) and part.origin == DATA else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def declared(definitions: Iterable[ToolDefinition]) -> tuple[Tool, ...]:
    """Tools that are only offered: whoever asked runs the calls."""
    return tuple([Tool(d.name, d.description, d.input_schema, _never) for d in definitions])


async def _never(arguments: dict[str, Any], ctx: Any) -> NoReturn:
    raise RuntimeError("a declared tool is run by whoever declared it")


def check_choice(choice: ToolChoice | None, tools: Sequence[Tool]) -> None:
    """Raises `GraphRunError` (validation) for a choice that the tools cannot honour."""
    if choice is None or choice.kind == "none":
        return
    if not tools:
        raise GraphRunError(
            f"tool_choice {choice.kind!r} needs tools, and none are offered", kind="validation"
        )
    if choice.kind == "named" and choice.name not in [tool.name for tool in tools]:
        raise GraphRunError(f"tool_choice names {choice.name!r}, which is not offered", kind="validation")


def options_of(text: TextIntent, choice: ToolChoice | None) -> dict[str, Any]:
    """The controls of a text by their names in chat completions."""
    effort = text.reasoning_effort
    if effort is None and text.reasoning_enabled is not None:
        effort = "medium" if text.reasoning_enabled else "none"
    options: dict[str, Any] = {
        "max_completion_tokens": text.max_output_tokens,
        "temperature": text.temperature,
        "top_p": text.top_p,
        "reasoning_effort": effort,
    }
    if choice is not None:
        named = {"type": "function", "function": {"name": choice.name}}
        options["tool_choice"] = named if choice.kind == "named" else choice.kind
    return {key: value for key, value in options.items() if value is not None}


class Additions:
    """What is added to a request for one target alone: extensions and metadata.

    Raises `GraphRunError` (validation) for an extension that the host does not know, and for fields that
    it refuses.
    """

    def __init__(
        self, services: Services, extensions: Sequence[Extension], metadata: Mapping[str, str]
    ) -> None:
        self._members = [(extension, _decoded(services, extension)) for extension in extensions]
        self._metadata = metadata

    def options(self, target: Target) -> dict[str, Any]:
        """The options of a request to `target`."""
        body = self.body(target)
        return {"extra_body": body} if body else {}

    def body(self, target: Target) -> dict[str, Any]:
        """The members of the body of a request to `target`."""
        body: dict[str, Any] = {}
        for extension, members in self._members:
            if extension.provider == target.provider:
                body.update(members)
        if self._metadata and target.metadata_field:
            body[target.metadata_field] = dict(self._metadata)
        return body

    def dropped(self, target: Target) -> list[dict[str, Any]]:
        """What a request to `target` leaves out, and why."""
        out = [
            dropped(f"extensions.{e.provider}/{e.id}", f"it is of {e.provider!r}, the model is {target}")
            for e, _ in self._members
            if e.provider != target.provider
        ]
        if self._metadata and not target.metadata_field:
            out.append(dropped("request_metadata", f"{target} has no field for it (metadata_field)"))
        for decision in out:
            logger.debug("%s was dropped: %s", decision["field"], decision["reason"])
        return out


def dropped(field: str, reason: str) -> dict[str, Any]:
    return {"field": field, "disposition": "dropped", "reason": reason}


def _decoded(services: Services, extension: Extension) -> Mapping[str, Any]:
    key = f"{extension.provider}/{extension.id}"
    decode = services.extensions.get(key)
    if decode is None:
        known = ", ".join(sorted(services.extensions)) or "none"
        raise GraphRunError(f"the extension {key!r} is unknown; known: {known}", kind="validation")
    try:
        return decode(extension.fields)
    except (ValueError, TypeError, LookupError) as error:
        raise GraphRunError(f"the extension {key!r}: {error}", kind="validation") from error
