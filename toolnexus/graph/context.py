"""What the handler of a node sees of the run, besides the board and its config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolnexus.core.messages import Message
from toolnexus.core.usage import Usage
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.host import Interrupt, RunInfo
from toolnexus.graph.services import Services
from toolnexus.runtime.context import RunContext

if TYPE_CHECKING:
    from toolnexus.graph.build import BuiltNode
    from toolnexus.graph.execute import Execution
    from toolnexus.graph.parallel import Branch


class NodeContext:
    """One attempt of one node. Valid as long as its handler runs."""

    __slots__ = ("_asked", "_branch", "_execution", "_node", "attempt")

    def __init__(self, execution: Execution, node: BuiltNode, branch: Branch | None, attempt: int) -> None:
        self._execution = execution
        self._node = node
        self._branch = branch
        self._asked = 0
        self.attempt = attempt
        """From 1."""

    @property
    def run(self) -> RunInfo:
        """Which run this is."""
        return self._execution.info

    @property
    def graph(self) -> str:
        """The name of the graph."""
        return self._execution.graph.name

    @property
    def node_id(self) -> str:
        return self._node.id

    @property
    def node_type(self) -> str:
        return self._node.type.name

    @property
    def services(self) -> Services:
        """What the node may use."""
        return self._node.services

    @property
    def script_runtime_name(self) -> str:
        """The name of the script runtime of the graph."""
        return self._execution.graph.script_runtime_name

    @property
    def rail(self) -> RunContext:
        """The run context of the engine, for `model_turn`, `run_tool_calls` and `runner.run`."""
        return self._execution.rail if self._branch is None else self._branch.rail

    @property
    def branch(self) -> str | None:
        """The id of the branch that this is, None outside a parallel wave."""
        return None if self._branch is None else self._branch.id

    @property
    def fork_id(self) -> str | None:
        """The id of the parallel wave."""
        return None if self._branch is None else self._branch.wave.fork_id

    @property
    def wave(self) -> str:
        """A name for this node in this wave of this attempt, the same when the wave is run again."""
        info, count = self._execution.info, str(self._execution.count)
        place = count if info.attempt == 1 else f"{info.attempt}-{count}"
        return f"{info.run_id}/{place}/{self._node.id}"

    async def recorded_calls(self) -> dict[str, Any]:
        """What tool calls of this node did in this wave, when the run was stopped in it before: by call id,
        None for one that was begun, its result for one that ended."""
        execution = self._execution
        try:
            return await execution.calls.calls(execution.info.run_id, self.wave)
        except Exception as error:
            execution.not_kept(
                f"what tool calls of node {self.node_id!r} did is not known", error, self.node_id
            )
            return {}

    async def record_calls(self, calls: Mapping[str, Any]) -> None:
        """Note what `recorded_calls` gives when this wave is run again."""
        if not calls:
            return
        execution = self._execution
        try:
            await execution.calls.record(execution.info.run_id, self.wave, calls)
        except Exception as error:
            execution.not_kept(
                f"what tool calls of node {self.node_id!r} did was not saved", error, self.node_id
            )

    def cancel_node(self, node_id: str, reason: str = "") -> bool:
        """Cancel a sibling of the parallel wave in flight. False when there is nothing to cancel."""
        return self._branch is not None and self._branch.wave.cancel(self._branch, node_id, reason)

    def in_flight(self, node_id: str) -> bool:
        """Whether a node runs in this wave, or is about to: this one, and its parallel siblings."""
        return node_id == self.node_id or (self._branch is not None and self._branch.wave.runs(node_id))

    def actor(self, node_id: str) -> str:
        """How the subjects of this run, `agent.run.<run>.step.<actor>.…`, call a node of the graph."""
        return self._execution.actor(self._execution.graph.nodes[node_id])

    @property
    def run_token(self) -> str:
        """How the subjects of this run call it."""
        return self._execution.run_token

    @property
    def listening(self) -> bool:
        """Whether anybody takes events."""
        return self._execution.listening

    async def emit(self, delta: Mapping[str, Any]) -> None:
        """Publish a delta of this node, `{type, …}`: a preview, the board holds what is true.

        In a branch it carries `speculative`, `fork_id` and `branch_id`. Raises `GraphRunError`: for another
        id than the branch's own (conflict) and for the engine's own types (validation).
        """
        await self._execution.delta(self._node, self._branch, delta)

    async def emit_text(self, text: str) -> None:
        """Publish a piece of text."""
        if self._execution.listening:
            await self.emit({"type": "part", "part": {"type": "text", "text": text}})

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Publish to any subject. Raises `GraphRunError` (validation) for another run's `agent.run.*`."""
        parts = subject.split(".")
        if parts[:2] == ["agent", "run"] and parts[2:3] != [self._execution.run_token]:
            raise GraphRunError(
                f"the subject {subject!r} is not of this run: agent.run.{self._execution.run_token}.…",
                kind="validation",
            )
        if self._execution.listening:
            assert self._execution.host is not None
            await self._execution.host.publish(subject, payload)

    async def report_usage(self, usage: Usage) -> None:
        """Count the tokens of one call. Raises `GraphRunError` (budget_exceeded)."""
        if self._execution.host is not None:
            await self._execution.host.report_usage(usage)

    @property
    def counts_models(self) -> bool:
        """Whether the host counts requests to models itself, so that nobody needs to report them."""
        return bool(getattr(self._execution.host, "counts_models", False))

    async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask `{parts, schema?, source?, metadata?}` and return `{parts, metadata}`; None without a host.

        Raises `GraphRunError` (not_available) when nobody answers here, and `Interrupted`.
        """
        host = self._execution.host
        if host is None:
            return None
        self._asked += 1
        metadata = dict(request.get("metadata") or {})
        return await host.ask_user(
            {**request, "metadata": metadata, "node_id": self.node_id, "key": f"{self.wave}/{self._asked}"}
        )

    def check_interrupt(self) -> Interrupt | None:
        """The interrupt that is pending, which stays so, or None."""
        return self._execution.poll()

    def drain_steer(self) -> list[Message]:
        """Take all messages that somebody wants said to the run in flight.

        Raises `GraphRunError` (not_available) when the host takes none.
        """
        drain = getattr(self._execution.host, "drain_steer", None)
        if drain is None:
            raise GraphRunError("this host takes no messages for a run in flight", kind="not_available")
        taken: Sequence[Message] = drain()
        return list(taken)

    @property
    def event_bus(self) -> Any:
        """Where the events of this run can be subscribed to, or None."""
        return getattr(self._execution.host, "event_bus", None)
