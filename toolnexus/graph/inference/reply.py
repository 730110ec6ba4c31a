"""The reply of a model, as nodes and scripts read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolnexus.core.messages import Message, Part, TextPart, ToolCallPart
from toolnexus.core.model import ModelResponse
from toolnexus.core.usage import Usage
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import ToolChoice
from toolnexus.graph.inference.prepare import Form
from toolnexus.graph.inference.targets import Target

UNDEFINED_TOOL = "undefined_tool"
INVALID_REPLY = "invalid_provider_response"
TRUNCATED = "provider_truncated"


class Rejected(GraphRunError):
    """A reply that was paid for and cannot be used. `usage` is what it cost, `text` what was said.

    `call` is the name of a tool that was called and not offered.
    """

    def __init__(self, message: str, *, code: str, usage: Usage, kind: str = "internal") -> None:
        super().__init__(f"{code}: {message}", kind=kind, code=code)
        self.usage = usage
        self.text = ""
        self.call = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one request gave. `target` answered; `decisions` are what was left out of the request."""

    message: Message
    finish_reason: str
    usage: Usage
    target: Target
    operation: str = "generate"
    decisions: Sequence[dict[str, Any]] = ()
    provider_outputs: Sequence[dict[str, Any]] = field(default=())
    response_id: str = ""

    def to_wire(self) -> dict[str, Any]:
        """`{message, finish_reason, usage, metadata, provider_outputs?}` as JSON values."""
        out: dict[str, Any] = {
            "message": self.message.to_wire(),
            "finish_reason": self.finish_reason,
            "usage": usage_to_wire(self.usage),
            "metadata": metadata(self.target, self.operation, self.decisions, self.response_id),
        }
        if self.provider_outputs:
            out["provider_outputs"] = list(self.provider_outputs)
        return out


def metadata(
    target: Target, operation: str, decisions: Sequence[dict[str, Any]] = (), response_id: str = ""
) -> dict[str, Any]:
    """Who answered what, and what was left out."""
    out: dict[str, Any] = {"model": target.ref["id"], "operation": operation}
    if decisions:
        out["decisions"] = list(decisions)
    if response_id:
        out["response_id"] = response_id
    return out


def usage_to_wire(usage: Usage) -> dict[str, Any]:
    """`{input_tokens, output_tokens, total_tokens}`, and what else is known."""
    more: dict[str, Any] = {
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost": usage.cost,
        "estimated": usage.estimated,
    }
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        **{key: value for key, value in more.items() if value},
    }


def reply_of(
    response: ModelResponse,
    usage: Usage,
    target: Target,
    *,
    offered: Sequence[str],
    choice: ToolChoice | None,
    form: Form | None,
    decisions: Sequence[dict[str, Any]],
) -> Reply:
    """The reply, once it is known to be one that was asked for. Raises `Rejected`."""
    message, reason = response.message, finish_reason(response)
    if response.stop == "cut":
        error = Rejected(
            f"{target}: the stream broke before the reply was complete",
            code=TRUNCATED,
            kind="not_available",
            usage=usage,
        )
        error.text = message.text
        raise error
    if problem := _calls_problem(message, reason, offered, choice):
        raise _rejected(problem, usage, message, offered)
    if reason == "completed":
        if not message.parts:
            raise Rejected(f"{target}: the reply is empty", code=INVALID_REPLY, usage=usage)
        if form is not None and (problem := form.problem(message.text)):
            raise Rejected(
                f"{target}: the reply has not the form that was asked for: {problem}",
                code=INVALID_REPLY,
                usage=usage,
            )
    outputs = _outputs(message, target)
    return Reply(
        message=_whole(message, reason),
        finish_reason=reason,
        usage=usage,
        target=target,
        decisions=decisions,
        provider_outputs=outputs,
        response_id=response.id,
    )


_REASONS = {
    "content_filter": "content_filter",
    "model_context_window_exceeded": "context_limit",
    "malformed_function_call": "invalid_tool_call",
}
"""What endpoints say in words of their own, and we do not tell apart elsewhere."""
_STOPS = {"length": "max_output", "refusal": "refusal", "paused": "pause"}


def finish_reason(response: ModelResponse) -> str:
    """Why the model stopped, in the words of graphs: `completed`, `max_output`, `tool_calls`,
    `content_filter`, `refusal`, `pause`, `invalid_tool_call`, `context_limit` or `other`."""
    if (told := _REASONS.get(response.reason.lower())) is not None:
        return told
    if response.stop in ("stop", "tool_calls"):
        return "tool_calls" if response.message.tool_calls else "completed"
    return _STOPS.get(response.stop, "other")


def _calls_problem(message: Message, reason: str, offered: Sequence[str], choice: ToolChoice | None) -> str:
    """What is wrong with the calls of a reply, empty when nothing is."""
    calls = message.tool_calls if reason == "tool_calls" else ()
    if unknown := _undefined(message, offered):
        return f"the reply calls the tool {unknown!r}, which was not offered"
    if choice is None or choice.kind == "auto":
        return ""
    if choice.kind == "none":
        return "the reply calls a tool, against tool_choice 'none'" if calls else ""
    if not calls and reason == "completed":
        return f"the reply calls no tool, against tool_choice {choice.kind!r}"
    if choice.kind == "named" and any(call.name != choice.name for call in calls):
        return f"the reply calls another tool than {choice.name!r}, which tool_choice names"
    return ""


def _undefined(message: Message, offered: Sequence[str]) -> str | None:
    return next((call.name or "(no name)" for call in message.tool_calls if call.name not in offered), None)


def _rejected(problem: str, usage: Usage, message: Message, offered: Sequence[str]) -> Rejected:
    unknown = _undefined(message, offered)
    error = Rejected(problem, code=UNDEFINED_TOOL if unknown else INVALID_REPLY, usage=usage)
    error.call = unknown or ""
    return error


def _whole(message: Message, reason: str) -> Message:
    """The message as a channel can hold it: without calls that were cut off, and not empty."""
    parts: tuple[Part, ...] = message.parts
    if reason != "tool_calls" and message.tool_calls:
        parts = tuple([part for part in parts if not isinstance(part, ToolCallPart)])
    if not parts:
        parts = (TextPart(""),)
    return message if parts is message.parts else replace(message, parts=parts)


def _outputs(message: Message, target: Target) -> list[dict[str, Any]]:
    """What the endpoint said of the message besides its parts."""
    extra = {key: value for key, value in (message.extra or {}).items() if value not in (None, "")}
    return [{"provider": target.provider, "extension": "message", "value": extra}] if extra else []
