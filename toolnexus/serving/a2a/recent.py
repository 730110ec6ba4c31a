"""Which tasks stay in memory: nobody tells a server when a caller has no more use for one."""

from __future__ import annotations

from collections import Counter, OrderedDict

from a2a.types import Task, TaskState

MOST_TASKS = 1_000
"""Tasks that are over, and as many that wait for an answer; never fewer than may run at once."""
MOST_BYTES = 256 << 20
"""Of either: a task holds the files that came with it."""
WAITING = (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED)
OVER = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
)


class _Group:
    """Tasks in the order in which they came into their state."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def add(self, task: Task) -> None:
        self._sizes[task.id] = size = task.ByteSize()
        self._bytes += size

    def remove(self, task_id: str) -> None:
        self._bytes -= self._sizes.pop(task_id, 0)

    def surplus(self) -> str | None:
        """The oldest task, while there are too many; the last one stays, whatever its size."""
        if len(self._sizes) > self._most or (self._bytes > MOST_BYTES and len(self._sizes) > 1):
            return next(iter(self._sizes))
        return None


class Recent:
    """The tasks in memory, by their age. A task with a run under way always stays."""

    def __init__(self, max_concurrent: int) -> None:
        most = max(MOST_TASKS, max_concurrent)
        self._over, self._waiting = _Group(most), _Group(most)
        self._contexts: dict[str, str] = {}
        self._uses: Counter[str] = Counter()

    def saved(self, task: Task) -> list[str]:
        """Take note of a task as it stands now; gives the ids of those that have to go."""
        if task.id not in self._contexts:
            self._contexts[task.id] = task.context_id
            self._uses[task.context_id] += 1
        groups = self._over, self._waiting
        for group in groups:
            group.remove(task.id)
        if task.status.state in OVER:
            self._over.add(task)
        elif task.status.state in WAITING:
            self._waiting.add(task)
        gone = list[str]()
        for group in groups:
            while (oldest := group.surplus()) is not None:
                group.remove(oldest)
                gone.append(oldest)
        return gone

    def forget(self, task_id: str) -> str | None:
        """A task is gone; gives its context when no other task here is of it."""
        context_id = self._contexts.pop(task_id)
        self._uses[context_id] -= 1
        if self._uses[context_id]:
            return None
        del self._uses[context_id]
        return context_id
