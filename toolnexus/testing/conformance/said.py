"""What a driver says of requests and results, as the data that fixtures speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from toolnexus.testing.conformance.fixture import Data

Messages = Sequence[Mapping[str, Any]]


def request(asked: Data) -> Data:
    """One model request."""
    path: str = asked["path"]
    messages: Messages = asked["messages"]
    return {
        "agent": asked["agent"],
        "path": path,
        "depth": path.count("/"),
        "turn": asked["turn"],
        "model": asked["model"],
        "system": asked.get("system", ""),
        "last": _last(messages),
        "messages": _everything(messages),
        "tools": [tool["name"] for tool in asked["tools"]],
        "descriptions": {tool["name"]: tool.get("description", "") for tool in asked["tools"]},
        "body": asked.get("body"),
    }


def result(given: Data) -> Data:
    """One run and, under `subAgents`, those below it. What the driver did not say is not there."""
    out = dict(given)
    if "subAgents" in given:
        children = out["subAgents"] = [result(child) for child in given["subAgents"]]
        if all("runsBelow" in child for child in children):
            out["runsBelow"] = sum(1 + child["runsBelow"] for child in children)
    if "limitsHit" in given:
        hits = Counter((hit["limit"], hit.get("value")) for hit in given["limitsHit"])
        out["limitsHit"] = [{"limit": name, "value": value, "times": n} for (name, value), n in hits.items()]
    if "messages" in given:
        messages: Messages = given["messages"]
        out["transcript"] = [message["role"] for message in messages]
        out["messages"] = _everything(messages)
        out["toolResults"] = [
            {
                "id": m.get("id"),
                "tool": m.get("name"),
                "output": m["output"],
                "isError": m["isError"],
                "metadata": m.get("metadata", {}),
            }
            for m in messages
            if m["role"] == "tool"
        ]
    return out


def _last(messages: Messages) -> str:
    results = list(takewhile(lambda m: m["role"] == "tool", reversed(messages)))
    return "\n".join(_said(m) for m in reversed(results or messages[-1:]))


def _said(message: Mapping[str, Any]) -> str:
    return message["output"] if message["role"] == "tool" else message.get("text", "")


def _everything(messages: Messages) -> str:
    calls = [f"{call['name']} {call['arguments']}" for m in messages for call in m.get("calls", ())]
    return "\n".join([*(_said(m) for m in messages), *calls])
