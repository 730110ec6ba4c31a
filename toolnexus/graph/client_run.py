"""A graph as a run of the engine: input, transcript, events, questions and limits of that run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from toolnexus.core.content import part_to_wire, text_of
from toolnexus.core.events import GraphEvent, NodeFinished, NodeStarted, Pending
from toolnexus.core.messages import Message, ToolResultPart
from toolnexus.core.result import Limit
from toolnexus.core.suspension import Answer, Request
from toolnexus.core.usage import Usage
from toolnexus.core.wire import message_from_json, message_to_json
from toolnexus.engine.agent import as_messages
from toolnexus.engine.conversation_id import CONVERSATION
from toolnexus.errors import ErrorKind, LimitReached
from toolnexus.graph.board import INTERRUPTED_NODE, MAIN_CHANNEL, Board, BoardSnapshot, copied
from toolnexus.graph.build import token
from toolnexus.graph.checkpoint import Checkpoint
from toolnexus.graph.errors import BudgetExceeded, GraphRunError, Interrupted
from toolnexus.graph.execute import Execution
from toolnexus.graph.host import Interrupt, RunInfo
from toolnexus.runtime.context import Frame, Outcome, RunContext
from toolnexus.runtime.questions import Asker
from toolnexus.runtime.snapshot import Waiting, open_requests
from toolnexus.tools.invoke import located

if TYPE_CHECKING:
    from toolnexus.graph.bus import EventBus
    from toolnexus.graph.graph import Graph


async def execute(graph: Graph, input: Any, ctx: RunContext) -> Outcome:
    """The run of `graph`, from its start, from where it waited, or behind the checkpoint that `input` is."""
    outcome, _ = await attempt(graph, input, ctx)
    return counted(outcome, ctx.frame)


def counted(outcome: Outcome, frame: Frame) -> Outcome:
    """How a run ends, with how much was said to it that no node took: that is not delivered any more.

    A run that waits keeps it, and so does the conversation of one that fails.
    """
    if outcome.status == "pending" or not frame.inbox:
        return outcome
    left = len(frame.inbox)
    frame.inbox.clear()
    return replace(outcome, pending_steer=left)


async def attempt(graph: Graph, input: Any, ctx: RunContext, number: int = 1) -> tuple[Outcome, Board]:
    """One attempt of a run, as `execute`, and the board as it left it; `number` counts from 1."""
    frame = ctx.frame
    stood, frame.resumed = frame.resumed, None
    state: Mapping[str, Any] | None = stood.state if stood is not None else None
    point = input if state is None and isinstance(input, Checkpoint) else None
    if state is None:
        board = Board() if point is not None else begun(input, frame)
        info = _info(ctx, number, point.exec_id if point is not None else None)
        frontier, skip = [graph.definition.entry], 0
    else:
        board, info = Board.of(_snapshot(state["board"])), _info(ctx, number, state["run_id"])
        board.pop(INTERRUPTED_NODE, None)
        frontier, skip = list(state["wave"]), int(state["done"])
        frame.results.update(_results(state["results"]))
    host = ContextHost(ctx, graph)
    execution = Execution(graph, board, host, info, ctx)
    if point is not None:
        frontier = graph.resumed(point, point.exec_id, board, False, execution)
    if state is not None:
        execution.count, execution.started_at = state["count"], state["started_at"]
        if stood is not None and stood.definition != graph.digest:
            _check_nodes(graph, frontier)
    host.execution = execution
    try:
        await execution.drive(frontier, skip)
    except GraphRunError as error:
        return _stopped(graph, execution, error), board
    finally:
        _mirror(board, frame)
    await graph.calls.delete(info.run_id)
    return Outcome(output=_output(board, frame)), board


def begun(input: Any, frame: Frame) -> Board:
    """The board that a run begins with: the conversation so far, and what is asked now."""
    if isinstance(input, Board):
        return input
    if isinstance(input, Mapping):
        return Board(cast("Mapping[str, Any]", input), {MAIN_CHANNEL: frame.transcript})
    return Board(channels={MAIN_CHANNEL: [*frame.transcript, *as_messages(input)]})


def _info(ctx: RunContext, attempt: int, run_id: str | None = None) -> RunInfo:
    top = len(ctx.path) == 1
    own = ctx.run_id if top else f"{ctx.run_id}-{token('-'.join(ctx.path[1:]))}"
    return RunInfo(
        run_id=run_id or own,
        agent_id=ctx.agent,
        attempt=attempt,
        context_id=ctx.get(CONVERSATION) or "",
        parent_run_id="" if top else ctx.run_id,
    )


def _check_nodes(graph: Graph, wave: Sequence[str]) -> None:
    if unknown := [id for id in wave if id not in graph.nodes]:
        raise GraphRunError(
            f"graph {graph.name!r} was changed while it waited: it has no node {unknown[0]!r} any more; "
            "go on with the graph that asked",
            kind="not_available",
        )


def _stopped(graph: Graph, execution: Execution, error: GraphRunError) -> Outcome:
    """How a run ends that did not come to its end. Raises `error` where that is a failure."""
    frame, run = execution.rail.frame, execution.rail.run
    cause = error.__cause__
    if isinstance(cause, LimitReached):
        raise cause
    if isinstance(error, Interrupted) and error.waiting:
        return _pending(graph, execution, error.waiting)
    if isinstance(error, BudgetExceeded):
        limit = error.limit if isinstance(error.limit, Limit) else frame.hit(run, *error.limit)
        return Outcome(status="incomplete", limit=limit)
    if isinstance(error, Interrupted):
        return Outcome(status="incomplete", limit=frame.hit(run, "interrupted", None))
    if error.kind is ErrorKind.TIMEOUT and error.node_id is None:
        return Outcome(status="incomplete", limit=frame.hit(run, "seconds", graph.options.timeout))
    if error.kind is ErrorKind.BUDGET_EXCEEDED:
        return Outcome(status="incomplete", limit=frame.hit(run, "budget", None))
    raise error


def _pending(graph: Graph, execution: Execution, waiting: Mapping[str, Waiting]) -> Outcome:
    frame, parallel = execution.rail.frame, graph.options.parallel.enabled and len(execution.wave) > 1
    finished = {id: result for id, result in frame.results.items() if id not in waiting}
    _mirror(execution.board, frame)
    state = {
        "run_id": execution.info.run_id,
        "wave": list(execution.wave),
        "done": 0 if parallel else execution.done,
        "count": execution.count,
        "started_at": execution.started_at,
        "board": _board_to_json(execution.board.snapshot()),
        "results": [message_to_json(Message("tool", tuple(finished.values())))] if finished else [],
    }
    calls = frame.transcript[-1].tool_calls if frame.transcript else ()
    if any(call.id in waiting for call in calls):
        known = [
            finished.get(c.id) or ToolResultPart(c.id, f"no answer yet to: {_asked(waiting.get(c.id))}")
            for c in calls
        ]
        frame.transcript.append(Message("tool", tuple(known)))
    return Outcome(
        status="pending",
        requests=open_requests(waiting),
        waiting=dict(waiting),
        state=state,
        definition=graph.digest,
    )


def _asked(waiting: Waiting | None) -> str:
    return "" if waiting is None else "; ".join(request.prompt for request in waiting.requests)


def _board_to_json(snapshot: BoardSnapshot) -> dict[str, Any]:
    """As stores keep it: nothing of a message is lost."""
    channels = {name: [message_to_json(m) for m in channel] for name, channel in snapshot.channels.items()}
    return {"vars": dict(snapshot.vars), "channels": channels}


def _snapshot(data: Mapping[str, Any]) -> BoardSnapshot:
    channels: Mapping[str, Sequence[Any]] = data["channels"]
    messages = {name: [message_from_json(m) for m in channel] for name, channel in channels.items()}
    return BoardSnapshot(copied(data["vars"]), messages)


def _results(records: Sequence[Any]) -> dict[str, ToolResultPart]:
    return {r.call_id: r for record in records for r in message_from_json(record).tool_results}


def _mirror(board: Board, frame: Frame) -> None:
    """Make the main channel the transcript of the run. What was said before it began stays as it was."""
    history = frame.transcript[: frame.start]
    main = [message for message in board.main if message.role != "system"]
    if main[: len(history)] == history:
        frame.transcript[:] = main
    else:  # the graph rewrote its channel; the conversation keeps what it had
        before = {id(message) for message in history}
        frame.transcript[:] = [*history, *[m for m in main if id(m) not in before]]


def _output(board: Board, frame: Frame) -> Any:
    """The variables, where no model had the last word; otherwise that is the output."""
    own = frame.transcript[frame.start :]
    if any(message.role == "assistant" and message.text.strip() for message in own):
        return None
    return {name: value for name, value in board.vars().items() if not name.startswith("__")}


class ContextHost:
    """The run above a graph, as its host. Nothing is made for events that nobody reads."""

    counts_models = True
    """The ledger has counted what models used."""

    def __init__(self, ctx: RunContext, graph: Graph) -> None:
        self._ctx = ctx
        self._graph = graph
        self._bus: EventBus | None = graph.event_bus
        self._started: set[str] = set()
        """The nodes of which somebody knows that they began, and not yet that they ended."""
        self.execution: Execution | None = None

    @property
    def listening(self) -> bool:
        """Whether anybody reads events."""
        return self._ctx.run.emit is not None or (self._bus is not None and self._bus.listening)

    @property
    def keeping(self) -> bool:
        """Whether checkpoints are kept anywhere."""
        return self._graph.checkpoints is not None

    @property
    def event_bus(self) -> EventBus:
        """Where scripts follow the nodes of their own run."""
        if self._bus is None:
            from toolnexus.graph.bus import EventBus

            self._bus = EventBus()
        return self._bus

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """See `Host`."""
        if self._bus is not None and self._bus.listening:
            redact = self._ctx.run.redact
            self._bus.publish(subject, payload if redact.idle else redact.within(dict(payload)))
        emit = self._ctx.run.emit
        if emit is None:
            return
        what = subject.split(".")[3:]
        if what in (["start"], ["end"]):
            return  # those of the run itself say it
        path, node = self._ctx.path, payload.get("node_id")
        if what[:1] == ["step"] and isinstance(node, str) and node in self._graph.nodes:
            if what[-1] == "start":
                self._started.add(node)
                emit(NodeStarted(path=path, node=(node,), kind=self._graph.nodes[node].type.name))
            else:
                self._finished(node, *_ending(what[-1], payload))
            return
        if payload.get("type") == "parallel_branch_cancel" and payload["branch_id"] in self._started:
            self._finished(payload["branch_id"], "cancelled", None)  # by a sibling: it has no other end
        redact = self._ctx.run.redact
        emit(GraphEvent(path=path, subject=subject, payload=redact.within(dict(payload))))

    def _finished(self, node: str, status: str, error: str | None) -> None:
        self._started.discard(node)
        kind, emit = self._graph.nodes[node].type.name, self._ctx.run.emit
        if emit is not None:
            emit(NodeFinished(path=self._ctx.path, node=(node,), kind=kind, status=status, error=error))

    async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See `Host`: whoever answers the questions of the run; when nobody does, the run waits."""
        run, frame, key = self._ctx.run, self._ctx.frame, str(request["key"])
        parts = [part_to_wire(part) for part in _parts(request.get("parts"))]
        schema = request.get("schema")
        asked = Request(
            id=f"req_{sha256(key.encode()).hexdigest()[:16]}",
            kind="input" if schema else "question",
            prompt="\n".join([text_of(part) for part in _parts(request.get("parts"))]) or "?",
            data={
                "node": request.get("node_id"),
                "parts": parts,
                **{k: request[k] for k in ("schema", "source", "metadata") if request.get(k)},
            },
        )
        asked = located(asked, self._ctx.path, run.redact)
        answer = run.answers.get(asked.id)
        if answer is None:
            if run.emit is not None:
                run.emit(Pending(path=frame.path, request=asked))
            if frame.asker is None:
                raise Interrupted("user_input", asked.prompt, waiting={key: Waiting(requests=(asked,))})
            answer = await self._put(asked, frame.asker)
        return _answered(answer)

    async def _put(self, asked: Request, asker: Asker) -> Answer:
        """The answer of whoever is asked. Raises `GraphRunError` (not_available) when that fails."""
        try:
            return await asker.ask(asked, self._ctx.frame)
        except LimitReached:
            raise
        except Exception as error:
            why = self._ctx.run.redact(f"{type(error).__name__}: {error}")
            raise GraphRunError(
                f"nobody could answer: {why} (the question was: {asked.prompt})", kind="not_available"
            ) from error

    @property
    def call_record(self) -> Any:
        """The store of checkpoints, where it keeps what tool calls did."""
        store = self._graph.checkpoints
        return store if hasattr(store, "record") and hasattr(store, "calls") else None

    async def checkpoint(self, checkpoint: Checkpoint) -> None:
        """See `Host`."""
        if self._graph.checkpoints is not None:
            await self._graph.checkpoints.save(checkpoint)

    async def report_usage(self, usage: Usage) -> None:
        """See `Host`: what a node counted itself."""
        self._ctx.frame.ledger.record("reported", usage)
        self._ctx.frame.ledger.check_spent()

    def poll_interrupt(self) -> Interrupt | None:
        """See `Host`: a run is ended by a cancel, a limit or a question."""
        return None

    def drain_steer(self) -> list[Message]:
        """What was said to the run in flight (`client.steer`)."""
        inbox = self._ctx.frame.inbox or []
        taken = list(inbox)
        inbox.clear()
        return taken


def _ending(what: str, payload: Mapping[str, Any]) -> tuple[str, str | None]:
    """The status of a node, and why."""
    if what == "complete":
        return ("skipped" if payload.get("skipped") else "done"), None
    if payload.get("kind") == ErrorKind.INTERRUPTED:
        return "pending", None
    if payload.get("kind") == ErrorKind.ABORTED:
        return "cancelled", payload.get("error")
    return "error", payload.get("error")


def _parts(parts: Any) -> Sequence[Any]:
    from toolnexus.core.content import parts_from_wire

    return parts_from_wire({"parts": parts}) if parts else ()


def _answered(answer: Answer) -> Mapping[str, Any]:
    if not answer.ok:
        raise GraphRunError(
            f"the question was not answered: {answer.reason or 'declined'}", kind="not_available"
        )
    data: Any = answer.data
    if isinstance(data, Mapping) and "parts" in data:
        given = cast("Mapping[str, Any]", data)
        return {"parts": list(given["parts"]), "metadata": dict(given.get("metadata") or {})}
    if data is None or isinstance(data, str):
        return {"parts": [{"type": "text", "text": data or ""}], "metadata": {}}
    json.dumps(data)
    return {"parts": [{"type": "data", "data": data}], "metadata": {}}
