"""One message to the agent: a run of the client in the conversation of its context."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import ListTasksRequest, Message, Part, Task, TaskState

from toolnexus.client import Client
from toolnexus.core.messages import MediaPart, TextPart
from toolnexus.core.result import RunResult
from toolnexus.errors import Suspended
from toolnexus.protocols.a2a.parts import from_a2a, text_part
from toolnexus.runtime.context import Runnable
from toolnexus.serving.a2a.answer import Artifact
from toolnexus.serving.a2a.questions import Unclear, asked_ids, question_parts, read_answers, state_of
from toolnexus.serving.a2a.recent import WAITING
from toolnexus.serving.a2a.tasks import Tasks
from toolnexus.serving.load import TICKET, Load, Ticket

logger = logging.getLogger("toolnexus.serving")

PREFIX = "a2a:"
"""Before the id of a context: callers reach no conversation that did not begin with one of them."""
STREAMS = "toolnexus.streams"
"""Whether a call wants its answer piece by piece."""


class Executor(AgentExecutor):
    """Runs the client for the tasks of its callers. A run outlives the request that began it."""

    def __init__(
        self, client: Client, target: Runnable | None, tasks: Tasks, load: Load, deadline: float
    ) -> None:
        self._client = client
        self._target = target
        self._tasks = tasks
        self._load = load
        self._deadline = deadline
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._used: Counter[str] = Counter()
        """Contexts of messages that are under way."""
        self._why: dict[str, str] = {}

    def is_running(self, task_id: str) -> bool:
        """Whether a run is under way for this task."""
        return task_id in self._runs

    @property
    def running(self) -> list[str]:
        """The tasks with a run under way."""
        return list(self._runs)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run one message to its end, a question, or a limit. Raises only `CancelledError`."""
        task_id, context_id = context.task_id, context.context_id
        assert task_id and context_id and context.message is not None
        ticket: Ticket = context.call_context.state.get(TICKET) or Ticket(self._load)
        with ticket.held(), self._in_use(context_id):
            if context.current_task is None:
                task = Task(id=task_id, context_id=context_id, history=[context.message])
                task.status.state = TaskState.TASK_STATE_SUBMITTED
                await event_queue.enqueue_event(task)
            turn = _Turn(self._client, self._target, self._tasks, context, event_queue)
            work = self._runs[task_id] = asyncio.create_task(self._bounded(turn))
            work.add_done_callback(lambda _: self._runs.pop(task_id))  # whatever cancels the wait for it
            try:
                await asyncio.wait([work])
            finally:
                work.cancel()
                await asyncio.wait([work])
            if not work.cancelled():  # else whoever cancelled it says so
                work.result()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop the run of a task, and everything below it; what it asked is given up. Stored before told."""
        task_id, context_id = context.task_id, context.context_id
        assert task_id and context_id
        work = self._runs.get(task_id)
        if work is not None:
            work.cancel()
            await asyncio.wait([work])
            if not work.cancelled():  # it ended by itself in the meantime
                return
        elif context.current_task is not None and context.current_task.status.state in WAITING:
            await self._give_up(PREFIX + context_id, asked_ids(context.current_task))
        updater = TaskUpdater(event_queue, task_id, context_id)
        why = self._why.get(task_id)
        await updater.cancel(updater.new_agent_message([Part(text=why)]) if why else None)

    async def forget(self, context_id: str) -> None:
        """Remove the conversation of a context, unless a message is under way there."""
        if context_id not in self._used:
            await self._client.conversation(PREFIX + context_id).delete()

    @contextmanager
    def _in_use(self, context_id: str) -> Generator[None]:
        self._used[context_id] += 1
        try:
            yield
        finally:
            self._used[context_id] -= 1
            if not self._used[context_id]:
                del self._used[context_id]

    def stopping(self, why: str) -> None:
        """Say `why` where a run is cancelled from now on."""
        self._why = dict.fromkeys(self._runs, why)

    async def _bounded(self, turn: _Turn) -> None:
        limit = asyncio.timeout(self._deadline)
        try:
            async with limit:
                await turn.run()
        except TimeoutError as error:
            if not limit.expired():
                return await turn.failed(error)
            await turn.end(
                TaskState.TASK_STATE_FAILED, f"The run passed its deadline of {self._deadline:g} seconds."
            )
        except Exception as error:
            await turn.failed(error)

    async def _give_up(self, conversation: str, asked: list[str]) -> None:
        chat = self._client.conversation(conversation)
        if {request.id for request in await chat.pending()} & {*asked}:
            await chat.discard_pending()


class _Turn:
    """One message and what comes of it."""

    def __init__(
        self,
        client: Client,
        target: Runnable | None,
        tasks: Tasks,
        context: RequestContext,
        event_queue: EventQueue,
    ) -> None:
        assert context.task_id and context.context_id and context.message is not None
        self._client = client
        self._target = target
        self._tasks = tasks
        self._task = context.current_task
        self._message = context.message
        self._context_id = context.context_id
        self._conversation = PREFIX + context.context_id
        self._updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        self._artifact = Artifact(self._updater, streams=_streams(context.call_context))

    async def run(self) -> None:
        """Raises what a run raises."""
        waited = list[str]() if self._task is None else asked_ids(self._task)
        await self._updater.start_work()
        result = await self._resumed(waited) if waited else await self._asked()
        if result is not None:
            await self._ended(result)

    async def end(
        self,
        state: TaskState,
        parts: str | list[Part] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """The last word about this message."""
        if isinstance(parts, str):
            parts = [text_part(parts)]
        said = self._updater.new_agent_message(parts) if parts else None
        await self._updater.update_status(state, said, metadata=dict(metadata) if metadata else None)

    async def failed(self, error: Exception) -> None:
        """The task failed. What it was is in our log: callers are nobody to read of our insides."""
        reference = os.urandom(4).hex()
        text = self._client._redact(f"{type(error).__name__}: {error}")
        logger.error("A2A task %s failed (%s): %s", self._updater.task_id, reference, text)
        kind = type(error).__name__
        await self.end(TaskState.TASK_STATE_FAILED, f"The agent failed: {kind} (reference {reference}).")

    async def _asked(self) -> RunResult | None:
        """A message that begins something; None when there is nothing to run."""
        prompt = _prompt(self._message)
        if not prompt:
            return await self.end(TaskState.TASK_STATE_REJECTED, "The message is empty.")
        for _ in range(2):
            running = (
                self._client.stream(prompt, conversation=self._conversation)
                if self._target is None
                else self._client.stream(prompt, target=self._target, conversation=self._conversation)
            )
            try:
                async with running as stream:
                    async for event in stream:
                        await self._artifact.take(event)
                return stream.result
            except Suspended as open_question:
                if self._task is not None and not open_question.requests:
                    return await self._taken_up()  # all was answered, and then came a crash
                asked = {request.id for request in open_question.requests}
                owner = await self._who_waits(asked)
                if owner is not None:
                    why = f"This context waits for an answer in task {owner}. Answer there, or cancel it."
                    return await self.end(TaskState.TASK_STATE_REJECTED, why)
                await self._client.conversation(self._conversation).discard_pending()
        return await self.end(TaskState.TASK_STATE_REJECTED, "This context waits for an answer.")

    async def _resumed(self, waited: list[str]) -> RunResult | None:
        """The answer to what the task waited with; None when it waits on."""
        chat = self._client.conversation(self._conversation)
        still = {request.id: request for request in await chat.pending()}
        requests = [still[id] for id in waited if id in still]
        if not requests:  # somebody else answered, or gave up
            return await self._asked()
        try:
            answers = read_answers(self._message, requests)
        except Unclear as unclear:
            return await self.end(state_of(requests), question_parts(requests, str(unclear)))
        try:
            return await self._client.resume(self._conversation, answers, target=self._target)
        except Suspended:
            result = await self._taken_up()
        asked = {request.id for request in result.pending}
        left = [answer for answer in answers if answer.id in asked]
        if not left:
            return result
        return await self._client.resume(self._conversation, left, target=self._target)

    async def _taken_up(self) -> RunResult:
        """Go on with a run that somebody is marked to resume: only we would, so a crash ended who did."""
        return await self._client.resume(self._conversation, target=self._target)

    async def _ended(self, result: RunResult) -> None:
        metadata: dict[str, Any] = {"usage": result.usage.to_json()}
        if result.status == "pending":
            return await self.end(state_of(result.pending), question_parts(result.pending), metadata)
        if result.status == "incomplete":
            metadata |= {"status": "incomplete", "limit": result.limit}
        await self._artifact.finish(result)
        await self.end(TaskState.TASK_STATE_COMPLETED, metadata=metadata)

    async def _who_waits(self, asked: set[str]) -> str | None:
        """The task that waits with one of these questions; None when it is gone, and nobody can answer."""
        for state in WAITING:
            query = ListTasksRequest(context_id=self._context_id, status=state, page_size=100)
            for task in (await self._tasks.list(query, ServerCallContext())).tasks:
                if asked & {*asked_ids(task)}:
                    return task.id
        return None


def _streams(call: ServerCallContext) -> bool:
    return bool(call.state.get(STREAMS)) or "tream" in str(call.state.get("method", ""))


def _prompt(message: Message) -> str | list[TextPart | MediaPart]:
    """The text of a message, or its parts where it has more than that; nothing for an empty one."""
    parts = [p for p in from_a2a(message.parts) if isinstance(p, MediaPart) or p.text.strip()]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return parts if len(texts) < len(parts) else "\n".join(texts)
