"""A graph under a client: input, transcript, questions, limits, events."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    GraphEvent,
    Message,
    NodeFinished,
    SqliteStore,
    ToolCallPart,
    ToolContext,
    ToolResult,
    assistant,
    pending,
)
from toolnexus.graph import (
    Board,
    BuildOptions,
    Graph,
    GraphRunError,
    NodeContext,
    ParallelOptions,
    Registry,
    Services,
    build,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


class World:
    """A client whose tools count, and a registry over what it has."""

    def __init__(self, **options: Any) -> None:
        self.ran: list[str] = []

        async def add(a: int, b: int) -> int:
            """Add."""
            self.ran.append("add")
            return a + b

        async def approve(what: str, ctx: ToolContext) -> ToolResult | str:
            """Ask."""
            if ctx.answer is None:
                return pending(kind="approval", prompt=f"{what}?")
            self.ran.append(what)
            return f"approved {what}"

        options = {"model": FunctionModel(lambda request: "hello"), "builtins": False, **options}
        self.client = Client(tools=[add, approve], **options)
        self.registry = Registry.standard(self.client.services)

        @self.registry.node_type("calls")
        async def calls(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            self.ran.append(ctx.node_id)
            parts = [ToolCallPart(f"{ctx.node_id}{n}", c[0], c[1]) for n, c in enumerate(config["calls"])]
            board.append(config.get("channel", ""), assistant("", *parts))

        @self.registry.node_type("ask")
        async def ask(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            board[ctx.node_id] = await ctx.ask_user({"parts": [{"type": "text", "text": "who?"}]})

        @self.registry.node_type("say")
        async def say(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            board.append("", assistant(config["text"]))

        @self.registry.node_type("set")
        async def set_(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            board.update(config)

    def graph(self, *nodes: Mapping[str, Any], options: BuildOptions | None = None) -> Graph:
        ids = [node["id"] for node in nodes]
        edges = [{"from": a, "to": b} for a, b in zip(ids, [*ids[1:], "__end__"], strict=True)]
        document = {"name": "g", "entry": ids[0], "nodes": list(nodes), "edges": edges}
        return build(document, self.registry, options, description="does it all")


ADD = ["add", '{"a": 1, "b": 2}']
APPROVE = ["approve", '{"what": "x"}']


def calling(*calls: Any, id: str = "a") -> dict[str, Any]:
    return {"id": id, "type": "calls", "config": {"calls": list(calls)}}


async def test_the_main_channel_is_the_transcript() -> None:
    """[GR-060] What is asked is appended before the first wave, and the conversation goes on."""
    world = World()
    graph = world.graph(
        calling(ADD), {"id": "t", "type": "tool"}, {"id": "s", "type": "say", "config": {"text": "3"}}
    )
    async with world.client as client:
        first = await client.run(graph, "1 + 2?", conversation="c")
        assert (first.status, first.text, first.output) == ("done", "3", "3")
        assert [m.role for m in first.messages] == ["user", "assistant", "tool", "assistant"]
        second = await client.run(graph, "again", conversation="c")
        assert [m.role for m in second.messages].count("user") == 2
        assert second.tool_calls == 1
        messages = await client.conversation("c").messages()
        assert len(messages) == 8


async def test_a_mapping_becomes_the_variables() -> None:
    """[GR-061] Without a word of a model the variables are the output, but for the engine's own."""
    world = World()
    graph = world.graph({"id": "s", "type": "set", "config": {"y": "${board:x}!"}})
    async with world.client as client:
        result = await client.run(graph, {"x": "hi", "__own": 1})
    assert result.output == {"x": "hi", "y": "hi!"}


async def test_a_question_of_a_tool_waits_and_nothing_finished_runs_again(tmp_path: Path) -> None:
    """[GR-062] The run is pending with the question, and goes on in another client after a restart."""
    path = tmp_path / "c.db"
    nodes = (
        calling(ADD, APPROVE),
        {"id": "t", "type": "tool", "config": {"results_key": "r"}},
        {"id": "q", "type": "ask"},
    )
    first = World(store=SqliteStore(path))
    async with first.client as client:
        result = await client.run(first.graph(*nodes), "go", conversation="c")
        assert result.status == "pending"
        assert result.pending[0].prompt == "x?"
        assert first.ran == ["a", "add"]
    second = World(store=SqliteStore(path))
    graph = second.graph(*nodes)
    async with second.client as client:
        result = await client.resume("c", [Answer(id=result.pending[0].id)], target=graph)
        assert result.status == "pending"
        assert second.ran == ["x"]
        (question,) = result.pending
        assert (question.kind, question.data and question.data["node"]) == ("question", "q")
        result = await client.resume("c", [Answer(id=question.id, data="ada")], target=graph)
    assert result.status == "done"
    assert result.output["q"] == {"parts": [{"type": "text", "text": "ada"}], "metadata": {}}
    assert [r["content"]["parts"][0]["text"] for r in result.output["r"]] == ["3", "approved x"]
    assert second.ran == ["x"]


async def test_questions_of_parallel_branches_are_asked_together() -> None:
    """[GR-063] Each answer reaches its branch; what finished in the wave is not called again."""
    world = World()
    registry = world.registry

    @registry.node_type("both")
    async def both(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
        for name in ("one", "two"):
            board.append(
                name,
                assistant(
                    "",
                    ToolCallPart(f"{name}-1", APPROVE[0], APPROVE[1]),
                    ToolCallPart(f"{name}-2", ADD[0], ADD[1]),
                ),
            )

    document = {
        "name": "g", "entry": "s",
        "nodes": [
            {"id": "s", "type": "both"},
            {"id": "one", "type": "tool", "config": {"messages_channel": "one", "results_key": "one"}},
            {"id": "two", "type": "tool", "config": {"messages_channel": "two", "results_key": "two"}},
        ],
        "edges": [{"from": "s", "to": "one"}, {"from": "s", "to": "two"}],
    }  # fmt: skip
    graph = build(document, registry, BuildOptions(parallel=ParallelOptions(enabled=True)))
    async with world.client as client:
        result = await client.run(graph, {"x": 1})
        assert len(result.pending) == 2
        assert world.ran == ["add", "add"]
        result = await client.resume(result, [Answer(id=result.pending[0].id)], target=graph)
        assert len(result.pending) == 1
        result = await client.resume(result, [Answer(id=result.pending[0].id)], target=graph)
    assert result.status == "done"
    assert sorted(world.ran) == ["add", "add", "x", "x"]
    assert set(result.output) == {"x", "one", "two"}


async def test_an_agent_that_asks_waits_as_the_graph_does() -> None:
    """[GR-064] `agent` runs an agent below: usage rolls up, its question comes out and goes back."""
    model = ScriptedModel([reply(call("approve", what="y")), reply("done it")])
    world = World(model=model, agents=[Agent(name="helper", description="helps", tools=["approve"])])
    graph = world.graph(
        {
            "id": "h",
            "type": "agent",
            "config": {"agent": "helper", "input": "do ${board:what}", "output_key": "out"},
        }
    )
    async with world.client as client:
        result = await client.run(graph, {"what": "this"})
        assert result.status == "pending"
        result = await client.resume(result, [Answer(id=result.pending[0].id)], target=graph)
    assert result.output == {"what": "this", "out": "done it"}
    assert result.usage.requests == 2
    assert len(result.sub_agents) == 1
    assert model.requests[0].messages[-1].text == "do this"


async def test_an_unknown_agent_is_not_found() -> None:
    """[GR-065] The error names the agents that there are."""
    world = World(agents=[Agent(name="helper")])
    graph = world.graph({"id": "h", "type": "agent", "config": {"agent": "helpr", "input": "x"}})
    async with world.client as client:
        with pytest.raises(GraphRunError, match="helper") as caught:
            await client.run(graph, "x")
    assert caught.value.kind == "not_found"
    assert caught.value.result.status == "error"


async def test_agents_that_run_each_other_without_end_are_stopped() -> None:
    """[GR-071] By a bound of how deep they lie, long before the interpreter's own."""
    graphs: dict[str, Graph] = {}
    document = {
        "name": "g",
        "entry": "a",
        "nodes": [{"id": "a", "type": "agent", "config": {"agent": "g", "input": "again"}}],
    }
    graphs["g"] = build(document, Registry.standard(Services(agents=lambda: graphs)))
    async with World().client as client:
        result = await client.run(graphs["g"], "go")
    assert (result.status, result.limit) == ("incomplete", "depth")


async def test_limits_end_a_graph_incomplete() -> None:
    """[GR-066] The guard of iterations, the timeout and the budget of the run are limits with their names."""
    world = World(budget=Budget(tool_calls=1))
    document: dict[str, Any] = {
        "name": "g",
        "entry": "s",
        "nodes": [{"id": "s", "type": "set", "config": {}}],
        "edges": [{"from": "s", "to": "s"}],
    }
    looping = build(document, world.registry, BuildOptions(max_iterations=3))
    calls = world.graph(calling(ADD, ADD), {"id": "t", "type": "tool"})
    async with world.client as client:
        result = await client.run(looping, {})
        assert (result.status, result.limit) == ("incomplete", "max_iterations")
        result = await client.run(calls, "go")
    assert (result.status, result.limit) == ("incomplete", "tool_calls")
    assert [r.is_error for r in result.messages[-1].tool_results] == [False, True]


async def test_a_cancelled_run_leaves_every_call_answered() -> None:
    """[GR-067] Also those in a parallel wave."""
    started, never = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Wait."""
        started.set()
        await never.wait()
        return ""

    async with Client(model=FunctionModel(lambda r: ""), tools=[slow], builtins=False) as client:
        registry = Registry.standard(client.services)

        @registry.node_type("calls")
        async def calls(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
            board.append("", assistant("", ToolCallPart("1", "slow"), ToolCallPart("2", "slow")))

        document = {
            "name": "g", "entry": "c",
            "nodes": [{"id": "c", "type": "calls"}, {"id": "t", "type": "tool"}, {"id": "u", "type": "tool"}],
            "edges": [{"from": "c", "to": "t"}, {"from": "c", "to": "u"}],
        }  # fmt: skip
        for parallel in (False, True):
            started.clear()
            graph = build(document, registry, BuildOptions(parallel=ParallelOptions(enabled=parallel)))
            running = asyncio.create_task(client.run(graph, "go"))
            async with asyncio.timeout(5):
                await started.wait()
                running.cancel()
                with pytest.raises(asyncio.CancelledError) as caught:
                    await running
            messages: list[Message] = list(caught.value.result.messages)  # type: ignore[attr-defined]
            assert [m.role for m in messages] == ["user", "assistant", "tool"]
            assert [r.call_id for r in messages[-1].tool_results] == ["1", "2"]
            assert all(r.is_error for r in messages[-1].tool_results)


async def test_the_steps_of_a_graph_are_events() -> None:
    """[GR-068] Nodes begin and end; what else it publishes is a `GraphEvent`."""
    world = World()
    skipped = {"id": "k", "type": "set", "skip_condition": "true"}
    graph = world.graph(calling(ADD), skipped, {"id": "t", "type": "tool", "skip_condition": "k == 1"})
    async with world.client as client, client.stream({"k": 0}, target=graph) as run:
        events = [event async for event in run]
    ended = [(e.node, e.kind, e.status) for e in events if isinstance(e, NodeFinished)]
    assert ended == [(("a",), "calls", "done"), (("k",), "set", "skipped"), (("t",), "tool", "done")]
    (delta,) = [e for e in events if isinstance(e, GraphEvent)]
    assert delta.subject.endswith(".stream.g_node_t.delta")
    assert delta.payload["part"]["type"] == "tool_result"
    assert delta.path == ("g",)


async def test_a_model_delegates_to_a_graph() -> None:
    """[GR-069] A graph is a target of `task` like any agent."""
    model = ScriptedModel([reply(call("task", agent="g", prompt="1 + 2")), reply("it is 3")])
    world = World()
    graph = world.graph(
        calling(ADD), {"id": "t", "type": "tool"}, {"id": "s", "type": "say", "config": {"text": "3"}}
    )
    async with world.client, Client(model=model, agents=[graph], builtins=False) as client:
        result = await client.ask("what is 1 + 2?")
    assert result.text == "it is 3"
    (child,) = result.sub_agents
    assert (child.agent, child.text) == ("g", "3")
    assert "g: does it all" in model.requests[0].tools[0].description


async def test_what_is_said_to_a_run_in_flight_reaches_a_node_that_takes_it() -> None:
    """[GR-070] `client.steer` fills the queue; `drain_steer` takes all of it."""
    world = World()
    waiting, go = asyncio.Event(), asyncio.Event()

    @world.registry.node_type("steer")
    async def steer(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
        waiting.set()
        await go.wait()
        board.append("", *ctx.drain_steer())
        assert ctx.drain_steer() == []

    graph = world.graph({"id": "s", "type": "steer"})
    async with world.client as client, asyncio.timeout(5):
        running = asyncio.create_task(client.run(graph, "go", conversation="c"))
        await waiting.wait()
        client.steer("c", "one more thing")
        go.set()
        result = await running
    assert [m.text for m in result.messages] == ["go", "one more thing"]
    assert result.pending_steer == 0


async def test_what_no_node_took_is_counted_and_not_delivered() -> None:
    """[GR-072] The next question of the conversation does not hear it either."""
    world = World()
    waiting, go = asyncio.Event(), asyncio.Event()

    @world.registry.node_type("wait")
    async def wait(ctx: NodeContext, board: Board, config: Mapping[str, Any]) -> None:  # pyright: ignore
        waiting.set()
        await go.wait()

    graph = world.graph({"id": "w", "type": "wait"})
    async with world.client as client, asyncio.timeout(5):
        running = asyncio.create_task(client.run(graph, "go", conversation="c"))
        await waiting.wait()
        client.steer("c", "too late")
        go.set()
        assert (await running).pending_steer == 1
        again = await client.run(graph, "again", conversation="c")
    assert [m.text for m in again.messages] == ["go", "again"]
    assert again.pending_steer == 0
