"""Bus: how messages get to the workers of one process."""

from __future__ import annotations

import os

import toolnexus
from toolnexus.core.names import did_you_mean
from toolnexus.core.options import count, expect
from toolnexus.errors import NameConflict, RunError
from toolnexus.workers.post import Post


class Bus:
    """Carries messages to workers, by name. Keeps none itself: they are in the inbox when `post` returns.

    `max_hops`: how many workers' turns may follow from one message of a host; a worker whose turn is the
    last of them cannot post. So workers that answer each other come to an end.
    """

    def __init__(self, *, max_hops: int = 8) -> None:
        count("Bus: max_hops", max_hops, 1)
        self._max_hops = max_hops
        self._workers: dict[str, toolnexus.Worker] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Who can be posted to."""
        return tuple(self._workers)

    async def post(self, to: str, text: str, *, sender: str = "host", trusted: bool = False) -> None:
        """Put `text` into the inbox of the worker `to`; a worker that is stopped reads it when it starts.

        `sender` says where it comes from. It is marked untrusted for the worker's model unless the host says
        that it is `trusted`. Raises `RunError` for a name that nobody has and for a full inbox, at once, and
        `StoreError`.
        """
        for what, value in (("to", to), ("text", text), ("sender", sender)):
            expect(f"post: {what}", value, str, "give text")
        expect("post: trusted", trusted, bool, "give True or False")
        await self.send(to, Post(id=os.urandom(8).hex(), sender=sender, text=text, trusted=trusted))

    async def idle(self) -> None:
        """Wait until every worker has read everything, waits for answers, or is stopped."""
        while busy := [worker for worker in self._workers.values() if not worker.still.is_set()]:
            await busy[0].still.wait()

    async def send(self, to: str, post: Post) -> None:
        """`post` of a worker, with the hops that led to it."""
        worker = self._workers.get(to)
        if worker is None:
            near = did_you_mean(to, self._workers)
            raise RunError(f"there is no worker {to!r}; there are: {list(self._workers)}{near}")
        if post.hops >= self._max_hops:
            raise RunError(f"not sent: {self._max_hops} turns of workers have followed from one message")
        await worker.accept(post)

    def join(self, worker: toolnexus.Worker) -> None:
        """Raises `NameConflict`."""
        if worker.name in self._workers:
            raise NameConflict(f"two workers of one bus are named {worker.name!r}; rename one")
        self._workers[worker.name] = worker

    def leave(self, worker: toolnexus.Worker) -> None:
        if self._workers.get(worker.name) is worker:
            del self._workers[worker.name]
