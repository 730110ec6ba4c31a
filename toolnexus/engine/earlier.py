"""The runs that a model may go on with, instead of starting a fresh one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolnexus.core.messages import close_transcript
from toolnexus.core.result import RunResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import Frame, RunContext
from toolnexus.runtime.past import Past, Path

UNFINISHED = "not run: the run that is continued was interrupted before this call had a result"


async def earlier(ctx: RunContext, id: str, agent: str) -> Past:
    """The run that `id` names for the run of `ctx`, with its messages.

    It may go on with runs that it started itself: in this ask, in earlier ones of the conversation, and in
    the run that it continues. Raises `ToolError` that says what to do instead.
    """
    known = await _known(ctx)
    past = known.get(id)
    if past is None:
        if id in (ctx.frame.child_names or ()):
            raise ToolError(f"{id!r} has not ended: it runs, or waits for an answer; go on with it later")
        raise ToolError(f"there is no run {id!r} to go on with; known: {list(known)}")
    if past.agent != agent:
        raise ToolError(f"{id!r} is a run of agent {past.agent!r}, not of {agent!r}")
    messages = past.messages
    if messages is None and ctx.run.kept is not None:
        messages = await ctx.run.kept.load(past.path)
    if not messages:
        raise ToolError(f"nothing is kept of {id!r}; start a fresh run")
    return replace(past, messages=close_transcript(messages, UNFINISHED))


async def _known(ctx: RunContext) -> dict[str, Past]:
    """By id: the segment of the path that a run has below the one that started it."""
    kept, frame = ctx.run.kept, ctx.frame
    every: dict[Path, Past] = {} if kept is None else dict(await kept.index())
    above: Frame | None = frame
    while above is not None:
        _add(every, above.children)
        above = above.parent
    found: dict[str, Past] = {}
    path, after = frame.path, frame.continues
    while True:
        for past in [past for past in every.values() if past.path[:-1] == path]:
            found.setdefault(past.path[-1], past)
            del every[past.path]
        if after not in every:
            return found
        path, after = after, every.pop(after).continues


def _add(every: dict[Path, Past], runs: Iterable[RunResult | None]) -> None:
    for run in runs:
        if run is not None and run.status != "pending":
            every[run.path] = Past.of(run)
            _add(every, run.sub_agents)
