"""Where tasks are kept: in memory, or in a database."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import ListTasksRequest, ListTasksResponse, Message, Part, Role, Task, TaskState
from a2a.utils.errors import A2AError, InternalError

from toolnexus.core.options import expect
from toolnexus.errors import StoreError
from toolnexus.runtime.concurrency import stop
from toolnexus.serving.a2a.database import make_engine
from toolnexus.serving.a2a.recent import Recent

if TYPE_CHECKING:
    from a2a.server.tasks import DatabaseTaskStore

logger = logging.getLogger("toolnexus.serving")

T = TypeVar("T")

LONGEST_CONTEXT = 256
"""Characters of a `contextId`, where the store of tasks takes as many."""
PRUNING_SECONDS = 3600.0
"""How often a database is looked through for tasks that are too old."""
_EVER = 365_000
"""Days; a date that lies further back is none."""
_UNDER_WAY = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
_ALLOWED = "give the path of a file, the URL of a database, or a task store of the SDK"
_LOST = "The server ended before this was done. Send it again."


class Tasks(TaskStore):
    """A task store whose failures say nothing of where it is. Open it before it is used.

    In memory it keeps the latest tasks, and hands `forget` each context that none is left of. In a
    database it keeps each task for `days` after its last change. A store of the SDK does as it likes.

    Raises `ConfigError` for what is neither a path, nor a URL, nor a store, nor None.
    """

    def __init__(
        self, given: Any, days: float, max_concurrent: int, forget: Callable[[str], Awaitable[None]]
    ) -> None:
        if given is not None:
            expect("a2a.tasks", given, (str, os.PathLike, TaskStore), _ALLOWED)
        self._given = given
        self._store: TaskStore = given if isinstance(given, TaskStore) else InMemoryTaskStore()
        self._recent = Recent(max_concurrent) if given is None else None
        self._days = days
        self.longest_context = LONGEST_CONTEXT
        self._forget = forget

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep tasks as long as the block lasts. Raises `ConfigError` and `StoreError`."""
        if self._given is None or isinstance(self._given, TaskStore):
            yield
            return
        engine = make_engine(self._given)
        try:
            from a2a.server.tasks import DatabaseTaskStore
            from sqlalchemy import inspect

            store = DatabaseTaskStore(engine)
            try:
                await store.initialize()
                self._store = store
                await self._give_up()
                await self._prune(store)
                if engine.dialect.name != "sqlite":  # which takes a text of any length
                    column: Any = inspect(store.task_model).columns.context_id
                    self.longest_context = int(column.type.length)
            except Exception as error:
                raise StoreError(f"a2a.tasks: it cannot be used as a database: {_reason(error)}") from None
            pruning = asyncio.create_task(self._keep_pruning(store))
            try:
                yield
            finally:
                await stop([pruning])
        finally:
            await engine.dispose()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await self._guarded(self._store.save(task, context))
        if self._recent is None:
            return
        for task_id in self._recent.saved(task):
            await self._store.delete(task_id, context)
            unused = self._recent.forget(task_id)
            if unused is not None:
                await self._forget(unused)

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

    async def _prune(self, store: DatabaseTaskStore) -> None:
        """Remove what is too old."""
        from sqlalchemy import delete

        model = store.task_model
        before = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=min(self._days, _EVER))
        under_way = [TaskState.Name(state) for state in _UNDER_WAY]
        old = model.last_updated < before, model.status["state"].as_string().not_in(under_way)
        async with store.engine.begin() as connection:
            await connection.execute(delete(model).where(*old))

    async def _keep_pruning(self, store: DatabaseTaskStore) -> None:
        while True:
            await asyncio.sleep(PRUNING_SECONDS)
            try:
                await self._prune(store)
            except Exception as error:  # the next time may be a better one
                logger.error("old tasks could not be removed: %s", _reason(error))

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
