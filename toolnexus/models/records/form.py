"""Requests, replies, errors and results of tools as the JSON values of a record.

A request is kept as its view: what a model reads, with media by digest. Whatever a replay gives back
(replies, results of tools) is kept whole.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from toolnexus.core.messages import Message, user
from toolnexus.core.model import ModelResponse
from toolnexus.core.suspension import Request
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.usage import Usage
from toolnexus.core.wire import message_from_json, message_to_json
from toolnexus.errors import ModelConnectionError, ModelError, ModelHTTPError, ModelResponseError

Json = dict[str, Any]
Clean = Callable[[str], str]

_SPILLED = re.compile(r"[^\s\"'\\]*toolnexus-\w{8}[/\\]+output-\d+")
_ERRORS = {cls.__name__: cls for cls in (ModelError, ModelConnectionError, ModelResponseError)}
_USAGE = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "estimated",
)


def cleaned(value: Any, clean: Clean) -> Any:
    """`value` as JSON values, every text in it through `clean`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {str(k): cleaned(v, clean) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(v, clean) for v in cast("Sequence[Any]", value)]
    return value


def same_place(text: str) -> str:
    """`text` with one name for the files of long outputs, whose folder is another in every process."""
    return _SPILLED.sub("[long-output]", text)


def message_view(message: Json, clean: Clean) -> Json:
    """What a model reads of a message: all of it, inline media by digest."""
    parts = [_part_view(part) for part in message["parts"]]
    rest = {k: v for k, v in message.items() if k not in ("v", "parts")}
    return cleaned({**rest, "parts": parts}, lambda text: same_place(clean(text)))


def _part_view(part: Json) -> Json:
    if "media" in part:
        return {**part, "media": [_part_view(inner) for inner in part["media"]]}
    if part["type"] != "media" or "data" not in part:
        return part
    try:
        content = base64.b64decode(part["data"])
    except binascii.Error:
        content = part["data"].encode()
    rest = {k: v for k, v in part.items() if k != "data"}
    return {**rest, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def tool_forms(tools: Sequence[Tool], clean: Clean) -> list[Json]:
    """The offered tools, and where they come from."""
    out: list[Json] = []
    for tool in tools:
        form: Json = {"name": tool.name, "description": tool.description, "schema": tool.input_schema}
        form["source"] = tool.source
        if tool.origin is not None:
            form |= {"origin": tool.origin, "original_name": tool.original_name}
        out.append(cleaned(form, clean))
    return out


def tools_view(forms: Sequence[Json]) -> list[Json]:
    """What a model reads of them. Their order is left out: it changes no answer that we could check."""
    views = [{key: form[key] for key in ("name", "description", "schema")} for form in forms]
    return sorted(views, key=lambda view: view["name"])


def digest(value: Any) -> str:
    """A short name for a JSON value that no other one has."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def reply_form(response: ModelResponse, clean: Clean) -> Json:
    out: Json = {"message": message_to_json(response.message), "stop": response.stop}
    if response.usage is not None:
        counts = {name: getattr(response.usage, name) for name in _USAGE}
        out["usage"] = {name: count for name, count in counts.items() if count}
    return cleaned(out, clean)


def reply_of(form: Mapping[str, Any], model: str) -> ModelResponse:
    usage = Usage(**form["usage"]) if "usage" in form else None
    message = message_from_json(form["message"])
    return ModelResponse(message=message, usage=usage, stop=form["stop"], model=model)


def error_form(error: Exception, clean: Clean) -> Json:
    out: Json = {"type": type(error).__name__, "message": clean(str(error))}
    if isinstance(error, ModelHTTPError):
        out |= {"status": error.status, "retry_after": error.retry_after, "retryable": error.retryable}
    return out


def error_of(form: Mapping[str, Any]) -> ModelError:
    """The error again; one that was none of ours comes back as a `ModelError` with its text."""
    message = form["message"]
    if form["type"] == "ModelHTTPError":
        hints = {key: form[key] for key in ("status", "retry_after", "retryable")}
        return ModelHTTPError(message, **hints)
    cls = _ERRORS.get(form["type"])
    return cls(message) if cls is not None else ModelError(f"{form['type']}: {message}")


def result_form(result: ToolResult, clean: Clean) -> Json:
    out: Json = {"output": clean(result.output)}
    if result.is_error:
        out["is_error"] = True
    if result.metadata:
        out["metadata"] = cleaned(result.metadata, clean)
    if result.parts:
        out["parts"] = message_to_json(user(result.parts))["parts"]
    if result.requests:
        out["requests"] = [cleaned(request.to_json(), clean) for request in result.requests]
    return out


def result_of(form: Mapping[str, Any]) -> ToolResult:
    parts: Any = message_from_json({"v": 1, "role": "user", "parts": form.get("parts", ())}).parts
    return ToolResult(
        output=form["output"],
        is_error=form.get("is_error", False),
        metadata=form.get("metadata", {}),
        parts=parts,
        requests=tuple([_request_of(request) for request in form.get("requests", ())]),
    )


def _request_of(form: Mapping[str, Any]) -> Request:
    given = {("expires_at" if key == "expiresAt" else key): value for key, value in form.items()}
    return Request(**given)


class Views:
    """The messages of one run as views, each made once."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._messages: list[Message] = []
        self._views: list[Json] = []

    def all(self, messages: Sequence[Message]) -> list[Json]:
        """The views of `messages`, a new list."""
        known = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old is not new:
                break
            known += 1
        fresh = [message_view(message_to_json(message), self._clean) for message in messages[known:]]
        self._messages = list(messages)
        self._views = self._views[:known] + fresh
        return self._views.copy()
