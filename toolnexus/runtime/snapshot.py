"""The resume point of a run, as versioned JSON.

What it is: what a frame needs to go on, and the points of the frames below it that wait as well.
What it is not: a definition; agents and tools are found again by name.
Above: the runner writes one when a run ends `pending`, and reads it when it goes on.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from toolnexus.core.messages import Message, ToolResultPart
from toolnexus.core.result import Limit, RunResult
from toolnexus.core.suspension import Answer, Request, check_answer
from toolnexus.core.usage import TreeUsage, Usage, UsageRow
from toolnexus.core.values import frozen
from toolnexus.core.wire import message_from_json, message_to_json
from toolnexus.errors import ConfigError, RunError
from toolnexus.runtime.snapshot_form import check_form

VERSION = 1


@frozen(kw_only=True)
class Waiting:
    """A call that has no result yet."""

    requests: tuple[Request, ...]
    """Its own question, or those of the run below it."""
    child: Mapping[str, Any] | None = None
    """The resume point of the run below that asks."""

    def answered(self, answers: Container[str]) -> bool:
        """Whether there is an answer to any of its questions."""
        return any(request.id in answers for request in self.requests)


def open_requests(waiting: Mapping[str, Waiting]) -> tuple[Request, ...]:
    """The questions of calls that wait, in call order; one that several calls share stands once."""
    return tuple({request.id: request for call in waiting.values() for request in call.requests}.values())


@frozen(kw_only=True)
class JobPoint:
    """Where a run in the background stands. With neither word, it ended: its result is among `children`."""

    id: str
    """The last segment of its path."""
    agent: str
    call_id: str
    model: str | None = None
    given: bool = False
    """Whether the run above has its result already."""
    waiting: Waiting | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "agent": self.agent,
            "call": self.call_id,
            "model": self.model,
            "given": self.given,
            "waiting": None if self.waiting is None else _waiting_to_json(self.waiting),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobPoint:
        """Raises `ValueError`, `KeyError` or `TypeError` for anything else than `to_json` wrote."""
        return cls(
            id=data["id"],
            agent=data["agent"],
            call_id=data["call"],
            model=data["model"],
            given=data["given"],
            waiting=None if data["waiting"] is None else _waiting_from_json(data["waiting"]),
        )


@frozen(kw_only=True)
class FramePoint:
    """Where one run stands."""

    path: tuple[str, ...]
    messages: tuple[Message, ...]
    """Its own, up to the message whose calls wait."""
    results: Mapping[str, ToolResultPart] = field(default_factory=dict[str, ToolResultPart])
    """What calls of that message gave already."""
    waiting: Mapping[str, Waiting] = field(default_factory=dict[str, Waiting])
    turns: int = 0
    limits: tuple[Limit, ...] = ()
    children: tuple[RunResult | None, ...] = ()
    """Of the runs below it, in start order; None for one that waits."""
    place: int = 0
    """Where it stands among the runs of its caller."""
    start: int = 0
    """How many of its messages were there before it began."""
    continues: tuple[str, ...] | None = None
    background: tuple[JobPoint, ...] = ()
    """The runs that it started and does not wait for in a call of `task`."""
    definition: str = ""
    """A digest of what was run, to notice that it is another one now."""
    state: Any = None
    """What a Runnable of another kind than an agent keeps."""
    scratch: Any = None
    """What only this run has in its scratchpad."""
    interrupted: bool = False
    """Whether the process ended in the middle: nobody knows what the open calls did. Never written."""
    let_go: frozenset[str] = frozenset()
    """The questions that may have been answered by then; the other calls wait still. Never written."""

    @property
    def of_agent(self) -> bool | None:
        """Whether it is an agent that waits: by calls of its last message, or in its background.

        None when nothing waits, as after a crash.
        """
        if self.state is not None:
            return False
        calls = {call.id for call in self.messages[-1].tool_calls} if self.messages else set[str]()
        if self.background or not calls.isdisjoint(self.waiting):
            return True
        return False if self.waiting else None

    @property
    def child_names(self) -> set[str]:
        """The path segments of the runs below it."""
        names = {child.path[-1] for child in self.children if child is not None}
        names.update(job.id for job in self.background)
        for waiting in self.waiting.values():
            match waiting.child:
                case {"path": [*_, str(name)]}:
                    names.add(name)
                case _:  # no run, but what a tool keeps for itself
                    pass
        return names

    def to_json(self) -> dict[str, Any]:
        return {
            "path": list(self.path),
            "messages": [message_to_json(message) for message in self.messages],
            "results": message_to_json(Message("tool", tuple(self.results.values()))),
            "waiting": {call: _waiting_to_json(waiting) for call, waiting in self.waiting.items()},
            "turns": self.turns,
            "limits": [_limit_to_json(limit) for limit in self.limits],
            "children": [None if child is None else result_to_json(child) for child in self.children],
            "place": self.place,
            "start": self.start,
            "continues": _path_to_json(self.continues),
            "background": [job.to_json() for job in self.background],
            "definition": self.definition,
            "state": self.state,
            **({} if self.scratch is None else {"scratch": self.scratch}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FramePoint:
        """Raises `ValueError`, `KeyError` or `TypeError` for anything else than `to_json` wrote."""
        results = message_from_json(data["results"]).tool_results
        messages = tuple([message_from_json(message) for message in data["messages"]])
        waiting = {call: _waiting_from_json(waiting) for call, waiting in data["waiting"].items()}
        calls = {call.id for call in messages[-1].tool_calls} if messages else set[str]()
        if calls and data["state"] is None and (unknown := waiting.keys() - calls):
            raise ValueError(f"the last message has no calls {sorted(unknown)}")
        return cls(
            path=tuple(data["path"]),
            messages=messages,
            results={result.call_id: result for result in results},
            waiting=waiting,
            turns=data["turns"],
            limits=tuple([_limit_from_json(limit) for limit in data["limits"]]),
            children=tuple(
                [None if child is None else result_from_json(child) for child in data["children"]]
            ),
            place=data["place"],
            start=data.get("start", 0),
            continues=_path_from_json(data.get("continues")),
            background=tuple([JobPoint.from_json(job) for job in data.get("background", ())]),
            definition=data["definition"],
            state=data["state"],
            scratch=data.get("scratch"),
        )


@frozen(kw_only=True)
class Snapshot:
    """Where a whole tree stands."""

    agent: str
    frame: FramePoint
    ledger: Mapping[str, Any]
    """Of the whole tree, finished runs included."""
    sub_agents: int
    """How many runs a model has started."""
    limits: tuple[Limit, ...] = ()
    """Every limit met in the tree."""
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    """Every answer that was given so far: an id is answered once."""
    approved: tuple[str, ...] = ()
    """The calls that somebody approved."""
    conversation: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        out: dict[str, Any] = {
            "version": VERSION,
            "agent": self.agent,
            "frame": self.frame.to_json(),
            "ledger": dict(self.ledger),
            "subAgents": self.sub_agents,
            "limits": [_limit_to_json(limit) for limit in self.limits],
            "answers": {id: answer.to_json() for id, answer in self.answers.items()},
            "approved": sorted(self.approved),
        }
        if self.conversation is not None:
            out["conversation"] = self.conversation
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """The snapshot that `to_json` wrote. Raises `RunError` that says what is wrong."""
        version = data.get("version")
        if version != VERSION:
            shown = repr(version)[:40] if isinstance(version, (int, str)) else type(version).__name__
            raise RunError(f"a snapshot of version {shown} cannot be resumed; this release reads {VERSION}")
        try:
            check_form(data)
            return cls(
                agent=data["agent"],
                frame=FramePoint.from_json(data["frame"]),
                ledger=data["ledger"],
                sub_agents=data["subAgents"],
                limits=tuple([_limit_from_json(limit) for limit in data["limits"]]),
                answers={id: Answer.from_json(answer) for id, answer in data["answers"].items()},
                approved=tuple(data["approved"]),
                conversation=data.get("conversation"),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
            raise RunError(f"the snapshot is torn: {type(error).__name__} {why}") from None

    @property
    def requests(self) -> tuple[Request, ...]:
        """The open questions of the whole tree, in call order."""
        beside = {job.id: job.waiting for job in self.frame.background if job.waiting is not None}
        return open_requests({**self.frame.waiting, **beside})


def as_answers(given: Sequence[Answer | Mapping[str, Any]]) -> list[Answer]:
    """Answers as values, given so or as their wire data. Raises `ConfigError` for anything else."""
    if isinstance(given, (str, bytes, Mapping, Answer)) or not isinstance(given, Sequence):
        raise ConfigError("answers: give a list, such as [Answer(id=request.id)]")
    answers: list[Answer] = []
    for one in given:
        try:
            answers.append(one if isinstance(one, Answer) else Answer.from_json(one))
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"{one!r} is no answer: {error}; give Answer(id=request.id, …)") from error
    return answers


def taken(snapshot: Snapshot, answers: Iterable[Answer]) -> dict[str, Answer]:
    """The answers that are new, by request id; one that was given before is passed over.

    An answer that comes too late is one that says so. Raises `RunError` for an id that nobody asked, for
    another answer than the one that was given, and for one without the results that were asked for.
    """
    open, new = {request.id: request for request in snapshot.requests}, dict[str, Answer]()
    for answer in answers:
        known = snapshot.answers.get(answer.id) or new.get(answer.id)
        if known is not None:
            if known != answer and known.reason != "expired":
                raise RunError(f"request {answer.id!r} was answered already, and differently")
        elif answer.id not in open:
            raise RunError(f"no open request has the id {answer.id!r}; open: {sorted(open)}")
        elif open[answer.id].expired():
            new[answer.id] = Answer(id=answer.id, ok=False, reason="expired")
        else:
            try:
                check_answer(open[answer.id], answer)
            except ValueError as error:
                raise RunError(f"the answer to {answer.id!r} does not fit: {error}") from error
            new[answer.id] = answer
    return new


def _waiting_to_json(waiting: Waiting) -> dict[str, Any]:
    out: dict[str, Any] = {"requests": [request.to_json() for request in waiting.requests]}
    if waiting.child is not None:
        out["child"] = dict(waiting.child)
    return out


def _waiting_from_json(data: Mapping[str, Any]) -> Waiting:
    requests = tuple([Request.from_json(request) for request in data["requests"]])
    child = data.get("child")
    if child is not None and "messages" in child:  # else what a tool keeps for itself
        FramePoint.from_json(child)  # what is torn is found before anything runs
    return Waiting(requests=requests, child=child)


def _path_to_json(path: tuple[str, ...] | None) -> list[str] | None:
    return None if path is None else list(path)


def _path_from_json(path: list[str] | None) -> tuple[str, ...] | None:
    return None if path is None else tuple(path)


def _limit_to_json(limit: Limit) -> dict[str, Any]:
    return {
        "limit": limit.limit,
        "value": limit.value,
        "path": list(limit.path),
        "scope": list(limit.scope),
    }


def _limit_from_json(data: Mapping[str, Any]) -> Limit:
    path, scope = tuple(data["path"]), tuple(data["scope"])
    return Limit(limit=data["limit"], value=data["value"], path=path, scope=scope)


def result_to_json(result: RunResult) -> dict[str, Any]:
    """A finished run below one that waits. Its output is its text where it is no JSON value."""
    return {
        "status": result.status,
        "text": result.text,
        "output": result.output if _is_json(result.output) else result.text,
        "limit": result.limit,
        "limits": [_limit_to_json(limit) for limit in result.limits_hit],
        "messages": [message_to_json(message) for message in result.messages],
        "toolCalls": result.tool_calls,
        "toolCallsBelow": result.sub_agent_tool_calls,
        "children": [result_to_json(child) for child in result.sub_agents],
        "turns": result.turns,
        "usage": [[list(r.path), r.agent, r.model, r.usage.to_json()] for r in result.usage.rows],
        "ownUsage": result.own_usage.to_json(),
        "path": list(result.path),
        "agent": result.agent,
        "continues": _path_to_json(result.continues),
        "error": None if result.error is None else str(result.error) or type(result.error).__name__,
    }


def result_from_json(data: Mapping[str, Any]) -> RunResult:
    """The run that `result_to_json` wrote; its error is a `RunError` with the same text."""
    rows = [UsageRow(tuple(p), agent, model, Usage.from_json(u)) for p, agent, model, u in data["usage"]]
    return RunResult(
        status=data["status"],
        text=data["text"],
        output=data["output"],
        limit=data["limit"],
        limits_hit=tuple([_limit_from_json(limit) for limit in data["limits"]]),
        messages=tuple([message_from_json(message) for message in data["messages"]]),
        tool_calls=data["toolCalls"],
        sub_agent_tool_calls=data["toolCallsBelow"],
        sub_agents=tuple([result_from_json(child) for child in data["children"]]),
        turns=data["turns"],
        usage=TreeUsage.of(rows),
        own_usage=Usage.from_json(data["ownUsage"]),
        path=tuple(data["path"]),
        agent=data.get("agent", ""),
        continues=_path_from_json(data.get("continues")),
        error=None if data["error"] is None else RunError(data["error"]),
    )


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
