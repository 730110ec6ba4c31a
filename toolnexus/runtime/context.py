"""The rail: `Frame` (one per run, below one `Run` per ask), and the two faces that others see.

Above: the runner creates frames; the loop, dispatch and tools ride them.
What it is not: a place for models. Host values (`ContextKey`) are never interpreted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from toolnexus.core.messages import Message, ToolCallPart, ToolResultPart
from toolnexus.core.result import Limit, RunResult, Status
from toolnexus.core.suspension import Answer, Request
from toolnexus.core.tools import Tool
from toolnexus.core.values import frozen, mutable
from toolnexus.runtime.tracing import ToolSpan, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from toolnexus.core.usage import Budget
    from toolnexus.runtime.background import Background
    from toolnexus.runtime.deadline import Deadline
    from toolnexus.runtime.hooks import HookSet
    from toolnexus.runtime.ledger import Ledger
    from toolnexus.runtime.questions import Asker, OnRequest
    from toolnexus.runtime.relays import Relays
    from toolnexus.runtime.rights import Denial, Permissions
    from toolnexus.runtime.run import Run
    from toolnexus.runtime.slots import Slot
    from toolnexus.runtime.snapshot import FramePoint, Waiting

T = TypeVar("T")

_ABSENT = object()


@frozen()
class ContextKey(Generic[T]):
    """Typed key of a host value. Compared by identity."""

    name: str

    __eq__ = object.__eq__
    __hash__ = object.__hash__


DEPS: ContextKey[Any] = ContextKey("deps")
"""What the host gave as `deps=`: clients, resolvers. The same object everywhere, never copied."""
SCRATCHPAD: ContextKey[Any] = ContextKey("scratchpad")
"""The shared state of a workflow, of this branch of it."""


@runtime_checkable
class Forkable(Protocol):
    """A host value that must not be shared between concurrent branches."""

    def fork(self) -> Any: ...


@frozen(kw_only=True)
class RunSettings:
    """What a Runnable sets for its own run; None inherits the caller's."""

    budget: Budget | None = None
    hooks: tuple[object, ...] = ()
    on_request: OnRequest | None = None
    max_turns: int | None = None
    workdir: str | os.PathLike[str] | None = None
    permissions: Permissions | None = None


@frozen(kw_only=True)
class Outcome:
    """How the body of a Runnable ended."""

    status: Status = "done"
    output: Any = None
    text: str | None = None
    """The text of the run, when that is not the last one of its transcript."""
    limit: Limit | None = None
    """The limit that stopped this run itself."""
    requests: tuple[Request, ...] = ()
    waiting: Mapping[str, Waiting] = field(default_factory=dict[str, "Waiting"])
    """By call id: what a pending run waits for; its last message has the results of that batch. A run without
    calls has one entry for each question, by its id."""
    state: Any = None
    """JSON that a Runnable of its own kind needs to go on; it finds it in `frame.resumed.state`."""
    definition: str = ""
    """A digest of what ran."""
    pending_steer: int = 0
    scratch: Any = None
    """JSON of what only this run has in its scratchpad. The frame around it fills it in."""


@runtime_checkable
class Runnable(Protocol):
    """Anything that can be run: an agent, a workflow, a graph, a remote agent."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    async def execute(self, input: Any, ctx: RunContext) -> Outcome: ...


class Frame:
    """What one run owns. The frame owns the transcript, so every exit keeps the work done."""

    __slots__ = (
        "_cancels",
        "_task",
        "agent",
        "asker",
        "background",
        "call_id",
        "call_ids",
        "child_names",
        "children",
        "continues",
        "deadline",
        "denied",
        "depth",
        "hooks",
        "inbox",
        "journal",
        "ledger",
        "limits",
        "max_turns",
        "memo",
        "parent",
        "path",
        "permissions",
        "place",
        "relays",
        "repeats",
        "results",
        "resumed",
        "slot",
        "start",
        "stood",
        "transcript",
        "turns",
        "typed",
        "workdir",
    )

    def __init__(
        self,
        *,
        path: tuple[str, ...],
        agent: str,
        depth: int,
        ledger: Ledger,
        hooks: HookSet,
        workdir: Path,
        parent: Frame | None = None,
        call_id: str | None = None,
        slot: Slot | None = None,
        asker: Asker | None = None,
        max_turns: int = 10,
        denied: tuple[Denial, ...] = (),
        permissions: tuple[Permissions, ...] = (),
    ) -> None:
        self.path = path
        self.agent = agent
        self.depth = depth
        """How many delegations by a model lie above."""
        self.ledger = ledger
        self.hooks = hooks
        self.workdir = workdir
        self.parent = parent
        self.call_id = call_id
        """The call of the parent that started this run."""
        self.slot = slot
        """The concurrency slot that this run or the nearest one above holds; the root has none."""
        self.asker = asker
        """The nearest one up the tree who answers questions in place."""
        self.max_turns = max_turns
        self.denied = denied
        """What is denied here and in everything below."""
        self.permissions = permissions
        """The rules about calls, the outermost layer first."""
        self.transcript: list[Message] = []
        self.start = 0
        """Where its own messages begin; before them lies the conversation, or the run that it continues."""
        self.continues: tuple[str, ...] | None = None
        """The path of that run."""
        self.call_ids: dict[str, int] = {}
        """Every call id of the transcript, with how often it was asked for."""
        self._task = asyncio.current_task()
        self._cancels = self._task.cancelling() if self._task is not None else 0
        self.inbox: list[Message] | None = None
        """Messages that somebody wants in before the next turn; only the top of a run has one."""
        self.results: dict[str, ToolResultPart] = {}
        """Results of the batch in flight: what a cancel must not lose."""
        self.relays: Relays | None = None
        """Joins the relayed calls of the batch in flight; None when there are not several."""
        self.repeats: dict[tuple[str, str], tuple[str, int, int]] = {}
        """Per call (name and arguments): its last result, in how many turns in a row, and in which last."""
        self.turns = 0
        self.typed = False
        """Whether the value of this run is a checked one, never just its text."""
        self.limits: tuple[Limit, ...] = ()
        """Limits that this run itself met."""
        self.children: list[RunResult | None] = []
        """Results of the runs below, in start order; None while one is running."""
        self.child_names: set[str] | None = None
        """Path segments of the runs below; None as long as there was none."""
        self.background: Background | None = None
        """The runs below that nobody awaits yet; None as long as there was none."""
        self.place = 0
        """Where the run stands in `children` of the one above."""
        self.journal: Callable[[Frame], Awaitable[None]] | None = None
        """Keeps what was done so far, so that a crash does not lose it; the top of a conversation has one."""
        self.resumed: FramePoint | None = None
        """Where the run stood, until its body has taken it up."""
        self.stood: FramePoint | None = None
        """The same, until its end: runs below that waited and never went on are only there."""
        self.memo: dict[Any, Any] = {}
        """What models keep between the requests of this run."""
        self.deadline: Deadline | None = None

    def segment(self, name: str, key: str) -> str:
        """A name for a run below that no other one has: the last segment of its path."""
        segment, n = f"{name}.{key}", 1
        taken = self.child_names = self.child_names or set()
        while segment in taken:
            n += 1
            segment = f"{name}.{key}~{n}"
        taken.add(segment)
        return segment

    def follow(self, history: Sequence[Message]) -> None:
        """Begin after `history`."""
        self.transcript.extend(history)
        self.start = len(history)
        for message in history:
            self.call_ids.update([(c.id, 1) for c in message.tool_calls])

    def resume(self, point: FramePoint) -> None:
        """Stand where the run stood; its ledger is restored by the runner."""
        self.resumed = self.stood = point
        self.transcript += point.messages
        self.call_ids.update((c.id, 1) for m in point.messages for c in m.tool_calls)
        self.results.update(point.results)
        self.turns = point.turns
        self.limits += point.limits
        self.children.extend(point.children)
        self.child_names = point.child_names
        self.start += point.start
        self.continues = point.continues
        self.place = point.place

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody cancelled what runs here; a cancel that a library made up does not count."""
        task = asyncio.current_task()
        before = self._cancels if task is self._task else 0
        return task is not None and task.cancelling() > before

    def check_cancelled(self) -> None:
        """Raise `CancelledError` when a cancel was swallowed on its way here."""
        if self.is_cancelled:
            raise asyncio.CancelledError

    def hit(self, run: Run, name: str, value: float | None, scope: tuple[str, ...] | None = None) -> Limit:
        """Note that this run met a limit, its own or that of the run at `scope`."""
        limit = Limit(limit=name, value=value, path=self.path, scope=scope or self.path)
        self.limits += (limit,)
        run.limits.append(limit)
        if run.emit is not None:
            from toolnexus.core.events import LimitHit

            run.emit(LimitHit(path=self.path, hit=limit))
        return limit


class RunContext:
    """What the body of a run sees: its run, its frame, its host values."""

    __slots__ = ("_forkable", "frame", "host", "run")

    def __init__(self, run: Run, frame: Frame, host: Mapping[ContextKey[Any], Any]) -> None:
        self._forkable: tuple[ContextKey[Any], ...] | None = None
        self.run = run
        self.frame = frame
        self.host = host

    @property
    def path(self) -> tuple[str, ...]:
        return self.frame.path

    @property
    def depth(self) -> int:
        return self.frame.depth

    @property
    def agent(self) -> str:
        return self.frame.agent

    @property
    def run_id(self) -> str:
        return self.run.id

    def get(self, key: ContextKey[T], default: T | None = None) -> T | None:
        """A host value, or `default`."""
        return self.host.get(key, default)

    def having(self, values: Mapping[ContextKey[Any], Any]) -> RunContext:
        """The same rail with more host values; itself where it has them all."""
        if all([self.host.get(key, _ABSENT) is value for key, value in values.items()]):
            return self
        return RunContext(self.run, self.frame, {**self.host, **values})

    def fork(self) -> RunContext:
        """The same rail for a concurrent branch: forkable host values are forked, the rest shared."""
        if self._forkable is None:  # asked of the type, once: a protocol check costs more than a tool call
            found = [k for k, v in self.host.items() if k is not DEPS and hasattr(v.__class__, "fork")]
            self._forkable = tuple(found)
        if not self._forkable:
            return self
        forked = {key: self.host[key].fork() for key in self._forkable}
        return RunContext(self.run, self.frame, {**self.host, **forked})


@mutable(kw_only=True)
class ToolContext:
    """What a tool sees of the run that called it, and of this one call.

    A tool function gets it by naming a parameter with this type; the model never sees that
    parameter.
    """

    context: RunContext
    call: ToolCallPart
    tool: Tool
    arguments: dict[str, Any]
    """The validated arguments."""
    answer: Answer | None = None
    """The reply, when the call runs again after it asked a question."""
    resumed: Mapping[str, Any] | None = None
    """Where the run below this call stood, when that goes on."""
    bound: str | None = None
    """The digest of the call that the answer is for; another call is not executed."""
    approving: bool = False
    """Whether the answer approves the call, and is none that the tool asked for."""
    _cancelled: bool = field(default=False, repr=False)
    _span: ToolSpan | None = field(default=None, repr=False)
    _trace: Trace | None = field(default=None, repr=False)

    @property
    def run_id(self) -> str:
        return self.context.run.id

    @property
    def path(self) -> tuple[str, ...]:
        return self.context.frame.path

    @property
    def depth(self) -> int:
        return self.context.frame.depth

    @property
    def call_id(self) -> str:
        return self.call.id

    @property
    def parent_call_id(self) -> str | None:
        """The call that started the run which makes this call; None at the top."""
        return self.context.frame.call_id

    @property
    def trace(self) -> Trace:
        """The ids of this call: those of its span when the host traces, else made up."""
        if self._trace is None:
            real = self._span.trace if self._span is not None else None
            self._trace = real or Trace(self.context.run.trace_id, os.urandom(8).hex())
        return self._trace

    @property
    def cancelled(self) -> bool:
        """Whether the call was given up; a sync tool in a thread should look and stop."""
        return self._cancelled

    def cancel(self) -> None:
        """Mark the call as given up. Called by dispatch."""
        self._cancelled = True

    def failed(self, error: BaseException) -> None:
        """Tell whoever traces what the tool raised. Called by dispatch."""
        if self._span is not None:
            self._span.failed(error)

    @property
    def workdir(self) -> Path:
        """The root that file tools resolve in and stay in."""
        return self.context.frame.workdir

    def get(self, key: ContextKey[T], default: T | None = None) -> T | None:
        """A host value, or `default`."""
        return self.context.get(key, default)

    @property
    def deps(self) -> Any:
        """What the host gave as `deps=`, or None."""
        return self.context.get(DEPS)

    def emit(self, message: str, **data: Any) -> None:
        """Report progress as a `ToolProgress` event. Costs nothing when nobody reads."""
        run = self.context.run
        if run.emit is not None:
            from toolnexus.core.events import ToolProgress

            said, told = run.redact(message), run.redact.within(data)
            run.emit(ToolProgress(path=self.path, call_id=self.call.id, message=said, data=told))

    async def run(self, target: Runnable, input: Any) -> RunResult:
        """Run `target` below this call; its usage and limits count in this tree.

        Returns its result whatever way it ended; raises only `CancelledError`.
        """
        return await self.context.run.runner.run(target, input, parent=self.context.fork(), key=self.call.id)
