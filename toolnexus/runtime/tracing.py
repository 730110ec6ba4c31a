"""The port of whoever follows a run while it goes on: spans, log lines.

What it is: three blocks that open and close with a run, a model request and a tool call, on the task
that does the work, so that what is current inside is the right one.
What it is not: events, which a reader asks for, and counters (`runtime/counts.py`).
Above: the runner, `engine/turn.py` and `tools/invoke.py` call it. Below: `telemetry/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from toolnexus.core.values import frozen

if TYPE_CHECKING:
    from toolnexus.core.messages import ToolCallPart
    from toolnexus.core.model import ModelRequest, ModelResponse
    from toolnexus.core.result import RunResult
    from toolnexus.core.tools import Tool, ToolResult
    from toolnexus.core.usage import Usage
    from toolnexus.runtime.context import RunContext


@frozen()
class Trace:
    """Who called, for a tracing system: W3C trace and span ids in hex."""

    trace_id: str
    span_id: str


class RunSpan(Protocol):
    """One run. A cancel passes through its block; nothing else does."""

    def ended(self, result: RunResult) -> None: ...


class TurnSpan(Protocol):
    """One model request, whatever retries it takes. What the model raises passes through its block."""

    def retrying(self, *, attempt: int, delay: float, error: BaseException) -> None: ...
    def ended(self, response: ModelResponse, usage: Usage) -> None: ...


class ToolSpan(Protocol):
    """One tool call. A cancel passes through its block; nothing else does."""

    @property
    def trace(self) -> Trace | None:
        """Its ids; None when nobody outside knows it."""
        ...

    def failed(self, error: BaseException) -> None:
        """What the tool raised. It may run, and end well, once more."""
        ...

    def ended(self, result: ToolResult) -> None: ...


class Tracing(Protocol):
    """Follows one ask. Its methods never raise, and never wait."""

    def run(self, ctx: RunContext) -> AbstractContextManager[RunSpan]: ...
    def node(self, ctx: RunContext, node: tuple[str, ...], kind: str) -> AbstractContextManager[object]:
        """A node of a workflow or a graph. What it raises passes through its block."""
        ...

    def note(self, values: Mapping[str, Any]) -> None:
        """Add attributes to the innermost block that is open."""
        ...

    def turn(
        self, ctx: RunContext, request: ModelRequest, *, model: str, provider: str | None
    ) -> AbstractContextManager[TurnSpan]: ...
    def tool(self, ctx: RunContext, tool: Tool, call: ToolCallPart) -> AbstractContextManager[ToolSpan]: ...


def run_fields(ctx: RunContext, call_id: str | None = None) -> dict[str, str]:
    """The `extra` of a log line that belongs to a run, and in it to a call."""
    fields = {"run_id": ctx.run.id, "path": "/".join(ctx.frame.path), "agent": ctx.frame.agent}
    return fields if call_id is None else {**fields, "call_id": call_id}
