"""Transcripts as the port keeps them, in the words of either wire style, as messages of the protocol."""

from __future__ import annotations

import json
from typing import Any

Data = dict[str, Any]


def read(wire: list[Data]) -> list[Data]:
    """Every message but the system prompt; results without whether they are errors."""
    out: list[Data] = []
    names: dict[str, str] = {}
    for message in wire:
        if message["role"] == "system":
            continue
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        calls = [
            {"id": c["id"], "name": c["function"]["name"], "arguments": c["function"]["arguments"]}
            for c in message.get("tool_calls") or ()
        ]
        used = [block for block in blocks if block["type"] == "tool_use"]
        calls += [{"id": b["id"], "name": b["name"], "arguments": json.dumps(b["input"])} for b in used]
        names |= {call["id"]: call["name"] for call in calls}
        results = [(b["tool_use_id"], b.get("content")) for b in blocks if b["type"] == "tool_result"]
        if message["role"] == "tool":
            results = [(message["tool_call_id"], message["content"])]
        out += [
            {"role": "tool", "id": id, "name": names.get(id), "output": words(content)}
            for id, content in results
        ]
        if not results:
            out.append({"role": message["role"], "text": words(message.get("content")), "calls": calls})
    return out


def words(content: Any) -> str:
    """The text of a content that is one, or a list of parts."""
    if isinstance(content, list):
        return "\n".join([part["text"] for part in content if part.get("type") == "text"])
    return content or ""
