"""Events report a run; they never change it.

Every event carries the `path` of its run, a sequence number `seq` that is unique and rising
within one top-level run, and the `time` it was emitted (seconds since the epoch); the emitter sets
the last two. `to_json()` is the wire form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, ClassVar

from toolnexus.core.result import Limit, RunResult
from toolnexus.core.suspension import Request
from toolnexus.core.tools import ToolResult
from toolnexus.core.usage import Usage
from toolnexus.core.values import mutable


@mutable(kw_only=True)
class Event:
    """Base of all events."""

    type: ClassVar[str] = "event"
    path: tuple[str, ...]
    seq: int = 0
    time: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Wire data: `type`, `path`, `seq`, `time`, and what this kind of event says."""
        return {
            "type": self.type,
            "path": list(self.path),
            "seq": self.seq,
            "time": self.time,
            **self._body(),
        }

    def _body(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)[3:]}


@mutable(kw_only=True)
class RunStarted(Event):
    """A run began. `agent` is the name of what runs."""

    type: ClassVar[str] = "run_started"
    agent: str


@mutable(kw_only=True)
class NodeStarted(Event):
    """A node of a workflow began. `node` is its way from the top of the workflow, `kind` its class."""

    type: ClassVar[str] = "node_started"
    node: tuple[str, ...]
    kind: str

    def _body(self) -> dict[str, Any]:
        return {"node": list(self.node), "kind": self.kind}


@mutable(kw_only=True)
class NodeFinished(Event):
    """A node ended: `done`, `pending`, `incomplete`, `error`, `cancelled`, or in a graph `skipped`."""

    type: ClassVar[str] = "node_finished"
    node: tuple[str, ...]
    kind: str
    status: str
    error: str | None = None

    def _body(self) -> dict[str, Any]:
        return {"node": list(self.node), "kind": self.kind, "status": self.status, "error": self.error}


@mutable(kw_only=True)
class GraphEvent(Event):
    """A graph published something besides the steps of its nodes.

    `subject` is `agent.run.<run>.…`: the fork and join of a parallel wave, a delta of a node, or whatever a
    node published itself. Deltas are previews; those of a parallel branch are void when its
    `parallel_branch_cancel` comes.
    """

    type: ClassVar[str] = "graph"
    subject: str
    payload: Mapping[str, Any]

    def _body(self) -> dict[str, Any]:
        return {"subject": self.subject, "payload": dict(self.payload)}


@mutable(kw_only=True)
class TurnStarted(Event):
    """A model request is about to be sent. `turn` counts from 1 within its run."""

    type: ClassVar[str] = "turn_started"
    turn: int
    model: str


@mutable(kw_only=True)
class TextDelta(Event):
    """More text of the model. Deltas of one run in a row may arrive joined; none is lost."""

    type: ClassVar[str] = "text"
    text: str

    def _body(self) -> dict[str, Any]:
        return {"delta": self.text}


@mutable(kw_only=True)
class ReasoningDelta(Event):
    """More of the model's reasoning."""

    type: ClassVar[str] = "reasoning"
    text: str

    def _body(self) -> dict[str, Any]:
        return {"delta": self.text}


@mutable(kw_only=True)
class ToolStarted(Event):
    """A tool is about to run. `arguments` are the parsed ones, None when they did not parse."""

    type: ClassVar[str] = "tool_call"
    name: str
    call_id: str
    arguments: Mapping[str, Any] | None = None

    def _body(self) -> dict[str, Any]:
        return {"id": self.call_id, "name": self.name, "arguments": self.arguments}


@mutable(kw_only=True)
class ToolProgress(Event):
    """A running tool reports how far it is."""

    type: ClassVar[str] = "tool_progress"
    call_id: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def _body(self) -> dict[str, Any]:
        return {"id": self.call_id, "message": self.message, "data": dict(self.data)}


@mutable(kw_only=True)
class ToolFinished(Event):
    """A call has its result. `seconds` is how long it took."""

    type: ClassVar[str] = "tool_result"
    name: str
    call_id: str
    result: ToolResult
    seconds: float

    def _body(self) -> dict[str, Any]:
        return {
            "id": self.call_id,
            "name": self.name,
            "output": self.result.output,
            "isError": self.result.is_error,
            "seconds": self.seconds,
            "metadata": dict(self.result.metadata),
        }


@mutable(kw_only=True)
class SubAgentStarted(Event):
    """A run starts below `path`: `child` is its path, `call_id` the call that asked for it."""

    type: ClassVar[str] = "sub_agent_started"
    agent: str
    child: tuple[str, ...]
    call_id: str | None = None
    prompt: str = ""

    def _body(self) -> dict[str, Any]:
        return {"agent": self.agent, "child": list(self.child), "id": self.call_id, "prompt": self.prompt}


@mutable(kw_only=True)
class SubAgentFinished(Event):
    """The run at `child` ended; `result` is its RunResult."""

    type: ClassVar[str] = "sub_agent_finished"
    agent: str
    child: tuple[str, ...]
    result: RunResult

    def _body(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "child": list(self.child),
            "status": self.result.status,
            "limit": self.result.limit,
            "usage": self.result.usage.to_json(),
        }


@mutable(kw_only=True)
class Pending(Event):
    """A run asks a question."""

    type: ClassVar[str] = "pending"
    request: Request

    def _body(self) -> dict[str, Any]:
        return {"request": self.request.to_json()}


@mutable(kw_only=True)
class Retrying(Event):
    """A model request failed and goes out again after `delay` seconds.

    `restarted` is true when text of the failed attempt was already handed on: what follows
    replaces it.
    """

    type: ClassVar[str] = "retrying"
    attempt: int
    delay: float
    reason: str
    restarted: bool = False


@mutable(kw_only=True)
class LimitHit(Event):
    """A limit stopped or refused something."""

    type: ClassVar[str] = "limit_hit"
    hit: Limit

    def _body(self) -> dict[str, Any]:
        return {"limit": self.hit.limit, "value": self.hit.value, "scope": list(self.hit.scope)}


@mutable(kw_only=True)
class Compacted(Event):
    """The older part of a transcript is no longer sent; the transcript itself stays whole.

    `before` and `after` are the tokens of what is sent, as the compactor counts them; `dropped` is how many
    messages went, `summarized` whether notes stand for them.
    """

    type: ClassVar[str] = "compacted"
    before: int
    after: int
    dropped: int
    summarized: bool


@mutable(kw_only=True)
class UsageReported(Event):
    """What one model request used."""

    type: ClassVar[str] = "usage"
    model: str
    usage: Usage

    def _body(self) -> dict[str, Any]:
        return {"model": self.model, "usage": self.usage.to_json()}


@mutable(kw_only=True)
class RunFinished(Event):
    """A run ended; `result` is its RunResult. The last event of its path."""

    type: ClassVar[str] = "done"
    result: RunResult

    def _body(self) -> dict[str, Any]:
        result = self.result
        return {
            "status": result.status,
            "text": result.text,
            "limit": result.limit,
            "turns": result.turns,
            "usage": result.usage.to_json(),
            "error": str(result.error) if result.error else None,
        }
