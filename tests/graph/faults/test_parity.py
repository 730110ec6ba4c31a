"""The loop of chat and tools as a graph, beside the one of an agent."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.workflow.worlds import EVERY_STYLE, Asked, Said, client
from toolnexus import RunResult, ToolCallPart, graph

pytestmark = pytest.mark.anyio
LOOP: Mapping[str, Any] = {
    "name": "main",
    "entry": "chat",
    "nodes": [
        {"id": "chat", "type": "inference", "config": {"all_tools": True, "tool_pending_key": "pending"}},
        {"id": "tools", "type": "tool"},
    ],
    "edges": [
        {"from": "chat", "to": "tools", "condition": "pending == true"},
        {"from": "chat", "to": "__end__", "condition": "pending != true"},
        {"from": "tools", "to": "chat"},
    ],
}


async def add(a: int, b: int) -> str:
    """Add."""
    return str(a + b)


async def broken(x: str) -> str:
    """Break."""
    raise RuntimeError(f"no {x}")


def brain(asked: Asked) -> Said:
    if asked.turn % 3 == 1:
        return [ToolCallPart("a", "add", '{"a": 1, "b": 2}'), ToolCallPart("b", "broken", '{"x": "way"}')]
    if asked.turn % 3 == 2:
        return ToolCallPart("c", "add", '{"a": 5, "b": 5}')
    return f"so it is {asked.last}"


@EVERY_STYLE
@pytest.mark.parametrize("stream", [False, True])
async def test_the_loop_of_chat_and_tools_is_that_of_an_agent(style: str, stream: bool) -> None:
    """[GR-613] The same requests, transcript and usage, in a conversation of several questions."""
    found: list[list[RunResult]] = []
    async with client(style, brain, tools=[add, broken]) as (one, seen):
        targets: list[graph.Graph | None] = [None, graph.load(LOOP, one.services)]
        for target in targets:
            results: list[RunResult] = []
            for question in ("one", "two"):
                place = f"conversation of {target}"
                if stream:
                    more: dict[str, Any] = {} if target is None else {"target": target}
                    async with one.stream(question, conversation=place, **more) as running:
                        async for _ in running:
                            pass
                    assert running.result is not None
                    results.append(running.result)
                elif target is None:
                    results.append(await one.ask(question, conversation=place))
                else:
                    results.append(await one.run(target, question, conversation=place))
            found.append(results)
    for agents, graphs in zip(*found, strict=True):
        assert agents.messages == graphs.messages
        assert agents.usage == graphs.usage
        assert (agents.status, agents.text) == (graphs.status, graphs.text) == ("done", "so it is 10")
        assert agents.tool_calls == graphs.tool_calls
    assert seen[:6] == seen[6:] and len(seen) == 12
