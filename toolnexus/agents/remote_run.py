"""One run of a remote agent: messages there, answers and questions back.

The transcript holds what was sent and what came. A message that came carries the ids of its task and
context, so that a later ask of the same conversation goes on in the same context, from any process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from toolnexus.core.events import Pending, TextDelta, ToolProgress, UsageReported
from toolnexus.core.messages import MediaPart, Message, Part, TextPart
from toolnexus.core.suspension import Answer, Request
from toolnexus.core.usage import Usage
from toolnexus.engine.agent import as_messages
from toolnexus.engine.costs import check_price, priced
from toolnexus.errors import RunError
from toolnexus.protocols.a2a.card import Found
from toolnexus.protocols.a2a.exchange import Exchange, Listener, Reply, connected
from toolnexus.protocols.a2a.http import Fault
from toolnexus.protocols.a2a.parts import data_part, to_a2a
from toolnexus.runtime.context import Outcome, RunContext
from toolnexus.runtime.snapshot import FramePoint, Waiting

if TYPE_CHECKING:
    from a2a.types import Part as A2APart

    from toolnexus.agents.remote import RemoteAgent

_KINDS = {"input-required": "input", "auth-required": "authorization"}
_MOST_SAID = 1000
_MOST_TOKENS = 10**9
"""What an agent may claim to have used in one task."""
_WITHHELD = " (its card leads to another origin than the one that was named: headers are not sent there)"
_GRANTED = "The authorization was granted."
_CONFIRMED = "Yes."


class RemoteRun:
    """The run of `remote` in `ctx`."""

    def __init__(self, remote: RemoteAgent, found: Found, ctx: RunContext, skill: str | None) -> None:
        self._remote = remote
        self._found = found
        self._ctx = ctx
        self._model = f"a2a:{remote.name}"
        """The name that what it used is counted by."""
        self._metadata = {} if skill is None else {"skillId": skill}
        at = urlsplit(found.card.supported_interfaces[0].url)
        self._origin = f"a2a:{at.netloc}{at.path}"
        self._told: list[str] = []
        for secret in remote.secrets:
            ctx.run.redact.add(secret)

    async def execute(self, input: Any) -> Outcome:
        """See `RemoteAgent.execute`."""
        frame = self._ctx.frame
        stood, frame.resumed = frame.resumed, None
        request: Request | None = None
        parts: Sequence[A2APart] = ()
        reply: Reply | None = None
        task_id, context_id = "", self._context()
        if stood is None:
            messages = as_messages(input)
            parts = to_a2a([part for message in messages for part in message.parts])
            if not parts:
                raise RunError(f"remote agent {self._remote.name!r}: there is nothing to send")
            frame.transcript += messages
        else:
            request = _open_question(stood, self._remote.name)
            about = request.data or {}
            task_id, context_id = about["taskId"], str(about.get("contextId", ""))
        remote = self._remote
        async with connected(self._found, remote.headers, remote.timeout, remote.redact) as connection:
            exchange = Exchange(
                connection,
                headers=_trace(),
                listener=self._listener(),
                task_id=task_id,
                context_id=context_id,
            )
            try:
                if request is not None and stood is not None:
                    request, reply = await self._stands(exchange, request, stood.interrupted)
                return await self._talk(exchange, request, parts, reply)
            except Fault as fault:
                await exchange.cancel()
                withheld = remote.headers and not self._found.trusted
                raise remote.error(f"{fault}{_WITHHELD if withheld else ''}") from fault
            except BaseException:
                await exchange.cancel()
                raise

    async def _stands(
        self, exchange: Exchange, request: Request, interrupted: bool
    ) -> tuple[Request | None, Reply | None]:
        """What is open now: the question that was shown, or what the task says since.

        An answer is for the question that it was given to. After a crash the task may have gone on.
        """
        if request.kind == "authorization":
            return request, None  # looked at when somebody says that it is granted
        try:
            now = await exchange.stands()
        except Fault:  # it tells nothing of its tasks; whether it takes the answer is to be seen
            return request, None
        is_same = now.message_id == (request.data or {}).get("messageId", now.message_id)
        if (now.state in _KINDS and not is_same) or (now.state not in _KINDS and interrupted):
            return None, now
        return request, None

    async def _talk(
        self, exchange: Exchange, request: Request | None, parts: Sequence[A2APart], reply: Reply | None
    ) -> Outcome:
        """Message and reply, until the agent is done, or asks what nobody here can answer.

        `reply`: what it said before we say anything.
        """
        frame, run = self._ctx.frame, self._ctx.run
        while True:
            if request is not None:
                answer = await self._answer(request)
                if answer is None:
                    waiting = {request.id: Waiting(requests=(request,))}
                    return Outcome(status="pending", requests=(request,), waiting=waiting)
                parts = self._take(request, answer)
            if frame.turns >= frame.max_turns:
                await exchange.cancel()
                return Outcome(status="incomplete", limit=frame.hit(run, "max_turns", frame.max_turns))
            frame.turns += 1
            if reply is None and request is not None and not parts:
                reply = await exchange.moved_on()
            reply = reply or await self._sent(exchange, parts, granted=request is not None and not parts)
            frame.check_cancelled()
            self._keep(reply)
            if reply.state in ("", "completed"):
                return Outcome()
            if reply.state not in _KINDS:
                detail = f": {_cut(reply.said)}" if reply.said.strip() else ""
                raise RunError(run.redact(f"A2A task {_cut(reply.task_id)} {reply.state}{detail}"))
            request, reply = self._question(reply), None

    async def _sent(self, exchange: Exchange, parts: Sequence[A2APart], *, granted: bool) -> Reply:
        """The reply to `parts`, or to word that something was granted, which the agent may know already.

        Raises `LimitReached` and `ConfigError`, before anything is sent, for a budget that is spent or cannot
        hold.
        """
        check_price(self._ctx, self._model)
        self._ctx.frame.ledger.check_spent()
        try:
            return await exchange.send(parts or to_a2a([TextPart(_GRANTED)]), self._metadata)
        except Fault:
            reply = await exchange.moved_on() if granted else None  # it went on just before we spoke
            if reply is None:
                raise
            return reply

    def _question(self, reply: Reply) -> Request:
        asked = _cut(reply.said) or f"remote agent {self._remote.name!r} needs {reply.state[:-9]}"
        request = Request(
            kind=_KINDS[reply.state],
            prompt=self._ctx.run.redact(asked),
            url=reply.url if reply.state == "auth-required" else None,
            data={
                "taskId": reply.task_id,
                "contextId": reply.context_id,
                "messageId": reply.message_id,
                "agent": self._remote.name,
                "path": list(self._ctx.path),
            },
        )
        if self._ctx.run.emit is not None:
            self._ctx.run.emit(Pending(path=self._ctx.path, request=request))
        return request

    async def _answer(self, request: Request) -> Answer | None:
        """The reply to `request`, None when nobody in reach gives one. Raises `RunError`."""
        run, frame = self._ctx.run, self._ctx.frame
        answer = run.answers.get(request.id)
        if answer is not None or frame.asker is None:
            return answer
        try:
            return await frame.asker.ask(request, frame)
        except Exception as error:
            why = run.redact(f"{type(error).__name__}: {error}")
            raise RunError(f"nobody could answer: {why} (the question was: {request.prompt})") from error

    def _take(self, request: Request, answer: Answer) -> Sequence[A2APart]:
        """What is sent for `answer`: nothing for a bare authorization. Raises `RunError` when it is none.

        What goes with an authorization stays out of the transcript: it may be a secret.
        """
        if not answer.ok:
            raise RunError(f"{answer.reason or 'declined'}: {request.prompt}")
        secret = request.kind == "authorization"
        given: Any = _CONFIRMED if answer.data is None and not secret else answer.data
        if secret:
            self._ctx.frame.transcript.append(Message("user", (TextPart(_GRANTED),)))
            if given is None:
                return ()
            if isinstance(given, str):
                self._ctx.run.redact.add(given)
        try:
            ours, parts = _as_parts(given)
        except ValueError as error:
            raise RunError(f"the answer to {request.prompt!r} cannot be sent: {error}") from error
        if not secret:
            self._ctx.frame.transcript.append(Message("user", ours))
        return parts

    def _keep(self, reply: Reply) -> None:
        """Note what came: in the transcript, in the events, in the usage."""
        frame, run = self._ctx.frame, self._ctx.run
        asks = reply.state in _KINDS
        text, media = (reply.said, ()) if asks else (reply.text, reply.media)
        if media and not text.strip():
            text = f"(attached: {', '.join([part.mime_type for part in media])})"
        if text or media:
            ids = {"taskId": reply.task_id, "contextId": reply.context_id}
            said = (*((TextPart(text),) if text else ()), *media)
            extra = {key: id for key, id in ids.items() if id}
            frame.transcript.append(Message("assistant", said, origin=self._origin, extra=extra or None))
        if run.emit is not None and not asks:
            told = "".join(self._told)
            if text != told and text.startswith(told):
                run.emit(TextDelta(path=frame.path, text=text[len(told) :]))
        usage = None if asks else _usage(reply.metadata)
        if usage is not None:
            usage = priced(self._ctx, usage, self._model)
            frame.ledger.record(self._model, usage)
            if run.emit is not None:
                run.emit(UsageReported(path=frame.path, model=self._model, usage=usage))

    def _listener(self) -> Listener | None:
        """Who hears what arrives; nobody without a reader of events."""
        run, frame = self._ctx.run, self._ctx.frame
        emit = run.emit
        if emit is None:
            return None

        def text(piece: str) -> None:
            self._told.append(piece)
            emit(TextDelta(path=frame.path, text=piece))

        def status(message: str) -> None:
            if frame.parent is not None and frame.call_id is not None:
                told = run.redact(_cut(message))
                emit(ToolProgress(path=frame.parent.path, call_id=frame.call_id, message=told))

        return Listener(text=text, status=status)

    def _context(self) -> str:
        """The context of what this agent said before in the conversation; `""`: a new one."""
        for message in reversed(self._ctx.frame.transcript):
            if message.origin == self._origin and message.extra is not None:
                return str(message.extra.get("contextId", ""))
        return ""


async def cancel(remote: RemoteAgent, found: Found, task_id: str) -> None:
    """Tell `remote` that nobody waits for this task any more."""
    async with connected(found, remote.headers, remote.timeout, remote.redact) as connection:
        await Exchange(connection, headers=_trace(), task_id=task_id).cancel()


def _open_question(stood: FramePoint, name: str) -> Request:
    """The question of a run that goes on. Raises `RunError` when it has none."""
    for waiting in stood.waiting.values():
        for request in waiting.requests:
            if isinstance((request.data or {}).get("taskId"), str):
                return request
    raise RunError(f"remote agent {name!r} cannot go on: its run waits for no answer")


def _as_parts(given: Any) -> tuple[tuple[Part, ...], list[A2APart]]:
    """An answer as our parts and as those of A2A. Raises `ValueError` for what is no JSON."""
    items = cast("Sequence[Any]", given if isinstance(given, (list, tuple)) else (given,))
    if items and all(isinstance(item, (str, TextPart, MediaPart)) for item in items):
        ours = tuple([TextPart(item) if isinstance(item, str) else item for item in items])
        return ours, to_a2a(ours)
    part = data_part(given)
    from toolnexus.protocols.a2a.parts import from_a2a

    return tuple(from_a2a([part])), [part]


def _usage(metadata: Mapping[str, Any]) -> Usage | None:
    """What the agent says that its task used, if it says so in a way that can be."""
    said: Any = metadata.get("usage")
    if not isinstance(said, Mapping):
        return None
    said = cast("Mapping[str, Any]", said)
    prompt = _tokens(said, ("promptTokens", "inputTokens", "prompt_tokens", "input_tokens"))
    completion = _tokens(said, ("completionTokens", "outputTokens", "completion_tokens", "output_tokens"))
    if prompt is None and completion is None:
        return None
    return Usage(prompt_tokens=prompt or 0, completion_tokens=completion or 0, requests=1)


def _tokens(said: Mapping[str, Any], names: Iterable[str]) -> int | None:
    found = [said[name] for name in names if name in said]
    if not found or isinstance(found[0], bool) or not isinstance(found[0], int):
        return None
    return found[0] if 0 <= found[0] <= _MOST_TOKENS else None


def _trace() -> dict[str, str]:
    """The trace that the run belongs to, for a host that traces."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return {}
    ids = api.get_current_span().get_span_context()
    if not ids.is_valid:
        return {}
    flags = f"{int(ids.trace_flags):02x}"
    return {"traceparent": f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{flags}"}


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}…"
