"""What a scripted role knows: the calls it made so far and what came of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolnexus.core.messages import Message, ToolCallPart


@dataclass(frozen=True, slots=True)
class Done:
    """A call with its result."""

    name: str
    arguments: dict[str, Any]
    output: str
    failed: bool


class Transcript:
    """The messages of one run, seen as finished calls."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.prompt = next((m.text for m in messages if m.role == "user"), "")
        calls = {call.id: call for m in messages for call in m.tool_calls}
        self.calls = [
            Done(calls[r.call_id].name, json.loads(calls[r.call_id].arguments), r.output, r.is_error)
            for m in messages
            for r in m.tool_results
        ]
        self._number = len(calls)

    def of(self, name: str) -> list[Done]:
        """Every finished call of a tool."""
        return [call for call in self.calls if call.name == name]

    def text(self, name: str, /, **arguments: str) -> str | None:
        """What a successful call of a tool with these arguments gave; None when there is none."""
        for call in self.of(name):
            if not call.failed and call.arguments.items() >= arguments.items():
                return call.output
        return None

    def tries(self, name: str, /, **arguments: str) -> int:
        """How often it was called with these arguments."""
        return sum(call.arguments.items() >= arguments.items() for call in self.of(name))

    def call(self, name: str, /, **arguments: str) -> ToolCallPart:
        """A new call; its id is unique in the run."""
        self._number += 1
        return ToolCallPart(f"c{self._number}", name, json.dumps(arguments))
