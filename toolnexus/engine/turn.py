"""One model request. The loop and every other engine call a model through `model_turn` only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolnexus.core.events import ReasoningDelta, Retrying, TextDelta, TurnStarted, UsageReported
from toolnexus.core.messages import Message, ToolCallPart
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.tools import Tool
from toolnexus.core.usage import Usage
from toolnexus.models.base import Model
from toolnexus.runtime.context import Emitter, Frame, RunContext
from toolnexus.runtime.hooks import settled

MAX_CALL_ID = 40
CHARS_PER_TOKEN = 4


async def model_turn(ctx: RunContext, model: Model, *, system: str, tools: Sequence[Tool]) -> ModelResponse:
    """Send the transcript to `model` and append its reply.

    Counts one turn and one request, whatever retries it takes. The calls in the reply have ids
    that are unique in the conversation. Raises `LimitReached` before anything is sent, and
    whatever the model raises.
    """
    frame, emit = ctx.frame, ctx.run.emit
    frame.ledger.reserve_request()
    frame.turns += 1
    sink = None
    if emit is not None:
        emit(TurnStarted(path=frame.path, turn=frame.turns, model=model.name))
        sink = _Sink(emit, frame.path)
    request = ModelRequest(
        messages=frame.transcript,
        system=system,
        tools=tools,
        sink=sink,
        memo=frame.memo,
        path=frame.path,
        agent=frame.agent,
        turn=frame.turns,
    )
    try:
        for hook in frame.hooks.before_model:
            request = await settled(hook(ctx, request)) or request
        response = await model.generate(request)
    except BaseException:
        frame.ledger.record(model.name, Usage(requests=1))
        raise
    usage = (response.usage or _estimate(request, response)).of_one_request()
    answered_by = response.model or model.name
    frame.ledger.record(answered_by, usage)
    if emit is not None:
        emit(UsageReported(path=frame.path, model=answered_by, usage=usage))
    for hook in frame.hooks.after_model:
        response = await settled(hook(ctx, response)) or response
    if sink is not None and not sink.wrote and response.message.text:
        sink.text(response.message.text)
    message = _with_unique_ids(response.message, frame)
    frame.transcript.append(message)
    return response if message is response.message else replace(response, message=message)


class _Sink:
    """Turns what happens during a request into events."""

    __slots__ = ("_emit", "_path", "wrote")

    def __init__(self, emit: Emitter, path: tuple[str, ...]) -> None:
        self._emit = emit
        self._path = path
        self.wrote = False

    def text(self, delta: str) -> None:
        self.wrote = True
        self._emit(TextDelta(path=self._path, text=delta))

    def reasoning(self, delta: str) -> None:
        self._emit(ReasoningDelta(path=self._path, text=delta))

    def retrying(self, *, attempt: int, delay: float, reason: str, restarted: bool) -> None:
        self._emit(
            Retrying(path=self._path, attempt=attempt, delay=delay, reason=reason, restarted=restarted)
        )


def _with_unique_ids(message: Message, frame: Frame) -> Message:
    """Many endpoints send `call_0` every turn, or nothing; paths, pairs and answers need one id each."""
    seen, changed = frame.call_ids, False
    calls = message.tool_calls
    if _fine(ids := {call.id for call in calls}, len(calls), seen):
        seen |= ids
        return message
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            id = _unique(part.id, seen)
            seen.add(id)
            if id != part.id:
                part, changed = replace(part, id=id), True
        parts.append(part)
    return replace(message, parts=tuple(parts)) if changed else message


def _fine(ids: set[str], count: int, seen: set[str]) -> bool:
    """Whether the ids of `count` calls can stay as they are: the usual case."""
    return len(ids) == count and seen.isdisjoint(ids) and all([0 < len(id) <= MAX_CALL_ID for id in ids])


def _unique(id: str, seen: set[str]) -> str:
    base = id or "call"
    if len(base) > MAX_CALL_ID:
        from hashlib import sha256

        base = f"{base[:23]}_{sha256(base.encode()).hexdigest()[:16]}"
    candidate, n = base, 1
    while candidate in seen:
        n += 1
        suffix = f"~{n}"
        candidate = base[: MAX_CALL_ID - len(suffix)] + suffix
    return candidate


def _estimate(request: ModelRequest, response: ModelResponse) -> Usage:
    """What an endpoint that reports nothing may have used, so that budgets still hold."""
    read = len(request.system) + sum(_size(m) for m in request.messages)
    return Usage(
        prompt_tokens=read // CHARS_PER_TOKEN,
        completion_tokens=_size(response.message) // CHARS_PER_TOKEN,
        estimated=True,
    )


def _size(message: Message) -> int:
    return (
        len(message.text)
        + sum(len(c.name) + len(c.arguments) for c in message.tool_calls)
        + sum(len(r.output) for r in message.tool_results)
    )
