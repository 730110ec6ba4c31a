"""The runs that a run started and does not wait for yet.

Above: the tools of the engine start, collect and stop them. What it is not: it knows no model and no text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Request
from toolnexus.runtime.concurrency import stop
from toolnexus.runtime.snapshot import JobPoint, Waiting

if TYPE_CHECKING:
    from toolnexus.runtime.context import Frame


class Job:
    """One of them. It runs, or waits for an answer, or has a `result`, which is written once."""

    __slots__ = ("agent", "call_id", "given", "id", "model", "result", "task", "waiting")

    def __init__(self, id: str, agent: str, call_id: str, model: str | None = None) -> None:
        self.id = id
        """The last segment of its path."""
        self.agent = agent
        self.call_id = call_id
        self.model = model
        """The name of the model that the call asked for."""
        self.task: asyncio.Task[None] | None = None
        self.result: RunResult | None = None
        self.waiting: Waiting | None = None
        """The questions that nobody in reach could answer."""
        self.given = False
        """Whether the run above has its result."""

    @property
    def runs(self) -> bool:
        return self.task is not None and not self.task.done()


class Background:
    """Those of one frame, in the order they were started."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.jobs: dict[str, Job] = {}

    def start(self, job: Job, run: Callable[[], Awaitable[RunResult]]) -> None:
        """Let `run` go on beside the caller, as `job`."""

        async def body() -> None:
            try:
                result = await run()
            except Exception as error:  # nobody awaits the task: what fails must not vanish
                result = self.failed(job, error)
            if result.status == "pending":
                job.waiting = Waiting(requests=result.pending, child=result.snapshot)
            else:
                job.result = result

        self.jobs[job.id] = job
        job.waiting = None
        job.task = asyncio.create_task(body())

    def in_call_order(self, jobs: Iterable[Job]) -> list[Job]:
        """Calls of one batch may start in another order than the model wrote them in."""
        calls = [call.id for message in self._frame.transcript for call in message.tool_calls]
        places = {id: place for place, id in enumerate(calls)}
        return sorted(jobs, key=lambda job: places.get(job.call_id, len(places)))

    @property
    def open(self) -> list[Job]:
        """Those whose result was not given yet."""
        return self.in_call_order([job for job in self.jobs.values() if not job.given])

    @property
    def requests(self) -> tuple[Request, ...]:
        """What they ask and nobody has answered."""
        return tuple([r for job in self.open if job.waiting is not None for r in job.waiting.requests])

    async def settled(self, jobs: Iterable[Job], seconds: float | None = None) -> None:
        """Wait until none of `jobs` runs, at most so long; the caller's slot is lent meanwhile."""
        tasks = [job.task for job in jobs if job.task is not None and job.runs]
        if tasks:
            slot = self._frame.slot
            async with slot.lent() if slot is not None else nullcontext():
                await asyncio.wait(tasks, timeout=seconds)

    async def stop(self, jobs: Sequence[Job]) -> None:
        """Cancel those of `jobs` that run and wait for their end, whatever cancels come meanwhile."""
        await stop([job.task for job in jobs if job.task is not None])

    def failed(self, job: Job, error: Exception) -> RunResult:
        """The end of a run that did not come to one by itself."""
        path = (*self._frame.path, job.id)
        return RunResult(status="error", text="", error=error, path=path, agent=job.agent)

    def as_of_now(self) -> dict[str, Any]:
        """What a frame's point needs to be found by another process, should this one end in the middle.

        Nobody could go on with what runs or waits now: it is lost then.
        """
        results = [job.result for job in self.open if job.result is not None]
        points = [replace(point, waiting=None) for point in self.points()]
        return {"children": tuple(results), "background": tuple(points)}

    def points(self) -> tuple[JobPoint, ...]:
        """Where they stand; the results of those that ended are among the frame's children."""
        return tuple(
            [
                JobPoint(
                    id=job.id,
                    agent=job.agent,
                    call_id=job.call_id,
                    model=job.model,
                    given=job.given,
                    waiting=job.waiting,
                )
                for job in self.in_call_order(self.jobs.values())
            ]
        )
