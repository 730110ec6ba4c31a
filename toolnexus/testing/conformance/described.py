"""Requests and results of this package in the words of the driver protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolnexus import Message, ModelRequest, ModelResponse, RunResult, ToolCallPart, Usage, assistant
from toolnexus.testing.conformance.fixture import Data

Metadata = Mapping[tuple[tuple[str, ...], str], Data]
"""What tools told the host, by path of the run and id of the call."""


def request(asked: ModelRequest, model: str) -> Data:
    """One model request."""
    return {
        "agent": asked.agent,
        "path": "/".join(asked.path),
        "turn": asked.turn,
        "model": model,
        "system": asked.system,
        "messages": _messages(asked.messages, asked.path, {}),
        "tools": [{"name": t.name, "description": t.description} for t in asked.tools],
    }


def response(said: Data) -> ModelResponse:
    """What the runner lets the model say."""
    calls = [ToolCallPart(call["id"], call["name"], call["arguments"]) for call in said["calls"]]
    usage = said["usage"]
    return ModelResponse(
        message=assistant(said["text"], *calls),
        usage=None if usage is None else Usage(**in_python(usage)),
        stop=said["stop"],
    )


def result(run: RunResult, metadata: Metadata) -> Data:
    """One run and, under `subAgents`, those below it."""
    return {
        "status": run.status,
        "limit": run.limit,
        "limitsHit": [{"limit": hit.limit, "value": hit.value} for hit in run.limits_hit],
        "text": run.text,
        "error": None if run.error is None else str(run.error),
        "path": "/".join(run.path),
        "turns": run.turns,
        "toolCalls": run.tool_calls,
        "subAgentToolCalls": run.sub_agent_tool_calls,
        "messages": _messages(run.messages, run.path, metadata),
        "pending": [
            {"id": r.id, "kind": r.kind, "prompt": r.prompt, "path": "/".join((r.data or {}).get("path", ()))}
            for r in run.pending
        ],
        "usage": _usage(run),
        "ownUsage": run.own_usage.to_json(),
        "subAgents": [result(child, metadata) for child in run.sub_agents],
    }


def in_python(options: Data) -> Data:
    """The same options under their Python names: `maxTurns` is `max_turns`."""
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in k): v for k, v in options.items()}


def _usage(run: RunResult) -> Data:
    split = {
        "byAgent": run.usage.by("agent"),
        "byModel": run.usage.by("model"),
        "byPath": run.usage.by("path"),
    }
    rows = {key: {name: usage.to_json() for name, usage in parts.items()} for key, parts in split.items()}
    return {**run.usage.to_json(), **rows}


def _messages(messages: Sequence[Message], path: tuple[str, ...], metadata: Metadata) -> list[Data]:
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    out: list[Data] = []
    for message in messages:
        if message.role == "assistant":
            calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
            out.append({"role": "assistant", "text": message.text, "calls": calls})
        elif message.role == "user":
            out.append({"role": "user", "text": message.text})
        for answer in message.tool_results:
            out.append(
                {
                    "role": "tool",
                    "id": answer.call_id,
                    "name": names.get(answer.call_id),
                    "output": answer.output,
                    "isError": answer.is_error,
                    "metadata": metadata.get((path, answer.call_id), {}),
                }
            )
    return out
