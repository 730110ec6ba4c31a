"""Graph: a built graph, which can be run by itself, by a client, as a target of `task`, or served."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolnexus.engine.runner import LocalRunner
from toolnexus.graph.analyze import Finding
from toolnexus.graph.board import INTERRUPTED_NODE, Board
from toolnexus.graph.build import BuiltNode, build
from toolnexus.graph.checkpoint import Checkpoint, CheckpointStore, MemoryCheckpoints
from toolnexus.graph.definition import GraphDefinition, digest_of
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.execute import Execution
from toolnexus.graph.host import Host, RunInfo
from toolnexus.graph.mermaid import to_mermaid
from toolnexus.graph.options import BuildOptions
from toolnexus.graph.registry import Registry
from toolnexus.graph.services import Services
from toolnexus.runtime.context import Outcome, RunContext, RunSettings
from toolnexus.runtime.run import Run

if TYPE_CHECKING:
    from toolnexus.graph.bus import EventBus


class Graph:
    """A graph that was built. It keeps nothing of a run but what resuming needs, so it may run many times at
    once. It is a Runnable: `client.run(graph, input)`, a target of `task`, behind `toolnexus serve`."""

    def __init__(
        self,
        *,
        definition: GraphDefinition,
        nodes: Mapping[str, BuiltNode],
        options: BuildOptions,
        script_runtime_name: str,
        warnings: Sequence[Finding],
        description: str,
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.description = description
        self.nodes = nodes
        self.options = options
        self.script_runtime_name = script_runtime_name
        self.warnings = tuple(warnings)
        """What is probably not meant in its shape."""
        texts = {id: dict(node.config) for id, node in nodes.items()}  # those of files, too
        self.digest = digest_of([definition.model_dump(by_alias=True), texts])
        self.checkpoints: CheckpointStore | None = None
        """Where runs under a client keep where they stand; None: nowhere."""
        self.event_bus: EventBus | None = None
        """Where the events of runs under a client go; None: each has a bus of its own, for its scripts."""
        self.calls = MemoryCheckpoints()
        """What tool calls of unfinished waves gave, where no store keeps it."""

    async def run(
        self,
        board: Board | None = None,
        *,
        host: Host | None = None,
        run_id: str | None = None,
        agent_id: str = "",
        attempt: int = 1,
        task_id: str = "",
        context_id: str = "",
        parent_run_id: str = "",
        start_node: str | None = None,
        resume_from: Checkpoint | None = None,
        allow_changed_graph: bool = False,
    ) -> Board:
        """Run on `board` and return it, as the run left it.

        `host` takes events, checkpoints and usage (None: nobody); `resume_from` goes on behind a checkpoint
        of the same run and graph, `allow_changed_graph` also when the graph is another one since. Raises
        `GraphRunError` (with `.board`), for a checkpoint that does not fit before anything runs.
        """
        run_id = run_id or (resume_from.exec_id if resume_from is not None else f"run_{os.urandom(8).hex()}")
        info = RunInfo(
            run_id=run_id,
            agent_id=agent_id,
            attempt=attempt,
            task_id=task_id,
            context_id=context_id,
            parent_run_id=parent_run_id,
        )
        runner = LocalRunner()
        rail = runner.root(Run(runner=runner), self, settings=RunSettings(), host={})
        board = Board() if board is None else board
        frontier = [start_node or self.definition.entry]
        if frontier[0] not in self.nodes:
            raise GraphRunError(f"graph {self.name!r} has no node {frontier[0]!r}", kind="validation")
        execution = Execution(self, board, host, info, rail)
        if resume_from is not None:
            frontier = self.resumed(resume_from, run_id, board, allow_changed_graph, execution)
        await execution.drive(frontier)
        await self.calls.delete(run_id)
        return board

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        """See `Runnable`."""
        from toolnexus.graph.client_run import execute

        return await execute(self, input, ctx)

    def resumed(
        self, point: Checkpoint, run_id: str, board: Board, allow_changed: bool, execution: Execution
    ) -> list[str]:
        """Stand where `point` stands: what comes next. Raises `GraphRunError` when it does not fit."""
        limit = self.options.max_iterations
        if not point.exec_id or point.exec_id != run_id:
            raise _refused(f"it is of the run {point.exec_id!r}, not of {run_id!r}")
        if point.board is None:
            raise _refused("it has no board")
        if point.spec_version and point.spec_version != self.definition.spec_version:
            raise _refused(
                f"it is of version {point.spec_version!r}, the graph is {self.definition.spec_version!r}",
                "not_available",
            )
        if not point.steps:
            raise _refused("it has no steps")
        if unknown := [step for step in point.steps if step not in self.nodes]:
            raise _refused(f"the graph has no node {unknown[0]!r}")
        if limit and point.iteration > limit:
            raise _refused(f"it has routed {point.iteration} nodes, of {limit} that may be (max_iterations)")
        if point.spec_digest and point.spec_digest != self.digest and not allow_changed:
            raise _refused(
                f"the graph was changed since: its digest was {point.spec_digest}, it is {self.digest}; "
                "pass allow_changed_graph=True to go on all the same",
                "not_available",
            )
        board.restore(point.board)
        board.pop(INTERRUPTED_NODE, None)
        execution.count = point.iteration
        execution.started_at = point.original_started_at or execution.started_at
        return execution.following(point.steps)

    def to_mermaid(self) -> str:
        """The graph as a Mermaid flowchart."""
        return to_mermaid(self.definition)

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.nodes)} nodes)"


def load(
    source: str | Path | GraphDefinition | Mapping[str, Any],
    services: Services | None = None,
    options: BuildOptions | None = None,
    **more: Any,
) -> Graph:
    """A graph of a file (or a definition, or plain data) with the built-in node types over `services`.

    `more` is what `build` takes by name. Raises `GraphError` as `build` does.
    """
    definition = GraphDefinition.from_file(source) if isinstance(source, (str, Path)) else source
    return build(definition, Registry.standard(services), options, **more)


def _refused(why: str, kind: str = "validation") -> GraphRunError:
    return GraphRunError(f"the checkpoint cannot be resumed: {why}", kind=kind)
