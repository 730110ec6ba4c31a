"""What is around the graph of a case: a host that writes down, a model and tools that follow a script."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.graph.acceptance.node_types import register, said
from toolnexus import Message, ModelConnectionError, ModelHTTPError, ModelRequest, ModelResponse, Usage, graph
from toolnexus.core.messages import ToolCallPart, assistant
from toolnexus.core.tools import Tool
from toolnexus.graph.scripts import JsRuntime, LuaRuntime, ScriptRuntime
from toolnexus.testing import USAGE

RUN, AGENT = "run-1", "agent-1"
FINISH = {
    "completed": "stop",
    "max_output": "length",
    "tool_calls": "tool_calls",
    "refusal": "refusal",
    "content_filter": "refusal",
    "pause": "paused",
}
STATUS = {"unauthorized": 401, "forbidden": 402, "rate_limit": 429, "validation": 400}


class Host:
    """Writes everything down. `knobs` are those of the case: see conformance/graph/README.md."""

    def __init__(self, knobs: Mapping[str, Any]) -> None:
        self._knobs = knobs
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.checkpoints: list[graph.Checkpoint] = []
        self.usage: list[Usage] = []
        self.asked: list[Mapping[str, Any]] = []
        self._answers = list(knobs.get("answers") or ())
        self._pending: graph.Interrupt | None = None

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        if (bad := self._knobs.get("fail_subject")) and subject.endswith(bad):
            raise RuntimeError(f"{subject} is not taken")
        self.events.append((subject, json.loads(json.dumps(payload))))
        if (after := self._knobs.get("interrupt_after")) and subject.endswith(after):
            self._pending = graph.Interrupt("user_cancel", "the case asks for it")

    async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.asked.append(request)
        if "answers" not in self._knobs:
            raise graph.GraphRunError("nobody answers here", kind="not_available")
        if not self._answers:
            raise graph.Interrupted("user_input")
        return {"parts": [{"type": "text", "text": self._answers.pop(0)}], "metadata": {}}

    async def checkpoint(self, checkpoint: graph.Checkpoint) -> None:
        if self._knobs.get("fail_checkpoints"):
            raise OSError("the disk is full")
        kept = json.loads(json.dumps(checkpoint.to_json()))
        self.checkpoints.append(graph.Checkpoint.from_json(kept))

    async def report_usage(self, usage: Usage) -> None:
        self.usage.append(usage)
        limit = self._knobs.get("usage_limit")
        if limit is not None and self.total > limit:
            raise graph.GraphRunError(f"more than {limit} tokens", kind="budget_exceeded")

    def poll_interrupt(self) -> graph.Interrupt | None:
        return self._pending

    @property
    def total(self) -> int:
        return sum(usage.total_tokens for usage in self.usage)


class SteeredHost(Host):
    """One that takes messages for the run in flight."""

    def __init__(self, knobs: Mapping[str, Any]) -> None:
        super().__init__(knobs)
        self._steer = [said(text) for text in knobs["steer"]]

    def drain_steer(self) -> list[Message]:
        taken, self._steer = self._steer, []
        return taken


def host_of(knobs: Mapping[str, Any]) -> Host:
    """The host of a case; `steer` null: it takes no messages."""
    return Host(knobs) if knobs.get("steer") is None else SteeredHost(knobs)


class Provider:
    """A model that gives its replies in order, and breaks where they say so."""

    name = "scripted"

    def __init__(self, replies: Sequence[Mapping[str, Any]]) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(replace(request, messages=tuple(request.messages)))
        if not self._replies:
            raise AssertionError(f"the case has no reply for request {len(self.requests)}")
        reply = self._replies.pop(0)
        chunks = reply.get("stream") or ([reply["text"]] if reply.get("text") else [])
        if request.sink is not None:
            for chunk in chunks:
                request.sink.text(chunk)
        text = "".join(chunks)
        error = reply.get("error")
        if error == "not_available" and text and request.sink is not None:
            return ModelResponse(message=assistant(text), usage=_usage(reply), stop="cut")
        if error is not None:
            raise _failure(error)
        calls = [
            ToolCallPart(c["id"], c["name"], json.dumps(c.get("arguments") or {}))
            for c in reply.get("tool_calls") or ()
        ]
        finish = reply.get("finish") or ("tool_calls" if calls else "completed")
        stop: Any = FINISH[finish]
        return ModelResponse(message=assistant(text, *calls), usage=_usage(reply), stop=stop)

    async def aclose(self) -> None:
        pass


def _usage(reply: Mapping[str, Any]) -> Usage | None:
    usage = reply.get("usage", USAGE)
    if usage is None or isinstance(usage, Usage):
        return usage
    output = usage.get("output_tokens", 0)
    given = usage.get("input_tokens", usage.get("total_tokens", output) - output)
    return Usage(prompt_tokens=given, completion_tokens=output)


def _failure(kind: str) -> Exception:
    if kind in STATUS:
        return ModelHTTPError(f"the provider says {kind}", status=STATUS[kind])
    if kind == "not_available":
        return ModelConnectionError("the provider is gone")
    if kind == "interrupted":
        return graph.Interrupted("user_cancel")
    return graph.GraphRunError(f"the provider says {kind}", kind=kind)


@dataclass
class World:
    """The services of a case, and what was done with them."""

    data: Mapping[str, Any]
    registry: graph.Registry = field(init=False)
    provider: Provider = field(init=False)
    executed: list[str] = field(default_factory=list[str])
    attempts: Counter[str] = field(default_factory=Counter[str])
    scripts: dict[str, ScriptRuntime] = field(default_factory=dict[str, ScriptRuntime])

    def __post_init__(self) -> None:
        self.provider = Provider(self.data.get("provider") or ())
        catalog: Mapping[str, Any] = self.data.get("catalog") or {}
        toolkit = [self._tool(name, does) for name, does in catalog.items()] if catalog else None
        seconds: float = self.data.get("max_exec_time", 10)
        self.scripts = {
            "js": JsRuntime(pool_size=1, max_exec_time=seconds),
            "lua": LuaRuntime(pool_size=1, max_exec_time=seconds),
        }
        services = graph.Services(
            models=self.provider if "router" in self.data or "provider" in self.data else None,
            router=None if self.data.get("router", True) else False,
            toolkit=toolkit,
            scripts=self.scripts,
        )
        self.registry = graph.Registry.standard(services)
        register(self.registry, self.attempts)
        for custom in self.data.get("custom") or ():
            self.registry.script_type(
                custom["type"],
                custom["source"],
                reads=[graph.Role(**role) for role in custom.get("reads") or ()],
                writes=[graph.Role(**role) for role in custom.get("writes") or ()],
            )

    async def close(self) -> None:
        for runtime in self.scripts.values():
            await runtime.close()

    def _tool(self, name: str, does: Mapping[str, Any]) -> Tool:
        async def execute(arguments: dict[str, Any], ctx: Any) -> Any:
            self.executed.append(ctx.call_id)
            if "error" in does:
                raise RuntimeError(does["error"])
            return does["returns"]

        return Tool(name, f"The tool {name}.", {"type": "object"}, execute)
