"""`compactor`: before a request the older part of a long transcript gives way to notes about it.

What it is: a hook that changes what is sent. What it is not: a change of the transcript, which stays whole
in the run, in its result and in its conversation.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from toolnexus.core.events import Compacted
from toolnexus.core.messages import Message
from toolnexus.core.model import ModelRequest
from toolnexus.core.options import count, expect_callable
from toolnexus.core.wire import message_to_json
from toolnexus.engine.compaction.kept import Count, Kept
from toolnexus.engine.compaction.size import estimate_tokens
from toolnexus.engine.compaction.summary import ask_for_summary
from toolnexus.engine.environment import MODEL
from toolnexus.errors import ConfigError, ModelContextError
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.hooks import Hooks, settled

logger = logging.getLogger("toolnexus.compaction")

Summarize = Callable[[Sequence[Message]], str | Awaitable[str]]

MOST_NOTES = 256
"""Notes that one compactor remembers for later runs."""
_WORTH = 10
"""Only when a tenth of the limit goes is a summary worth a request."""


def compactor(
    max_tokens: int,
    *,
    keep_tail: int | None = None,
    summarize: Summarize | None = None,
    count_tokens: Count | None = None,
) -> Hooks:
    """A hook that keeps what is sent to about `max_tokens` tokens: `hooks=[compactor(100_000)]`.

    Over it, the older messages give way to notes. The system prompt, the request that began the run and the
    newest words of the user stay verbatim, and so do the newest messages of `keep_tail` tokens (a quarter
    of `max_tokens`; at most half). The transcript, the result and the stored conversation stay whole. Leave
    room below the model's window for the system prompt, the tools and the reply.

    `summarize` gets the messages that go, the notes so far first, and returns the new notes, plain (it runs
    on the event loop) or async; None asks the run's own model once. When it fails or gives no text, the
    messages go without notes, and the head says so. `count_tokens` gets messages that are new and tells
    their tokens, which are added up; None counts four bytes as one.

    In the runs below it acts as well, with their own model and for their own transcript, unless an agent
    has a compactor of its own. A request that is refused as too long is shortened further and sent once
    more. Raises `ConfigError` for numbers that cannot work; a run never fails by it.
    """
    return Compactor(max_tokens, keep_tail, summarize, count_tokens)


class Compactor(Hooks):
    """See `compactor`. One may act in any number of runs at once: what belongs to a run is in its memo."""

    def __init__(
        self, max_tokens: int, keep_tail: int | None, summarize: Summarize | None, count_tokens: Count | None
    ) -> None:
        count("compactor: max_tokens", max_tokens, 1)
        if keep_tail is not None:
            count("compactor: keep_tail", keep_tail, 0)
            if keep_tail > max_tokens // 2:
                raise ConfigError(
                    f"compactor: keep_tail={keep_tail!r} must be at most half of max_tokens={max_tokens!r}, "
                    "or there would be too little to leave out"
                )
        expect_callable("compactor: summarize", summarize, "give a function from messages to a text")
        expect_callable("compactor: count_tokens", count_tokens, "give a function from messages to a number")
        self._max = max_tokens
        self._keep = max_tokens // 4 if keep_tail is None else keep_tail
        self._summarize = summarize
        self._count = count_tokens or estimate_tokens
        self._windows: dict[str, int] = {}
        """What endpoints have said that a model may be sent."""
        self._remembered: OrderedDict[bytes, tuple[str, int]] = OrderedDict()
        """Notes by the digest of the messages that they stand for."""

    async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest | None:
        """The request with notes in place of its older part, or None while it is short enough."""
        if not self._acts(ctx):
            return None
        run = self._run(ctx, request)
        if run.kept.size > run.kept.limit:
            await self._compact(ctx, run, least=run.kept.limit // _WORTH)
        return _sending(request, run)

    async def on_overflow(
        self, ctx: RunContext, request: ModelRequest, error: ModelContextError
    ) -> ModelRequest | None:
        """A request of half the length, or as short as the endpoint says that it must be."""
        if not self._acts(ctx):
            return None
        run = self._run(ctx, request, anew=False)
        kept, before, model = run.kept, run.kept.size, ctx.get(MODEL)
        kept.limit = min(kept.limit, before // 2)
        if error.window is not None:
            window = error.window * 3 // 4  # what we count is not quite what the endpoint counts
            kept.limit = min(kept.limit, window)
            if model is not None:
                self._windows[model.name] = window
        await self._compact(ctx, run, least=1)
        return _sending(request, run) if kept.size < before else None

    def _acts(self, ctx: RunContext) -> bool:
        """Whether no agent nearer to the run has a compactor of its own."""
        for hook in reversed(ctx.frame.hooks.before_model):
            owner = getattr(hook, "__self__", None)
            if isinstance(owner, Compactor):
                return owner is self
        return True  # inside of a hook that is not ours

    def _run(self, ctx: RunContext, request: ModelRequest, *, anew: bool = True) -> _Run:
        """What is known of the run, with the newest messages taken in."""
        memo = ctx.frame.memo
        run: _Run | None = memo.get(self)
        if run is not None and (not anew or run.kept.follow(request.messages)):
            return run
        model = ctx.get(MODEL)
        limit = min(self._max, self._windows.get(model.name, self._max)) if model is not None else self._max
        run = memo[self] = _Run(Kept(limit, self._count))
        run.kept.follow(request.messages)
        if run.kept.size > limit and self._remembered:
            self._recall(ctx, run)
        return run

    async def _compact(self, ctx: RunContext, run: _Run, *, least: int) -> None:
        """Leave out what may go, if it is `least` tokens or more; cut results where that is not enough."""
        kept = run.kept
        before, left_out = kept.size, kept.left_out
        at, gain = kept.cut(min(self._keep, kept.limit // 4))
        notes = None
        if gain >= max(least, 1):
            gone = kept.tail[:at]
            notes = await self._notes(ctx, run, [*kept.head, *gone])
            kept.leave_out(at, notes)
            self._remember(run, gone)
        if kept.size > kept.limit + least:
            kept.shorten_results()
        if kept.size != before:
            _report(ctx, kept, before, left_out, summarized=notes is not None)

    async def _notes(self, ctx: RunContext, run: _Run, messages: list[Message]) -> str | None:
        """Notes about `messages`, or None when there are none to be had."""
        run.kept.summaries += 1
        try:
            if self._summarize is not None:
                text = await settled(self._summarize(messages))
            else:
                text = await self._asked(ctx, run, messages)
            if not isinstance(text, str) or not text.strip():
                raise ValueError("there is no text in it")
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and ctx.frame.is_cancelled:
                raise
            reason = ctx.run.redact(f"{type(error).__name__}: {error}")
            logger.warning("%s: no summary of %d messages: %s", "/".join(ctx.path), len(messages), reason)
            return None
        return text.strip()

    async def _asked(self, ctx: RunContext, run: _Run, messages: list[Message]) -> str:
        model, kept = ctx.get(MODEL), run.kept
        if model is None:
            raise ConfigError("this run has no model to ask; give compactor(summarize=…)")
        return await ask_for_summary(
            ctx, model, messages, limit=kept.limit, count=self._count, number=kept.summaries
        )

    def _remember(self, run: _Run, gone: Sequence[Message]) -> None:
        for message in gone:
            run.digest.update(_bytes(message))
        key = run.digest.digest()
        self._remembered[key] = run.kept.notes
        self._remembered.move_to_end(key)
        if len(self._remembered) > MOST_NOTES:
            self._remembered.popitem(last=False)

    def _recall(self, ctx: RunContext, run: _Run) -> None:
        """Use the notes of an earlier run that began with the same messages."""
        kept, digest = run.kept, hashlib.sha256()
        before, found = kept.size, 0
        for at, message in enumerate(kept.tail[:-1], 1):
            digest.update(_bytes(message))
            if digest.digest() in self._remembered:
                found, run.digest = at, digest.copy()
        if found:
            notes, lost = self._remembered[run.digest.digest()]
            kept.recall(found, notes, lost)
            _report(ctx, kept, before, 0, summarized=True)


class _Run:
    """What a compactor knows of one run."""

    __slots__ = ("digest", "kept")

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.digest = hashlib.sha256()
        """Of the messages that the head stands for."""


def _sending(request: ModelRequest, run: _Run) -> ModelRequest | None:
    messages = run.kept.sent(request.messages)
    return None if messages is request.messages else replace(request, messages=messages)


def _report(ctx: RunContext, kept: Kept, before: int, left_out: int, *, summarized: bool) -> None:
    if ctx.run.emit is not None:
        dropped = kept.left_out - left_out
        ctx.run.emit(
            Compacted(path=ctx.path, before=before, after=kept.size, dropped=dropped, summarized=summarized)
        )


def _bytes(message: Message) -> bytes:
    return json.dumps(message_to_json(message), sort_keys=True, default=str).encode("utf-8", "surrogatepass")
