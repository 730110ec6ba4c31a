"""Where tasks are kept: in memory, or in a database."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import ListTasksRequest, ListTasksResponse, Message, Part, Role, Task, TaskState
from a2a.utils.errors import A2AError, InternalError

from toolnexus.core.options import expect
from toolnexus.errors import StoreError
from toolnexus.serving.a2a.database import make_engine

logger = logging.getLogger("toolnexus.serving")

T = TypeVar("T")

MOST_FINISHED = 1_000
"""Tasks that are over and still known, of those in memory."""
OVER = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
)
_UNDER_WAY = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
_ALLOWED = "give the path of a file, the URL of a database, or a task store of the SDK"
_LOST = "The server ended before this was done. Send it again."


class Tasks(TaskStore):
    """A task store whose failures say nothing of where it is. Open it before it is used.

    Raises `ConfigError` for what is neither a path, nor a URL, nor a store, nor None.
    """

    def __init__(self, given: Any) -> None:
        if given is not None:
            expect("a2a.tasks", given, (str, os.PathLike, TaskStore), _ALLOWED)
        self._given = given
        self._store: TaskStore = given if isinstance(given, TaskStore) else InMemoryTaskStore()
        self._finished: OrderedDict[str, None] | None = OrderedDict() if given is None else None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep tasks as long as the block lasts. Raises `ConfigError` and `StoreError`."""
        if self._given is None or isinstance(self._given, TaskStore):
            yield
            return
        engine = make_engine(self._given)
        try:
            from a2a.server.tasks import DatabaseTaskStore

            store = DatabaseTaskStore(engine)
            try:
                await store.initialize()
                self._store = store
                await self._give_up()
            except Exception as error:
                raise StoreError(f"a2a.tasks: it cannot be used as a database: {_reason(error)}") from None
            yield
        finally:
            await engine.dispose()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await self._guarded(self._store.save(task, context))
        if self._finished is not None and task.status.state in OVER:
            self._finished[task.id] = None
            while len(self._finished) > MOST_FINISHED:
                oldest, _ = self._finished.popitem(last=False)
                await self._store.delete(oldest, context)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        return await self._guarded(self._store.get(task_id, context))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        return await self._guarded(self._store.list(params, context))

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        await self._guarded(self._store.delete(task_id, context))

    async def _guarded(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except A2AError:
            raise
        except Exception as error:
            logger.error("the task store failed: %s", _reason(error))
            raise InternalError("the task store failed") from None

    async def _give_up(self) -> None:
        """End what a server that is gone left under way: nobody works on it any more."""
        context = ServerCallContext()
        for state in _UNDER_WAY:
            while tasks := (
                await self._store.list(ListTasksRequest(status=state, page_size=100), context)
            ).tasks:
                for task in tasks:
                    said = Message(
                        role=Role.ROLE_AGENT,
                        message_id=f"{task.id}-lost",
                        task_id=task.id,
                        context_id=task.context_id,
                        parts=[Part(text=_LOST)],
                    )
                    task.status.state = TaskState.TASK_STATE_FAILED
                    task.status.message.CopyFrom(said)
                    await self._store.save(task, context)


def _reason(error: Exception) -> str:
    """The first line of what the database said, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else ''}"
