"""Sub-agents: `task`, registry, isolation, roll-up."""

import asyncio
from collections.abc import Callable

import pytest

from toolnexus import (
    Agent,
    Client,
    ConfigError,
    FunctionModel,
    Message,
    ModelHTTPError,
    ModelRequest,
    ModelResponse,
    NameConflict,
    Tool,
    ToolContext,
    Usage,
    assistant,
    tool,
)
from toolnexus.core.messages import ToolCallPart
from toolnexus.testing import call

pytestmark = pytest.mark.anyio


def calls(*parts: ToolCallPart, text: str = "") -> Message:
    return assistant(text, *parts)


def delegating(*tasks: ToolCallPart, then: str = "all done") -> Callable[[ModelRequest], Message | str]:
    """A parent that delegates in its first turn and answers in its second."""

    def fn(request: ModelRequest) -> Message | str:
        return calls(*tasks) if request.turn == 1 else then

    return fn


def used(message: Message | str, prompt: int = 10, completion: int = 5) -> ModelResponse:
    value = assistant(message) if isinstance(message, str) else message
    return ModelResponse(
        message=value,
        usage=Usage(prompt_tokens=prompt, completion_tokens=completion),
        stop="tool_calls" if value.tool_calls else "stop",
    )


@tool
async def noop() -> str:
    """Do nothing."""
    return "ok"


async def test_two_tasks_of_one_turn_run_at_the_same_time() -> None:
    """[SUB-01] Both children are in flight at once, and the parent gains two results in call order."""
    started = {"A": asyncio.Event(), "B": asyncio.Event()}

    async def child(request: ModelRequest) -> str:
        me = request.messages[-1].text
        started[me].set()
        async with asyncio.timeout(5):
            await started["B" if me == "A" else "A"].wait()
        return f"done {me}"

    parent = FunctionModel(
        delegating(call("task", agent="x", prompt="A"), call("task", agent="x", prompt="B"))
    )
    async with Client(
        model=parent, builtins=False, agents=[Agent(name="x", model=FunctionModel(child))]
    ) as c:
        result = await c.ask("go")
    assert result.status == "done"
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert [r.output for r in result.messages[2].tool_results] == ["done A", "done B"]


async def test_usage_of_children_is_in_the_parent_and_can_be_told_apart() -> None:
    """[SUB-02] Parent usage is the sum over the tree, split by agent, model and path."""

    def parent(request: ModelRequest) -> ModelResponse:
        task = call("task", agent="x", prompt="p")
        return used(calls(task) if request.turn == 1 else "end", 100, 1)

    child = FunctionModel(lambda r: used("fine", 7, 3), name="small")
    async with Client(
        model=FunctionModel(parent, name="big"), builtins=False, agents=[Agent(name="x", model=child)]
    ) as c:
        result = await c.ask("go")
    assert result.usage.total_tokens == 202 + 10
    assert result.own_usage.total_tokens == 202
    assert {k: u.total_tokens for k, u in result.usage.by("agent").items()} == {"main": 202, "x": 10}
    assert {k: u.requests for k, u in result.usage.by("model").items()} == {"big": 2, "small": 1}
    assert sum(u.total_tokens for u in result.usage.by("path").values()) == 212


async def test_the_parent_sees_only_the_final_text() -> None:
    """[SUB-03] The parent transcript is the same length whether the child used 1 or 40 tools."""

    @tool
    async def secret_read() -> str:
        """Read."""
        return "MARKER-7"

    lengths: list[int] = []
    for rounds in (1, 40):

        def child(request: ModelRequest, rounds: int = rounds) -> Message | str:
            return calls(call("secret_read")) if request.turn <= rounds else "summary"

        seen: list[str] = []

        def parent(request: ModelRequest, seen: list[str] = seen) -> Message | str:
            seen.append(repr(request.messages))
            return calls(call("task", agent="x", prompt="p")) if request.turn == 1 else "end"

        agent = Agent(name="x", model=FunctionModel(child), tools=[secret_read], max_turns=50)
        async with Client(model=FunctionModel(parent), builtins=False, agents=[agent]) as c:
            result = await c.ask("go")
        assert result.messages[2].tool_results[0].output == "summary"
        assert not any("MARKER-7" in text for text in seen)
        assert result.sub_agent_tool_calls == rounds and result.tool_calls == 1
        assert "MARKER-7" in repr(result.sub_agents[0].messages)
        lengths.append(len(result.messages))
    assert lengths[0] == lengths[1]


async def test_context_precedes_the_prompt() -> None:
    """[SUB-09] A child reads `context` in front of `prompt`, and nothing else of its caller."""
    seen: list[str] = []

    def child(request: ModelRequest) -> str:
        seen.append("|".join(m.text for m in request.messages))
        return "ok"

    parent = FunctionModel(delegating(call("task", agent="x", prompt="PROMPT", context="CONTEXT")))
    async with Client(
        model=parent, builtins=False, agents=[Agent(name="x", model=FunctionModel(child))]
    ) as c:
        await c.ask("the parent's own words")
    assert seen == ["CONTEXT\n\nPROMPT"]


@pytest.mark.parametrize("name", ["reviw", " Review ", None, 7])
async def test_an_unknown_agent_is_an_error_that_lists_the_names(name: object) -> None:
    """[SUB-10] Nothing is guessed: the model is told who there is."""
    parent = FunctionModel(delegating(call("task", agent=name, prompt="p")))
    agents = [Agent(name="review"), Agent(name="explore")]
    async with Client(model=parent, builtins=False, agents=agents) as c:
        result = await c.ask("go")
    answer = result.messages[2].tool_results[0]
    assert answer.is_error and "['explore', 'review']" in answer.output
    assert result.sub_agents == () and result.status == "done"


def test_two_agents_of_one_name_are_an_error_at_build() -> None:
    """[SUB-11] A name given twice, anywhere, is refused."""
    with pytest.raises(NameConflict, match="'x'"):
        Client(agents=[Agent(name="x"), Agent(name="x")])
    with pytest.raises(NameConflict, match="'x'"):
        Client(agents=[Agent(name="x"), Agent(name="y", agents=[Agent(name="x", description="another")])])
    with pytest.raises(ConfigError, match=r"'z'.*registered: \['y'\]"):
        Client(agents=[Agent(name="y", agents=["z"])])


async def test_task_can_be_switched_off() -> None:
    """[SUB-12] `task: false` removes it; with nobody to delegate to it is not there."""
    agents = [Agent(name="x")]
    assert "task" in Client(agents=agents).toolkit.names()
    assert "task" in Client(agents=agents, builtins=["read"]).toolkit.names()
    assert "task" not in Client(agents=agents, builtins={"task": False}).toolkit.names()
    assert "task" not in Client(agents=agents, builtins={"tools": {"task": False}}).toolkit.names()
    assert "task" not in Client().toolkit.names()


async def test_the_description_of_task_lists_the_registry() -> None:
    """[SUB-13] Sorted by name, with each description and its tools in a few words."""
    agents = [
        Agent(name="writer", description="Writes prose.", tools=[]),
        Agent(name="explore", description="Reads code.", tools=["read", "gre*"]),
    ]
    task = Client(agents=agents).toolkit.get("task")
    assert isinstance(task, Tool)
    assert task.description.endswith(
        "- explore: Reads code. (tools: grep, read)\n- writer: Writes prose. (tools: none)"
    )
    assert (
        "agent" in task.input_schema["properties"] and "enum" not in task.input_schema["properties"]["agent"]
    )


async def test_failing_children_do_not_hurt_their_siblings() -> None:
    """[SUB-14] 401, a raising tool and a slow one: three results in call order, tokens counted."""
    release = asyncio.Event()

    @tool
    async def explode() -> str:
        """Raise."""
        release.set()
        raise RuntimeError("kaboom")

    def unauthorised(request: ModelRequest) -> ModelResponse:
        if request.turn == 1:
            return used(calls(call("noop")))
        raise ModelHTTPError("401 from the endpoint", status=401)

    def raising(request: ModelRequest) -> ModelResponse:
        return used(calls(call("explode")) if request.turn == 1 else "my tool failed")

    async def slow(request: ModelRequest) -> ModelResponse:
        async with asyncio.timeout(5):
            await release.wait()
        return used("slow but intact")

    agents = [
        Agent(name="a", model=FunctionModel(unauthorised), tools=[noop]),
        Agent(name="b", model=FunctionModel(raising), tools=[explode]),
        Agent(name="c", model=FunctionModel(slow)),
    ]
    parent = FunctionModel(delegating(*[call("task", agent=n, prompt="p") for n in "abc"]))
    async with Client(model=parent, builtins=False, agents=agents) as c:
        result = await c.ask("go")
    one, two, three = result.messages[2].tool_results
    assert one.is_error and one.output == "agent 'a' failed: 401 from the endpoint"
    assert not two.is_error and two.output == "my tool failed"
    assert three.output == "slow but intact"
    assert result.status == "done" and result.text == "all done"
    assert result.usage.by("agent")["a"].total_tokens == 15
    assert result.sub_agents[0].status == "error" and result.sub_agents[0].usage.requests == 2


async def test_a_child_without_final_text_returns_its_last_text() -> None:
    """[SUB-15] The last non-empty text, or a sentence that says there was none; never "" or "None"."""

    def late(request: ModelRequest) -> Message:
        return calls(call("noop"), text="half way") if request.turn == 1 else assistant("")

    agents = [
        Agent(name="late", model=FunctionModel(late), tools=[noop]),
        Agent(name="mute", model=FunctionModel(lambda r: assistant(""))),
    ]
    parent = FunctionModel(delegating(*[call("task", agent=n, prompt="p") for n in ("late", "mute")]))
    async with Client(model=parent, builtins=False, agents=agents) as c:
        result = await c.ask("go")
    assert [r.output for r in result.messages[2].tool_results] == [
        "half way",
        "The run ended without any text.",
    ]


async def test_metadata_tells_the_host_what_the_child_did() -> None:
    """[SUB-16] agent, turns, toolCalls, totalTokens, status, limit and path, on the host's side only."""
    from toolnexus.core.events import ToolFinished

    def child(request: ModelRequest) -> ModelResponse:
        return used(calls(call("noop")) if request.turn == 1 else "ok")

    parent = FunctionModel(delegating(call("task", id="t1", agent="x", prompt="p")))
    agent = Agent(name="x", model=FunctionModel(child), tools=[noop])
    async with (
        Client(model=parent, builtins=False, agents=[agent]) as c,
        c.stream("go") as stream,
    ):
        ends = [e async for e in stream if isinstance(e, ToolFinished) and e.name == "task"]
    assert ends[0].result.metadata == {
        "agent": "x",
        "turns": 2,
        "toolCalls": 1,
        "totalTokens": 30,
        "status": "done",
        "limit": None,
        "path": ["main", "x.t1"],
    }


async def test_tools_know_where_they_run() -> None:
    """[SUB-17] `ToolContext` carries path, depth, call ids and deps, in children too."""
    seen: list[tuple[tuple[str, ...], int, str, str | None, object]] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append((ctx.path, ctx.depth, ctx.call_id, ctx.parent_call_id, ctx.deps))
        return "ok"

    deps = object()

    def child(request: ModelRequest) -> Message | str:
        return calls(call("look", id="k")) if request.turn == 1 else "ok"

    parent = FunctionModel(delegating(call("look", id="l"), call("task", id="t", agent="x", prompt="p")))
    agent = Agent(name="x", model=FunctionModel(child), tools=["look"])
    async with Client(model=parent, builtins=False, tools=[look], agents=[agent]) as c:
        await c.ask("go", deps=deps)
    assert seen == [(("main",), 0, "l", None, deps), (("main", "x.t"), 1, "k", "t", deps)]


async def test_equal_calls_are_fresh_runs() -> None:
    """[SUB-20] Nothing is cached: two equal `task` calls run twice, on paths of their own."""
    paths: list[tuple[str, ...]] = []

    def child(request: ModelRequest) -> str:
        paths.append(request.path)
        return "ok"

    same = ToolCallPart("call_0", "task", '{"agent": "x", "prompt": "p"}')
    parent = FunctionModel(lambda r: calls(same, same) if r.turn <= 2 else "end")
    async with Client(
        model=parent, builtins=False, agents=[Agent(name="x", model=FunctionModel(child))]
    ) as c:
        result = await c.ask("go")
    assert len(set(paths)) == 4
    ids = [part.id for m in result.messages for part in m.tool_calls]
    assert ids == ["call_0", "call_0~2", "call_0~3", "call_0~4"]
    assert [r.call_id for m in result.messages for r in m.tool_results] == ids
