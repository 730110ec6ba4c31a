"""`task`: a model delegates to a fresh run of a registered agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from toolnexus.core.messages import MediaPart
from toolnexus.core.names import did_you_mean
from toolnexus.core.result import RunResult
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.errors import ToolError
from toolnexus.models.base import Model
from toolnexus.runtime.context import ContextKey, RunContext, Runnable, ToolContext
from toolnexus.runtime.redact import Redactor
from toolnexus.tools.arguments import check_arguments
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.invoke import failed

MODEL_OVERRIDE: ContextKey[Model] = ContextKey("model override")
"""The model that one `task` call asked for; it holds for that run only."""


def task_tool(targets: Mapping[str, Runnable], catalog: Sequence[str], models: Mapping[str, Model]) -> Tool:
    """The `task` tool over `targets`.

    Every call is a fresh run on a fresh transcript; only its final text comes back. A refused, a
    failed and a stopped run are results that say so, never exceptions.
    """
    text = definition("task")

    def validate(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return check_arguments(tool, arguments)
        except ToolError as error:
            raise ToolError(f"{error}; available agents: {list(targets)}") from error

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        name, model = arguments["agent"], arguments.get("model")
        target = targets.get(name)
        if target is None:
            return failed(f"unknown agent {name!r}; available: {list(targets)}{did_you_mean(name, targets)}")
        if model is not None and model not in models:
            return failed(
                f"model {model!r} is not allowed; allowed: {sorted(models)}{did_you_mean(model, models)}",
                agent=name,
            )
        prompt = "\n\n".join(p for p in (arguments.get("context"), arguments["prompt"]) if p)
        return await delegated(target, prompt, ctx, None if model is None else models[model])

    tool = Tool(
        "task",
        "\n".join([text.description.rstrip(), "", "Agents:", *catalog]),
        text.input_schema,
        execute,
        source="builtin",
        validate=validate,
    )
    return tool


async def delegated(
    target: Runnable, prompt: str, ctx: ToolContext, model: Model | None = None
) -> ToolResult:
    """The result of a call that delegates to `target`: a fresh run, or the one that goes on."""
    if ctx.resumed is None and (refused := claim(ctx, target.name)) is not None:
        return refused
    context = ctx.context.fork()
    if model is not None:
        context = context.having({MODEL_OVERRIDE: model})
    result = await delegate(target, prompt, context, ctx.call_id, ctx.resumed)
    return as_result(target.name, result, context.run.redact)


async def delegate(
    target: Runnable, prompt: str, parent: RunContext, key: str, resumed: Mapping[str, Any] | None = None
) -> RunResult:
    """Run `target` for a model, or let it go on from where it stood.

    It counts in depth and waits for a slot while the caller lends its own.
    """
    async with parent.frame.slot.lent() if parent.frame.slot is not None else nullcontext():
        return await parent.run.runner.run(
            target, prompt, parent=parent, key=key, delegated=True, resumed=resumed
        )


def claim(ctx: ToolContext, name: str) -> ToolResult | None:
    """Claim one sub-agent before anything is awaited, or the refusal when depth or number is used up."""
    run, frame = ctx.context.run, ctx.context.frame
    if frame.depth >= run.max_depth:
        limit = frame.hit(run, "depth", run.max_depth, frame.path[:1])
        text = f"not started: agents may be nested {run.max_depth} deep and this is the deepest level"
    elif run.sub_agents >= run.max_sub_agents:
        limit = frame.hit(run, "max_sub_agents", run.max_sub_agents, frame.path[:1])
        text = f"not started: all {run.max_sub_agents} sub-agents of this request have been started"
    else:
        run.sub_agents += 1
        return None
    return failed(f"{text} (limit {limit}); do the work yourself", agent=name, limit=limit.limit)


def as_result(name: str, result: RunResult, redact: Redactor) -> ToolResult:
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
        case "incomplete":
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
