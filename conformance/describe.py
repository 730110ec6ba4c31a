"""Requests and results of this package as the plain data that fixtures speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from conformance.fixture import Data
from toolnexus import Message, ModelRequest, RunResult

Metadata = Mapping[tuple[tuple[str, ...], str], Data]
"""What tools told the host, by path of the run and id of the call."""


def request(asked: ModelRequest, model: str) -> Data:
    """One model request."""
    return {
        "agent": asked.agent,
        "path": "/".join(asked.path),
        "depth": len(asked.path) - 1,
        "turn": asked.turn,
        "model": model,
        "system": asked.system,
        "last": _said(asked.messages[-1]),
        "messages": _everything(asked.messages),
        "tools": [t.name for t in asked.tools],
        "descriptions": {t.name: t.description for t in asked.tools},
    }


def result(run: RunResult, metadata: Metadata) -> Data:
    """One run and, under `subAgents`, those below it."""
    children = [result(child, metadata) for child in run.sub_agents]
    limits = Counter((hit.limit, hit.value) for hit in run.limits_hit)
    return {
        "status": run.status,
        "limit": run.limit,
        "limitsHit": [{"limit": limit, "value": value, "times": n} for (limit, value), n in limits.items()],
        "text": run.text,
        "error": None if run.error is None else str(run.error),
        "path": "/".join(run.path),
        "turns": run.turns,
        "toolCalls": run.tool_calls,
        "subAgentToolCalls": run.sub_agent_tool_calls,
        "transcript": [role for m in run.messages for role in _roles(m)],
        "messages": _everything(run.messages),
        "toolResults": _tool_results(run, metadata),
        "pending": [
            {"kind": r.kind, "prompt": r.prompt, "path": "/".join((r.data or {}).get("path", ()))}
            for r in run.pending
        ],
        "usage": _usage(run),
        "ownUsage": run.own_usage.to_json(),
        "subAgents": children,
        "runsBelow": sum(1 + child["runsBelow"] for child in children),
    }


def _usage(run: RunResult) -> Data:
    split = {
        "byAgent": run.usage.by("agent"),
        "byModel": run.usage.by("model"),
        "byPath": run.usage.by("path"),
    }
    rows = {key: {name: usage.to_json() for name, usage in parts.items()} for key, parts in split.items()}
    return {**run.usage.to_json(), **rows}


def _tool_results(run: RunResult, metadata: Metadata) -> list[Data]:
    names = {call.id: call.name for message in run.messages for call in message.tool_calls}
    return [
        {
            "id": answer.call_id,
            "tool": names[answer.call_id],
            "output": answer.output,
            "isError": answer.is_error,
            "metadata": metadata.get((run.path, answer.call_id), {}),
        }
        for message in run.messages
        for answer in message.tool_results
    ]


def _roles(message: Message) -> list[str]:
    return ["tool"] * len(message.tool_results) if message.role == "tool" else [message.role]


def _said(message: Message) -> str:
    return "\n".join([message.text] if message.text else [r.output for r in message.tool_results])


def _everything(messages: Sequence[Message]) -> str:
    calls = [f"{call.name} {call.arguments}" for m in messages for call in m.tool_calls]
    return "\n".join([*(_said(m) for m in messages), *calls])
