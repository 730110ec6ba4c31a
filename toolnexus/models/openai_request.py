"""Our values as chat completion requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from toolnexus.core.messages import (
    MediaPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
)
from toolnexus.core.schema import openai_declaration
from toolnexus.core.tools import Tool
from toolnexus.models.encode import MALFORMED, arguments_object, dumps
from toolnexus.models.ids import short_id, wire_id, wire_name
from toolnexus.models.media import openai_part, openai_result, text_block


def encode_tools(tools: Sequence[Tool]) -> bytes:
    """The `tools` member of a body."""
    return b'"tools":' + dumps([openai_declaration(tool) for tool in tools])


def encode_message(message: Message, origin: str) -> bytes:
    """The wire messages that `message` becomes, joined by commas. Never empty.

    What only another endpoint understands is left out; what `origin` itself sent goes back to it.
    """
    if message.role == "tool":
        return dumps(_tool_messages(message, _ids(origin)))[1:-1]
    if message.role == "user":
        return dumps({"role": "user", "content": _user_content(message)})
    return dumps(_assistant(message, origin))


def _ids(origin: str) -> Callable[[str], str]:
    return short_id if origin.partition(":")[2].endswith("mistral.ai") else wire_id


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append(text_block(part.text))
        elif isinstance(part, MediaPart):
            content.append(openai_part(part))
    return content


def _tool_messages(message: Message, ids: Callable[[str], str]) -> list[dict[str, Any]]:
    """One message per result, in call order, and one of the user with the images of all.

    Mistral's servers refuse a user directly behind a tool: there the assistant stands between.
    """
    out: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for result in message.tool_results:
        id = ids(result.call_id)
        text, shown = openai_result(result, id) if result.media else (result.output, ())
        out.append({"role": "tool", "tool_call_id": id, "content": text})
        images += shown
    if images:
        if ids is short_id:
            out.append({"role": "assistant", "content": "Let me look at the images."})
        out.append({"role": "user", "content": images})
    return out


def _assistant(message: Message, origin: str) -> dict[str, Any]:
    ours = message.origin == origin
    extra: Mapping[str, Any] = message.extra if ours and message.extra is not None else {}
    ids = _ids(origin)
    calls = [_call(part, ours, ids) for part in message.parts if isinstance(part, ToolCallPart)]
    out: dict[str, Any] = {k: v for k, v in extra.items() if k not in ("content", "refusal")}
    out["role"] = "assistant"
    text = message.text
    if extra.get("refusal") == text and text:
        out |= {"content": None, "refusal": text}
    elif text:
        out["content"] = text
    else:  # some servers refuse null and some "": each gets back what it gave
        out["content"] = extra.get("content") if calls else ""
    if calls:
        for part in message.parts:
            if isinstance(part, ReasoningPart) and part.origin == origin:
                field = (part.extra or {}).get("field", "reasoning_content")
                out[field] = out.get(field, "") + part.text
        out["tool_calls"] = calls
    return out


def _call(part: ToolCallPart, ours: bool, ids: Callable[[str], str]) -> dict[str, Any]:
    arguments = part.arguments or "{}"
    if MALFORMED in (parsed := arguments_object(arguments)):
        arguments = dumps(parsed).decode()
    if part.extra is None or not ours:
        plain = {"name": wire_name(part.name), "arguments": arguments}
        return {"id": ids(part.id), "type": "function", "function": plain}
    extra = dict(part.extra)
    function = cast("Mapping[str, Any]", extra.pop("function", {}))
    return {
        **extra,
        "id": ids(part.id),
        "type": "function",
        "function": {**function, "name": wire_name(part.name), "arguments": arguments},
    }
