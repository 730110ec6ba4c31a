"""Trees of agents in which everybody tries everything, and what each was able to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from toolnexus import (
    Agent,
    Client,
    FunctionModel,
    Message,
    ModelRequest,
    RunResult,
    SkillDef,
    Tool,
    ToolCallPart,
    assistant,
    tool,
)
from toolnexus.testing import call

NATIVE = ("alpha", "beta")
SERVED = ("srv_one", "srv_two")
BUILTINS = ("glob", "read")
SKILLS = ("bake", "brew")
SERVER = "srv"


def native(name: str) -> Tool:
    """A function that says its name."""
    return tool(name=name, description="Says its name.")(lambda: name)


class Served:
    """A server whose tools say their names; `list` makes it list others from then on."""

    name = SERVER

    def __init__(self, names: Sequence[str] = SERVED) -> None:
        self._names = names
        self.tools: Sequence[Tool] = ()
        self._changed: Callable[[], None] = lambda: None

    async def open(self, on_change: Callable[[], None]) -> None:
        self._changed = on_change
        self.tools = [self._tool(name) for name in self._names]

    async def aclose(self) -> None:
        self.tools = ()

    def list(self, *names: str) -> None:
        self.tools = [self._tool(name) for name in names]
        self._changed()

    def _tool(self, name: str) -> Tool:
        async def execute(arguments: dict[str, Any], ctx: Any) -> str:
            return name

        original = name.removeprefix(f"{SERVER}_")
        schema = {"type": "object"}
        return Tool(name, "", schema, execute, source="mcp", origin=SERVER, original_name=original)


def skills() -> list[SkillDef]:
    return [SkillDef(name=name, description=f"To {name}.", content=f"HOW TO {name}") for name in SKILLS]


ATTEMPTS: tuple[ToolCallPart, ...] = (
    *(call(name) for name in (*NATIVE, *SERVED)),
    call("glob", pattern="*.none"),
    call("read", path="none"),
    *(call("skill", name=name) for name in SKILLS),
)


class Trials:
    """A model that tries every tool and every skill in its first turn, and delegates down a chain."""

    def __init__(self, chain: Sequence[str]) -> None:
        self.chain = chain
        self.offers: dict[str, list[str]] = {}
        self.model = FunctionModel(self._reply)

    def _reply(self, request: ModelRequest) -> Message | str:
        depth = len(request.path) - 1
        self.offers[request.agent] = [t.name for t in request.tools]
        if request.turn > 1:
            return "tried"
        below = self.chain[depth : depth + 1]
        return assistant("", *ATTEMPTS, *(call("task", agent=name, prompt="go") for name in below))


async def tried(trials: Trials, agents: Sequence[Agent], **options: Any) -> dict[tuple[str, ...], set[str]]:
    """What each run of a tree did, by the agents on its path: names of tools, of skills, of agents."""
    given: dict[str, Any] = {
        "tools": [Served(), *map(native, NATIVE)],
        "skills": skills(),
        "builtins": list(BUILTINS),
        "max_sub_agent_depth": 5,
        **options,
    }
    async with Client(model=trials.model, agents=agents, **given) as client:
        return {path: done(run) for path, run in runs(await client.ask("go"))}


def runs(result: RunResult) -> Iterator[tuple[tuple[str, ...], RunResult]]:
    yield tuple(segment.partition(".")[0] for segment in result.path[1:]), result
    for child in result.sub_agents:
        yield from runs(child)


def done(run: RunResult) -> set[str]:
    """What was not refused."""
    outputs = {r.call_id: r.output for m in run.messages for r in m.tool_results}
    calls = [c for m in run.messages for c in m.tool_calls]
    refused = ("unknown tool", "unknown skill", "unknown agent")
    return {_what(c) for c in calls if not outputs[c.id].startswith(refused)}


def _what(part: ToolCallPart) -> str:
    arguments: Mapping[str, str] = json.loads(part.arguments or "{}")
    return {"skill": arguments.get("name"), "task": arguments.get("agent")}.get(part.name) or part.name
