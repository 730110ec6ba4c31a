"""Model requests: a turn of a run, or one beside its turns. Nothing else calls a model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import CoroutineType
from typing import Any, Protocol, TypeVar

from toolnexus.core.events import ReasoningDelta, Retrying, TextDelta, TurnStarted, UsageReported
from toolnexus.core.messages import Message, ToolCallPart
from toolnexus.core.model import ModelRequest, ModelResponse, ModelSink, OutputSpec
from toolnexus.core.tools import Tool
from toolnexus.core.usage import Usage
from toolnexus.engine.costs import needed_prices, priced
from toolnexus.engine.masking import masked
from toolnexus.errors import ConfigError, LimitReached, ModelContextError
from toolnexus.models.base import Model
from toolnexus.runtime.context import Frame, RunContext
from toolnexus.runtime.emitter import Emitter
from toolnexus.runtime.hooks import settled
from toolnexus.runtime.redact import Masking, Redactor
from toolnexus.runtime.tracing import Tracing, TurnSpan

T = TypeVar("T")
C = TypeVar("C", bound="Counted")


class Named(Protocol):
    """What has the name of a model."""

    @property
    def name(self) -> str: ...


class Counted(Protocol):
    """A reply that says what it used, or None."""

    @property
    def usage(self) -> Usage | None: ...


MAX_CALL_ID = 40
CHARS_PER_TOKEN = 4
_NOTHING = Usage()
_FREE = Usage(cost=0.0)


async def model_turn(
    ctx: RunContext,
    model: Model,
    *,
    system: str,
    tools: Sequence[Tool],
    output: OutputSpec | None = None,
    options: Mapping[str, Any] | None = None,
    transcript: Sequence[Message] | None = None,
    sink: ModelSink | None = None,
) -> ModelResponse:
    """Send the transcript to `model` and append its reply.

    `transcript` is another one than that of the run, which stays as it is; `sink` takes what is streamed,
    without secrets, besides the events. Counts one turn and one request, whatever retries it takes. The calls
    in the reply have ids that are unique in the conversation. Raises `LimitReached` before anything is sent
    and when the run's own transcript has become too long for the model, and whatever the model raises.
    """
    frame, emit = ctx.frame, ctx.run.emit
    own = transcript is None
    messages = frame.transcript if transcript is None else transcript
    _claim(ctx, model)
    frame.turns += 1
    shown = None
    if emit is not None:
        emit(TurnStarted(path=frame.path, turn=frame.turns, model=model.name))
    if emit is not None or sink is not None:
        shown = _Sink(emit, frame.path, ctx.run.redact, sink)
    request = ModelRequest(
        messages=messages,
        system=system,
        tools=tools,
        sink=shown,
        memo=frame.memo,
        path=frame.path,
        agent=frame.agent,
        turn=frame.turns,
        output=output,
        options=options,
    )
    try:
        for hook in frame.hooks.before_model:
            request = _kept(await settled(hook(ctx, request)), request, "before_model")
    except BaseException:  # nothing was sent: the claim is for others again
        frame.ledger.return_request()
        raise
    try:
        response = await _answered(ctx, model, request)
    except ModelContextError as error:
        response = await _shortened(ctx, model, request, error, own)
    finally:
        if shown is not None:
            shown.ended()
    for hook in frame.hooks.after_model:
        response = _kept(await settled(hook(ctx, response)), response, "after_model")
    if shown is not None and not shown.wrote and response.message.text:
        shown.text(response.message.text)
        shown.ended()
    message = _with_unique_ids(response.message, frame)
    if own:
        frame.transcript.append(message)
    return response if message is response.message else replace(response, message=message)


def _claim(ctx: RunContext, model: Named) -> None:
    """Claim one request to `model`. Raises `LimitReached`, and `ConfigError` where no price is known."""
    if (prices := needed_prices(ctx)) is not None:
        prices.check(model)
    ctx.frame.ledger.reserve_request()


async def _traced(tracing: Tracing, ctx: RunContext, model: Model, request: ModelRequest) -> ModelResponse:
    provider = getattr(model, "provider", None)
    with tracing.turn(ctx, request, model=model.name, provider=provider) as span:
        return await _asked(ctx, model, replace(request, on_retry=span.retrying), span)


async def _asked(
    ctx: RunContext, model: Model, request: ModelRequest, span: TurnSpan | None = None
) -> ModelResponse:
    """The reply; what it used is counted whatever way it ends."""
    ledger, counts = ctx.frame.ledger, ctx.run.counts
    began = time.perf_counter()
    try:
        response = masked(await model.generate(request), ctx.run.redact)
    except BaseException as error:
        _failed(ctx, model, error, began)
        raise
    answered_by, host = response.model or model.name, response.host or getattr(model, "host", None)
    usage = priced(ctx, response.usage or estimated(request, response), answered_by, host=host)
    ledger.record(answered_by, usage)
    if counts is not None:
        status = "error" if response.stop == "cut" else "ok"
        counts.request(answered_by, status, time.perf_counter() - began, usage)
    if span is not None:
        span.ended(response, usage)
    if ctx.run.emit is not None:
        ctx.run.emit(UsageReported(path=ctx.frame.path, model=answered_by, usage=usage.of_one_request()))
    return response


def _failed(ctx: RunContext, model: Named, error: BaseException, began: float) -> None:
    """Count a request that gave nothing."""
    ctx.frame.ledger.record(model.name, _NOTHING if ctx.run.prices is None else _FREE)
    if ctx.run.counts is not None:
        status = "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
        ctx.run.counts.request(model.name, status, time.perf_counter() - began)


async def other_request(ctx: RunContext, model: Named, ask: Callable[[], Awaitable[C]]) -> C:
    """What `ask` gets from `model` that is no message: images, speech, a transcript, vectors.

    Budgets and usage count it as one request. Raises `LimitReached` before anything is sent, and whatever
    `ask` raises.
    """
    _claim(ctx, model)
    began = time.perf_counter()
    try:
        reply = await ask()
    except ConfigError:  # nothing was sent: the claim is for others again
        ctx.frame.ledger.return_request()
        raise
    except BaseException as error:
        _failed(ctx, model, error, began)
        raise
    usage = priced(ctx, reply.usage or _NOTHING, model.name, host=getattr(model, "host", None))
    ctx.frame.ledger.record(model.name, usage)
    if ctx.run.counts is not None:
        ctx.run.counts.request(model.name, "ok", time.perf_counter() - began, usage)
    if ctx.run.emit is not None:
        ctx.run.emit(UsageReported(path=ctx.frame.path, model=model.name, usage=usage.of_one_request()))
    return reply


async def side_request(ctx: RunContext, model: Model, request: ModelRequest) -> ModelResponse:
    """Ask `model` something that is no turn of the run; budgets and usage count it all the same.

    Raises `LimitReached` before anything is sent, and whatever the model raises.
    """
    _claim(ctx, model)
    return await _answered(ctx, model, request)


def _answered(ctx: RunContext, model: Model, request: ModelRequest) -> CoroutineType[Any, Any, ModelResponse]:
    """Send one request that was claimed before, and count what it used."""
    tracing = ctx.run.tracing
    return _asked(ctx, model, request) if tracing is None else _traced(tracing, ctx, model, request)


async def _shortened(
    ctx: RunContext, model: Model, request: ModelRequest, error: ModelContextError, own: bool
) -> ModelResponse:
    """The reply to what the nearest hook that can makes of a request that was too long.

    Where that is no way out, the work so far is kept and the run ends at the limit `context`; before
    any work, and for another transcript than the run's own, the error itself is raised.
    """
    frame = ctx.frame
    for hook in reversed(frame.hooks.on_overflow):
        shorter = await settled(hook(ctx, request, error))
        if shorter is None:
            continue
        frame.ledger.reserve_request()
        try:
            return await _answered(ctx, model, _kept(shorter, request, "on_overflow"))
        except ModelContextError as again:
            error = again
            break
    if own and frame.turns > 1:
        raise LimitReached("context", error.window, frame.path) from error
    raise error


def _kept(changed: Any, value: T, point: str) -> T:
    """What a hook made of `value`; None leaves it."""
    if changed is None:
        return value
    if not isinstance(changed, type(value)):
        wanted, got = type(value).__name__, type(changed).__name__
        raise TypeError(f"a {point} hook returned {got}; it may return a {wanted} or None")
    return changed


class _Sink:
    """Turns what happens during a request into events, and hands it on to `inner`."""

    __slots__ = ("_emit", "_inner", "_path", "_reasoning", "_text", "wrote")

    def __init__(
        self, emit: Emitter | None, path: tuple[str, ...], redact: Redactor, inner: ModelSink | None = None
    ) -> None:
        self._emit = emit
        self._path = path
        self._inner = inner
        self._text = None if redact.idle else Masking(redact)
        self._reasoning = None if redact.idle else Masking(redact)
        self.wrote = False

    def text(self, delta: str) -> None:
        self.wrote = True
        self._show_text(delta if self._text is None else self._text.more(delta))

    def reasoning(self, delta: str) -> None:
        self._show_reasoning(delta if self._reasoning is None else self._reasoning.more(delta))

    def _show_text(self, shown: str) -> None:
        if not shown:
            return
        if self._emit is not None:
            self._emit(TextDelta(path=self._path, text=shown))
        if self._inner is not None:
            self._inner.text(shown)

    def _show_reasoning(self, shown: str) -> None:
        if not shown:
            return
        if self._emit is not None:
            self._emit(ReasoningDelta(path=self._path, text=shown))
        if self._inner is not None:
            self._inner.reasoning(shown)

    def ended(self) -> None:
        """No more comes of this reply."""
        if self._reasoning is not None:
            self._show_reasoning(self._reasoning.rest())
        if self._text is not None:
            self._show_text(self._text.rest())

    def retrying(self, *, attempt: int, delay: float, reason: str, restarted: bool) -> None:
        self.ended()
        if self._emit is not None:
            self._emit(
                Retrying(path=self._path, attempt=attempt, delay=delay, reason=reason, restarted=restarted)
            )
        if self._inner is not None:
            self._inner.retrying(attempt=attempt, delay=delay, reason=reason, restarted=restarted)


def _with_unique_ids(message: Message, frame: Frame) -> Message:
    """Many endpoints send `call_0` every turn, or nothing; paths, pairs and answers need one id each."""
    calls = message.tool_calls
    if not calls:
        return message
    seen, changed = frame.call_ids, False
    if _fine(ids := {call.id for call in calls}, len(calls), seen):
        for id in ids:
            seen[id] = 1
        return message
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            id = _unique(part.id, seen)
            if id != part.id:
                part, changed = replace(part, id=id), True
        parts.append(part)
    return replace(message, parts=tuple(parts)) if changed else message


def _fine(ids: set[str], count: int, seen: dict[str, int]) -> bool:
    """Whether the ids of `count` calls can stay as they are: the usual case."""
    return (
        len(ids) == count and seen.keys().isdisjoint(ids) and all([0 < len(id) <= MAX_CALL_ID for id in ids])
    )


def _unique(id: str, seen: dict[str, int]) -> str:
    base = id or "call"
    if len(base) > MAX_CALL_ID:
        from hashlib import sha256

        digest = sha256(base.encode("utf-8", "surrogatepass")).hexdigest()
        base = f"{base[:23]}_{digest[:16]}"
    candidate, n = base, seen.get(base, 0)
    while candidate in seen:
        n += 1
        suffix = f"~{n}"
        candidate = base[: MAX_CALL_ID - len(suffix)] + suffix
    seen[candidate], seen[base] = 1, max(n, 1)
    return candidate


def estimated(request: ModelRequest, response: ModelResponse) -> Usage:
    """What an endpoint that reports nothing may have used, so that budgets still hold.

    The transcript is counted as it grows, not anew in every turn; one that was shortened is another.
    """
    messages = request.messages
    known, size, last = request.memo.get(estimated, (0, 0, None))
    if known and (known > len(messages) or messages[known - 1] is not last):
        known = size = 0
    size += sum(_size(m) for m in messages[known:])
    request.memo[estimated] = (len(messages), size, messages[-1] if messages else None)
    return Usage(
        prompt_tokens=(len(request.system) + size) // CHARS_PER_TOKEN,
        completion_tokens=_size(response.message) // CHARS_PER_TOKEN,
        estimated=True,
    )


def _size(message: Message) -> int:
    return (
        len(message.text)
        + sum(len(c.name) + len(c.arguments) for c in message.tool_calls)
        + sum(len(r.output) for r in message.tool_results)
    )
