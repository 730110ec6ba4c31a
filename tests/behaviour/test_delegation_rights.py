"""Which tools and models a sub-agent has: scopes, denials, and what it brings along."""

from collections.abc import Callable

import pytest

from tests.behaviour.test_delegation import calls, delegating, noop
from toolnexus import (
    Agent,
    Client,
    ConfigError,
    FunctionModel,
    Message,
    ModelRequest,
    SkillDef,
    Tool,
    tool,
)
from toolnexus.engine.environment import MOST_VIEWS
from toolnexus.testing import call

pytestmark = pytest.mark.anyio


def offered(request: ModelRequest) -> list[str]:
    return [t.name for t in request.tools]


async def test_a_scoped_agent_cannot_run_what_its_parent_can() -> None:
    """[SUB-04] A tool outside the agent's list is not offered and not executed when called."""
    ran: list[str] = []

    @tool
    async def bash(command: str) -> str:
        """Run."""
        ran.append(command)
        return "ran"

    def child(request: ModelRequest) -> Message | str:
        assert offered(request) == ["noop"]
        if request.turn == 1:
            return calls(call("bash", command="rm -rf /"))
        return request.messages[-1].tool_results[0].output

    parent = FunctionModel(delegating(call("task", agent="x", prompt="p")))
    agent = Agent(name="x", model=FunctionModel(child), tools=["noop"])
    async with Client(model=parent, builtins=False, tools=[bash, noop], agents=[agent]) as c:
        result = await c.ask("go")
    assert ran == []
    output = result.messages[2].tool_results[0].output
    assert "unknown tool 'bash'" in output and "noop" in output


async def test_an_empty_list_means_no_tools() -> None:
    """[SUB-05] `tools=[]` offers nothing, `task` included."""
    seen: list[list[str]] = []

    def child(request: ModelRequest) -> str:
        seen.append(offered(request))
        return "ok"

    agent = Agent(name="x", model=FunctionModel(child), tools=[])
    parent = FunctionModel(delegating(call("task", agent="x", prompt="p")))
    async with Client(model=parent, tools=[noop], agents=[agent]) as c:
        assert "tools: none" in (c.toolkit.get("task") or noop).description
        await c.ask("go")
    assert seen == [[]]


def test_a_misspelt_tool_is_an_error_at_build() -> None:
    """[SUB-06] An unknown tool name in an agent names itself and the nearest one."""
    with pytest.raises(ConfigError, match=r"agent 'x'.*'raed'.*did you mean 'read'"):
        Client(model=FunctionModel(lambda r: ""), agents=[Agent(name="x", tools=["raed"])])


async def test_model_is_inherited_unless_set() -> None:
    """[SUB-07] Without `model` a child runs on its caller's; with it, that sub-run only changes."""
    log: list[tuple[str, str]] = []

    def logging(name: str) -> FunctionModel:
        def fn(request: ModelRequest) -> Message | str:
            log.append((request.agent, name))
            if request.agent == "main" and request.turn == 1:
                return calls(call("task", agent="same", prompt="p"), call("task", agent="other", prompt="p"))
            if request.agent == "other" and request.turn == 1:
                return calls(call("task", agent="same", prompt="p"))
            return "ok"

        return FunctionModel(fn, name=name)

    agents = [Agent(name="same"), Agent(name="other", model=logging("B"))]
    async with Client(model=logging("A"), builtins=False, agents=agents) as c:
        await c.ask("go")
    assert sorted(set(log)) == [("main", "A"), ("other", "B"), ("same", "A"), ("same", "B")]
    assert log[-1] == ("main", "A")


async def test_task_may_name_only_allowed_models() -> None:
    """[SUB-08] `model` of `task` changes that run only; another name is refused with the allowed ones."""
    models: list[str] = []

    def fn(name: str) -> FunctionModel:
        def inner(request: ModelRequest) -> Message | str:
            models.append(f"{request.agent}:{name}")
            if request.agent == "main" and request.turn == 1:
                return calls(
                    call("task", agent="x", prompt="p", model="cheap"),
                    call("task", agent="x", prompt="p", model="secret-9"),
                )
            return "ok"

        return FunctionModel(inner, name=name)

    agents = [Agent(name="x"), Agent(name="y", model=fn("cheap"))]
    async with Client(model=fn("dear"), builtins=False, agents=agents) as c:
        result = await c.ask("go")
    first, second = result.messages[2].tool_results
    assert first.output == "ok" and second.is_error
    assert "'secret-9' is not allowed; allowed: ['cheap', 'dear']" in second.output
    assert models == ["main:dear", "x:cheap", "main:dear"]


async def test_a_denial_holds_for_everything_below() -> None:
    """[SUB-18] A `false` in an agent's filter stays denied in its children, whatever they allow."""
    shown: list[tuple[str, list[str]]] = []

    def fn(request: ModelRequest) -> Message | str:
        shown.append((request.agent, offered(request)))
        if request.agent == "main" and request.turn == 1:
            return calls(call("task", agent="mid", prompt="p"))
        if request.agent == "mid" and request.turn == 1:
            return calls(call("task", agent="leaf", prompt="p"))
        return "ok"

    agents = [
        Agent(name="mid", tools={"native": {"noop": False}}, agents=["leaf"]),
        Agent(name="leaf", tools=["noop"]),
    ]
    async with Client(model=FunctionModel(fn), builtins=False, tools=[noop], agents=agents) as c:
        await c.ask("go")
    assert ("mid", ["task"]) in shown and ("leaf", []) in shown


async def test_an_agent_brings_its_own_tools() -> None:
    """[SUB-19] A function in an agent's list is its own: the parent is not offered it."""

    @tool
    async def private() -> str:
        """Private."""
        return "p"

    shown: list[list[str]] = []

    def fn(request: ModelRequest) -> Message | str:
        shown.append(offered(request))
        if request.agent == "main" and request.turn == 1:
            return calls(call("task", agent="x", prompt="p"))
        return "ok"

    async with Client(
        model=FunctionModel(fn), builtins=False, agents=[Agent(name="x", tools=[private])]
    ) as c:
        await c.ask("go")
    assert shown == [["task"], ["private"], ["task"]]


async def test_a_denied_skill_stays_denied_below() -> None:
    """[SUB-18] Neither the catalog nor the skill tool of a child has what its caller denies itself."""
    systems: dict[str, str] = {}
    answers: list[str] = []

    def fn(request: ModelRequest) -> Message | str:
        systems[request.agent] = request.system
        if request.agent == "leaf":
            if request.turn == 1:
                return calls(call("skill", name="secret"))
            answers.append(request.messages[-1].tool_results[0].output)
            return "ok"
        target = {"main": "mid", "mid": "leaf"}[request.agent]
        return calls(call("task", agent=target, prompt="p")) if request.turn == 1 else "ok"

    skills = [SkillDef(name=n, description=n, content=f"THE {n.upper()} TEXT") for n in ("open", "secret")]
    agents = [Agent(name="mid", tools={"skills": {"secret": False}}), Agent(name="leaf")]
    async with Client(model=FunctionModel(fn), builtins=False, skills=skills, agents=agents) as c:
        await c.ask("go")
    assert "secret" in systems["main"] and "secret" not in systems["mid"] + systems["leaf"]
    assert "open" in systems["leaf"] and "THE SECRET TEXT" not in answers[0]


async def test_a_denial_covers_tools_that_come_later() -> None:
    """[SUB-18] A server that a caller denies itself cannot reach a child with a tool that it lists later."""

    class Late:
        name = "srv"

        def __init__(self) -> None:
            self.tools: list[Tool] = []

        async def open(self, on_change: Callable[[], None]) -> None:
            self.changed = on_change

        async def aclose(self) -> None: ...

        def list(self) -> None:
            async def execute(arguments: object, ctx: object) -> str:
                return "DENIED TOOL RAN"

            self.tools = [Tool("srv_new", "New.", {"type": "object"}, execute, source="mcp", origin="srv")]
            self.changed()

    late = Late()

    @tool
    async def list_more() -> str:
        """Make the server list more."""
        late.list()
        return "listed"

    offers: list[list[str]] = []

    def fn(request: ModelRequest) -> Message | str:
        if request.agent == "leaf":
            offers.append(offered(request))
            return calls(call("list_more")) if request.turn == 1 else "ok"
        target = {"main": "mid", "mid": "leaf"}[request.agent]
        return calls(call("task", agent=target, prompt="p")) if request.turn == 1 else "ok"

    agents = [
        Agent(name="mid", tools={"mcp": {"srv*": False}}),
        Agent(name="leaf", tools=["srv_*", "list_more"]),
    ]
    async with Client(model=FunctionModel(fn), builtins=False, tools=[late, list_more], agents=agents) as c:
        await c.ask("go")
        assert "srv_new" in c.toolkit.names()
    assert offers == [["list_more"], ["list_more"]]


async def test_agents_that_are_made_for_one_run_are_offered_what_is_theirs() -> None:
    """[SUB-04] However many there were: what is known of one is taken for no other, and not kept for ever."""
    tools = [Tool(name, name, {"type": "object"}, noop.execute) for name in ("one", "two")]
    model = FunctionModel(lambda request: " ".join([t.name for t in request.tools]))
    async with Client(model=model, builtins=False, tools=tools) as client:
        for n in range(MOST_VIEWS + 20):
            name = ("one", "two")[n % 2]
            assert (await client.run(Agent(name="x", tools=[name]), "go")).text == name
        assert len(client._environment._views) <= MOST_VIEWS
