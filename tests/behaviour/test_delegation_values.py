"""What is refused when a model delegates, for the host to see, and runs below runs that go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolnexus import Agent, Client, FunctionModel, Hooks, ModelRequest, ToolContext, ToolResult, assistant
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


class Watch(Hooks):
    """All results, by call id."""

    def __init__(self) -> None:
        self.seen: dict[str, ToolResult] = {}

    async def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
        self.seen[ctx.call_id] = result


def delegate(id: str, agent: str = "kid", **more: Any) -> Any:
    return call("task", id=id, agent=agent, prompt="p", **more)


async def test_a_refusal_says_whom_and_which_limit() -> None:
    """[SUB-16] The agent where there is one, the limit where it is one; each is an error."""
    watch = Watch()
    script = ScriptedModel(
        by_path={
            "main": [
                reply("", delegate("a", "kit"), delegate("b", model="nope"), delegate("c")),
                reply("", delegate("d")),
                "end",
            ],
            "main/kid.c": [reply("", delegate("deep")), "kid is done"],
        },
        name="m",
    )
    async with (
        asyncio.timeout(30),
        Client(
            model=script,
            builtins={"tools": ["task"]},
            agents=[Agent(name="kid")],
            hooks=[watch],
            max_sub_agent_depth=1,
            max_sub_agents=1,
        ) as client,
    ):
        result = await client.ask("go")
    unknown, model, deep, many = (watch.seen[id] for id in ("a", "b", "deep", "d"))
    assert all(each.is_error for each in (unknown, model, deep, many))
    assert unknown.output.startswith("unknown agent 'kit'; available: ['kid']") and "'kid'?" in unknown.output
    assert model.output.startswith("model 'nope' is not allowed") and model.metadata["agent"] == "kid"
    assert deep.output == (
        "not started: agents may be nested 1 deep and this is the deepest level (limit depth 1); "
        "do the work yourself"
    )
    assert dict(deep.metadata) == {"agent": "kid", "limit": "depth"}
    assert many.output.startswith("not started: all 1 sub-agents of this request have been started")
    assert dict(many.metadata) == {"agent": "kid", "limit": "max_sub_agents"}
    assert [(hit.limit, hit.value, hit.path, hit.scope) for hit in result.limits_hit] == [
        ("depth", 1, ("main", "kid.c"), ("main",)),
        ("max_sub_agents", 1, ("main",), ("main",)),
    ]


async def test_a_run_that_goes_on_may_go_on_with_those_it_started() -> None:
    """[SUB-23] At any depth, in the same ask: each finds what it started before, and nobody else's."""
    on: dict[str, Any] = {"tools": ["task"], "task_continue": True}
    sent: list[tuple[str, list[str]]] = []

    def model(request: ModelRequest) -> Any:
        texts = [m.text for m in request.messages if m.role == "user"]
        outputs = [p.output for m in request.messages for p in m.tool_results]
        sent.append((request.agent, texts))
        match request.agent, len(texts), len(outputs):
            case "main", 1, 0:
                return assistant("", delegate("m1"))
            case "main", 1, 1:
                return assistant("", delegate("m2", task_id="kid.m1"))
            case "kid", 1, 0:
                return assistant("", delegate("k1", "leaf"))
            case "kid", 2, 1:
                return assistant("", delegate("k2", "leaf", task_id="leaf.k1"))
            case _:
                return f"{request.agent} heard {len(texts)}"

    agents = [Agent(name="kid", agents=[Agent(name="leaf")])]
    async with asyncio.timeout(30), Client(model=FunctionModel(model), builtins=on, agents=agents) as client:
        result = await client.ask("go")
    first, second = result.sub_agents
    assert (first.continues, second.continues) == (None, ("main", "kid.m1"))
    (leaf,) = second.sub_agents
    assert leaf.continues == ("main", "kid.m1", "leaf.k1") and leaf.text == "leaf heard 2"
    assert second.messages[: len(first.messages)] == first.messages
