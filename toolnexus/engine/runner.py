"""The frame around every run: child context, limits, events, errors, roll-up. Written once.

Above: the client starts top-level runs, `task` and tools start nested ones. Below: the body of a
Runnable. Only this module creates a frame, and no exception but a cancel crosses one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolnexus.core.events import RunFinished, RunStarted, SubAgentFinished, SubAgentStarted
from toolnexus.core.messages import Message, ToolResultPart, close_transcript
from toolnexus.core.result import RunResult
from toolnexus.engine.background import end_background
from toolnexus.engine.given_up import close_below
from toolnexus.errors import LimitReached
from toolnexus.runtime.context import (
    SCRATCHPAD,
    ContextKey,
    Frame,
    Outcome,
    RunContext,
    Runnable,
    RunSettings,
)
from toolnexus.runtime.deadline import UNLIMITED, Deadline
from toolnexus.runtime.hooks import NO_HOOKS, HookSet
from toolnexus.runtime.ledger import Ledger
from toolnexus.runtime.questions import Asker
from toolnexus.runtime.run import Run
from toolnexus.runtime.slots import Slot
from toolnexus.runtime.snapshot import FramePoint, Snapshot
from toolnexus.runtime.tracing import Tracing

if TYPE_CHECKING:
    from toolnexus.runtime.past import Kept
    from toolnexus.runtime.rights import Permissions

NO_TEXT = "The run ended without any text."

_FAILED = Outcome(status="error")


class Journal(Protocol):
    """Keeps what a run does while it does it. Raises nothing but `CancelledError`."""

    async def step(self, transcript: Sequence[Message], snapshot: Snapshot) -> None:
        """Keep the transcript of the run, and where it stands."""
        ...

    @property
    def below(self) -> Kept:
        """Where the transcripts of the runs below it are kept."""
        ...


class LocalRunner:
    """Runs any Runnable in this process."""

    async def start(
        self,
        run: Run,
        target: Runnable,
        input: Any,
        *,
        settings: RunSettings,
        host: Mapping[ContextKey[Any], Any],
        history: Sequence[Message] = (),
        asker: Asker | None = None,
        inbox: list[Message] | None = None,
        resumed: Snapshot | None = None,
        journal: Journal | None = None,
    ) -> RunResult:
        """Run `target` at the top of a tree and return its result, whatever way it ended.

        `settings` are the host's, the target's own come on top. `history` is the conversation so
        far; `resumed` is where the tree stood, when it goes on; `journal` keeps what was done after
        every step. Raises nothing but `CancelledError`, which carries the result as `.result`.
        """
        ctx = self.root(run, target, settings=settings, host=host, asker=asker)
        frame = ctx.frame
        frame.follow(history)
        if inbox is not None:
            frame.inbox = inbox
        budgets = (settings.budget, _settings(target).budget)
        if resumed is not None:
            frame.ledger = Ledger.from_json(resumed.ledger)
            frame.ledger.bound_by([b for b in budgets if b is not None], None)
            frame.resume(resumed.frame)
            run.sub_agents = resumed.sub_agents
            run.approved.update(resumed.approved)
            run.limits.extend(resumed.limits)
        seconds = min((b.seconds for b in budgets if b and b.seconds is not None), default=None)
        if journal is not None:

            async def step(frame: Frame) -> None:
                point = FramePoint(path=frame.path, messages=(), results=dict(frame.results))
                if frame.background is not None:
                    point = replace(point, **frame.background.as_of_now())
                await journal.step(frame.transcript, _standing(target, ctx, point))

            frame.journal = step
            run.kept = journal.below
        result = await self._followed(target, input, ctx, seconds)
        if result.snapshot is None:
            return result
        whole = _standing(target, ctx, FramePoint.from_json(result.snapshot))
        return replace(result, snapshot=whole.to_json())

    def root(
        self,
        run: Run,
        target: Runnable,
        *,
        settings: RunSettings,
        host: Mapping[ContextKey[Any], Any],
        asker: Asker | None = None,
    ) -> RunContext:
        """The context at the top of a tree; a call that the host makes itself runs in one too."""
        own = _settings(target)
        path = (target.name,)
        hooks = (*settings.hooks, *own.hooks)
        budgets = [b for b in (settings.budget, own.budget) if b is not None]
        frame = Frame(
            path=path,
            agent=target.name,
            depth=0,
            ledger=Ledger(path, target.name, budgets),
            hooks=HookSet(hooks) if hooks else NO_HOOKS,
            workdir=Path(own.workdir or settings.workdir or Path.cwd()),
            asker=Asker(own.on_request) if own.on_request else asker,
            max_turns=own.max_turns or settings.max_turns or 10,
            **_rights((settings.permissions, own.permissions)),
        )
        return RunContext(run, frame, host)

    async def run(
        self,
        target: Runnable,
        input: Any,
        *,
        parent: RunContext,
        key: str,
        delegated: bool = False,
        resumed: Mapping[str, Any] | None = None,
        segment: str | None = None,
        history: Sequence[Message] = (),
        continues: tuple[str, ...] | None = None,
    ) -> RunResult:
        """See `Runner.run`."""
        ctx = _below(target, parent, key, delegated, resumed, segment, history, continues)
        run, frame, above = ctx.run, ctx.frame, parent.frame
        result: RunResult | None = None
        async with frame.slot if frame.slot is not None and delegated else nullcontext():
            if run.emit is not None:
                run.emit(
                    SubAgentStarted(
                        path=above.path,
                        agent=target.name,
                        child=frame.path,
                        call_id=frame.call_id,
                        prompt=_as_text(input),
                    )
                )
            try:
                result = await self._followed(target, input, ctx, _seconds(target))
                if run.kept is not None and result.status != "pending":
                    await run.kept.keep(result)
            finally:
                # a cancelled child still counts: its transcript and usage are part of the tree
                result = result or result_of(ctx, Outcome(status="incomplete"))
                above.children[frame.place] = result
                if run.counts is not None:
                    run.counts.sub_agent(target.name, result.status)
                if run.emit is not None:
                    run.emit(
                        SubAgentFinished(path=above.path, agent=target.name, child=frame.path, result=result)
                    )
            return result

    def _followed(
        self, target: Runnable, input: Any, ctx: RunContext, seconds: float | None
    ) -> Coroutine[Any, Any, RunResult]:
        tracing = ctx.run.tracing
        if tracing is None:
            return self._drive(target, input, ctx, seconds)
        return self._traced(tracing, target, input, ctx, seconds)

    async def _traced(
        self, tracing: Tracing, target: Runnable, input: Any, ctx: RunContext, seconds: float | None
    ) -> RunResult:
        with tracing.run(ctx) as span:
            result = await self._drive(target, input, ctx, seconds)
            span.ended(result)
            return result

    async def _drive(self, target: Runnable, input: Any, ctx: RunContext, seconds: float | None) -> RunResult:
        run, frame = ctx.run, ctx.frame
        if run.emit is not None:
            run.emit(RunStarted(path=frame.path, agent=target.name))
        outcome, error = _FAILED, None
        reason = "not run: the run failed"
        frame.deadline = UNLIMITED if seconds is None else Deadline(seconds)
        try:
            async with frame.deadline as deadline:
                try:
                    ended = await target.execute(input, ctx)
                    outcome = ended if ended.status != "pending" else await _waiting(ctx, ended)
                finally:  # it ends no sooner than what it left in the background
                    if frame.background is not None and outcome.status != "pending":
                        await end_background(ctx)
            if deadline.expired:
                limit = frame.hit(run, "seconds", seconds)
                outcome = Outcome(status="incomplete", limit=limit)
        except LimitReached as reached:
            limit = frame.hit(run, reached.limit, reached.value, reached.scope)
            outcome = Outcome(status="incomplete", limit=limit)
        except Exception as failure:
            outcome, error = _FAILED, failure
        except BaseException as cancel:
            if isinstance(cancel, asyncio.CancelledError) and not frame.is_cancelled:
                return _finish(ctx, _FAILED, RuntimeError("the run was cancelled from inside"), reason)
            outcome = Outcome(status="incomplete", limit=frame.hit(run, "cancelled", None))
            result = _finish(ctx, outcome, None, "interrupted: the run was cancelled")
            if frame.parent is None:
                cancel.result = result  # type: ignore[attr-defined]
            raise
        if outcome.limit is not None:
            reason = f"not run or interrupted: limit {outcome.limit}"
        return _finish(ctx, outcome, error, reason)


def _below(
    target: Runnable,
    parent: RunContext,
    key: str,
    delegated: bool,
    resumed: Mapping[str, Any] | None,
    segment: str | None,
    history: Sequence[Message],
    continues: tuple[str, ...] | None,
) -> RunContext:
    """The context of a run below `parent`."""
    run, above, own = parent.run, parent.frame, _settings(target)
    point = None if resumed is None else FramePoint.from_json(resumed)
    if point is not None and above.stood is not None:
        point = replace(point, interrupted=above.stood.interrupted, let_go=above.stood.let_go)
    if point is None:
        path = (*above.path, segment or above.segment(target.name, key))
    else:
        path = point.path
    budgets = [own.budget] if own.budget else []
    if point is None:
        ledger = Ledger(path, target.name, budgets, above.ledger)
    else:
        ledger = above.ledger.restored(path)
        ledger.bound_by(budgets, above.ledger)
    slot = Slot(run.slots) if delegated else above.slot
    frame = Frame(
        path=path,
        agent=target.name,
        depth=above.depth + delegated,
        ledger=ledger,
        hooks=HookSet(own.hooks, above.hooks) if own.hooks else above.hooks,
        workdir=Path(own.workdir) if own.workdir else above.workdir,
        parent=above,
        call_id=key,
        slot=slot,
        asker=Asker(own.on_request) if own.on_request else above.asker,
        max_turns=own.max_turns or above.max_turns,
        **_rights((own.permissions,), above),
    )
    if point is None:
        frame.place = len(above.children)
        above.children.append(None)
        frame.follow(history)
        frame.continues = continues
    else:
        frame.resume(point)
        if point.scratch is not None and (pad := parent.get(SCRATCHPAD)) is not None:
            pad.restore(point.scratch)
    return RunContext(run, frame, parent.host)


async def _waiting(ctx: RunContext, outcome: Outcome) -> Outcome:
    """How a run waits: with the questions of what runs in the background, and with its scratchpad."""
    background = ctx.frame.background
    if background is not None:
        await background.settled(background.open)
        every = {request.id: request for request in (*outcome.requests, *background.requests)}
        outcome = replace(outcome, requests=tuple(every.values()))
    if ctx.frame.parent is not None and (pad := ctx.get(SCRATCHPAD)) is not None:
        outcome = replace(outcome, scratch=pad.to_json())
    return outcome


def result_of(ctx: RunContext, outcome: Outcome, error: BaseException | None = None) -> RunResult:
    """The result of the run as it stands now."""
    frame, ledger = ctx.frame, ctx.frame.ledger
    status = outcome.status
    if status == "done" and frame.limits:  # a delegation was refused: the work is not all there
        status = "incomplete"
    limit = outcome.limit or (frame.limits[0] if frame.limits else None)
    depth = len(frame.path)
    text = outcome.text or _last_text(frame)
    if not text and outcome.requests:
        text = "\n".join(request.prompt for request in outcome.requests)
    output = outcome.output
    point = _point(frame, outcome).to_json() if status == "pending" else None
    return RunResult(
        status=status,
        text=text or (_as_text(output) if output else NO_TEXT),
        output=text if output is None and not frame.typed else output,
        limit=limit.limit if limit else None,
        limits_hit=tuple([hit for hit in ctx.run.limits if hit.path[:depth] == frame.path]),
        pending=outcome.requests,
        messages=tuple(frame.transcript),
        tool_calls=ledger.tool_calls,
        sub_agent_tool_calls=ledger.tool_calls_below,
        sub_agents=tuple([child for child in frame.children if child is not None]),
        turns=frame.turns,
        usage=ledger.usage,
        own_usage=ledger.own_usage,
        path=frame.path,
        agent=frame.agent,
        continues=frame.continues,
        pending_steer=outcome.pending_steer,
        error=error,
        snapshot=point,
    )


def _point(frame: Frame, outcome: Outcome) -> FramePoint:
    """Where a run stands that waits for answers."""
    kept_elsewhere = frame.start if frame.parent is None else 0  # the messages of the conversation
    own = frame.transcript[kept_elsewhere:]
    results: dict[str, ToolResultPart] = {}
    if own and any(r.call_id in outcome.waiting for r in own[-1].tool_results):
        *own, batch = own
        results = {r.call_id: r for r in batch.tool_results if r.call_id not in outcome.waiting}
    return FramePoint(
        path=frame.path,
        messages=tuple(own),
        results=results,
        waiting=outcome.waiting,
        turns=frame.turns,
        limits=frame.limits,
        children=tuple([r if r is None or r.status != "pending" else None for r in frame.children]),
        place=frame.place,
        start=frame.start - kept_elsewhere,
        background=() if frame.background is None else frame.background.points(),
        continues=frame.continues,
        definition=outcome.definition,
        state=outcome.state,
        scratch=outcome.scratch,
    )


def _standing(target: Runnable, ctx: RunContext, point: FramePoint) -> Snapshot:
    """Where the tree stands whose top is at `point`."""
    run, frame = ctx.run, ctx.frame
    return Snapshot(
        agent=target.name,
        frame=replace(point, turns=frame.turns, limits=frame.limits),
        ledger=frame.ledger.to_json(),
        sub_agents=run.sub_agents,
        limits=tuple(run.limits),
        answers=run.answers,
        approved=tuple(run.approved),
    )


def waiting_result(snapshot: Snapshot, messages: tuple[Message, ...]) -> RunResult:
    """The result of a run that still waits, when nothing was done."""
    ledger, frame = Ledger.from_json(snapshot.ledger), snapshot.frame
    text = "\n".join([request.prompt for request in snapshot.requests])
    return RunResult(
        status="pending",
        text=text,
        output=text,
        limits_hit=snapshot.limits,
        pending=snapshot.requests,
        messages=messages,
        tool_calls=ledger.tool_calls,
        sub_agent_tool_calls=ledger.tool_calls_below,
        sub_agents=tuple([child for child in frame.children if child is not None]),
        turns=frame.turns,
        usage=ledger.usage,
        own_usage=ledger.own_usage,
        path=frame.path,
        agent=snapshot.agent,
        snapshot=snapshot.to_json(),
    )


def _finish(ctx: RunContext, outcome: Outcome, error: BaseException | None, reason: str) -> RunResult:
    """Close the transcript, so that it can be sent to any provider again, and report the end."""
    frame = ctx.frame
    frame.transcript[:] = close_transcript(frame.transcript, reason, frame.results)
    frame.results.clear()
    if frame.children and outcome.status != "pending":
        close_below(frame, ctx.run.redact)
    result = result_of(ctx, outcome, error)
    if error is not None and ctx.run.counts is not None:
        ctx.run.counts.failed_run(next(reversed(frame.ledger.by_model), None))
    if ctx.run.emit is not None:
        ctx.run.emit(RunFinished(path=frame.path, result=result))
    return result


def _settings(target: Runnable) -> RunSettings:
    return getattr(target, "settings", None) or RunSettings()


def _seconds(target: Runnable) -> float | None:
    budget = _settings(target).budget
    return None if budget is None else budget.seconds


def _rights(layers: Sequence[Permissions | None], above: Frame | None = None) -> dict[str, Any]:
    """The rules and denials of a frame: what holds above, and its own."""
    own = tuple([layer for layer in layers if layer is not None])
    if above is None:
        return {"denied": own, "permissions": own}
    return {"denied": (*above.denied, *own), "permissions": (*above.permissions, *own)}


def _last_text(frame: Frame) -> str:
    for message in reversed(frame.transcript[frame.start :]):
        if message.role == "assistant" and (text := message.text).strip():
            return text
    return ""


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
