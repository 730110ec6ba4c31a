"""The examples of the guide, played as deployments over scripted models."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolnexus import Client, GraphEvent, MediaPart, RunResult, ToolResult, user
from toolnexus.core.modalities import ImageRequest, MediaReply
from toolnexus.core.tools import Tool
from toolnexus.graph import (
    Board,
    Deployment,
    Graph,
    GraphError,
    NodeContext,
    NodeType,
    ResourceInput,
    ResourceRegistry,
    deploy,
)
from toolnexus.graph.scripts.bindings import Binding, chain
from toolnexus.graph.scripts.invocation import Invocation
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

SEED = Path(__file__).resolve().parents[3] / "conformance" / "graph" / "seed"
PIXEL = MediaPart(
    "image/png",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
)


class Painter(ScriptedModel):
    """A model that makes images, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__([], name="gpt-image-1")
        self.images: list[ImageRequest] = []

    async def generate_images(self, request: ImageRequest) -> MediaReply:
        self.images.append(request)
        return MediaReply(parts=(PIXEL,) * (request.count or 1))


class Tokens:
    """The provider of the guide: it reads the execution that it is for from the invocation."""

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        def estimate(text: str) -> int:
            return len(text) // 4

        def node_id() -> str:
            return invocation.ctx.node_id

        return [Binding("tokens", {"estimate": estimate, "nodeID": node_id})]


def tokens(given: ResourceInput) -> Any:
    """Composes the deployment's other surface, when one is wired, instead of replacing it."""
    base = given.deps.get("base")
    return Tokens() if base is None else chain(base, Tokens())


def planner(given: ResourceInput) -> NodeType:
    """A node type in code, which waits until somebody follows it."""

    async def plan(ctx: NodeContext, board: Board, config: Any) -> None:
        while not ctx.event_bus.listening:
            await asyncio.sleep(0)
        await ctx.emit_text("a plan")

    return NodeType(name="planner", handler=plan)


class World:
    """What plays one example: a model, tools that note their calls, a client."""

    def __init__(self, folder: Path, name: str, replies: Sequence[Any], on_call: Callable[[], Any]) -> None:
        self.model = Painter() if name == "image" else ScriptedModel(replies, name="scripted")
        self.called: list[str] = []
        self.client = Client(builtins=False)
        self._on_call = on_call
        registry = ResourceRegistry.standard()
        registry.register("inference.Provider", "scripted", self._models, settings=dict)
        registry.register("tool.Source", "scripted", self._tools, settings=dict)
        registry.register("agent.ScriptBindings", "tokens", tokens, deps={"base": "agent.ScriptBindings"})
        registry.register("graph.NodeType", "scripted", planner)
        copy = folder / name
        shutil.copytree(SEED / name, copy)
        self.deployment: Deployment = deploy(copy / "deploy.yaml", registry=registry)

    def _models(self, given: ResourceInput) -> Mapping[str, ScriptedModel]:
        return {name: self.model for name in given.settings["models"]}

    def _tools(self, given: ResourceInput) -> list[Tool]:
        return [self._tool(name) for name in given.settings["tools"]]

    def _tool(self, name: str) -> Tool:
        async def execute(arguments: dict[str, Any], ctx: Any) -> ToolResult:
            self.called.append(name)
            self._on_call()
            return ToolResult(output=f"{name} did")

        return Tool(name, f"Does {name}.", {"type": "object"}, execute)

    async def run(self, input: Any, agent: str = "asst", **options: Any) -> RunResult:
        """One run of an agent."""
        return await self.client.run(self.deployment.agents[agent], input, **options)


@asynccontextmanager
async def playing(
    folder: Path, name: str, *replies: Any, on_call: Callable[[], Any] = lambda: None
) -> AsyncGenerator[World]:
    """The example `name`, deployed."""
    world = World(folder, name, replies, on_call)
    async with asyncio.timeout(30), world.deployment, world.client:
        yield world


async def test_the_definition(tmp_path: Path) -> None:
    """[GR-530] A missing variable in a condition is no failure: without a key for pending calls the path ends
    after one request."""
    async with playing(tmp_path, "definition", "hello") as world:
        result = await world.run("hi", "assistant")
        graph = world.deployment.agents["assistant"].engine
        assert isinstance(graph, Graph)
        assert (graph.name, graph.definition.spec_version) == ("assistant", "1")
    assert (result.status, result.text) == ("done", "hello")
    assert [message.role for message in result.messages] == ["user", "assistant"]


async def test_the_assistant(tmp_path: Path) -> None:
    """[GR-530] Chat and tools until no call is pending, then the script; both branches of the condition."""
    turns = [reply("I look", call("grep"), call("list_dir")), "all is well"]
    async with (
        playing(tmp_path, "assistant", *turns) as world,
        world.client.stream("check", target=world.deployment.agents["assistant"]) as stream,
    ):
        events = [event async for event in stream if isinstance(event, GraphEvent)]
    assert stream.result is not None
    assert (stream.result.status, stream.result.text) == ("done", "all is well")
    assert [m.role for m in stream.result.messages] == ["user", "assistant", "tool", "assistant"]
    assert world.called == ["grep", "list_dir"]
    assert [tool.name for tool in world.model.requests[0].tools] == ["read_file", "list_dir", "grep"]
    said = [e.payload["part"] for e in events if "finalize" in e.subject and "part" in e.payload]
    (part,) = said
    assert part["type"] == "text" and part["text"].startswith("done: run")


async def test_the_summary_of_the_assistant_is_on_the_board(tmp_path: Path) -> None:
    """[GR-530] What `finalize.js` wrote is there for whoever runs the graph itself."""
    async with playing(tmp_path, "assistant", "all is well") as world:
        graph = world.deployment.agents["assistant"].engine
        assert isinstance(graph, Graph)
        board = Board()
        board.append("", user("check"))
        done = await graph.run(board)
    assert done["summary"] == "all is well"
    assert done["tool_pending"] is False


async def test_the_node_that_makes_images(tmp_path: Path) -> None:
    """[GR-530] Two images of that size, in one message of the channel."""
    async with playing(tmp_path, "image") as world:
        result = await world.run("a fox", "painter")
        assert isinstance(world.model, Painter)
        (asked,) = world.model.images
    assert asked.count == 2
    assert result.messages[-1].parts == (PIXEL, PIXEL)


async def test_the_script_runtimes(tmp_path: Path) -> None:
    """[GR-530] One agent in each language."""
    async with playing(tmp_path, "runtimes") as world:
        assert (await world.run({}, "in_js")).output == {"said": "js"}
        assert (await world.run({}, "in_lua")).output == {"said": "lua"}


async def test_the_script_bindings(tmp_path: Path) -> None:
    """[GR-530] Each wired capability has its global, the others have none, and no tool may be called."""
    async with playing(tmp_path, "bindings") as world:
        output = (await world.run({}, "assistant")).output
    always = ["board", "expr", "host", "run", "node", "stream", "parallel", "runtime"]
    assert sorted(output["globals"]) == sorted([*always, "tools", "inference", "fs"])
    assert output["callable"] == []


async def test_the_policy_of_the_script_bindings(tmp_path: Path) -> None:
    """[GR-530] The tools that are allowed, and how much may be read."""
    async with playing(tmp_path, "policy") as world:
        output = (await world.run({}, "assistant")).output
    assert output == {
        "callable": ["fetch", "search"],
        "denied": True,
        "allowed": "search did",
        "too_much": "validation",
    }
    assert world.called == ["search"]


async def test_the_tokens_of_a_host(tmp_path: Path) -> None:
    """[GR-530] The host's global beside the standard ones that it composes."""
    async with playing(tmp_path, "tokens") as world:
        result = await world.run({"transcript": "0123456789abcdef"}, "assistant")
    assert result.output["seen"] == "4 in compact"


async def test_the_type_of_nodes_that_is_a_script(tmp_path: Path) -> None:
    """[GR-530] The references of a node's config resolve before it is the script's `config`."""
    async with playing(tmp_path, "greet") as world:
        assert (await world.run({"user": "ada"})).output["greeting"] == "hi ada"
    text = (SEED / "greet" / "deploy.yaml").read_text()
    misprinted = tmp_path / "greet" / "agent.yaml"
    misprinted.write_text(text.replace("\nagents:", "\nagent:"))
    with pytest.raises(GraphError, match="unknown key 'agent'; did you mean 'agents'"):
        deploy(misprinted)


async def test_the_scripts_about_board_and_expressions(tmp_path: Path) -> None:
    """[GR-530] A variable, a message, an expression."""
    async with playing(tmp_path, "board") as world:
        result = await world.run({})
    assert result.output == {"plan": "1. read files\n2. summarize"}
    assert [(message.role, message.text) for message in result.messages] == [("user", "go")]
    async with playing(tmp_path, "expr") as world:
        assert (await world.run({})).output == {"ok": True}


@pytest.mark.parametrize("name", ["steer", "steer-lua"])
async def test_the_steer_node(name: str, tmp_path: Path) -> None:
    """[GR-530] What is said to the run in flight comes after the results of tools and before the next
    request; an empty queue changes nothing."""
    worlds: list[World] = []

    def steer() -> None:
        if worlds[0].called == ["search"]:
            worlds[0].client.steer("c", "be brief")
            worlds[0].client.steer("c", "and kind")

    turns = [reply(call("search")), reply(call("search")), "done"]
    async with playing(tmp_path, name, *turns, on_call=steer) as world:
        worlds.append(world)
        result = await world.run("look", conversation="c")
    texts = [(message.role, message.text) for message in result.messages]
    assert [text for role, text in texts if role == "user"] == ["look", "be brief", "and kind"]
    assert [role for role, _ in texts] == [
        *("user", "assistant", "tool", "user", "user", "assistant", "tool", "assistant"),
    ]


async def test_the_request_to_a_model_from_a_script(tmp_path: Path) -> None:
    """[GR-530] The tools of the catalog as definitions, and the calls of the reply through `callAll`."""
    async with playing(tmp_path, "route", reply(call("search"))) as world:
        board = Board()
        board.append("", user("what was said before"), user("now"))
        output = (await world.run(board)).output
    (request,) = world.model.requests
    assert [message.text for message in request.messages] == [
        "what was said before",
        "summarize the workspace",
    ]
    assert [tool.name for tool in request.tools] == ["search"]
    assert output == {"reason": "tool_calls", "called": ["search did"]}


async def test_the_subscription_to_a_node(tmp_path: Path) -> None:
    """[GR-530] A script follows another node of its wave until that has ended."""
    async with playing(tmp_path, "stream") as world:
        assert (await world.run({})).output == {"started": True, "ended": "success"}


def test_every_example_is_played() -> None:
    """[GR-530] No folder is without a test here."""
    text = Path(__file__).read_text()
    folders = sorted(path.name for path in SEED.iterdir() if path.is_dir())
    assert folders
    assert not [name for name in folders if f'"{name}"' not in text]
