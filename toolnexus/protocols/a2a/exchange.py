"""A message to an agent, and what comes of it: followed until it is settled, however it is told.

Streams break, and nobody knows what was lost with them: from then on the task itself is asked,
which has everything. So nothing is doubled, and half an answer is never taken for a whole one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import field
from typing import Any, cast

from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import (
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)

from toolnexus.core.messages import MediaPart
from toolnexus.core.values import frozen
from toolnexus.protocols.a2a.card import BINDINGS, Found
from toolnexus.protocols.a2a.http import Fault, Wire, explained
from toolnexus.protocols.a2a.parts import message_to_a2a, plain, text_and_media
from toolnexus.runtime.redact import Redactor

FAREWELL = 2.0
"""Seconds that a cancel may take: who gave up does not wait."""
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0
_MOST_FAILURES = 8
_HISTORY = 3
"""Messages that are asked for with a task: the last one may be the answer."""

_WEB = re.compile(r"https?://[^\s/]")
_UNDER_WAY = frozenset((TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING))
_OVER = frozenset(
    (
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    )
)
_STATES = {number: name[11:].lower().replace("_", "-") for name, number in TaskState.items()}


@frozen(kw_only=True)
class Reply:
    """What an agent said, and how its task stands now."""

    state: str
    """`completed`, `failed`, `canceled`, `rejected`, `input-required`, `auth-required`; `""`: a plain
    message, without a task."""
    text: str
    """The artifacts, else the last message."""
    media: tuple[MediaPart, ...] = ()
    said: str = ""
    """What the agent says about the state: a question, the reason of a failure."""
    url: str | None = None
    """Where `said` sends the user."""
    task_id: str = ""
    context_id: str = ""
    message_id: str = ""
    """Of `said`: another question has another one."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@frozen(kw_only=True)
class Listener:
    """Who hears what arrives before the end."""

    text: Callable[[str], None]
    """A piece of the answer."""
    status: Callable[[str], None]
    """What the agent is doing."""


@asynccontextmanager
async def connected(
    found: Found, headers: Mapping[str, str], silence: float, redact: Redactor
) -> AsyncGenerator[Connection]:
    """A connection to the agent of a card. `headers` are sent if its origin is the one that was named.

    `silence`: how many seconds it may say nothing.
    """
    async with Wire(headers if found.trusted else {}, silence) as wire:
        streams = found.card.capabilities.streaming
        config = ClientConfig(
            streaming=streams,
            polling=not streams,
            httpx_client=wire,
            supported_protocol_bindings=list(BINDINGS),
        )
        yield Connection(ClientFactory(config).create(found.card), silence, redact)


class Connection:
    """Speaks with one agent, over whatever binding and version its card offers."""

    def __init__(self, client: Client, silence: float, redact: Redactor) -> None:
        self.client = client
        self._silence = silence
        self._redact = redact

    def fault(self, error: Exception) -> Fault:
        """`error` in plain words, without our secrets."""
        return explained(error, self._silence, self._redact)


def _waits(event: StreamResponse) -> bool:
    """Whether it is a whole task that waits for a message."""
    return event.task.status.state in (
        TaskState.TASK_STATE_INPUT_REQUIRED,
        TaskState.TASK_STATE_AUTH_REQUIRED,
    )


class Exchange:
    """The messages about one task. `headers` go with each of them, such as `traceparent`.

    With a `task_id` it goes on with a task that was there before.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        headers: Mapping[str, str],
        listener: Listener | None = None,
        task_id: str = "",
        context_id: str = "",
    ) -> None:
        self._connection = connection
        self._client = connection.client
        self._context = ClientCallContext(service_parameters=dict(headers))
        self._listener = listener
        self._task = Task(id=task_id, context_id=context_id)
        self._message: Message | None = None
        self._whole = not task_id
        """Whether everything of the task was seen since its beginning."""
        self._heard = False
        """Whether there was any answer to the last message."""

    async def send(self, parts: Iterable[Part], metadata: Mapping[str, Any]) -> Reply:
        """Send a message and follow what comes of it until the agent waits, or is done.

        Raises `Fault`; and `CancelledError`, after which `cancel` tells the agent.
        """
        task = self._task
        message = message_to_a2a(parts, task_id=task.id, context_id=task.context_id)
        request = SendMessageRequest(message=message, metadata=metadata or None)
        task.ClearField("status")  # the one that the message is the answer to
        answering = self._known
        self._heard = False
        try:
            events = cast(
                "AsyncGenerator[StreamResponse]", self._client.send_message(request, context=self._context)
            )
            async with aclosing(events):
                event = await self._first(events)
                if answering and event is not None and _waits(event):
                    # most likely as it stood before the message: what came of that follows, if anything
                    self._take(event)
                    event = await anext(events, None)
                while event is not None:
                    self._take(event)
                    event = None if self._settled() else await anext(events, None)
        except Exception as error:
            fault = self._connection.fault(error)
            if not (fault.passing and self._heard and self._known):
                raise fault from None
            self._whole = False
        return await self.follow()

    async def _first(self, events: AsyncGenerator[StreamResponse]) -> StreamResponse | None:
        """The first event, which names the task.

        Who is cancelled before it comes waits for it for a moment: a task that nobody knows cannot be
        cancelled.
        """
        first = asyncio.ensure_future(anext(events, None))
        try:
            return await asyncio.shield(first)
        except asyncio.CancelledError:
            await asyncio.wait([first], timeout=FAREWELL)
            if first.done() and not first.cancelled() and first.exception() is None:
                event = first.result()
                with suppress(Fault):
                    if event is not None:
                        self._take(event)
            raise
        finally:
            if not first.done():
                first.cancel()
                await asyncio.wait([first])

    async def follow(self) -> Reply:
        """Ask how the task stands until the agent waits, or is done. Raises `Fault`."""
        if not self._known and self._message is None:
            raise Fault("it ended its answer without a task or a message")
        failures, delay = 0, _FIRST_DELAY
        while not self._settled() or not self._whole:
            if self._whole or failures:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LONGEST_DELAY)
            try:
                await self._look()
                failures = 0
            except Fault as fault:
                if self._settled():  # only what was before a message of ours is not known
                    break
                failures += 1
                if not fault.passing or failures == _MOST_FAILURES:
                    raise Fault(f"task {self._task.id} was lost: {fault}") from None
        return self._reply()

    async def moved_on(self) -> Reply | None:
        """What came of a task that was authorized elsewhere; None when it still waits for a word of ours."""
        await self._look()
        if self._task.status.state == TaskState.TASK_STATE_AUTH_REQUIRED:
            return None
        return await self.follow()

    async def stands(self) -> Reply:
        """How the task stands now, before anything is said: it may have gone on without us."""
        await self._look()
        return await self.follow()

    async def cancel(self) -> None:
        """Tell the agent that nobody waits any more. Takes at most `FAREWELL` seconds and raises nothing."""
        over = self._task.HasField("status") and self._task.status.state in _OVER
        if not self._known or self._message is not None or over:
            return
        try:
            async with asyncio.timeout(FAREWELL):
                await self._client.cancel_task(CancelTaskRequest(id=self._task.id), context=self._context)
        except Exception:  # whatever it says, we have left
            return

    @property
    def _known(self) -> bool:
        return bool(self._task.id)

    async def _look(self) -> None:
        request = GetTaskRequest(id=self._task.id, history_length=_HISTORY)
        try:
            task = await self._client.get_task(request, context=self._context)
        except Exception as error:
            raise self._connection.fault(error) from None  # what the other side wrote may hold a secret
        if task.id != self._task.id or not task.HasField("status"):
            raise Fault("its answer is malformed: it is no such task with a status")
        self._task, self._whole = task, True

    def _take(self, event: StreamResponse) -> None:
        """Keep what an event says. Raises `Fault` for one that belongs to another task."""
        self._heard = True
        match event.WhichOneof("payload"):
            case "message":
                self._message = event.message
            case "task":
                self._task, self._whole = event.task, True
            case "status_update":
                update = event.status_update
                self._belongs(update.task_id, update.context_id)
                self._task.status.CopyFrom(update.status)
                self._task.metadata.MergeFrom(update.metadata)
                self._tell_status()
            case "artifact_update":
                update = event.artifact_update
                self._belongs(update.task_id, update.context_id)
                self._keep(update)
            case _:
                raise Fault("its answer is malformed: an event without content")

    def _belongs(self, task_id: str, context_id: str) -> None:
        task = self._task
        if task.id and task_id != task.id:
            raise Fault(f"its answer is malformed: it speaks of task {task_id!r}, not of {task.id!r}")
        task.id = task_id
        task.context_id = context_id or task.context_id

    def _keep(self, update: TaskArtifactUpdateEvent) -> None:
        new = update.artifact
        known = next((a for a in self._task.artifacts if a.artifact_id == new.artifact_id), None)
        if known is None:
            self._task.artifacts.append(new)
        elif update.append:
            known.parts.extend(new.parts)
        else:
            known.CopyFrom(new)
        if self._listener is not None:
            text, _ = text_and_media(new.parts, "")
            if text:
                self._listener.text(text)

    def _tell_status(self) -> None:
        status = self._task.status
        if self._listener is not None and status.state in _UNDER_WAY and status.HasField("message"):
            text, _ = text_and_media(status.message.parts)
            if text:
                self._listener.status(text)

    def _settled(self) -> bool:
        """Whether it is the user's turn. Raises `Fault` for a state that nobody knows."""
        if self._message is not None:
            self._whole = True
            return True
        if not self._task.HasField("status"):
            return False
        state = self._task.status.state
        if state == TaskState.TASK_STATE_UNSPECIFIED or state not in _STATES:
            raise Fault(f"task {self._task.id} is in a state that is not known here")
        return state not in _UNDER_WAY

    def _reply(self) -> Reply:
        if self._message is not None:
            text, media = text_and_media(self._message.parts)
            context = self._message.context_id or self._task.context_id
            return Reply(
                state="", text=text, media=media, context_id=context, metadata=plain(self._message.metadata)
            )
        task = self._task
        said = task.status.message if task.status.HasField("message") else None
        text, media = _of_artifacts(task.artifacts)
        if not text and not media:
            last = said or _last_said(task.history)
            text, media = text_and_media(last.parts) if last is not None else ("", ())
        return Reply(
            state=_STATES[task.status.state],
            text=text,
            media=media,
            said="" if said is None else _worded(said.parts),
            url=None if said is None else _address(said.parts),
            task_id=task.id,
            context_id=task.context_id,
            message_id="" if said is None else said.message_id,
            metadata=plain(task.metadata),
        )


def _of_artifacts(artifacts: Iterable[Artifact]) -> tuple[str, tuple[MediaPart, ...]]:
    found = [text_and_media(artifact.parts, "") for artifact in artifacts]
    return "\n".join([text for text, _ in found if text]), tuple([m for _, media in found for m in media])


def _worded(parts: Iterable[Part]) -> str:
    """The text of a message to a reader; its data only when there is nothing else."""
    texts = [part for part in parts if part.WhichOneof("content") == "text" and part.text.strip()]
    return text_and_media(texts or parts)[0]


def _last_said(history: Iterable[Message]) -> Message | None:
    *_, last = [None, *history]
    return last if last is not None and last.role == Role.ROLE_AGENT else None


def _address(parts: Iterable[Part]) -> str | None:
    """The first web address in a message: a reference, a value of its data, or a word of its text."""
    for part in parts:
        match part.WhichOneof("content"):
            case "url":
                words = [part.url]
            case "data":
                data = plain(part.data)
                words = list(cast("dict[str, Any]", data).values()) if isinstance(data, dict) else []
            case _:
                words = [word.strip("<>()[],.;\"'") for word in part.text.split()]
        for word in words:
            if isinstance(word, str) and _WEB.match(word):
                return word
    return None
