"""The kinds that models and tools come from. Each setting changes something."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.graph.deploy.documents import chain, changed, refused, registry, run
from toolnexus import Client, ConfigError, NodeFinished, ToolResult, user
from toolnexus.core.tools import Tool
from toolnexus.graph import (
    Board,
    ErrorKind,
    GraphRunError,
    NodeContext,
    ResourceRegistry,
    Target,
    deploy,
)
from toolnexus.graph.tooling import toolkit_of
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

MCP = Path(__file__).resolve().parents[2] / "servers" / "rough_mcp.py"
SECRET = "sk-very-secret-1"


def asking(deps: dict[str, str], *configs: dict[str, Any], **resources: Any) -> dict[str, Any]:
    """A document whose agent asks models, one after the other, with these configs."""
    document = chain(*("n" for _ in configs))
    document["resources"] = resources
    engine = document["agents"]["asst"]["engine"]
    engine["deps"] = deps
    for node, config in zip(engine["settings"]["graph"]["nodes"], configs, strict=True):
        node.update(type="inference", config=config)
    return document


def named(provider: str, name: str, profile: str = "") -> dict[str, Any]:
    """The config of a node that names its model."""
    id = {"provider": provider, "name": name}
    return {"model": {"id": id, "profile": profile} if profile else {"id": id}}


def provider(url: str, impl: str = "openai", **settings: Any) -> dict[str, Any]:
    """A provider resource."""
    settings = {"base_url": url, "models": ["m"], **settings}
    return {"kind": "inference.Provider", "impl": impl, "settings": settings}


ASSEMBLY = {"kind": "inference.Assembly", "impl": "unified", "deps": {"provider": "p"}}


def router(*names: str) -> dict[str, Any]:
    """A router resource."""
    return {
        "kind": "inference.Router",
        "impl": "unified",
        "deps": {"target": "infer"},
        "settings": {"models": list(names)},
    }


async def test_a_provider_is_an_endpoint_with_models_and_its_settings_reach_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[GR-524] Address, key, headers, id, profile, and the field that carries `request_metadata`."""
    monkeypatch.setenv("MY_KEY", SECRET)
    async with ScriptedEndpoint(["one", "two", "three"]) as endpoint, asyncio.timeout(20):
        first = provider(
            endpoint.url,
            id="acme",
            api_key="${MY_KEY}",
            headers={"x-team": "blue"},
            request_metadata={"envelope": "metadata"},
        )
        second = provider(endpoint.url, id="acme", profile="eu", headers={"x-team": "green"})
        third = provider(endpoint.url, "anthropic", api_key="k")
        infer = {**ASSEMBLY, "deps": {"provider": "p", "provider.eu": "q", "provider.other": "claude"}}
        configs = (
            {**named("acme", "m"), "request_metadata": {"tenant": "t1"}},
            named("acme", "m", "eu"),
            named("claude", "m"),
        )
        document = asking({"inference": "infer"}, *configs, p=first, q=second, claude=third, infer=infer)
        for node in document["agents"]["asst"]["engine"]["settings"]["graph"]["nodes"][1:]:
            node["config"]["messages_channel"] = node["id"]
        document["agents"]["asst"]["prepare"] = [{"type": "fill"}]
        made = registry()

        def fill(board: Board) -> None:
            for channel in ("n1", "n2"):
                board.append(channel, user("hi"))

        made.register("hook.prepare", "fill", lambda given: fill)
        async with deploy(document, registry=made) as deployment:
            assert SECRET in deployment.secrets
            result = await run(deployment, "hello")
    assert result.text == "one"
    blue, green, claude = endpoint.requests
    assert (blue.headers["authorization"], blue.headers["x-team"]) == (f"Bearer {SECRET}", "blue")
    assert blue.body["metadata"] == {"tenant": "t1"}
    assert (green.headers["x-team"], "authorization" in green.headers) == ("green", False)
    assert claude.path.endswith("/messages") and claude.headers["x-api-key"] == "k"


async def test_a_router_tries_its_models_in_their_order() -> None:
    """[GR-524] A node without a model asks the first, and the next when that fails; `outputs` leaves out what
    cannot serve."""
    async with (
        ScriptedEndpoint({"b": ["from b", "from b"], "c": ["from c"]}) as endpoint,
        asyncio.timeout(20),
    ):
        models = [{"name": "a", "outputs": ["image"]}, "b", "c"]
        resources = {"p": provider(endpoint.url, models=models), "infer": ASSEMBLY}
        for names, says in (
            (["p/a", "p/b"], "from b"),
            (["p/c", "p/b"], "from c"),
            (["p/c", "p/b"], "from b"),
        ):
            document = asking({"router": "r"}, {}, r=router(*names), **resources)
            async with deploy(document) as deployment:
                assert (await run(deployment, "hello")).text == says
    (issue,) = refused(asking({"router": "r"}, {}, r=router("p/a", "p/d"), **resources)).issues
    assert (issue.path, issue.message) == (
        "resources.r",
        "settings.models[1]: there is no model 'p/d'; did you mean 'p/c' or 'p/b' or 'p/a'?; "
        "models: p/a, p/b, p/c",
    )


def test_a_node_needs_the_assembly_or_the_router_by_what_it_names() -> None:
    """[GR-511] With a model the dep `inference`, without the dep `router`; neither stands for the other."""
    resources = {"p": provider("http://127.0.0.1:1"), "infer": ASSEMBLY, "r": router("p/m")}
    for deps, config, missing in (
        ({"router": "r"}, named("p", "m"), "inference"),
        ({"inference": "infer"}, {}, "router"),
        ({"inference": "infer"}, {**named("p", "m"), "tools": ["x"]}, "tools"),
        ({"inference": "infer"}, {**named("p", "m"), "all_tools": True}, "tools"),
    ):
        (issue,) = refused(asking(deps, config, **resources)).issues
        assert issue.kind is ErrorKind.NOT_FOUND
        assert f"the dep {missing!r} is missing, which the node 'n0' needs" in issue.message


@pytest.mark.parametrize(
    ("settings", "path", "says"),
    [
        ({"models": []}, "settings.models", "at least 1 item"),
        ({"models": [{"name": "x", "outputs": ["smell"]}]}, "settings.models[0].outputs[0]", "'text'"),
        ({"models": [{"nme": "x"}]}, "settings.models[0].nme", "did you mean 'name'"),
        ({"base_url": "nowhere"}, "", "nowhere"),
        ({"request_metadata": {"field": "x"}}, "settings.request_metadata.field", "allowed: envelope"),
        ({"spec": {}}, "settings.spec", "unknown key 'spec'"),
    ],
)
def test_settings_of_a_provider_that_are_wrong(settings: dict[str, Any], path: str, says: str) -> None:
    """[GR-524] Told at their key, and an address that is none where it is made."""
    document = asking(
        {"inference": "infer"}, named("p", "m"), p=provider("http://h", **settings), infer=ASSEMBLY
    )
    where = f"resources.p{'.' if path else ''}{path}"
    assert any(i.path == where and says in i.message for i in refused(document).issues), refused(document)


def speed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the fields of an extension mean."""
    return {"tier": fields["tier"]}


async def test_models_and_extensions_of_a_host() -> None:
    """[GR-524] A provider of the host gives models by name, or targets; an extension gives fields a
    meaning."""
    model = ScriptedModel(["hello", "again"], name="m")
    made = ResourceRegistry.standard()
    made.register("inference.Provider", "mine", lambda given: {"p/m": model})
    made.register(
        "inference.Provider", "targets", lambda given: [Target(model=model, provider="q", name="m")]
    )
    made.register("inference.Provider", "odd", lambda given: {"m": model})
    made.register("inference.Extension", "fast", lambda given: {"p/speed": speed})
    config = {**named("p", "m"), "extensions": [{"provider": "p", "id": "speed", "fields": {"tier": "flex"}}]}
    resources = {
        "p": {"kind": "inference.Provider", "impl": "mine"},
        "q": {"kind": "inference.Provider", "impl": "targets"},
        "ext": {"kind": "inference.Extension", "impl": "fast"},
        "infer": {**ASSEMBLY, "deps": {"provider": "p", "provider.q": "q", "extension": "ext"}},
    }
    document = asking({"inference": "infer"}, config, **resources)
    async with deploy(document, registry=made) as deployment:
        assert (await run(deployment, "hi")).text == "hello"
    options = model.requests[0].options
    assert options is not None and "flex" in str(options)
    document["resources"]["q"]["impl"] = "mine"
    assert "the model 'p/m' is there already" in str(refused(document, made))
    document["resources"]["q"]["impl"] = "odd"
    assert "inference.Provider is models by 'provider/name'" in str(refused(document, made))


def tooled(**resources: Any) -> dict[str, Any]:
    """A document whose agent says in `tools` which tools it has."""
    document = chain("lists")
    document["resources"] |= {"tools": {"kind": "tool.Assembly", "impl": "memory", "deps": {"tool": "src"}}}
    document["resources"] |= resources
    document["agents"]["asst"]["engine"]["deps"]["tools"] = "tools"
    return document


async def lists(ctx: NodeContext, board: Board, config: Any) -> None:
    """Which tools there are."""
    board["tools"] = sorted([tool.name for tool in toolkit_of(ctx.services) or ()])


async def found(document: dict[str, Any], made: ResourceRegistry | None = None) -> list[str]:
    """The tools of the agent."""
    async with deploy(document, registry=made or registry(lists=lists)) as deployment, asyncio.timeout(20):
        return (await run(deployment, {})).output["tools"]


BUILTINS = {"kind": "tool.Source", "impl": "builtins", "settings": {"tools": ["read", "gr*"]}}


async def test_tools_are_builtins_by_name_and_an_agent_chooses_among_them() -> None:
    """[GR-525] Names and globs; the agent's own list narrows, and unknown names are told."""
    assert await found(tooled(src=BUILTINS)) == ["grep", "read"]
    narrowed = changed(tooled(src=BUILTINS), "agents", "asst", "tools", to=["re*"])
    assert await found(narrowed) == ["read"]
    assert await found(changed(narrowed, "agents", "asst", "tools", to=[])) == []
    made = registry(lists=lists)
    (issue,) = refused(changed(narrowed, "agents", "asst", "tools", to=["raed"]), made).issues
    assert issue.path == "agents.asst.tools" and "'raed'" in issue.message
    (issue,) = refused(changed(narrowed, "resources", "src", "settings", to={"tools": ["nope"]}), made).issues
    assert issue.path == "resources.src" and "'nope'" in issue.message
    (issue,) = refused(changed(chain("lists"), "agents", "asst", "tools", to=["read"]), made).issues
    assert issue.message == "it chooses from the dep `tools` of the engine; wire one"


class Late:
    """A source whose tools are known once it is open."""

    name = "late"

    def __init__(self) -> None:
        self.tools: list[Tool] = []

    async def open(self, on_change: Callable[[], None]) -> None:
        async def execute(arguments: dict[str, Any], ctx: Any) -> ToolResult:
            return ToolResult(output="late")

        self.tools = [Tool("late", "Is late.", {"type": "object"}, execute)]

    async def aclose(self) -> None:
        self.tools = []


async def test_tools_that_are_known_late_are_checked_when_the_deployment_opens() -> None:
    """[GR-525] A name that is not there is an error then: of an agent's list, and of script bindings."""
    made = registry(lists=lists)
    made.register("tool.Source", "late", lambda given: Late())
    document = tooled(src={"kind": "tool.Source", "impl": "late"}, more=BUILTINS)
    document["resources"]["tools"]["deps"]["tool.more"] = "more"
    assert await found(document, made) == ["grep", "late", "read"]
    narrowed = changed(document, "agents", "asst", "tools", to=["late"])
    assert await found(narrowed, made) == ["late"]
    with pytest.raises(ConfigError, match="lat3"):
        await found(changed(narrowed, "agents", "asst", "tools", to=["lat3"]), made)
    std = {"kind": "agent.ScriptBindings", "impl": "standard", "deps": {"tools": "tools"}}
    for name, fails in (("late", False), ("lat3", True)):
        document["resources"]["std"] = {**std, "settings": {"tools": {"allow": [name]}}}
        if fails:
            with pytest.raises(ConfigError, match="lat3"):
                await found(document, made)
        else:
            assert await found(document, made) == ["grep", "late", "read"]


async def test_servers_of_mcp_are_a_source(caplog: pytest.LogCaptureFixture) -> None:
    """[GR-525] Their tools come under the names that a client gives them; one that is gone is left out."""
    servers = {
        "calc": {"command": sys.executable, "args": [str(MCP)], "tools": ["echo"]},
        "gone": {"command": "/nowhere/at/all"},
    }
    source = {"kind": "tool.Source", "impl": "mcp", "settings": {"mcpServers": servers}}
    document = changed(tooled(src=source), "agents", "asst", "tools", to=["calc_echo", "gone_tool"])
    assert await found(document) == ["calc_echo"]
    assert "MCP server 'gone' is not available" in caplog.text
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"mcpServers": {}}, "at least 1 item"),
        ({"mcpServers": {"x": {"comand": "y"}}}, "comand"),
        ({"servers": {}}, "unknown key 'servers'"),
    ]
    for settings, says in wrong:
        assert says in str(refused(tooled(src={**source, "settings": settings}), registry(lists=lists)))


async def test_tools_of_a_host_are_called_by_the_model_of_an_agent() -> None:
    """[GR-525] Chat and tools in a loop, over scripted models: the whole of a graph agent."""

    async def execute(arguments: dict[str, Any], ctx: Any) -> ToolResult:
        return ToolResult(output=f"{arguments['a'] + arguments['b']}")

    numbers = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
    add = Tool("add", "Adds.", numbers, execute)
    model = ScriptedModel([reply(call("add", a=2, b=3)), "5"], name="m")
    made = ResourceRegistry.standard()
    made.register("inference.Provider", "mine", lambda given: {"p/m": model})
    made.register("tool.Source", "mine", lambda given: [add])
    document = asking(
        {"router": "r", "tools": "tools"},
        {"tool_pending_key": "pending", "all_tools": True},
        p={"kind": "inference.Provider", "impl": "mine"},
        infer=ASSEMBLY,
        r=router("p/m"),
        src={"kind": "tool.Source", "impl": "mine"},
        tools={"kind": "tool.Assembly", "impl": "memory", "deps": {"tool": "src"}},
    )
    graph = document["agents"]["asst"]["engine"]["settings"]["graph"]
    graph["nodes"].append({"id": "tools", "type": "tool", "config": {"results_key": "results"}})
    graph["edges"] = [
        {"from": "n0", "to": "tools", "condition": "pending == true"},
        {"from": "tools", "to": "n0"},
        {"from": "n0", "to": "__end__", "condition": "pending == false"},
    ]
    async with deploy(document, registry=made) as deployment, asyncio.timeout(20):
        result = await run(deployment, "2 + 3?")
    assert (result.status, result.text) == ("done", "5")
    assert result.tool_calls == 1
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_what_tools_keep_secret_is_masked_in_runs() -> None:
    """[GR-525] As under a client: neither results nor errors show it."""

    async def leak(ctx: NodeContext, board: Board, config: Any) -> None:
        raise GraphRunError(f"the key was {SECRET}")

    class Keeping(Tool):
        secrets = (SECRET,)

    made = registry(lists=leak)
    made.register("tool.Source", "keeping", lambda given: [Keeping("t", "d", {"type": "object"}, leak_tool)])
    document = tooled(src={"kind": "tool.Source", "impl": "keeping"})
    async with deploy(document, registry=made) as deployment, Client(builtins=False) as client:
        events: list[Any] = []
        with pytest.raises(GraphRunError):
            async with client.stream({}, target=deployment.agents["asst"]) as stream:
                events = [event async for event in stream]
    errors = [event.error for event in events if isinstance(event, NodeFinished)]
    assert errors == ["the key was [redacted]"]


async def leak_tool(arguments: dict[str, Any], ctx: Any) -> str:
    """Says nothing."""
    return ""
