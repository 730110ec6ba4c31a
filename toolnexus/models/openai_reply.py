"""Chat completion replies, whole or streamed, as our values."""

from __future__ import annotations

import json
from sys import intern
from typing import Any, cast

from toolnexus.core.messages import Message, Part, ReasoningPart, TextPart, ToolCallPart
from toolnexus.core.model import ModelResponse, ModelSink, StopReason
from toolnexus.core.usage import Usage
from toolnexus.errors import ModelResponseError
from toolnexus.models.wire import event_error, text_in
from toolnexus.runtime.redact import Redactor

_STOPS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}
_REASONING = ("reasoning_content", "reasoning")
# What no request takes back, and what is read into parts.
_READ = frozenset(("role", "content", "refusal", "tool_calls", *_REASONING))
_OF_CALL = frozenset(("id", "type", "index", "function"))
_OF_FUNCTION = frozenset(("name", "arguments"))
_DROPPED = frozenset(("function_call", "annotations", "audio", "images", "executed_tools"))
_REPLACED = frozenset(("id", "type", "format", "name", "index"))


class _Call:
    """A tool call that is being put together."""

    __slots__ = ("arguments", "extra", "id", "index", "name")

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}

    def take(self, delta: dict[str, Any], host: str) -> None:
        function: dict[str, Any] = delta.get("function") or {}
        if not self.id:
            self.id = _id(delta) or ""
        if not self.name:
            self.name = text_in(host, function, "name")
        if arguments := function.get("arguments"):
            self.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments))
        if not delta.keys() <= _OF_CALL or not function.keys() <= _OF_FUNCTION:
            rest = {k: v for k, v in delta.items() if k not in _OF_CALL}
            inner = {k: v for k, v in function.items() if k not in _OF_FUNCTION}
            _merge_into(self.extra, rest | ({"function": inner} if inner else {}))

    def part(self, position: int) -> ToolCallPart:
        arguments = "".join(self.arguments)
        extra = self.extra or None
        return ToolCallPart(
            self.id or f"call_{position}", self.name, arguments if arguments.strip() else "{}", extra
        )


class OpenAIReading:
    """Reads one reply. A whole message is read like the only delta of a stream."""

    def __init__(self, origin: str, sink: ModelSink | None, redact: Redactor) -> None:
        self.ended = False
        self.said = False
        self._origin = origin
        self._host = origin.partition(":")[2]
        self._sink = sink
        self._redact = redact
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._field: str | None = None
        self._calls: list[_Call] = []
        self._ready: list[ToolCallPart] = []
        self._extra: dict[str, Any] = {}
        self._finish = ""
        self._usage: Any = None
        self._id = ""

    def feed(self, event: dict[str, Any]) -> None:
        if event.get("error"):
            raise event_error(self._host, event["error"], self._redact)
        if not self._id:
            self._id = _id(event) or ""
        if event.get("usage"):
            self._usage = event["usage"]  # cumulative where a server repeats it: the last one counts
        for choice in event.get("choices") or ():
            if choice.get("index"):  # further choices (`n`) are not ours
                continue
            if choice.get("error"):
                raise event_error(self._host, choice["error"], self._redact)
            if delta := choice.get("delta"):
                self._take(delta)
            elif message := choice.get("message"):
                self._take(message, whole=True)
                self.ended = True
            if finish := choice.get("finish_reason"):
                self._finish = finish
                self.ended = True

    def _take(self, delta: dict[str, Any], whole: bool = False) -> None:
        content = delta.get("content")
        if content:
            self._say(content)
            if len(delta) == 1:
                return
        elif content == "":
            self._extra["content"] = ""
        for field in (self._field,) if self._field else _REASONING:
            if delta.get(field):
                thought = text_in(self._host, delta, field)
                self._field = field
                self._think(thought)
                break
        if refusal := text_in(self._host, delta, "refusal"):
            self._refusal.append(refusal)
            self._say(refusal)
        calls = delta.get("tool_calls") or ()
        if whole and (ready := _ordinary(calls)):
            self._ready = ready
        else:
            for call in calls:
                self._call(call, whole)
        if delta.keys() <= _READ:
            return
        for key, value in delta.items():
            if value and key not in _READ and key not in _DROPPED:
                _merge_into(self._extra, {key: value})

    def _say(self, content: Any) -> None:
        if not isinstance(content, str):
            content = self._from_blocks(content)
            if not content:
                return
        self._text.append(content)
        if self._sink is not None:
            self.said = True
            self._sink.text(content)

    def _think(self, thought: str) -> None:
        self._reasoning.append(thought)
        if self._sink is not None:
            self.said = True
            self._sink.reasoning(thought)

    def _from_blocks(self, content: Any) -> str:
        """The text of content given as blocks, as some servers do; their thinking is handed on."""
        texts: list[str] = []
        for block in cast("list[dict[str, Any]]", content):
            if block.get("type") == "thinking":
                inner = block.get("thinking")
                self._think(inner if isinstance(inner, str) else self._from_blocks(inner or ()))
            else:
                texts.append(text_in(self._host, block, "text"))
        return "".join(texts)

    def _call(self, delta: dict[str, Any], whole: bool) -> None:
        call = None if whole else self._open_call(delta)
        if call is None:
            call = _Call(delta.get("index"))
            self._calls.append(call)
        call.take(delta, self._host)

    def _open_call(self, delta: dict[str, Any]) -> _Call | None:
        """The call that `delta` goes on with; None when it starts one.

        The index says it, but some servers leave it out or give every call index 0: another id, or
        another name behind complete arguments, is another call too.
        """
        index = delta.get("index")
        known = [c for c in self._calls if index is None or c.index == index]
        if not known:
            return None
        call, id = known[-1], _id(delta)
        if id and call.id:
            return call if id == call.id else None
        function: dict[str, Any] = delta.get("function") or {}
        return None if function.get("name") and call.name and _complete("".join(call.arguments)) else call

    def response(self) -> ModelResponse:
        if not self.ended:
            raise ModelResponseError(f"{self._host} answered without a message (no choices)")
        calls = self._ready or [call.part(i) for i, call in enumerate(self._calls)]
        parts: list[Part] = []
        if self._reasoning:
            field = {"field": self._field} if self._field == "reasoning" else None
            parts.append(ReasoningPart("".join(self._reasoning), self._origin, field))
        text = "".join(self._text)
        if text:
            parts.append(TextPart(text))
        extra = dict(self._extra)
        if self._refusal:
            extra["refusal"] = "".join(self._refusal)
        if text or not calls:
            extra.pop("content", None)
        message = Message("assistant", (*parts, *calls), self._origin, extra or None)
        return ModelResponse(
            message=message,
            usage=_usage(self._usage),
            stop=self._stop(bool(calls)),
            id=self._id,
            reason=str(self._finish),
        )

    def partial(self) -> ModelResponse | None:
        text = "".join(self._text)
        if not text:
            return None
        message = Message("assistant", (TextPart(text),), self._origin)
        return ModelResponse(message=message, usage=_usage(self._usage), stop="cut")

    def used(self) -> Usage | None:
        return _usage(self._usage)

    def _stop(self, calls: bool) -> StopReason:
        if self._finish in _STOPS:
            return _STOPS[self._finish]
        if calls:  # also when a server says "stop" beside its calls
            return "tool_calls"
        return "refusal" if self._refusal else "stop"


def _ordinary(calls: Any) -> list[ToolCallPart]:
    """Whole calls that are just as the style has them; none when one has to be pieced together."""
    parts: list[ToolCallPart] = []
    for call in calls:
        function = call.get("function")
        if not (call.keys() <= _OF_CALL and function and function.keys() == _OF_FUNCTION):
            return []
        id, name, arguments = call.get("id"), function["name"], function["arguments"]
        if not (id and name and arguments.strip()) or not type(id) is type(name) is type(arguments) is str:
            return []
        parts.append(ToolCallPart(id, intern(name), arguments))  # a run calls the same tools again and again
    return parts


def _id(delta: dict[str, Any]) -> str | None:
    """The id of a call or a reply; what is no text is none."""
    id = delta.get("id")
    return id if isinstance(id, str) else None


def _complete(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True


def _merge_into(target: dict[str, Any], delta: dict[str, Any]) -> None:
    """Put together fields that we do not know: texts grow, objects and lists are joined."""
    for key, new in delta.items():
        old = target.get(key)
        if isinstance(old, str) and isinstance(new, str) and key not in _REPLACED:
            target[key] = old + new
        elif isinstance(old, dict) and isinstance(new, dict):
            _merge_into(cast("dict[str, Any]", old), cast("dict[str, Any]", new))
        elif isinstance(old, list) and isinstance(new, list):
            _merge_lists(cast("list[Any]", old), cast("list[Any]", new))
        elif new is not None:
            target[key] = new


def _merge_lists(target: list[Any], delta: list[Any]) -> None:
    for item in delta:
        same = [t for t in target if _is_more_of(t, item)]
        if same:
            _merge_into(same[0], item)
        else:
            target.append(item)


def _is_more_of(old: Any, new: Any) -> bool:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    a, b = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
    return b.get("index") is not None and all(a.get(key) == b.get(key) for key in ("index", "type"))


def _usage(data: Any) -> Usage | None:
    if not isinstance(data, dict):
        return None
    fields = cast("dict[str, Any]", data)
    prompt: dict[str, Any] = fields.get("prompt_tokens_details") or {}
    output: dict[str, Any] = fields.get("completion_tokens_details") or {}
    if not prompt and not output and "prompt_cache_hit_tokens" not in fields:
        return Usage(
            prompt_tokens=_count(fields.get("prompt_tokens")),
            completion_tokens=_count(fields.get("completion_tokens")),
        )
    return Usage(
        prompt_tokens=_count(fields.get("prompt_tokens")),
        completion_tokens=_count(fields.get("completion_tokens")),
        cached_tokens=_count(prompt.get("cached_tokens") or fields.get("prompt_cache_hit_tokens")),
        cache_write_tokens=_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=_count(output.get("reasoning_tokens")),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
