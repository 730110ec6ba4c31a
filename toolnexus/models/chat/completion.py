"""A reply as a chat completion."""

from __future__ import annotations

import os
import time
from typing import Any

from toolnexus.core.messages import Message, OpaquePart, ReasoningPart
from toolnexus.core.model import ModelResponse, StopReason
from toolnexus.core.usage import Usage
from toolnexus.core.wire import message_to_json
from toolnexus.models.chat.messages import KEPT

_REASONS: dict[StopReason, str] = {"length": "length", "refusal": "content_filter", "cut": "length"}


def completion(response: ModelResponse, model: str, usage: Usage) -> dict[str, Any]:
    """`response` as the JSON of a chat completion. A turn that calls always ends with `tool_calls`."""
    message = response.message
    reason = "tool_calls" if message.tool_calls else _REASONS.get(response.stop, "stop")
    if response.stop == "length":  # a call that was cut is not whole, whatever it looks like
        reason = "length"
    return {
        "id": f"chatcmpl-{os.urandom(12).hex()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": response.model or model,
        "choices": [{"index": 0, "message": _message(message), "finish_reason": reason, "logprobs": None}],
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        },
    }


def _message(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"role": "assistant", "content": message.text or None, "refusal": None}
    if calls := message.tool_calls:
        out["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments or "{}"}}
            for c in calls
        ]
    if thoughts := "".join([p.text for p in message.parts if isinstance(p, ReasoningPart)]):
        out["reasoning_content"] = thoughts
    beside = any(isinstance(part, (ReasoningPart, OpaquePart)) for part in message.parts)
    if beside or message.extra or any(call.extra for call in calls):
        out["extra_content"] = {KEPT: message_to_json(message)}
    return out
