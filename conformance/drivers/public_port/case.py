"""What a case sets up, whether or not it has agents: tools, people, conversations."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from transcript import Data, read

import toolnexus as port

LIMITS = {
    "maxTurns": "max_turns",
    "maxTokens": "tokens",
    "maxToolCalls": "tool_calls",
    "maxWallMs": "seconds",
    "maxDepth": "depth",
}
"""The port's names of limits, and those of fixtures."""

path_now: ContextVar[str] = ContextVar("path_now", default="main")
call_now: ContextVar[str] = ContextVar("call_now", default="")


class Unsupported(Exception):
    """The port has nothing like it."""


class Transport(port.UrllibTransport):
    """Says in each request which run asks."""

    def post(self, url: str, headers: dict[str, str], payload: Data, timeout: float) -> Data:
        return super().post(url, {**headers, "conformance-path": path_now.get()}, payload, timeout)


class Store(port.InMemoryConversationStore):
    """Each turn of an agent begins by loading its conversation, whose id is that of its handle."""

    def __init__(self, paths: dict[str, str]) -> None:
        super().__init__()
        self.paths = paths

    async def get(self, id: str) -> list[Data] | None:
        if id in self.paths:
            path_now.set(self.paths[id])
        return await super().get(id)


class Case(ABC):
    """Asks the runner for whatever a tool or a person would say."""

    def __init__(self, message: Data, ask_runner: Callable[..., Awaitable[Data]]) -> None:
        self.message = message
        self.ask_runner = ask_runner
        self.options: Data = message["client"]
        self.paths: dict[str, str] = {}
        """Handle of an agent to the path of its run."""
        self.seen: dict[tuple[str, str], port.ToolResult] = {}
        self.store = Store(self.paths)
        self.hooks = {"before_tool": self.before_tool, "after_tool": self.after_tool}

    @abstractmethod
    async def open(self) -> None:
        """Set up what the case declares."""

    @abstractmethod
    async def play(self, step: Data) -> Data:
        """Play one step. Gives its result."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop what a cancelled step leaves under way."""

    async def toolkit(self) -> port.Toolkit:
        workdir = self.message["workdir"]
        folders = [os.path.join(workdir, folder) for folder in self.options.get("skillFolders", ())]
        skills = [port.SkillDef(**skill) for skill in self.options.get("skills", ())]
        return await port.create_toolkit(
            builtins=self.builtins(workdir),
            extra_tools=[self.tool(spec) for spec in self.message["tools"]],
            skills_dir=folders or None,
            skills=skills or None,
        )

    def builtins(self, workdir: str) -> Any:
        given = self.options.get("builtins", True)
        where = {"base_dir": workdir, "confine_to_base_dir": True}
        if given is False:
            return False
        if isinstance(given, list):
            names = [tool.name for tool in port.create_builtin_tools(where)]
            return {**where, "tools": {name: name in given for name in names}}
        chosen = given.get("tools", given) if isinstance(given, dict) else {}
        return {**where, "tools": chosen}

    def tool(self, spec: Data) -> port.Tool:
        async def execute(args: Any = None, ctx: Any = None) -> port.ToolResult:
            answer = getattr(ctx, "answer", None)
            said = await self.ask_runner(
                "tool",
                name=spec["name"],
                arguments=args if isinstance(args, dict) else {},
                path=path_now.get(),
                answer=None if answer is None else {"ok": answer.ok, "data": answer.data},
            )
            if "ask" in said:
                return port.pending(**said["ask"])
            if "error" in said:
                return port.ToolResult(output=said["error"], is_error=True)
            return port.ToolResult(output=said["output"], is_error=False)

        return port.Tool(spec["name"], spec["description"], spec["inputSchema"], "native", execute)

    def person(self, of: str) -> Callable[[Any], Coroutine[Any, Any, port.Answer]]:
        async def wait_for(question: Any) -> port.Answer:
            said = await self.ask_runner("question", of=of)
            return port.Answer(
                id=question.id, ok=said["ok"], data=said.get("data"), reason=said.get("reason")
            )

        return wait_for

    def before_tool(self, event: Data) -> None:
        call_now.set(event.get("id") or "")

    def after_tool(self, event: Data) -> None:
        self.seen[path_now.get(), event.get("id") or ""] = event["result"]

    def messages(self, wire: list[Data], path: str) -> list[Data]:
        """A stored transcript as messages; results with what the hooks saw of them."""
        return [self.judged(m, path) if m["role"] == "tool" else m for m in read(wire)]

    def judged(self, message: Data, path: str) -> Data:
        seen = self.seen.get((path, message["id"]))
        if seen is None:  # what was declined never came to after_tool
            return {**message, "isError": True}
        metadata = {key: value for key, value in (seen.metadata or {}).items() if key != "pending"}
        return {**message, "isError": seen.is_error, "metadata": metadata}

    def question(self, asked: Any, path: str) -> Data:
        where = (asked.data or {}).get("path", "")
        place = self.paths.get(where if isinstance(where, str) else "/".join(where), path)
        return {"id": asked.id, "kind": asked.kind, "prompt": asked.prompt, "path": place}
