"""OpenTelemetry spans of a run, after the semantic conventions for generative AI.

Only loaded when the host has set a tracer provider. The API carries the current span in a context
variable: tasks and our threads inherit it, so parents are right without anything being handed on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from opentelemetry import context as current
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    SpanKind,
    StatusCode,
    TracerProvider,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)

from toolnexus.core.messages import ToolCallPart
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.result import RunResult
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.usage import Usage
from toolnexus.errors import ModelHTTPError
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.tracing import Trace
from toolnexus.telemetry import content

logger = logging.getLogger("toolnexus.telemetry")

P = ParamSpec("P")
S = TypeVar("S", bound="_Span")

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON = frozenset(("true", "1", "span_only", "span_and_event"))


class Spans:
    """The spans of one ask."""

    def __init__(self, provider: TracerProvider, conversation: str | None, redact: Redactor) -> None:
        self.tracer = provider.get_tracer("toolnexus")
        self.conversation = conversation
        self.redact = redact
        self.content = os.environ.get(CAPTURE, "").strip().lower() in _ON

    def run(self, ctx: RunContext) -> RunSpan:
        """See `Tracing.run`."""
        return RunSpan(
            self,
            f"invoke_agent {ctx.agent}",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": ctx.agent,
                "gen_ai.conversation.id": self.conversation,
                "toolnexus.run.id": ctx.run_id,
                "toolnexus.run.path": "/".join(ctx.path),
            },
        )

    def node(self, ctx: RunContext, node: tuple[str, ...], kind: str) -> NodeSpan:
        """See `Tracing.node`."""
        return NodeSpan(
            self,
            f"{kind} {node[-1]}",
            {
                "toolnexus.node.path": "/".join(node),
                "toolnexus.node.kind": kind,
                "toolnexus.run.path": "/".join(ctx.path),
            },
        )

    def note(self, values: Mapping[str, Any]) -> None:
        """See `Tracing.note`."""
        _Span(self, "", {}).note(values)

    def turn(self, ctx: RunContext, request: ModelRequest, *, model: str, provider: str | None) -> TurnSpan:
        """See `Tracing.turn`."""
        span = TurnSpan(
            self,
            f"chat {model}",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": provider or "custom",
                "gen_ai.request.model": model,
                "gen_ai.agent.name": ctx.agent,
                "gen_ai.conversation.id": self.conversation,
                "toolnexus.turn": request.turn,
            },
            SpanKind.CLIENT,
        )
        span.request = request
        return span

    def tool(self, ctx: RunContext, tool: Tool, call: ToolCallPart) -> ToolSpan:
        """See `Tracing.tool`."""
        span = ToolSpan(
            self,
            f"execute_tool {tool.name}",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool.name,
                "gen_ai.tool.call.id": call.id,
                "gen_ai.tool.type": "function",
                "gen_ai.agent.name": ctx.agent,
                "gen_ai.conversation.id": self.conversation,
                "toolnexus.tool.source": tool.source,
                "toolnexus.tool.origin": tool.origin,
            },
        )
        span.call = call
        return span


def _harmless(method: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """Samplers, processors and limits of the host are foreign code: what they raise stays here."""

    @wraps(method)
    def guarded(self: S, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            logger.warning("a span could not be written: %s", type(error).__name__)

    return guarded


class _Span:
    """One span, current inside its block."""

    def __init__(
        self, spans: Spans, name: str, given: Mapping[str, Any], kind: SpanKind = SpanKind.INTERNAL
    ) -> None:
        self._spans = spans
        self._name = name
        self._given = given
        self._kind = kind
        self._span: Span = INVALID_SPAN
        self._token: Any = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._left(error)
        self._close()

    @property
    def trace(self) -> Trace | None:
        """Its ids; None when it could not be made."""
        ids = self._span.get_span_context()
        return Trace(format_trace_id(ids.trace_id), format_span_id(ids.span_id)) if ids.is_valid else None

    @property
    def shows_content(self) -> bool:
        return self._spans.content and self._span.is_recording()

    def set(self, values: Mapping[str, Any]) -> None:
        """Set attributes, without our secrets; None is left out."""
        self._span.set_attributes(self._clean(values))

    @_harmless
    def note(self, values: Mapping[str, Any]) -> None:
        """Set attributes of the span that is current, whoever opened it."""
        get_current_span().set_attributes(self._clean(values))

    def set_error(self, error: BaseException) -> None:
        """Mark it as failed. What the error says may quote a prompt or a result, so it is content."""
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        values: dict[str, Any] = {"error.type": f"{module}{kind.__qualname__}"}
        if isinstance(error, ModelHTTPError):
            values["http.response.status_code"] = error.status
        self.set(values)
        self._span.set_status(StatusCode.ERROR, self._text(str(error)) if self.shows_content else None)

    @_harmless
    def _open(self) -> None:
        name = self._text(self._name)
        span = self._spans.tracer.start_span(name, kind=self._kind, attributes=self._clean(self._given))
        self._span = span
        self._token = current.attach(set_span_in_context(span))
        if self.shows_content:
            self._show()

    def _show(self) -> None:
        """Set the content that is known at the start."""

    @_harmless
    def _left(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            self.set({"toolnexus.cancelled": True})
        else:
            self.set_error(error)

    @_harmless
    def _close(self) -> None:
        if self._token is not None:
            current.detach(self._token)
        self._span.end()

    def _clean(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {k: self._text(v) if isinstance(v, str) else v for k, v in values.items() if v is not None}

    def _text(self, text: str) -> str:
        """Without our secrets, and as an exporter can encode it: half of a cut character it cannot."""
        text = self._spans.redact(text)
        return text if text.isascii() else text.encode("utf-8", "replace").decode()


class NodeSpan(_Span):
    """A node of a workflow or a graph."""


class RunSpan(_Span):
    """`invoke_agent NAME`."""

    @_harmless
    def ended(self, result: RunResult) -> None:
        self.set(
            {
                "toolnexus.run.status": result.status,
                "toolnexus.run.limit": result.limit,
                "toolnexus.run.turns": result.turns,
                "toolnexus.run.tool_calls": result.tool_calls,
            }
        )
        if result.error is not None:
            self.set_error(result.error)


class TurnSpan(_Span):
    """`chat MODEL`. The only spans with tokens, so that their sum is the usage."""

    request: ModelRequest

    def _show(self) -> None:
        self.set(
            {
                "gen_ai.system_instructions": content.system(self.request, self._spans.redact),
                "gen_ai.input.messages": content.messages(self.request.messages, self._spans.redact),
            }
        )

    @_harmless
    def retrying(self, *, attempt: int, delay: float, error: BaseException) -> None:
        values: dict[str, Any] = {"attempt": attempt, "delay": delay, "error.type": type(error).__qualname__}
        if isinstance(error, ModelHTTPError):
            values["http.response.status_code"] = error.status
        self._span.add_event("toolnexus.retry", values)

    @_harmless
    def ended(self, response: ModelResponse, usage: Usage) -> None:
        self.set(
            {
                "gen_ai.response.model": response.model,
                "gen_ai.response.finish_reasons": (response.stop,),
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
                "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
                "toolnexus.usage.estimated": usage.estimated or None,
            }
        )
        if self.shows_content:
            out = content.messages((response.message,), self._spans.redact, response.stop)
            self.set({"gen_ai.output.messages": out})


class ToolSpan(_Span):
    """`execute_tool NAME`."""

    call: ToolCallPart
    _error: BaseException | None = None

    def _show(self) -> None:
        arguments = content.arguments(self.call.arguments, self._spans.redact)
        self.set({"gen_ai.tool.call.arguments": content.as_json(arguments)})

    def failed(self, error: BaseException) -> None:
        self._error = error  # a hook may still make a good result of it

    @_harmless
    def ended(self, result: ToolResult) -> None:
        error, self._error = self._error, None
        if result.requests:
            self.set({"toolnexus.tool.status": "pending"})
            return
        if not result.is_error:
            self.set({"toolnexus.tool.status": "done"})
        elif error is not None:
            self.set({"toolnexus.tool.status": "error"})
            self.set_error(error)
        else:
            self.set({"toolnexus.tool.status": "error", "error.type": "tool_error"})
            self._span.set_status(StatusCode.ERROR)
        if self.shows_content:
            self.set({"gen_ai.tool.call.result": result.output})
