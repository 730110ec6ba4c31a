"""The tree of runs and their tools, built from events and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from toolnexus.cli.view.words import one_line, printable, telling
from toolnexus.core.events import (
    Event,
    NodeFinished,
    NodeStarted,
    Pending,
    Retrying,
    RunFinished,
    RunStarted,
    SubAgentFinished,
    SubAgentStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    UsageReported,
)

Path = tuple[str, ...]
Span = tuple[float, float | None]
"""Start and end; None: still going on."""
_FAILED = ("error", "cancelled")


@dataclass(slots=True, kw_only=True)
class ToolNode:
    """One call, or one node of a graph or workflow."""

    name: str
    about: str
    started: float
    ended: float | None = None
    failed: bool = False
    said: str = ""
    """The first line of an error."""

    def end(self, time: float, error: str | None) -> None:
        """It is over; `error` is what went wrong."""
        self.ended, self.failed, self.said = time, error is not None, error or ""


@dataclass(slots=True, kw_only=True)
class RunNode:
    """One run: what it does now, and what it did."""

    path: Path
    agent: str
    started: float
    ended: float | None = None
    status: str = ""
    """How it ended."""
    limit: str | None = None
    waits_for: str = ""
    """What it is waiting for apart from tools: the model, a person."""
    thinking: list[Span] = field(default_factory=list[Span])
    """When a model request was on its way."""
    tools: dict[str, ToolNode] = field(default_factory=dict[str, ToolNode])
    children: list[RunNode] = field(default_factory=list["RunNode"])
    delegated: set[str] = field(default_factory=set[str])
    """The calls that became a child."""
    nodes: dict[Path, ToolNode] = field(default_factory=dict[Path, ToolNode])
    """The nodes that go on."""

    @property
    def depth(self) -> int:
        return len(self.path) - 1

    @property
    def shown_tools(self) -> list[ToolNode]:
        """The calls that have no line of their own as a child."""
        return [tool for id, tool in self.tools.items() if id not in self.delegated]

    @property
    def current(self) -> str:
        """What it does at the moment, in a word or two."""
        if self.ended is not None:
            return self.status
        if self.waits_for:
            return self.waits_for
        going_on = [tool.name for tool in self.tools.values() if tool.ended is None]
        if len(going_on) > 1:
            return f"{going_on[-1]} +{len(going_on) - 1}"
        return going_on[0] if going_on else "model"

    def feed(self, event: Event) -> None:
        """Take one event of this run."""
        match event:
            case TurnStarted():
                self.thinking.append((event.time, None))
            case UsageReported():
                self._end_thinking(event.time)
            case ToolStarted():
                about = telling(event.arguments)
                self.tools[event.call_id] = ToolNode(name=event.name, about=about, started=event.time)
            case ToolFinished() if (tool := self.tools.get(event.call_id)) is not None:
                tool.end(event.time, one_line(event.result.output) if event.result.is_error else None)
            case SubAgentStarted(call_id=str(id)):
                self.delegated.add(id)
            case NodeStarted():
                self.nodes[event.node] = self._node(event)
            case NodeFinished():
                node = self.nodes.pop(event.node, None) or self._node(event)
                node.end(
                    event.time, one_line(event.error or event.status) if event.status in _FAILED else None
                )
            case RunFinished():
                self._end(event)
            case _:
                pass
        self._wait(event)

    def _node(self, event: NodeStarted | NodeFinished) -> ToolNode:
        """A line for a node, one for each time that it runs."""
        skipped = isinstance(event, NodeFinished) and event.status == "skipped"
        about = f"{event.kind}, skipped" if skipped else event.kind
        node = ToolNode(name=printable("/".join(event.node)), about=about, started=event.time)
        self.tools[f"node {len(self.tools)}"] = node
        return node

    def _wait(self, event: Event) -> None:
        if isinstance(event, Pending):
            self.waits_for = "asks you"
        elif isinstance(event, Retrying):
            self.waits_for = f"retry {event.attempt}"
        elif isinstance(event, (TextDelta, UsageReported, ToolFinished, RunFinished)):
            self.waits_for = ""

    def _end_thinking(self, time: float) -> None:
        if self.thinking and self.thinking[-1][1] is None:
            self.thinking[-1] = (self.thinking[-1][0], time)

    def stop(self, time: float, status: str) -> None:
        """It is over, with everything that goes on in it."""
        self._end_thinking(time)
        self.ended, self.status = time, status
        for tool in self.tools.values():  # a cancel leaves calls without an end of their own
            if tool.ended is None:
                tool.end(time, "stopped")

    def _end(self, event: RunFinished) -> None:
        result = event.result
        self.stop(event.time, result.status)
        if result.status in ("incomplete", "pending"):
            own = [str(hit) for hit in result.limits_hit if hit.path == self.path]
            self.limit = own[0] if own else result.limit


class RunTree:
    """Feed it events; `roots` is what they say. `now` is the time of the last one."""

    def __init__(self) -> None:
        self.roots: list[RunNode] = []
        self.runs: dict[Path, RunNode] = {}
        self.began = 0.0
        self.now = 0.0

    def feed(self, event: Event) -> None:
        """Take one event."""
        self.now = max(self.now, event.time)
        if isinstance(event, RunStarted):
            self._start(event)
        if isinstance(event, SubAgentFinished):
            self._end_child(event)
        if (run := self.runs.get(event.path)) is not None:
            run.feed(event)

    def stop(self) -> None:
        """There will be no more events: what has no end ended now."""
        for run in self.runs.values():
            if run.ended is None:
                run.stop(self.now, "stopped")

    def walk(self) -> Iterator[RunNode]:
        """Every run, each before those below it."""
        todo = list(self.roots)
        while todo:
            run = todo.pop(0)
            yield run
            todo[:0] = run.children

    def _end_child(self, event: SubAgentFinished) -> None:
        child = self.runs.get(event.child)
        if child is not None and child.ended is None:
            child.stop(event.time, event.result.status)

    def _start(self, event: RunStarted) -> None:
        run = RunNode(path=event.path, agent=printable(event.agent), started=event.time)
        self.runs[event.path] = run
        above = self.runs.get(event.path[:-1])
        if above is None:
            if not self.roots:
                self.began = event.time
            self.roots.append(run)
        else:
            above.children.append(run)
