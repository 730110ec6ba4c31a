"""Log lines of a run, for those who debug: start and end of runs, requests and calls, and retries.

Only loaded when one of the three loggers is on. No line has a prompt, a reply, an argument or a result.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from toolnexus.core.messages import ToolCallPart
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.result import RunResult
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.usage import Usage
from toolnexus.errors import ModelHTTPError
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.tracing import Trace, run_fields

runs = logging.getLogger("toolnexus.runs")
models = logging.getLogger("toolnexus.models")
tools = logging.getLogger("toolnexus.tools")


class Logs:
    """The lines of one ask."""

    def run(self, ctx: RunContext) -> RunLines:
        """See `Tracing.run`."""
        return RunLines(runs, ctx)

    def node(self, ctx: RunContext, node: tuple[str, ...], kind: str) -> RunLines:
        """See `Tracing.node`."""
        return RunLines(runs, ctx, f"{kind} {'/'.join(node)}")

    def note(self, values: Mapping[str, Any]) -> None:
        """See `Tracing.note`: a line that is written cannot be added to."""

    def turn(self, ctx: RunContext, request: ModelRequest, *, model: str, provider: str | None) -> TurnLines:
        """See `Tracing.turn`."""
        return TurnLines(models, ctx, f"turn {request.turn} of {model}", model=model)

    def tool(self, ctx: RunContext, tool: Tool, call: ToolCallPart) -> ToolLines:
        """See `Tracing.tool`."""
        return ToolLines(tools, ctx, f"tool {tool.name} ({call.id})", call_id=call.id, tool=tool.name)


class _Lines:
    """A line at the start and one at the end, whatever the end is."""

    def __init__(
        self,
        logger: logging.Logger,
        ctx: RunContext,
        what: str = "run",
        *,
        call_id: str | None = None,
        **fields: Any,
    ) -> None:
        self._logger = logger
        self._redact = ctx.run.redact
        self._fields = {**run_fields(ctx, call_id), **fields}
        self._what = f"{self._fields['path']}: {what}"
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self._say("started")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            self._end("cancelled")
        elif error is not None:
            self._end(f"failed: {_kind(error)}", error=type(error).__name__)

    def _end(self, how: str, **fields: Any) -> None:
        seconds = time.perf_counter() - self._began
        self._say(f"{how}, {seconds:.3f} s", seconds=seconds, **fields)

    def _say(self, text: str, **fields: Any) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            shown = {
                k: self._redact(v) if isinstance(v, str) else v for k, v in (self._fields | fields).items()
            }
            self._logger.debug("%s %s", self._redact(self._what), self._redact(text), extra=shown)


class RunLines(_Lines):
    """`toolnexus.runs`."""

    def ended(self, result: RunResult) -> None:
        usage = result.usage
        limit = f" ({result.limit})" if result.limit else ""
        error = f" {_kind(result.error)}" if result.error else ""
        self._end(
            f"ended {result.status}{limit}{error}: {result.turns} turns, {usage.total_tokens} tokens",
            status=result.status,
            limit=result.limit,
            turns=result.turns,
            tokens=usage.total_tokens,
        )


class TurnLines(_Lines):
    """`toolnexus.models`."""

    def retrying(self, *, attempt: int, delay: float, error: BaseException) -> None:
        self._say(
            f"attempt {attempt} failed: {_kind(error)}; the next one in {delay:.1f} s",
            attempt=attempt,
            delay=delay,
            error=type(error).__name__,
        )

    def ended(self, response: ModelResponse, usage: Usage) -> None:
        self._end(
            f"answered ({response.stop}): {usage.prompt_tokens} tokens in, {usage.completion_tokens} out",
            stop=response.stop,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
        )


class ToolLines(_Lines):
    """`toolnexus.tools`."""

    trace: Trace | None = None

    def failed(self, error: BaseException) -> None:
        """`tools/invoke.py` says it itself, with the traceback."""

    def ended(self, result: ToolResult) -> None:
        how = "asks" if result.requests else "failed" if result.is_error else "ended"
        self._end(
            f"{how}: {len(result.output)} characters", is_error=result.is_error, characters=len(result.output)
        )


def _kind(error: BaseException) -> str:
    """What may be said of an error: its text may quote a prompt or a result."""
    status = f" {error.status}" if isinstance(error, ModelHTTPError) else ""
    return f"{type(error).__name__}{status}"
