"""A chat completion request as our values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, NoReturn, cast

from toolnexus.core.messages import Message
from toolnexus.core.model import OutputSpec
from toolnexus.core.names import sanitize
from toolnexus.core.tools import Tool
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError
from toolnexus.models.chat.messages import members, read_messages

_OURS = ("messages", "tools", "model", "response_format", "stream")
_NOT_HERE = {
    "n": "one reply comes back; ask again for another",
    "logprobs": "replies have none",
    "top_logprobs": "replies have none",
    "functions": "give 'tools'",
    "function_call": "give 'tool_choice'",
    "modalities": "replies are text and tool calls",
    "audio": "replies are text and tool calls",
    "extra_body": "give its members themselves",
}
_DEFAULTS: Mapping[str, Any] = {"n": 1, "logprobs": False, "modalities": ["text"]}
_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}}


@frozen(kw_only=True)
class ChatRequest:
    """What a caller asks of one model, once."""

    model: str | None
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    """Declared only: calling one raises."""
    output: OutputSpec | None
    options: Mapping[str, Any]
    """All other members, as they were given."""


def read_request(body: object) -> ChatRequest:
    """The request that `body` is: the JSON of a chat completion request.

    Raises `ConfigError` that names the place for what is none, and for what cannot be honoured.
    """
    if not isinstance(body, Mapping):
        raise ConfigError(
            f"a chat completion request is a mapping with 'messages', not {type(body).__name__}"
        )
    given = {str(k): v for k, v in cast("Mapping[Any, Any]", body).items() if v is not None}
    if given.get("stream"):
        raise ConfigError("stream: replies come whole; leave it out")
    for name, instead in _NOT_HERE.items():
        if name in given and given[name] != _DEFAULTS.get(name):
            raise ConfigError(f"{name}={given[name]!r}: {instead}")
    model = given.get("model")
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"model={model!r}: give the name of a model, or leave it out")
    system, messages = read_messages(given.get("messages"))
    tools = tuple(
        [_tool(tool, f"tools[{n}]") for n, tool in enumerate(_list(given.get("tools", ()), "tools"))]
    )
    names = [tool.name for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"tools: {twice} are declared more than once")
    return ChatRequest(
        model=model,
        system=system,
        messages=messages,
        tools=tools,
        output=_output(given.get("response_format")),
        options={k: v for k, v in given.items() if k not in _OURS and k not in _NOT_HERE},
    )


def _tool(given: Any, place: str) -> Tool:
    function = members(members(given).get("function"))
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{place}: give {{'type': 'function', 'function': {{'name': …, 'parameters': …}}}}")
    if sanitize(name) != name or len(name) > 64:
        raise ConfigError(f"{place}: the name {name!r} must be 1 to 64 of letters, digits, _ and -")
    schema = function.get("parameters")
    if not isinstance(schema, (Mapping, NoneType)):
        raise ConfigError(f"{place}: parameters must be a JSON Schema, not {type(schema).__name__}")
    return Tool(
        name, str(function.get("description") or ""), members(cast("object", schema)) or _ANYTHING, _never
    )


async def _never(arguments: dict[str, Any], ctx: Any) -> NoReturn:
    raise RuntimeError("a translated tool is the caller's to run")


def _output(form: Any) -> OutputSpec | None:
    kind = members(form).get("type")
    if form is None or kind == "text":
        return None
    if kind == "json_object":
        return OutputSpec(name="answer", schema={"type": "object"})
    spec = members(members(form).get("json_schema"))
    schema = members(spec.get("schema"))
    if kind != "json_schema" or not schema:
        shown = json.dumps(form, default=repr)[:80]
        raise ConfigError(f"response_format={shown}: give text, json_object, or json_schema with a schema")
    if schema.get("type", "object") != "object":
        raise ConfigError("response_format: the root of the schema must be an object")
    name = sanitize(str(spec.get("name") or "answer"))[:64]
    return OutputSpec(name=name, schema=schema, description=str(spec.get("description") or ""))


def _list(value: object, place: str) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return cast("Sequence[Any]", value)
    raise ConfigError(f"{place}: give a list, not {type(value).__name__}")
