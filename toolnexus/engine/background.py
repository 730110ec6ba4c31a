"""Runs in the background: started by `task`, collected by `task_wait`, stopped by `task_stop`.

Nothing of them is dropped. What the model did not collect comes to it when it has nothing left to do, and
when a run ends before that, its transcript says what became of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from toolnexus.core.messages import ToolCallPart, user
from toolnexus.core.result import RunResult
from toolnexus.core.tools import Execute, Tool, ToolResult
from toolnexus.engine.boundary import told
from toolnexus.engine.given_up import left_of, note
from toolnexus.errors import RunError
from toolnexus.runtime.background import Background, Job
from toolnexus.runtime.context import RunContext, ToolContext
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.invoke import failed, handed_over

AT_REST = "[Results of background tasks. This message comes from the system, not from the user.]"
LOST = (
    "outcome unknown: the process ended while it ran, and it was not repeated; "
    "find out what it did before you start it again"
)
NOTHING = "nothing runs in the background, and every result was given"


def begin(ctx: ToolContext, job: Job, run: Callable[[], Awaitable[RunResult]]) -> ToolResult:
    """Start `run` beside the caller, who knows it by the id of `job` from now on."""
    frame = ctx.context.frame
    if frame.background is None:
        frame.background = Background(frame)
    frame.background.start(job, run)
    text = f"started in the background [task_id: {job.id}]; task_wait gives its result"
    path = [*frame.path, job.id]
    return ToolResult(output=text, metadata={"agent": job.agent, "status": "running", "path": path})


def restore(ctx: RunContext, run: Callable[[Job, Mapping[str, Any]], Awaitable[RunResult]]) -> None:
    """Stand where a run stood that left others in the background; `run` lets one of them go on."""
    frame, point = ctx.frame, ctx.frame.resumed
    assert point is not None
    background = frame.background = Background(frame)
    ended = {child.path[-1]: child for child in frame.children if child is not None}
    for at in point.background:
        job = background.jobs[at.id] = Job(at.id, at.agent, at.call_id, at.model)
        job.given, job.waiting = at.given, at.waiting
        if job.waiting is None:
            job.result = ended.get(job.id) or background.failed(job, RunError(LOST))
        elif job.waiting.answered(ctx.run.answers) or frame.asker is not None:
            background.start(job, partial(run, job, job.waiting.child or {}))


async def hand_over(ctx: RunContext) -> bool:
    """Wait for what runs in the background, and put the results before the model as one message.

    False: some of it waits for an answer, and nothing was put there.
    """
    background = ctx.frame.background
    assert background is not None
    jobs = background.open
    await background.settled(jobs)
    if background.requests:
        return False
    call = ToolCallPart("", "task_wait")
    seen = ToolContext(context=ctx, call=call, tool=wait_tool(), arguments={})
    result = await handed_over(seen, _report(jobs, ctx))
    ctx.frame.transcript.append(user(f"{AT_REST}\n\n{result.output}"))
    _give(jobs)
    return True


async def end_background(ctx: RunContext) -> None:
    """Stop what still runs in the background, and note in the transcript what became of all of it."""
    background = ctx.frame.background
    assert background is not None
    jobs = background.open
    if not jobs:
        return
    try:
        await _end(background, jobs, ctx)
    finally:
        ctx.frame.transcript.append(note(_report(jobs, ctx).output, ctx.run.redact))
        _give(jobs)


async def _end(background: Background, jobs: Sequence[Job], ctx: RunContext) -> None:
    """End `jobs`, those that wait for an answer too; how far each came is its result."""
    try:
        await background.stop(jobs)
    finally:
        for job in jobs:
            if job.result is None:
                job.result, job.waiting = _left(job, ctx), None


def _left(job: Job, ctx: RunContext) -> RunResult:
    frame = ctx.frame
    if (left := left_of((*frame.path, job.id), frame, ctx.run.redact)) is not None:
        return left
    text = "It was stopped before it began."
    path = (*frame.path, job.id)
    return RunResult(status="incomplete", text=text, limit="cancelled", path=path, agent=job.agent)


async def _wait(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    background, ids = ctx.context.frame.background, arguments.get("task_ids")
    if background is None:
        return failed(_unknown(ids[0], ())) if ids else ToolResult(output=NOTHING)
    if unknown := [id for id in ids or () if id not in background.jobs]:
        return failed(_unknown(unknown[0], background.open))
    jobs = background.open if ids is None else [background.jobs[id] for id in dict.fromkeys(ids)]
    if not jobs:
        return ToolResult(output=NOTHING)
    await background.settled(jobs, arguments.get("timeout"))
    waiting = [job.waiting for job in jobs if job.waiting is not None]
    if waiting and not any(job.runs for job in jobs):
        requests = tuple([request for point in waiting for request in point.requests])
        return ToolResult(requests=requests, child={"tasks": [job.id for job in jobs]})
    report = _report(background.in_call_order(jobs), ctx.context)
    _give(jobs)
    return report


async def _stop(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    background, id = ctx.context.frame.background, arguments["task_id"]
    if background is None or id not in background.jobs:
        return failed(_unknown(id, () if background is None else background.open))
    jobs = [background.jobs[id]]
    await _end(background, jobs, ctx.context)
    report = _report(jobs, ctx.context)
    _give(jobs)
    return report


def _report(jobs: Sequence[Job], ctx: RunContext) -> ToolResult:
    """What is to be said of `jobs`, in their order, a part for each."""
    results = [_part(job, ctx) for job in jobs]
    texts = [f"[task_id: {job.id}]\n{result.output}" for job, result in zip(jobs, results, strict=True)]
    return ToolResult(
        output="\n\n".join(texts),
        is_error=all(result.is_error for result in results),
        metadata={"tasks": [dict(result.metadata) for result in results]},
    )


def _part(job: Job, ctx: RunContext) -> ToolResult:
    if job.given:
        return ToolResult(output="its result was given before")
    if job.result is not None:
        return told(job.agent, job.result, ctx.run.redact)
    return ToolResult(output="still running" if job.runs else "waits for an answer")


def _give(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.given = job.given or job.result is not None


def _unknown(id: str, open: Sequence[Job]) -> str:
    return f"no task {id!r} was started in the background; open: {[job.id for job in open]}"


def _tool(name: str, execute: Execute, *, idempotent: bool = False) -> Tool:
    text = definition(name)
    return Tool(name, text.description, text.input_schema, execute, source="builtin", idempotent=idempotent)


@cache
def wait_tool() -> Tool:
    """`task_wait`: results of runs in the background, each once."""
    return _tool("task_wait", _wait, idempotent=True)


@cache
def stop_tool() -> Tool:
    """`task_stop`: the end of one of them, and what it had."""
    return _tool("task_stop", _stop)
