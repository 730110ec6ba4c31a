"""`task`: a model delegates to a run of a registered agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from toolnexus.core.names import did_you_mean
from toolnexus.core.result import RunResult
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.values import frozen
from toolnexus.engine.background import begin
from toolnexus.engine.boundary import told
from toolnexus.engine.earlier import earlier
from toolnexus.engine.given_up import left_of
from toolnexus.errors import RunError, ToolError
from toolnexus.models.base import Model
from toolnexus.runtime.background import Job
from toolnexus.runtime.context import ContextKey, RunContext, Runnable, ToolContext
from toolnexus.runtime.past import Past
from toolnexus.runtime.slots import Slot
from toolnexus.tools.arguments import check_arguments
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.invoke import failed

MODEL_OVERRIDE: ContextKey[Model] = ContextKey("model override")
"""The model that one `task` call asked for; it holds for that run only."""


@frozen()
class Delegation:
    """What one agent's `task` does: whom it may start, on which models, and what the host turned on."""

    targets: Mapping[str, Runnable]
    models: Mapping[str, Model]
    options: tuple[str, ...] = ()

    async def execute(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        """Run an agent as the call says, or let a run go on that had asked.

        A refused, a failed and a stopped run are results that say so, never exceptions.
        """
        name, model = arguments["agent"], arguments.get("model")
        beside = bool(arguments.get("background")) and ctx.resumed is None
        if (refused := self._refused(name, model)) is not None:
            return refused
        if beside and ctx.context.frame.deadline is None:
            return failed("nothing goes on in the background of a call outside a run", agent=name)
        past: Past | None = None
        if ctx.resumed is None:
            if (id := arguments.get("task_id")) is not None:
                past = await earlier(ctx.context, id, name)
            if (refused := _claim(ctx, name)) is not None:
                return refused
        prompt = "\n\n".join(p for p in (arguments.get("context"), arguments["prompt"]) if p)
        parent, target = self._parent(ctx.context, model), self.targets[name]
        if beside:
            return _start(ctx, target, prompt, parent, model, past)
        result = await delegate(target, prompt, parent, ctx.call_id, ctx.resumed, past)
        answer = told(name, result, parent.run.redact)
        if "task_continue" not in self.options or answer.requests:
            return answer
        return replace(answer, output=f"{answer.output}\n[task_id: {result.path[-1]}]")

    def going_on(self, ctx: RunContext) -> Callable[[Job, Mapping[str, Any]], Awaitable[RunResult]]:
        """What lets a run in the background go on from where it stood."""

        async def run(job: Job, resumed: Mapping[str, Any]) -> RunResult:
            if job.agent not in self.targets:
                gone = RunError(f"there is no agent {job.agent!r} any more")
                left = left_of((*ctx.path, job.id), ctx.frame, ctx.run.redact, gone)
                if left is None:
                    raise gone
                return left
            parent = self._parent(ctx, job.model if job.model in self.models else None)
            return await ctx.run.runner.run(
                self.targets[job.agent], "", parent=parent, key=job.call_id, delegated=True, resumed=resumed
            )

        return run

    def _refused(self, name: str, model: str | None) -> ToolResult | None:
        if name not in self.targets:
            near = did_you_mean(name, self.targets)
            return failed(f"unknown agent {name!r}; available: {list(self.targets)}{near}")
        if model is not None and model not in self.models:
            near = did_you_mean(model, self.models)
            text = f"model {model!r} is not allowed; allowed: {sorted(self.models)}{near}"
            return failed(text, agent=name)
        return None

    def _parent(self, ctx: RunContext, model: str | None) -> RunContext:
        """The context that the run starts below."""
        parent = ctx.fork()
        return parent if model is None else parent.having({MODEL_OVERRIDE: self.models[model]})


def task_tool(delegation: Delegation, catalog: Sequence[str]) -> Tool:
    """The `task` tool, which tells the model whom there is by the lines of `catalog`.

    Every call is a run of its own, and only its final text comes back; the transcript is fresh, or that of
    the run that it continues.
    """
    text = definition("task", delegation.options)

    def validate(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return check_arguments(tool, arguments)
        except ToolError as error:
            raise ToolError(f"{error}; available agents: {list(delegation.targets)}") from error

    tool = Tool(
        "task",
        "\n".join([text.description.rstrip(), "", "Agents:", *catalog]),
        text.input_schema,
        delegation.execute,
        source="builtin",
        validate=validate,
    )
    return tool


async def delegated(target: Runnable, prompt: Any, ctx: ToolContext) -> ToolResult:
    """The result of a call that delegates to `target`: a fresh run, or the one that goes on."""
    if ctx.resumed is None and (refused := _claim(ctx, target.name)) is not None:
        return refused
    context = ctx.context.fork()
    result = await delegate(target, prompt, context, ctx.call_id, ctx.resumed)
    return told(target.name, result, context.run.redact)


def delegate(
    target: Runnable,
    prompt: Any,
    parent: RunContext,
    key: str,
    resumed: Mapping[str, Any] | None = None,
    past: Past | None = None,
) -> Coroutine[Any, Any, RunResult]:
    """Run `target` for a model, or let it go on from where it stood.

    It counts in depth and waits for a slot while the caller lends its own.
    """
    slot, behind = parent.frame.slot, _behind(past)
    run = parent.run.runner.run(
        target, prompt, parent=parent, key=key, delegated=True, resumed=resumed, **behind
    )
    return run if slot is None else _lending(slot, run)


async def _lending(slot: Slot, run: Coroutine[Any, Any, RunResult]) -> RunResult:
    async with slot.lent():
        return await run


def _behind(past: Past | None) -> dict[str, Any]:
    """How a run is told that it goes on with an earlier one, whose messages are loaded."""
    return {} if past is None else {"history": past.messages or (), "continues": past.path}


def _start(
    ctx: ToolContext, target: Runnable, prompt: str, parent: RunContext, model: str | None, past: Past | None
) -> ToolResult:
    """Let `target` run while its caller goes on."""
    job = Job(parent.frame.segment(target.name, ctx.call_id), target.name, ctx.call_id, model)
    run = partial(
        parent.run.runner.run,
        target,
        prompt,
        parent=parent,
        key=ctx.call_id,
        delegated=True,
        segment=job.id,
        **_behind(past),
    )
    return begin(ctx, job, run)


def _claim(ctx: ToolContext, name: str) -> ToolResult | None:
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
