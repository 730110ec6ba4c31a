"""What the tools of a run keep secret."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from toolnexus import Client, FunctionModel, RunFinished, Tool, ToolCallPart, assistant
from toolnexus.graph import Board, BuildOptions, GraphRunError, NodeContext, ParallelOptions, Registry, build

pytestmark = pytest.mark.anyio
SECRET = "sk-very-secret-value-1"


class Keeping(Tool):
    secrets = (SECRET,)


async def fails(arguments: Mapping[str, Any], ctx: Any) -> str:
    raise RuntimeError(f"the tool has {SECRET}")


@pytest.mark.parametrize("end", ["ask", "fail", "calls"])
async def test_no_event_and_no_question_shows_a_secret(end: str, caplog: pytest.LogCaptureFixture) -> None:
    """[GR-614] Whatever a node emits, asks, cancels or fails with; nor does any log."""
    caplog.set_level(logging.DEBUG, "toolnexus")
    async with Client(
        model=FunctionModel(lambda request: ""),
        tools=[Keeping("keeping", "Keep.", {"type": "object"}, fails)],
        builtins=False,
    ) as client:
        registry = Registry.standard(client.services)

        @registry.node_type("tells")
        async def tells(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            await ctx.emit({"type": "custom", "payload": {"key": SECRET}})
            await ctx.publish("my.topic", {"key": [SECRET]})
            ctx.cancel_node("a", f"because of {SECRET}")
            board.append("", assistant("", ToolCallPart("1", "keeping", "{}")))

        @registry.node_type("ask")
        async def ask(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            question = {"parts": [{"type": "text", "text": f"{SECRET}?"}], "metadata": {"key": SECRET}}
            await ctx.ask_user(question)

        @registry.node_type("fail")
        async def fail(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            raise RuntimeError(f"no {SECRET}")

        @registry.node_type("calls")
        async def calls(ctx: NodeContext, board: Board, config: Any) -> None:  # pyright: ignore
            pass

        document = {
            "name": "g",
            "entry": "s",
            "nodes": [
                {"id": "s", "type": "tells"},
                {"id": "t", "type": "tells"},
                {"id": "a", "type": "tells"},
                {"id": "tool", "type": "tool"},
                {"id": "end", "type": end},
            ],
            "edges": [{"from": "s", "to": "t"}, {"from": "s", "to": "a"}, {"from": "t", "to": "tool"},
                      {"from": "tool", "to": "end"}],
        }  # fmt: skip
        graph = build(document, registry, BuildOptions(parallel=ParallelOptions(enabled=True)))
        events: list[Any] = []
        try:
            async with client.stream("go", target=graph) as stream:
                async for event in stream:
                    if not isinstance(event, RunFinished):  # its result has the error as it was raised
                        events.append(event.to_json())
            assert stream.result is not None
            events.append(stream.result.pending)
        except GraphRunError:
            assert end == "fail"
    assert len(events) > 10 and "[redacted]" in str(events)
    assert SECRET not in str(events) and SECRET not in caplog.text
