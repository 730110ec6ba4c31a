"""Scripts in a graph that a client runs: questions, messages in flight, events of siblings, cancels."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import running
from tests.graph.bindings.kit import built
from tests.graph.bindings.test_stream import COLLECT, follow
from toolnexus import Answer, Client, GraphEvent, graph
from toolnexus.graph.sandbox import Sandbox
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_a_question_of_a_script_waits_and_the_script_begins_again(scripts: Mapping[str, Any]) -> None:
    """[GR-421] The run is pending; resumed, the script runs from its start and gets the answer."""
    source = """
      board.setVar('n', (board.getVar('n') || 0) + 1);
      var a = host.askUser({parts: [{type: 'text', text: 'colour?'}]});
      var b = host.askUser({parts: [{type: 'text', text: 'size?'}]});
      board.setVar('said', [a.parts[0].text, b.parts[0].text]);
    """
    made = built(scripts, "js", source)
    async with Client(model=ScriptedModel()) as client:
        result = await client.run(made, {})
        for question, answer in (("colour?", "red"), ("size?", "small")):
            assert (result.status, result.pending[0].prompt) == ("pending", question)
            result = await client.resume(result, [Answer(id=result.pending[0].id, data=answer)], target=made)
    assert result.output["said"] == ["red", "small"]


async def test_a_script_follows_its_sibling_under_a_client(scripts: Mapping[str, Any]) -> None:
    """[GR-422] A client's run has a bus for its scripts; what they emit are events of the client."""
    subscribed = asyncio.Event()
    registry = graph.Registry.standard(graph.Services(scripts=scripts))

    @registry.node_type("begin")
    async def _begin(ctx: graph.NodeContext, board: graph.Board, config: Any) -> None:  # pyright: ignore
        subscribed.clear()

    @registry.node_type("work")
    async def _work(ctx: graph.NodeContext, board: graph.Board, config: Any) -> None:  # pyright: ignore
        async with asyncio.timeout(10):
            await subscribed.wait()
        await ctx.emit_text("half")

    source = COLLECT["js"].replace("var all", "host.publish('listening', {}); var all")
    options = graph.BuildOptions(parallel=graph.ParallelOptions(enabled=True))
    made = graph.build(graph.GraphDefinition.from_data(follow("js", source)), registry, options)
    async with Client(model=ScriptedModel()) as client, client.stream({}, target=made) as run:
        async for event in run:
            if isinstance(event, GraphEvent) and event.subject == "listening":
                subscribed.set()
        assert run.result is not None
        kinds = [event["event"] for event in run.result.output["all"]]
    assert kinds[-2:] == ["stream.delta", "step.ended"]


async def test_a_cancel_ends_the_command_of_a_script(scripts: Mapping[str, Any], tmp_path: Path) -> None:
    """[GR-423] Who cancels a run ends its scripts and the commands that these run, at once."""
    source = "shell.exec('sh', '-c', 'echo $$ >pid; exec sleep 60')"
    made = built(scripts, "js", source, sandbox=Sandbox(tmp_path, isolation=False))
    pid = tmp_path / "pid"

    async def begun() -> int:
        while not (pid.exists() and pid.read_text().strip()):
            await asyncio.sleep(0.01)
        return int(pid.read_text())

    running_graph = asyncio.ensure_future(made.run())
    async with asyncio.timeout(10):
        process = await begun()
        running_graph.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_graph
    assert not running(process)
