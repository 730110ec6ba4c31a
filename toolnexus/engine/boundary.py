"""What a run hears of one below it."""

from __future__ import annotations

from toolnexus.core.messages import MediaPart
from toolnexus.core.result import RunResult
from toolnexus.core.tools import ToolResult
from toolnexus.runtime.redact import Redactor
from toolnexus.tools.invoke import failed


def told(name: str, result: RunResult, redact: Redactor) -> ToolResult:
    """What crosses the boundary: text and metadata, never a transcript or an exception."""
    metadata = {
        "agent": name,
        "turns": result.turns,
        "toolCalls": result.tool_calls,
        "totalTokens": result.usage.total_tokens,
        "status": result.status,
        "limit": result.limit,
        "path": list(result.path),
    }
    match result.status:
        case "done":
            return ToolResult(output=result.text, metadata=metadata, parts=_media(result))
        case "pending":
            return ToolResult(metadata=metadata, requests=result.pending, child=result.snapshot)
        case "error":
            why = str(result.error) or type(result.error).__name__
            where = getattr(result.error, "node_path", None)  # what a step of a workflow raised
            place = f" in {where}" if where is not None else ""
            return failed(redact(f"agent {name!r} failed{place}: {why}"), **metadata)
        case _:  # incomplete
            hit = next((h for h in result.limits_hit if h.path == result.path), result.limit)
            if result.limit == "seconds":
                text = f"agent {name!r} passed its deadline ({hit}). Its text so far:\n{result.text}"
                return failed(text, **metadata)
            return ToolResult(output=f"{result.text}\n[incomplete: {hit}]", metadata=metadata)


def _media(result: RunResult) -> tuple[MediaPart, ...]:
    """The media of the answer: models write none, agents elsewhere may."""
    last = result.messages[-1] if result.messages else None
    if last is None or last.role != "assistant":
        return ()
    return tuple([part for part in last.parts if isinstance(part, MediaPart)])
