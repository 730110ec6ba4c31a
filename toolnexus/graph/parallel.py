"""A wave of several nodes at once: a board for each, and how what they wrote comes together."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from toolnexus.core.messages import Message
from toolnexus.graph.board import INTERRUPTED_NODE, Board, BoardSnapshot, same
from toolnexus.graph.errors import BudgetExceeded, GraphRunError, Interrupted, classified
from toolnexus.graph.options import BranchResult
from toolnexus.runtime.concurrency import run_all
from toolnexus.runtime.context import RunContext

if TYPE_CHECKING:
    from toolnexus.graph.build import BuiltNode
    from toolnexus.graph.execute import Execution

logger = logging.getLogger("toolnexus.graph")

CANCELLED = "cancelled by parallel.cancelNode"
_GONE: Any = object()


class Branch:
    """One node of a wave, and its board."""

    __slots__ = (
        "board",
        "cancelled",
        "error",
        "id",
        "node",
        "rail",
        "ran",
        "reason",
        "settled",
        "task",
        "told",
        "wave",
    )

    def __init__(self, wave: Wave, node: BuiltNode, board: Board, rail: RunContext) -> None:
        self.wave = wave
        self.node = node
        self.board = board
        self.rail = rail
        self.id = node.id
        self.task: asyncio.Task[Any] | None = None
        self.reason = ""
        """Why a sibling cancelled it."""
        self.cancelled = False
        """Whether a sibling cancelled it."""
        self.settled = False
        self.ran = False
        """Whether it was not skipped."""
        self.error: BaseException | None = None
        self.told = False
        """Whether the end of its deltas was told."""

    @property
    def ok(self) -> bool:
        """Whether what it wrote counts."""
        return self.error is None and not self.cancelled

    async def in_time(self, work: Awaitable[None]) -> None:
        """Await `work`. Raises `GraphRunError` (timeout) when it takes longer than `branch_timeout`."""
        seconds = self.wave.branch_timeout
        if not seconds:
            return await work
        clock = asyncio.timeout(seconds)
        try:
            async with clock:
                await work
        except TimeoutError:
            if not clock.expired():
                raise
            raise GraphRunError(
                f"branch {self.id!r} ran longer than parallel.branch_timeout of {seconds:g} s",
                kind="timeout",
                node_id=self.id,
            ) from None

    def result(self) -> BranchResult:
        """What a merge function sees of it."""
        snapshot = self.board.snapshot() if self.ok and self.ran else None
        return BranchResult(self.id, snapshot, self.error, cancelled=self.cancelled, reason=self.reason)


class Wave:
    """One parallel wave of one run."""

    def __init__(self, execution: Execution, ids: Sequence[str]) -> None:
        self._execution = execution
        self._options = execution.graph.options.parallel
        self.fork_id = (
            f"{execution.info.run_id}#attempt-{execution.info.attempt}#iteration-{execution.count}#{ids[0]}"
        )
        if self._options.max_branches and len(ids) > self._options.max_branches:
            raise BudgetExceeded(
                f"graph {execution.graph.name!r}: the wave {', '.join(ids)} has {len(ids)} branches; "
                f"parallel.max_branches is {self._options.max_branches}",
                limit=("max_branches", self._options.max_branches),
            )
        self.branch_timeout = self._options.branch_timeout
        self._pre = execution.board.snapshot()
        rail = execution.rail
        self._branches = [
            Branch(self, execution.graph.nodes[id], Board.of(self._pre), rail.fork()) for id in ids
        ]
        most = self._options.max_concurrency
        self._places = asyncio.Semaphore(most) if most and most < len(ids) else nullcontext()

    async def run(self) -> None:
        """Run every branch and merge what they wrote. Raises what the wave failed with."""
        execution, branches = self._execution, self._branches
        told = {"fork_id": self.fork_id, "branches": [branch.id for branch in branches]}
        await execution.wave_event("fork", told)
        await run_all([partial(self._branch, branch) for branch in branches])
        if any(branch.error is not None for branch in branches):
            await self._failed()
        await self._merge()
        if execution.listening:
            for branch in branches:
                if branch.ok:
                    await execution.branch_ended(branch.node, branch, "parallel_branch_accept")
        cancelled = [branch.id for branch in branches if branch.cancelled]
        await execution.wave_event("join", {**told, "cancelled": cancelled} if cancelled else told)

    def cancel(self, caller: Branch, node_id: str, reason: str) -> bool:
        """Cancel the branch of a node for good; the first reason counts. See `NodeContext.cancel_node`."""
        target = next((branch for branch in self._branches if branch.id == node_id), None)
        if target is None or caller.cancelled or caller.settled or target.settled:
            return False
        if not target.cancelled:
            target.cancelled, target.reason = True, reason or CANCELLED
            if target.task is not None and target is not caller:  # who cancels itself runs to its end
                target.task.cancel()
        return True

    def runs(self, node_id: str) -> bool:
        """Whether the branch of a node has not ended."""
        return any(branch.id == node_id and not branch.settled for branch in self._branches)

    async def _branch(self, branch: Branch) -> None:
        """One branch, whose failure is kept, not raised."""
        branch.task = asyncio.current_task()
        try:
            async with self._places:
                if not branch.cancelled:
                    branch.ran = await self._execution.invoke(branch.node, branch.board, branch)
        except asyncio.CancelledError:
            if not branch.cancelled or not self._ours(branch):
                raise
        except Exception as error:
            if not branch.cancelled:
                branch.error = error
                if self._options.on_error == "cancel_siblings":
                    self._cancel_rest(branch)
        branch.settled = True
        if branch.cancelled and branch.error is None:
            await self._execution.branch_ended(branch.node, branch, "parallel_branch_cancel", branch.reason)

    def _ours(self, branch: Branch) -> bool:
        """Whether the cancel that arrived is the one of a sibling, and nobody else's."""
        assert branch.task is not None
        return branch.task.uncancel() == 0

    def _cancel_rest(self, failed: Branch) -> None:
        for branch in self._branches:
            if branch is not failed and not branch.settled and not branch.cancelled:
                branch.cancelled, branch.reason = True, f"{failed.id!r} failed"
                if branch.task is not None:
                    branch.task.cancel()

    async def _failed(self) -> None:
        """Nothing of the wave counts, but what interrupted branches let the model say."""
        execution = self._execution
        failed = [branch for branch in self._branches if branch.error is not None]
        interrupted = [branch for branch in failed if isinstance(branch.error, Interrupted)]
        first = (interrupted or failed)[0]
        assert first.error is not None
        for branch in interrupted:
            spoken = [m for m in self._added(branch) if m.role == "assistant"]
            if spoken:
                execution.board.append("", *spoken)
        if isinstance(first.error, Interrupted):
            execution.board[INTERRUPTED_NODE] = first.id
            asked = [branch.error.waiting for branch in failed if isinstance(branch.error, Interrupted)]
            first.error.waiting = {key: waiting for each in asked for key, waiting in each.items()}
        await self.withdraw(f"{first.id!r} failed")
        raise classified(first.error, graph=execution.graph.name, node_id=first.id)

    async def withdraw(self, reason: str) -> None:
        """Tell that the deltas of each branch are void, unless its end was told."""
        for branch in self._branches:
            if not branch.told:
                why = reason if branch.error is None else str(branch.error)
                await self._execution.branch_ended(branch.node, branch, "parallel_branch_cancel", why)

    def _added(self, branch: Branch, channel: str = "") -> list[Message]:
        before = len(self._pre.channels.get(channel or "__main_channel", ()))
        return branch.board.channel(channel)[before:]

    async def _merge(self) -> None:
        board, strategy = self._execution.board, self._options.merge_strategy
        if callable(strategy):
            try:
                merged = strategy(board, self._pre, [branch.result() for branch in self._branches])
                if inspect.isawaitable(merged):
                    await merged
            except BaseException:
                board.restore(self._pre)
                raise
            return
        counted = [branch for branch in self._branches if branch.ok and branch.ran]
        merge(board, self._pre, [b.board.snapshot() for b in counted], last=strategy == "last_write_wins")


def merge(board: Board, pre: BoardSnapshot, branches: Sequence[BoardSnapshot], *, last: bool) -> None:
    """Bring to `board` what branches changed since `pre`, in their order.

    A variable that several changed gets the value of the first, or of the last; to delete is to change.
    Messages appended to a channel are appended, whatever the rule; a channel whose beginning was changed
    follows the rule as a whole, and what others appended comes behind it.
    """
    written: dict[str, Any] = {}
    clashing: set[str] = set()
    for branch in branches:
        for name, value in _changed(pre.vars, branch.vars).items():
            if name in written:
                clashing.add(name)
                if not last:
                    continue
            written[name] = value
    if clashing:
        logger.debug(
            "several branches wrote %s; the %s counts", sorted(clashing), "last" if last else "first"
        )
    current = board.snapshot()
    variables = {**current.vars, **written}
    for name in [name for name, value in variables.items() if value is _GONE]:
        del variables[name]
    channels: dict[str, Sequence[Message]] = dict(current.channels)
    for name in dict.fromkeys(name for branch in branches for name in branch.channels):
        found = _channel(pre.channels.get(name, ()), [b.channels.get(name, ()) for b in branches], last=last)
        if found is not None:
            channels[name] = found
    board.restore(BoardSnapshot(variables, channels))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that are others now, by name; `_GONE` for what was deleted."""
    changed: dict[str, Any] = {
        name: value
        for name, value in after.items()
        if (old := before.get(name, _GONE)) is not value and not same(old, value)
    }
    if len(after) - len(changed) < len(before):
        changed.update((name, _GONE) for name in before if name not in after)
    return changed


def _channel(
    before: Sequence[Message], after: Sequence[Sequence[Message]], *, last: bool
) -> list[Message] | None:
    """The messages of a channel after a merge, None when nobody changed it."""
    start: Sequence[Message] | None = None
    winner = -1
    appended: list[tuple[int, list[Message]]] = []
    for n, channel in enumerate(after):
        if channel is before:
            continue
        if len(channel) < len(before) or list(channel[: len(before)]) != list(before):
            if start is None or last:
                start, winner = channel, n
        elif len(channel) > len(before):
            appended.append((n, list(channel[len(before) :])))
    if start is None and not appended:
        return None
    out = list(before if start is None else start)
    for n, messages in appended:
        if n != winner:
            out += messages
    return out
