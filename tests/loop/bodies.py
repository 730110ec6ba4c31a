"""Request bodies of both styles, read the same way and held against the rules of their style."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True)
class Result:
    """The answer to one call as a model reads it."""

    id: str
    text: str


@dataclass(frozen=True)
class Call:
    """One call as the endpoint gets it back."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class Sent:
    """One request."""

    body: dict[str, Any]
    anthropic: bool

    @property
    def raw(self) -> str:
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def model(self) -> str:
        return self.body["model"]

    @property
    def tools(self) -> list[str]:
        """The names that are offered."""
        offered: Sequence[Any] = self.body.get("tools", ())
        return [tool["name"] if self.anthropic else tool["function"]["name"] for tool in offered]

    @property
    def system(self) -> str:
        if self.anthropic:
            return _text(self.body.get("system", ""))
        first = self.body["messages"][0]
        return _text(first["content"]) if first["role"] == "system" else ""

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The wire messages without the system prompt."""
        return [m for m in self.body["messages"] if m["role"] != "system"]

    @property
    def users(self) -> list[str]:
        """What users said, a text for each message."""
        texts = [_text(m["content"]) for m in self.messages if m["role"] == "user"]
        return [text for text in texts if text]

    @property
    def calls(self) -> list[Call]:
        return [call for message in self.messages for call in self._calls(message)]

    @property
    def results(self) -> list[Result]:
        return [result for message in self.messages for result in self._results(message)]

    def check(self) -> None:
        """Every call has its one result directly behind, in call order; ids are unique and safe."""
        ids = [call.id for call in self.calls]
        assert len(set(ids)) == len(ids), f"ids are used twice: {ids}"
        assert all(_ID.fullmatch(id) for id in ids), ids
        assert [result.id for result in self.results] == ids
        roles = [m["role"] for m in self.messages]
        assert roles[0] == "user"
        waiting: list[str] = []
        for message in self.messages:
            answered = [result.id for result in self._results(message)]
            assert answered == waiting[: len(answered)], (answered, waiting)
            waiting = waiting[len(answered) :]
            if not answered or self.anthropic:
                assert not waiting, f"a message stands between a call and its result: {waiting}"
            waiting += [call.id for call in self._calls(message)]
        assert not waiting
        if self.anthropic:
            self._check_anthropic(roles)

    def _check_anthropic(self, roles: list[str]) -> None:
        assert all(a != b for a, b in pairwise(roles)), roles
        for message in self.messages:
            kinds = [block["type"] for block in message["content"]]
            results = kinds.count("tool_result")
            assert kinds[:results] == ["tool_result"] * results, "results come first in their message"

    def _calls(self, message: dict[str, Any]) -> list[Call]:
        if message["role"] != "assistant":
            return []
        if self.anthropic:
            blocks = [block for block in message["content"] if block["type"] == "tool_use"]
            return [Call(block["id"], block["name"], block["input"]) for block in blocks]
        return [
            Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        ]

    def _results(self, message: dict[str, Any]) -> list[Result]:
        if message["role"] == "tool":
            return [Result(message["tool_call_id"], _text(message["content"]))]
        if message["role"] != "user" or not self.anthropic:
            return []
        blocks = [block for block in message["content"] if block["type"] == "tool_result"]
        return [Result(block["tool_use_id"], _text(block["content"])) for block in blocks]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content or () if block["type"] == "text")
