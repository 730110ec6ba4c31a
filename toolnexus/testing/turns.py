"""What a scripted endpoint answers, in the words of either style."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

from toolnexus.core.messages import ToolCallPart
from toolnexus.core.options import unknown_key
from toolnexus.errors import ConfigError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of a `ScriptedEndpoint`. Everything is optional.

    What the model says: `text`; `calls`, each made by `call` or `{"name", "args"?, "id"?, "extra"?}` with
    `args` an object or a text that is sent as it is; `reasoning` (OpenAI style); `thinking`, a text and its
    signature, and `redacted` (Anthropic style); `refusal`; `extra`, more fields of the message; `finish`,
    the stop reason in the style's own word; `usage`, input and output tokens, the raw object, or None.

    What it gives besides messages, by the address that is asked: `images` (objects with `b64_json` or `url`),
    `audio` (base64), `vectors`; a transcript is `text` with its other fields in `extra`.

    What goes wrong: `status`, `body` and `headers` of an answer that is no reply; `delay` in seconds;
    `hang`, never answer; `drop_after`, close the connection after that many events; `sse`, lines sent
    as they are instead of a reply. `chunk` is how many characters one text event has, `split` how many
    bytes one write has (0: one event).
    """

    text: str | None = None
    calls: Sequence[ToolCallPart | Mapping[str, Any]] = ()
    reasoning: str | None = None
    thinking: tuple[str, str] | None = None
    redacted: str | None = None
    refusal: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    finish: str | None = None
    usage: tuple[int, int] | Mapping[str, Any] | None = (10, 5)
    images: Sequence[Mapping[str, Any]] = ()
    audio: str | None = None
    vectors: Sequence[Sequence[float]] = ()
    status: int = 200
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    hang: bool = False
    drop_after: int | None = None
    sse: Sequence[str] | None = None
    chunk: int = 8
    split: int = 0

    def __post_init__(self) -> None:
        """Raises `ConfigError` for calls that are none."""
        calls: Any = self.calls
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            kind = type(calls).__name__
            raise ConfigError(f"calls must be a list of calls, not {kind}; write [{calls!r}]")
        fields = [_fields_of(call) for call in cast(Sequence[Any], calls)]
        object.__setattr__(self, "calls", tuple(fields))

    @classmethod
    def of(cls, data: Turn | str | Mapping[str, Any]) -> Turn:
        """A turn from a text, or from the object in a script file.

        Raises `ConfigError` for a key that is none, and for what is no turn.
        """
        if isinstance(data, Turn):
            return data
        if isinstance(data, str):
            return cls(text=data)
        if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"a turn must be a Turn(…), a text or a mapping, not {type(data).__name__}")
        known = [f.name for f in fields(cls)]
        for key in data:
            if key not in known:
                raise unknown_key("turn", key, known)
        values: dict[str, Any] = dict(data)
        for key in ("usage", "thinking"):  # JSON has no tuples
            if isinstance(values.get(key), list):
                values[key] = tuple(values[key])
        return cls(**values)

    @property
    def tokens(self) -> int:
        """What this turn adds to the tokens that its endpoint served."""
        usage = self.usage
        if usage is None or self.status != 200:
            return 0
        if isinstance(usage, Mapping):
            counts = [v for k, v in usage.items() if k in _COUNTED and isinstance(v, int)]
            return sum(counts)
        return sum(usage)


_CALL = ("name", "args", "id", "extra")


def _fields_of(call: Any) -> Mapping[str, Any]:
    """A call as the mapping that both styles are written from. Raises `ConfigError`."""
    if isinstance(call, ToolCallPart):
        args, extra = _args(call.arguments), call.extra or {}
        return {"name": call.name, "args": args, "id": call.id or None, "extra": extra}
    if not isinstance(call, Mapping):
        kind = type(call).__name__
        raise ConfigError(f"a call must be call(…) or a mapping with name and args, not {kind}")
    fields = cast(Mapping[str, Any], call)
    for key in fields:
        if key not in _CALL:
            raise unknown_key("call", key, _CALL)
    if "name" not in fields:
        raise ConfigError(f"call {dict(fields)!r} has no 'name'")
    return fields


def _args(arguments: str) -> Any:
    """The object that `arguments` stands for, or the text itself when it is malformed."""
    try:
        value: Any = json.loads(arguments)
    except ValueError:
        return arguments
    return cast(Any, value) if isinstance(value, dict) else arguments


_COUNTED = frozenset(
    (
        "prompt_tokens",
        "completion_tokens",
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
)


def media_reply(turn: Turn, path: str) -> tuple[bytes, str] | None:
    """Content and kind of an answer that is no message; None for another address."""
    if path.endswith("/audio/speech"):
        return b64decode(turn.audio or ""), "audio/mpeg"
    if path.endswith("/images/generations"):
        reply: Json = {"created": 0, "data": list(turn.images)}
    elif path.endswith("/audio/transcriptions"):
        reply = {"text": turn.text or "", **turn.extra}
    elif path.endswith("/embeddings"):
        rows = [{"index": n, "embedding": list(vector)} for n, vector in enumerate(turn.vectors)]
        reply = {"object": "list", "data": rows}
    else:
        return None
    usage = turn.usage
    if isinstance(usage, tuple):
        usage = {"input_tokens": usage[0], "output_tokens": usage[1]}
    if usage is not None:
        reply["usage"] = usage
    return json.dumps(reply).encode(), "application/json"


def openai_reply(turn: Turn, model: str) -> Json:
    """A chat completion."""
    message: Json = {"role": "assistant", "content": turn.text, **turn.extra}
    if turn.reasoning is not None:
        message["reasoning_content"] = turn.reasoning
    if turn.refusal is not None:
        message["refusal"] = turn.refusal
    if turn.calls:
        message["tool_calls"] = [_openai_call(call) for call in _calls(turn)]
    finish = turn.finish or ("tool_calls" if turn.calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    reply: Json = {
        "id": "reply",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
    }
    usage = turn.usage
    if isinstance(usage, tuple):
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    if usage is not None:
        reply["usage"] = usage
    return reply


def openai_events(turn: Turn, model: str) -> Iterator[Json]:
    """The same as the chunks of a stream."""
    reply = openai_reply(turn, model)
    choice = reply["choices"][0]
    message: Json = choice["message"]
    base: Json = {**reply, "object": "chat.completion.chunk"}
    base.pop("usage", None)

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    whole = ("role", "content", "reasoning_content", "refusal", "tool_calls")
    yield chunk({"role": "assistant", **{k: v for k, v in message.items() if k not in whole}})
    for name in ("reasoning_content", "content", "refusal"):
        value = message.get(name)
        if value == "":
            yield chunk({name: ""})
        for piece in _cut(value or "", turn.chunk):
            yield chunk({name: piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        function: Json = call["function"]
        first, *more = _halves(function["arguments"])
        yield chunk({"tool_calls": [{"index": index, **call, "function": {**function, "arguments": first}}]})
        for piece in more:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if "usage" in reply:
        yield {**base, "choices": [], "usage": reply["usage"]}


def anthropic_reply(turn: Turn, model: str) -> Json:
    """An Anthropic message."""
    content: list[Json] = []
    if turn.thinking is not None:
        content.append({"type": "thinking", "thinking": turn.thinking[0], "signature": turn.thinking[1]})
    if turn.redacted is not None:
        content.append({"type": "redacted_thinking", "data": turn.redacted})
    if turn.text is not None:
        content.append({"type": "text", "text": turn.text})
    for call in _calls(turn):
        block: Json = {"type": "tool_use", "name": call["name"], "input": call.get("args", {})}
        if call.get("id") is not None:
            block["id"] = call["id"]
        content.append({**block, **call.get("extra", {})})
    usage = turn.usage
    if isinstance(usage, tuple):
        usage = {"input_tokens": usage[0], "output_tokens": usage[1]}
    reply: Json = {
        "id": "reply",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": turn.finish or ("tool_use" if turn.calls else "end_turn"),
        "stop_sequence": None,
        **turn.extra,
    }
    if usage is not None:
        reply["usage"] = usage
    return reply


def anthropic_events(turn: Turn, model: str) -> Iterator[Json]:
    """The same as the events of a stream."""
    reply = anthropic_reply(turn, model)
    usage: Json | None = reply.get("usage")
    start: Json = {**reply, "content": [], "stop_reason": None}
    if usage is not None:
        start["usage"] = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(reply["content"]):
        yield from _anthropic_block(index, block, turn.chunk)
    end: Json = {
        "type": "message_delta",
        "delta": {"stop_reason": reply["stop_reason"], "stop_sequence": None},
    }
    if usage is not None:
        end["usage"] = {"output_tokens": usage.get("output_tokens", 0)}
    yield end
    yield {"type": "message_stop"}


def _anthropic_block(index: int, block: Json, size: int) -> Iterator[Json]:
    def delta(kind: str, **fields: Any) -> Json:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}

    kind = block["type"]
    empty: dict[str, Json] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    start: Json = {**block, **empty.get(kind, {})}
    yield {"type": "content_block_start", "index": index, "content_block": start}
    if kind == "text":
        for piece in _cut(block["text"], size):
            yield delta("text_delta", text=piece)
    elif kind == "thinking":
        for piece in _cut(block["thinking"], size):
            yield delta("thinking_delta", thinking=piece)
        yield delta("signature_delta", signature=block["signature"])
    elif kind == "tool_use":
        value = block["input"]
        for piece in _halves(value if isinstance(value, str) else json.dumps(value)):
            yield delta("input_json_delta", partial_json=piece)
    yield {"type": "content_block_stop", "index": index}


def _calls(turn: Turn) -> Sequence[Mapping[str, Any]]:
    return cast(Sequence[Mapping[str, Any]], turn.calls)  # mappings since the turn was made


def _openai_call(call: Mapping[str, Any]) -> Json:
    args = call.get("args", {})
    function = {"name": call["name"], "arguments": args if isinstance(args, str) else json.dumps(args)}
    out: Json = {"type": "function", "function": function, **call.get("extra", {})}
    if call.get("id") is not None:
        out["id"] = call["id"]
    return out


def _cut(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]
