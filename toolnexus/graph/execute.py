"""One run of a graph: the wave loop, and the life of one node in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolnexus.errors import ErrorKind
from toolnexus.graph.board import INTERRUPTED_NODE, Board
from toolnexus.graph.build import BuiltNode, BuiltRole, token
from toolnexus.graph.checkpoint import CallRecord, Checkpoint, now
from toolnexus.graph.context import NodeContext
from toolnexus.graph.errors import (
    BudgetExceeded,
    GraphRunError,
    Interrupted,
    RunEndPublishError,
    classified,
)
from toolnexus.graph.expr import Condition, ExprEvalError
from toolnexus.graph.host import Host, Interrupt, RunInfo
from toolnexus.graph.parallel import Branch, Wave
from toolnexus.graph.refs import resolve_config
from toolnexus.runtime.concurrency import stop
from toolnexus.runtime.context import RunContext

if TYPE_CHECKING:
    from toolnexus.graph.graph import Graph

logger = logging.getLogger("toolnexus.graph")

FINAL = frozenset(
    (
        ErrorKind.INTERRUPTED,
        ErrorKind.ABORTED,
        ErrorKind.BUDGET_EXCEEDED,
        ErrorKind.VALIDATION,
        ErrorKind.UNAUTHORIZED,
        ErrorKind.FORBIDDEN,
        ErrorKind.POLICY_DENIED,
    )
)
"""The kinds of failure that no retry can mend."""
_OWN_DELTAS = "parallel_branch_"


class Execution:
    """One call of `Graph.run`: its board, its host, and how far it is."""

    __slots__ = (
        "_cut_off",
        "_interrupt",
        "_parallel",
        "_prefix",
        "board",
        "calls",
        "count",
        "done",
        "graph",
        "host",
        "info",
        "rail",
        "run_token",
        "started_at",
        "wave",
    )

    def __init__(
        self, graph: Graph, board: Board, host: Host | None, info: RunInfo, rail: RunContext
    ) -> None:
        self.graph = graph
        self.board = board
        self.host = host
        self.info = info
        self.rail = rail
        self.calls: CallRecord = getattr(host, "call_record", None) or graph.calls
        """What tool calls of the wave in flight did."""
        self.count = 0
        """How many nodes were routed."""
        self.wave: list[str] = []
        """The wave in flight."""
        self.done = 0
        """How many of its nodes are finished, when they run one after the other."""
        self.started_at = now()
        self.run_token = token(info.run_id)
        self._prefix = f"agent.run.{self.run_token}."
        self._interrupt: Interrupt | None = None
        self._cut_off: list[BuiltNode] = []
        """The nodes in flight when the run was stopped."""
        self._parallel: Wave | None = None
        """The parallel wave in flight."""

    @property
    def listening(self) -> bool:
        """Whether anybody takes events."""
        return self.host is not None and getattr(self.host, "listening", True)

    # --- the loop

    async def drive(self, frontier: Sequence[str], skip: int = 0) -> None:
        """Run from `frontier` until nothing is left; `skip` nodes of its first wave are done already.

        Raises `GraphRunError` for whatever ended it, and `CancelledError`.
        """
        error: BaseException | None = None
        clock = asyncio.timeout(self.graph.options.timeout or None)
        try:
            async with clock:
                try:
                    if self.listening:
                        await self._tell("start", {"graph": self.graph.name})
                    await self._waves(frontier, skip)
                except asyncio.CancelledError:
                    if self.rail.frame.is_cancelled:
                        raise
                    raise GraphRunError("the run was cancelled from inside", kind="aborted") from None
        except Exception as failure:
            if clock.expired() and isinstance(failure, TimeoutError):
                seconds = self.graph.options.timeout
                error = GraphRunError(
                    f"graph {self.graph.name!r} ran longer than its timeout, {seconds:g} s", kind="timeout"
                )
                error.__cause__ = failure.__cause__
            else:
                error = classified(failure, graph=self.graph.name, node_id="")
        except BaseException as failure:
            error = failure
        if isinstance(error, GraphRunError):
            error.board = self.board
        if self.listening:
            error = await self._ended(error)
        if error is not None:
            raise error

    async def _waves(self, frontier: Sequence[str], skip: int) -> None:
        graph, options = self.graph, self.graph.options
        if frontier:
            self._stop_if_asked(frontier[0])
        while frontier:
            wave = self.wave = list(dict.fromkeys(frontier)) if len(frontier) > 1 else list(frontier)
            if options.max_iterations and self.count + len(wave) > options.max_iterations:
                raise BudgetExceeded(
                    f"graph {graph.name!r} may route {options.max_iterations} nodes (max_iterations); "
                    f"{self.count} are routed, and the next wave has {len(wave)}: {', '.join(wave)}",
                    limit=("max_iterations", options.max_iterations),
                )
            if len(wave) > 1 and options.parallel.enabled:
                self._parallel = Wave(self, wave)
                await self._parallel.run()
                self._parallel = None
            else:
                for self.done, id in enumerate(wave):
                    if self.done >= skip:
                        await self._one(graph.nodes[id])
            skip = 0
            self.count += len(wave)
            self.rail.frame.results.clear()
            if self.host is not None and getattr(self.host, "keeping", True):
                await self._checkpoint(wave)
            self._stop_if_asked(wave[-1])
            frontier = self.following(wave)

    async def _one(self, node: BuiltNode) -> None:
        """A node of a wave whose nodes run one after the other."""
        try:
            await self.invoke(node, self.board, None)
        except Interrupted:
            self.board[INTERRUPTED_NODE] = node.id
            raise

    def _stop_if_asked(self, node_id: str) -> None:
        self.rail.frame.check_cancelled()
        interrupt = self.poll()
        if interrupt is not None:
            self.board[INTERRUPTED_NODE] = node_id
            raise Interrupted(*interrupt)

    def poll(self) -> Interrupt | None:
        """The interrupt that is pending; once seen, it stays."""
        if self._interrupt is None and self.host is not None:
            found = self.host.poll_interrupt()
            if found is not None:
                self._interrupt = Interrupt(found.cause, found.detail or "")
        return self._interrupt

    def following(self, wave: Sequence[str]) -> list[str]:
        """Where the edges of a finished wave lead, in its order."""
        nodes = self.graph.nodes
        env: dict[str, Any] | None = None
        out: list[str] = []
        for id in wave:
            for target, condition in nodes[id].edges:
                if condition is not None:
                    if env is None:
                        env = {**self.board.values_for_reading, "__iterations": self.count}
                    if not self._holds(condition, env, id):
                        continue
                out.append(target)
        return out

    def _holds(self, condition: Condition, env: Mapping[str, Any], node_id: str) -> bool:
        try:
            return condition(env)
        except ExprEvalError as error:
            raise GraphRunError(
                f"graph {self.graph.name!r}, node {node_id!r}: condition {condition.source!r}: {error}",
                kind="validation",
                node_id=node_id,
            ) from error

    # --- one node

    async def invoke(self, node: BuiltNode, board: Board, branch: Branch | None) -> bool:
        """Run one node on `board`; False when it was skipped. Raises what it failed with."""
        if node.skip is not None and self._holds(node.skip, board.values_for_reading, node.id):
            if self.listening:
                await self._step(node, "complete", skipped=True)
            return False
        if self.listening:
            await self._step(node, "start")
        try:
            work = self._traced(node, board, branch)
            await (work if branch is None else branch.in_time(work))
        except asyncio.CancelledError:
            if branch is None or not branch.cancelled:  # of that one its siblings are told
                self._cut_off.append(node)
            raise
        except GraphRunError as error:
            if self.listening:
                told = {"error": self.rail.run.redact(str(error)), "kind": str(error.kind)}
                await self._step(node, "error", **told, **_request_of(error))
            raise
        if self.listening:  # also for a script of the same wave that has begun to follow the node meanwhile
            await self._step(node, "complete")
        return True

    async def _traced(self, node: BuiltNode, board: Board, branch: Branch | None) -> None:
        """The node in a span, where somebody traces. To be interrupted is no failure of it."""
        tracing = self.rail.run.tracing
        if tracing is None:
            return await self._attempts(node, board, branch)
        with tracing.node(self.rail, (node.id,), node.type.name):
            try:
                return await self._attempts(node, board, branch)
            except Interrupted as interrupted:
                stopped = interrupted
        raise stopped

    async def _attempts(self, node: BuiltNode, board: Board, branch: Branch | None) -> None:
        config = node.config
        if node.dynamic:
            config = self._resolved(node, board)
        if node.reads:
            self._check(node, "read", node.reads, board, {})
        before = {r.key: board.channel_length(r.key) for r in node.writes if r.kind == "messages"}
        retries, attempt = self.graph.options.max_node_retries, 1
        saved = board.snapshot() if retries else None
        while True:
            try:
                decoded = node.decode(config)
                await node.type.handler(NodeContext(self, node, branch, attempt), board, decoded)
                self.rail.frame.check_cancelled()  # a handler may have swallowed it
                break
            except BaseException as failure:
                if not isinstance(failure, (Exception, asyncio.CancelledError)):
                    raise
                self.rail.frame.check_cancelled()  # or have made something else of it
                error = classified(failure, graph=self.graph.name, node_id=node.id)
                if saved is None or attempt > retries or error.kind in FINAL:
                    raise error from error.__cause__
            board.restore(saved)
            await asyncio.sleep(error.retry_after or attempt * self.graph.options.retry_backoff)
            attempt += 1
        if node.writes:
            self._check(node, "write", node.writes, board, before)

    def _resolved(self, node: BuiltNode, board: Board) -> Mapping[str, Any]:
        try:
            return resolve_config(node.config, board.values_for_reading, verbatim=node.type.verbatim)
        except ValueError as error:
            raise GraphRunError(f"node {node.id!r}: {error}", kind="validation", node_id=node.id) from None

    def _check(
        self, node: BuiltNode, what: str, roles: Sequence[BuiltRole], board: Board, before: Mapping[str, int]
    ) -> None:
        for role in roles:
            if not role.required:
                continue
            if role.kind == "var":
                there, name = role.key in board, f"the variable {role.key!r}"
            else:
                there = board.channel_length(role.key) > before.get(role.key, 0)
                name = f"messages in the channel {role.key!r}"
            if not there:
                must = f"reads {name}, which is not there" if what == "read" else f"did not write {name}"
                raise GraphRunError(f"node {node.id!r} {must}", kind="validation", node_id=node.id)

    # --- what others are told

    async def _step(self, node: BuiltNode, what: str, **more: Any) -> None:
        await self._tell(
            f"step.{self.actor(node)}.{what}", {"node_id": node.id, "graph": self.graph.name, **more}
        )

    def actor(self, node: BuiltNode) -> str:
        """How subjects call a node."""
        return f"{token(self.info.agent_id)}_{node.actor}" if self.info.agent_id else node.actor

    async def _tell(self, what: str, payload: Mapping[str, Any]) -> None:
        """Publish; a failure is logged only."""
        assert self.host is not None
        try:
            await self.host.publish(self._prefix + what, payload)
        except Exception as error:
            logger.warning("graph %r: %s%s was not published: %s", self.graph.name, self._prefix, what, error)

    async def wave_event(self, what: str, payload: Mapping[str, Any]) -> None:
        """`parallel.fork` or `parallel.join`."""
        if self.listening:
            await self._tell(f"parallel.{what}", {**payload, "graph": self.graph.name})

    async def branch_ended(self, node: BuiltNode, branch: Branch, type: str, reason: str = "") -> None:
        """That the deltas of a branch hold, or that they are void."""
        branch.told = True
        if self.listening:
            told = {"type": type, "fork_id": branch.wave.fork_id, "branch_id": branch.id}
            if reason:
                told["reason"] = self.rail.run.redact(reason)
            await self._tell(f"stream.{self.actor(node)}.delta", told)

    async def delta(self, node: BuiltNode, branch: Branch | None, delta: Mapping[str, Any]) -> None:
        """See `NodeContext.emit`."""
        type = delta.get("type")
        if not isinstance(type, str) or not type or type.startswith(_OWN_DELTAS):
            problem = "deltas have a type" if not type else f"deltas of type {type!r} are the engine's own"
            raise GraphRunError(problem, kind="validation")
        if branch is not None:
            own = {"fork_id": branch.wave.fork_id, "branch_id": branch.id}
            for key, value in own.items():
                if delta.get(key, value) != value:
                    raise GraphRunError(
                        f"node {node.id!r} emits with the {key} {delta[key]!r}; its own is {value!r}",
                        kind="conflict",
                    )
            delta = {**delta, "speculative": True, **own}
        if self.listening:
            assert self.host is not None
            await self.host.publish(f"{self._prefix}stream.{self.actor(node)}.delta", delta)

    async def _checkpoint(self, wave: Sequence[str]) -> None:
        assert self.host is not None
        graph = self.graph
        checkpoint = Checkpoint(
            exec_id=self.info.run_id,
            steps=tuple(wave),
            iteration=self.count,
            board=self.board.snapshot(),
            timestamp=now(),
            original_started_at=self.started_at,
            spec_version=graph.definition.spec_version,
            spec_digest=graph.digest,
        )
        try:
            await self.host.checkpoint(checkpoint)
        except Exception as error:
            self.not_kept(f"the checkpoint after {list(wave)} was not saved", error, wave[-1])

    def not_kept(self, what: str, error: Exception, node_id: str) -> None:
        """A store failed: logged, or raised where checkpoints are required."""
        if self.graph.options.checkpoint == "required":
            raise classified(error, graph=self.graph.name, node_id=node_id) from error
        logger.warning("graph %r: %s: %s", self.graph.name, what, error)

    async def _ended(self, error: BaseException | None) -> BaseException | None:
        """Publish the last event, whatever cancels come; what the run ends with."""
        assert self.host is not None
        told: dict[str, Any] = {}
        if error is not None:
            cancelled = isinstance(error, asyncio.CancelledError)
            told["error"] = "cancelled" if cancelled else self.rail.run.redact(str(error))
            told |= _request_of(error)
        task = asyncio.ensure_future(self._last_events(told))
        seconds = self.graph.options.run_end_publish_timeout
        loop = asyncio.get_running_loop()
        until, failure = loop.time() + seconds, None
        while not task.done() and (left := until - loop.time()) > 0:
            try:
                await asyncio.wait([task], timeout=left)
            except asyncio.CancelledError as cancel:
                error = cancel
        if not task.done():
            failure = f"it took longer than {seconds:g} s"
            await stop([task])
        elif task.cancelled():
            failure = "it was cancelled"
        elif (raised := task.exception()) is not None:
            failure = str(raised) or type(raised).__name__
        if failure is None or isinstance(error, asyncio.CancelledError):
            return error
        ended = RunEndPublishError(f"the end of the run could not be published: {failure}", error)
        ended.board = self.board
        return ended

    async def _last_events(self, told: Mapping[str, Any]) -> None:
        assert self.host is not None
        for node in self._cut_off:
            await self._step(node, "error", **told, kind=str(ErrorKind.ABORTED))
        if self._parallel is not None:
            await self._parallel.withdraw(told.get("error", ""))
        await self.host.publish(f"{self._prefix}end", {"graph": self.graph.name, **told})


def _request_of(error: BaseException) -> dict[str, str]:
    """What the provider calls the request that failed, where it says so."""
    id = error.request_id if isinstance(error, GraphRunError) else ""
    return {"request_id": id} if id else {}
