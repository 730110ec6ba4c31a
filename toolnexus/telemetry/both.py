"""Spans and log lines at once."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from toolnexus.core.messages import ToolCallPart
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.result import RunResult
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.usage import Usage
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.tracing import RunSpan, ToolSpan, Trace, Tracing, TurnSpan


class Both:
    """Two that follow one ask. The second is inside the blocks of the first, so that its lines can be
    told to belong to a span."""

    def __init__(self, first: Tracing, second: Tracing) -> None:
        self._first = first
        self._second = second

    @contextmanager
    def run(self, ctx: RunContext) -> Generator[RunSpan]:
        """See `Tracing.run`."""
        with self._first.run(ctx) as first, self._second.run(ctx) as second:
            yield _Run(first, second)

    @contextmanager
    def node(self, ctx: RunContext, node: tuple[str, ...], kind: str) -> Generator[None]:
        """See `Tracing.node`."""
        with self._first.node(ctx, node, kind), self._second.node(ctx, node, kind):
            yield

    def note(self, values: Mapping[str, Any]) -> None:
        """See `Tracing.note`."""
        self._first.note(values)
        self._second.note(values)

    @contextmanager
    def turn(
        self, ctx: RunContext, request: ModelRequest, *, model: str, provider: str | None
    ) -> Generator[TurnSpan]:
        """See `Tracing.turn`."""
        with (
            self._first.turn(ctx, request, model=model, provider=provider) as first,
            self._second.turn(ctx, request, model=model, provider=provider) as second,
        ):
            yield _Turn(first, second)

    @contextmanager
    def tool(self, ctx: RunContext, tool: Tool, call: ToolCallPart) -> Generator[ToolSpan]:
        """See `Tracing.tool`."""
        with self._first.tool(ctx, tool, call) as first, self._second.tool(ctx, tool, call) as second:
            yield _Tool(first, second)


class _Run:
    def __init__(self, *spans: RunSpan) -> None:
        self._spans = spans

    def ended(self, result: RunResult) -> None:
        for span in self._spans:
            span.ended(result)


class _Turn:
    def __init__(self, *spans: TurnSpan) -> None:
        self._spans = spans

    def retrying(self, *, attempt: int, delay: float, error: BaseException) -> None:
        for span in self._spans:
            span.retrying(attempt=attempt, delay=delay, error=error)

    def ended(self, response: ModelResponse, usage: Usage) -> None:
        for span in self._spans:
            span.ended(response, usage)


class _Tool:
    def __init__(self, *spans: ToolSpan) -> None:
        self._spans = spans

    @property
    def trace(self) -> Trace | None:
        return next((trace for span in self._spans if (trace := span.trace) is not None), None)

    def failed(self, error: BaseException) -> None:
        for span in self._spans:
            span.failed(error)

    def ended(self, result: ToolResult) -> None:
        for span in self._spans:
            span.ended(result)
