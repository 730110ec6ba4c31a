"""Anthropic replies, whole or streamed, as our values."""

from __future__ import annotations

import json
from typing import Any, cast

from toolnexus.core.messages import Message, OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart
from toolnexus.core.model import ModelResponse, ModelSink, StopReason
from toolnexus.core.usage import Usage
from toolnexus.errors import ModelResponseError
from toolnexus.models.wire import event_error, text_in
from toolnexus.runtime.redact import Redactor

_STOPS: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "paused",
}
_TEXTS = {"text": ("text",), "thinking": ("thinking", "signature"), "tool_use": ("name",)}
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class _Block:
    """A content block that is being put together."""

    __slots__ = ("data", "input", "pieces")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.input: list[str] = []
        self.pieces: dict[str, list[str]] = {}

    def raw(self) -> dict[str, Any]:
        """The block as a whole reply would have held it; a streamed input stays text in `input`."""
        grown = {field: (self.data.get(field) or "") + "".join(p) for field, p in self.pieces.items()}
        return {**self.data, **grown}


class AnthropicReading:
    """Reads one reply. A whole message is read like its stream."""

    def __init__(self, origin: str, sink: ModelSink | None, redact: Redactor) -> None:
        self.ended = False
        self.said = False
        self._origin = origin
        self._host = origin.partition(":")[2]
        self._sink = sink
        self._redact = redact
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._usage: dict[str, Any] = {}
        self._id = ""

    def feed(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "content_block_delta":
            self._delta(event["index"], event["delta"])
        elif kind == "content_block_start":
            self._start(event["index"], event["content_block"])
        elif kind == "message_start":
            self._take_usage(event["message"].get("usage"))
            self._take_id(event["message"])
        elif kind == "message_delta":
            self._stop = event["delta"].get("stop_reason") or self._stop
            self._take_usage(event.get("usage"))
        elif kind == "message_stop":
            self.ended = True
        elif kind == "error" or event.get("error"):
            raise event_error(self._host, event.get("error"), self._redact)
        elif kind == "message":
            self._whole(event)

    def _whole(self, message: dict[str, Any]) -> None:
        content = message.get("content")
        if not isinstance(content, list):
            return
        for index, block in enumerate(cast("list[dict[str, Any]]", content)):
            self._start(index, block)
        self._stop = message.get("stop_reason") or ""
        self._take_id(message)
        self._take_usage(message.get("usage"))
        self.ended = True

    def _take_id(self, message: dict[str, Any]) -> None:
        id = message.get("id")
        self._id = id if isinstance(id, str) else ""

    def _start(self, index: int, block: dict[str, Any]) -> None:
        kind = block.get("type", "")
        texts = [text_in(self._host, block, field) for field in _TEXTS.get(kind, ())]
        self._blocks[index] = _Block(dict(block))
        if texts:
            self._hand_on(kind, texts[0])

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.get(index)
        if block is None:
            raise ModelResponseError(f"{self._host} sent a delta of block {index}, which it never started")
        kind = delta.get("type", "")
        if field := _DELTAS.get(kind):
            piece = text_in(self._host, delta, field)
            block.pieces.setdefault(field, []).append(piece)
            if kind != "signature_delta":
                self._hand_on(field, piece)
        elif kind == "input_json_delta":
            block.input.append(text_in(self._host, delta, "partial_json"))
        elif kind == "citations_delta":
            block.data["citations"] = [*(block.data.get("citations") or ()), delta.get("citation")]

    def _hand_on(self, kind: Any, piece: Any) -> None:
        if not piece or self._sink is None or kind not in ("text", "thinking"):
            return
        self.said = True
        (self._sink.text if kind == "text" else self._sink.reasoning)(piece)

    def _take_usage(self, usage: Any) -> None:
        """Every report is cumulative, and a later one may leave out what did not change."""
        if isinstance(usage, dict):
            self._usage |= {k: v for k, v in cast("dict[str, Any]", usage).items() if v is not None}

    def response(self) -> ModelResponse:
        if not self.ended:
            raise ModelResponseError(f"{self._host} answered without a message (no content)")
        parts = tuple([self._part(i, b) for i, b in sorted(self._blocks.items())])
        message = Message("assistant", parts, self._origin)
        stop = _STOPS.get(self._stop) or ("tool_calls" if message.tool_calls else "stop")
        return ModelResponse(
            message=message, usage=_usage(self._usage), stop=stop, id=self._id, reason=str(self._stop)
        )

    def partial(self) -> ModelResponse | None:
        texts = [b.raw().get("text") or "" for _, b in sorted(self._blocks.items()) if _is_text(b)]
        if not (text := "".join(texts)):
            return None
        message = Message("assistant", (TextPart(text),), self._origin)
        return ModelResponse(message=message, usage=_usage(self._usage), stop="cut")

    def used(self) -> Usage | None:
        return _usage(self._usage)

    def _part(self, index: int, block: _Block) -> Part:
        data = block.raw()
        kind = data.get("type")
        if kind == "text":
            return TextPart(data.get("text") or "", _extra(data, "text"))
        if kind == "thinking":
            return ReasoningPart(data.get("thinking") or "", self._origin, _extra(data, "thinking"))
        if kind == "tool_use":
            arguments = "".join(block.input)
            if not arguments.strip():
                arguments = json.dumps(data.get("input") or {}, ensure_ascii=False)
            id = data.get("id")
            if not id or not isinstance(id, str):
                id = f"call_{index}"
            return ToolCallPart(id, data.get("name") or "", arguments, _extra(data, "id", "name", "input"))
        if block.input:
            data["input"] = json.loads("".join(block.input))
        return OpaquePart(self._origin, data)


def _is_text(block: _Block) -> bool:
    return block.data.get("type") == "text"


def _extra(data: dict[str, Any], *read: str) -> dict[str, Any] | None:
    """What else the block holds and its endpoint wants back."""
    return {k: v for k, v in data.items() if k not in read and k != "type" and v is not None} or None


def _usage(data: dict[str, Any]) -> Usage | None:
    if not data:
        return None
    read, written = _count(data, "cache_read_input_tokens"), _count(data, "cache_creation_input_tokens")
    return Usage(
        prompt_tokens=_count(data, "input_tokens") + read + written,
        completion_tokens=_count(data, "output_tokens"),
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_count(data.get("output_tokens_details") or {}, "thinking_tokens"),
    )


def _count(data: dict[str, Any], field: str) -> int:
    value = data.get(field)
    return value if isinstance(value, int) and value > 0 else 0
