"""Node: one step of a workflow, and how every node is visited.

Above: composites visit their children, the runner executes the node at the top. Below: the engine.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Generic, TypeVar, cast

from toolnexus.core.events import NodeFinished, NodeStarted
from toolnexus.core.options import expect
from toolnexus.core.result import Limit
from toolnexus.engine.agent import Agent
from toolnexus.errors import ConfigError, LimitReached, RunError
from toolnexus.runtime.context import SCRATCHPAD, ContextKey, Outcome, RunContext
from toolnexus.runtime.snapshot import Waiting
from toolnexus.runtime.snapshot_form import check_workflow
from toolnexus.runtime.tracing import Tracing
from toolnexus.workflow.scratchpad import Scratchpad
from toolnexus.workflow.values import to_json

logger = logging.getLogger("toolnexus.workflow")

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
T = TypeVar("T")
D = TypeVar("D")


class Suspended(BaseException):
    """Steps wait for answers; everything else that could run has run. Never leaves a workflow.

    A BaseException, so that no `except Exception` of a host takes it for a failure.
    """

    def __init__(self, waiting: Mapping[str, Waiting]) -> None:
        super().__init__("a step waits for an answer")
        self.waiting = waiting


class Stopped(Exception):
    """A limit ended a step: the workflow is incomplete, with what that step gave so far."""

    def __init__(self, limit: Limit | None, output: Any, text: str) -> None:
        super().__init__(f"stopped at the limit {limit}")
        self.limit = limit
        self.output = output
        self.text = text

    @property
    def error(self) -> Exception:
        """The same for others to read."""
        hit = self.limit
        return self if hit is None else LimitReached(hit.limit, hit.value, hit.scope)


class Progress:
    """What is done in one run of a workflow: it goes on from there, and nothing finished runs again."""

    __slots__ = ("done", "pads", "stored", "taken", "visited", "waiting")

    def __init__(self, state: Mapping[str, Any], waiting: Mapping[str, Waiting]) -> None:
        self.done: dict[str, Any] = {}
        """What steps gave, by their place."""
        self.stored: Mapping[str, Any] = state.get("done", {})
        """What they gave before the run waited, as JSON."""
        self.visited: set[str] = set()
        """Where steps stand that were visited since: a second one there would get what the first one gave."""
        self.waiting = waiting
        """The steps that waited, by their place."""
        self.taken: set[str] = set()
        """Those of them that went on, or wait again."""
        self.pads: dict[str, Scratchpad | Mapping[str, Any]] = dict(state.get("pads", {}))
        """The pads of branches that are not merged yet, by the place of the branch."""

    def check(self) -> None:
        """Raises `RunError` when a step that waited was not reached again: its answer would be lost."""
        if lost := [place for place in self.waiting if place not in self.taken]:
            raise RunError(
                f"the workflow was changed while it waited: no agent runs at the place {lost[0]} any more; "
                "go on with the tree that asked"
            )

    def to_json(self) -> dict[str, Any]:
        """Raises `RunError` that names what is no JSON."""
        done = {place: to_json(value, f"node {place}") for place, value in self.done.items()}
        pads = {p: pad.to_json() if isinstance(pad, Scratchpad) else pad for p, pad in self.pads.items()}
        return {"done": {**self.stored, **done}, "pads": pads}


class Place:
    """Where a node stands in the tree of one run."""

    __slots__ = ("id", "path", "progress", "used")

    def __init__(self, id: str, path: tuple[str, ...], progress: Progress) -> None:
        self.id = id
        self.path = path
        self.progress = progress
        self.used = False
        """Whether an agent ran here: its waiting run is known by the place."""


PLACE: ContextKey[Place] = ContextKey("place in a workflow")


class Node(ABC, Generic[In, Out]):
    """One step: `await node.run(input, ctx)` gives its output, or raises what went wrong.

    A subclass says in `run` what it does, and runs other nodes through `visit`, never by their own `run`.
    A node keeps nothing of a run, so one tree may run any number of times at once. It is a Runnable:
    `client.run(node, input)`, a target of `task`, behind `toolnexus serve`.
    """

    name: str = "node"
    description: str = ""

    @abstractmethod
    async def run(self, input: In, ctx: RunContext) -> Out:
        """Do the work. Called through `visit`, which knows the place and what is done already."""

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        """The nodes below it, each with the word for its way there (`""`: none)."""
        return ()

    @property
    def step_agents(self) -> Sequence[Agent]:
        """The agents that it and the nodes below it run."""
        return [agent for _, child in self.children for agent in child.step_agents]

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        """The whole tree below this node, from the start or from where it waited."""
        frame = ctx.frame
        resumed, frame.resumed = frame.resumed, None
        above = ctx.get(SCRATCHPAD)
        pad = above or Scratchpad()
        progress = Progress({}, {})
        if resumed is not None:
            state = _checked_state(resumed.state)
            progress, input = Progress(state, resumed.waiting), state["input"]
            if "pad" in state:
                pad.restore(state["pad"])
        inner = ctx.having({PLACE: Place("", (), progress), SCRATCHPAD: pad})
        if resumed is not None and resumed.definition not in ("", self._digest):
            logger.warning("workflow %r was changed while it waited; it goes on as it is now", self.name)
        try:
            output = await visit(self, input, inner, "0")
            progress.check()
            return Outcome(output=output)
        except Stopped as stopped:
            return Outcome(status="incomplete", limit=stopped.limit, output=stopped.output, text=stopped.text)
        except Suspended as suspended:
            progress.check()
            kept = {**progress.to_json(), "input": to_json(input, "the input")}
            if above is None or frame.parent is None:  # else whoever has the pad keeps it
                kept["pad"] = pad.to_json(shared=True)
            asked = tuple([request for w in suspended.waiting.values() for request in w.requests])
            return Outcome(
                status="pending",
                requests=asked,
                waiting=suspended.waiting,
                state=kept,
                definition=self._digest,
            )

    @property
    def _digest(self) -> str:
        """Of the shape of the tree."""
        return sha256(self.to_mermaid().encode()).hexdigest()

    def to_mermaid(self) -> str:
        """The tree as a Mermaid flowchart."""
        from toolnexus.workflow.draw import mermaid

        return mermaid(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Leaf(Node[In, Out]):
    """A node whose output is kept, so that it is not run again when the workflow goes on."""

    def restored(self, data: Any) -> Any:
        """The output that was kept as JSON. Raises `RunError` when it does not fit any more."""
        return data


async def visit(node: Node[In, Out], input: In, ctx: RunContext, key: str, name: str | None = None) -> Out:
    """Run `node` below the node that `ctx` belongs to, or give what it gave before the run waited.

    For nodes of one's own: `key` tells this visit from all others of that node, and must be the same when the
    run goes on; `name` is how the child is called in paths (None: its name). Raises what the child raises,
    and `RunError` for a key that was used before.
    """
    above = ctx.host[PLACE]
    place = Place(f"{above.id}.{key}" if above.id else key, (*above.path, name or node.name), above.progress)
    visited = above.progress.visited
    if place.id in visited:
        raise RunError(
            f"node {'/'.join(above.path)!r} visits a second child under the key {key!r}; give each a key "
            "of its own, and run children through visit(child, input, ctx, key)"
        )
    visited.add(place.id)
    if isinstance(node, Leaf):
        progress = above.progress
        if place.id in progress.done:
            return progress.done[place.id]
        if place.id in progress.stored:
            output = progress.done[place.id] = node.restored(progress.stored[place.id])
            return output
        output = await _watched(node, input, ctx.having({PLACE: place}), place)
        progress.done[place.id] = output
        return output
    return await _watched(node, input, ctx.having({PLACE: place}), place)


async def decided(ctx: RunContext, key: str, decide: Callable[[T], Awaitable[D]], input: T) -> D:
    """What a composite decided (JSON), once: it is asked again neither here nor in another process."""
    place = ctx.host[PLACE]
    id, progress = f"{place.id}.{key}", place.progress
    if id in progress.done:
        return progress.done[id]
    if id in progress.stored:
        value = progress.stored[id]
    else:
        value = await decide(input)
    progress.done[id] = value
    return value


async def _watched(node: Node[In, Out], input: In, ctx: RunContext, place: Place) -> Out:
    run = ctx.run
    if run.emit is None and run.tracing is None:
        try:
            return await node.run(input, ctx)
        except Exception as error:
            _note(error, ctx, place)
            raise
    return await _followed(node, input, ctx, place)


async def _followed(node: Node[In, Out], input: In, ctx: RunContext, place: Place) -> Out:
    run, kind = ctx.run, type(node).__name__
    if run.emit is not None:
        run.emit(NodeStarted(path=ctx.path, node=place.path, kind=kind))
    error: BaseException | None = None
    status = "cancelled"
    try:
        if run.tracing is None:
            output = await node.run(input, ctx)
        else:
            output = await _traced(run.tracing, node, input, ctx, place)
        status = "done"
        return output
    except Suspended:
        status = "pending"
        raise
    except Stopped:
        status = "incomplete"
        raise
    except Exception as failure:
        error, status = failure, "error"
        _note(failure, ctx, place)
        raise
    finally:
        if run.emit is not None:
            why = None if error is None else run.redact(str(error) or type(error).__name__)
            run.emit(NodeFinished(path=ctx.path, node=place.path, kind=kind, status=status, error=why))


async def _traced(tracing: Tracing, node: Node[In, Out], input: In, ctx: RunContext, place: Place) -> Out:
    """A span around the node. To wait is no failure of it."""
    with tracing.node(ctx, place.path, type(node).__name__):
        try:
            return await node.run(input, ctx)
        except (Suspended, Stopped) as stop:
            stopped = stop
    raise stopped


def _note(error: Exception, ctx: RunContext, place: Place) -> None:
    """Say where it happened, once: the innermost node knows best."""
    if not isinstance(error, Stopped) and not hasattr(error, "node_path"):
        path = "/".join((*ctx.path, *place.path))
        try:
            error.node_path = path  # type: ignore[attr-defined]
        except AttributeError:  # a class with slots
            return
        error.add_note(f"in the node {path}")


def _checked_state(state: Any) -> Mapping[str, Any]:
    """What a workflow kept when it waited. Raises `RunError` for what is none of that."""
    if state is None:
        raise RunError("what waits is no workflow; go on with the target that asked")
    try:
        check_workflow(state)
    except ValueError as error:
        raise RunError(f"the snapshot is torn: {error}") from None
    return state


def named(name: object, where: str) -> str:
    """The name of a node. Raises `ConfigError` for what is no text, and for an empty one."""
    expect(f"{where}: name", name, str, "give text")
    if not str(name).strip():
        raise ConfigError(f"{where}: the name is empty")
    return str(name)


def checked(node: object, where: str) -> Node[Any, Any]:
    """`node`, which must be one. Raises `ConfigError` that says how to make one of it."""
    if isinstance(node, Node):
        return cast("Node[Any, Any]", node)
    if isinstance(node, type):
        raise ConfigError(f"{where}: {node.__name__} is a class; give an instance")
    if isinstance(node, Agent):
        raise ConfigError(f"{where}: {node!r} is an agent; make it a node with AgentStep(agent)")
    if callable(node):
        name = getattr(node, "__name__", repr(node))
        raise ConfigError(f"{where}: {name} is a function; make it a node with Fn({name})")
    raise ConfigError(f"{where}: {node!r} is no node")
