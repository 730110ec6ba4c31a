"""Tools, hooks and models that behave badly: one error result, never a broken run."""

import asyncio
from typing import Any, cast

import pytest

from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    Message,
    ModelRequest,
    Request,
    RunError,
    Tool,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import call
from toolnexus.workflow import AgentStep, Parallel, as_runnable

pytestmark = pytest.mark.anyio


@tool
async def deaf() -> str:
    """Swallows its cancel."""
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        return "what cancel?"
    return ""


def calling(name: str) -> FunctionModel:
    """A model that calls a tool once and answers with what came back."""

    def fn(request: ModelRequest) -> Message | str:
        return assistant("", call(name)) if request.turn == 1 else request.messages[-1].tool_results[0].output

    return FunctionModel(fn)


async def test_a_tool_that_swallows_a_cancel_does_not_stop_the_stop() -> None:
    """[ODD-01] A deadline, a cancel and a close hold although the tool goes on as if nothing were."""
    endless = FunctionModel(lambda r: assistant("", call("deaf")))
    async with Client(model=endless, builtins=False, tools=[deaf], budget=Budget(seconds=0.1)) as c:
        async with asyncio.timeout(10):
            result = await c.ask("go")
    assert (result.status, result.limit, result.turns) == ("incomplete", "seconds", 1)

    agent = Agent(name="x", model=endless, tools=[deaf], budget=Budget(seconds=0.1))
    parent = FunctionModel(
        lambda r: assistant("", call("task", agent="x", prompt="p")) if r.turn == 1 else "end"
    )
    async with Client(model=parent, builtins=False, agents=[agent]) as c, asyncio.timeout(10):
        result = await c.ask("go")
    assert result.messages[2].tool_results[0].is_error and result.status == "done"

    client = Client(model=endless, builtins=False, tools=[deaf])
    async with client, asyncio.timeout(10):
        task = asyncio.create_task(client.ask("go"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        task = asyncio.create_task(client.ask("go"))
        await asyncio.sleep(0.05)
        await client.aclose()
        with pytest.raises(RunError, match="closed"):
            await task


class Odd(BaseException):
    """What some extension modules raise."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "give",
    [
        lambda: ToolResult(output=None),  # pyright: ignore[reportArgumentType]
        lambda: ToolResult(output=b"bytes"),  # pyright: ignore[reportArgumentType]
        lambda: ToolResult(requests=("x",)),  # pyright: ignore[reportArgumentType]
        lambda: ToolResult(metadata=None),  # pyright: ignore[reportArgumentType]
        lambda: _raise(Odd("panic")),
        lambda: _raise(Unprintable()),
        lambda: _raise(asyncio.CancelledError()),
        lambda: {1, 2},
    ],
)
async def test_whatever_a_tool_gives_is_one_result(give: Any) -> None:
    """[ODD-02] Wrong results and odd exceptions are error results; the run and its siblings go on."""

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return give()

    odd = Tool("odd", "Odd.", {"type": "object"}, execute)
    async with Client(model=calling("odd"), builtins=False, tools=[odd]) as c:
        result = await c.ask("go", conversation="t")
        answer = result.messages[2].tool_results[0]
        assert answer.is_error and isinstance(answer.output, str) and answer.output
        assert result.status == "done" and len(await c.conversation("t").messages()) == 4
        assert (await c.toolkit.execute("odd")).is_error


@pytest.mark.parametrize("point", ["before_tool", "after_tool"])
@pytest.mark.parametrize("odd", ["text", asyncio.CancelledError(), Unprintable()])
async def test_an_odd_hook_fails_closed(point: str, odd: Any) -> None:
    """[ODD-03] A hook that returns nonsense or makes up a cancel refuses the call and ends no run."""

    @tool
    async def fine() -> str:
        """Fine."""
        return "fine"

    class Hook:
        pass

    def hook(self: Hook, *_: object) -> Any:
        return odd if isinstance(odd, str) else _raise(odd)

    setattr(Hook, point, hook)
    async with Client(model=calling("fine"), builtins=False, tools=[fine], hooks=[Hook()]) as c:
        result = await c.ask("go")
    assert result.status == "done" and result.messages[2].tool_results[0].is_error
    if isinstance(odd, str):
        assert f"{point} may return" in result.text


async def test_a_check_that_fails_is_an_error_result() -> None:
    """[ODD-04] A tool's own `validate` is foreign code too."""

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return "ran"

    strict = Tool(
        "strict", "Strict.", {"type": "object"}, execute, validate=lambda a: _raise(ValueError("no"))
    )
    async with Client(model=calling("strict"), builtins=False, tools=[strict]) as c:
        assert "could not be checked: ValueError: no" in (await c.ask("go")).text


async def test_a_model_that_makes_up_a_cancel_is_a_failure() -> None:
    """[ODD-05] Nobody cancelled: the ask raises an error, not `CancelledError`."""
    model = FunctionModel(lambda r: _raise(asyncio.CancelledError()))
    async with Client(model=model, builtins=False) as c:
        with pytest.raises(RuntimeError, match="from inside"):
            await c.ask("go")
        with pytest.raises(RuntimeError, match="from inside"):
            async with c.stream("go") as stream:
                async for _ in stream:
                    pass


async def test_a_question_after_the_deadline_does_not_stop_the_stop() -> None:
    """[ODD-01] A tool that swallows its cancel and asks: the question is answered, and the run is over."""
    asked: list[str] = []

    @tool
    async def stubborn(ctx: ToolContext) -> str | ToolResult:
        """Ask when it is too late."""
        if ctx.answer is not None:
            return "answered"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return pending(kind="question", prompt="more time?")
        return ""

    async def on_request(request: Request) -> Answer:
        asked.append(request.prompt)
        return Answer(id=request.id)

    async with Client(
        model=calling("stubborn"),
        builtins=False,
        tools=[stubborn],
        on_request=on_request,
        budget=Budget(seconds=0.05),
    ) as c:
        async with asyncio.timeout(10):
            result = await c.ask("go")
    assert (result.status, result.limit, result.turns, asked) == ("incomplete", "seconds", 1, ["more time?"])
    assert result.messages[-1].tool_results[0].output == "answered"


async def test_a_slot_that_was_lost_is_taken_again() -> None:
    """[ODD-06] A nested run that is cut while it delegates does not widen the concurrency."""
    active = most = 0
    inner = Agent(name="inner", agents=["leaf"], budget=Budget(seconds=0.05))

    @tool
    async def nest(ctx: ToolContext) -> str:
        """Run an agent that delegates and is cut."""
        return (await ctx.run(inner, "go")).status

    async def fn(request: ModelRequest) -> Message | str:
        nonlocal active, most
        if request.agent == "main":
            tasks = [call("task", agent="outer", prompt=str(i)) for i in range(4)]
            return assistant("", *tasks) if request.turn == 1 else "end"
        if request.agent == "inner":
            return assistant("", call("task", agent="leaf", prompt="p"))
        if request.agent == "leaf":
            await asyncio.Event().wait()
        if request.turn == 1:
            return assistant("", call("nest"))
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.02)
        active -= 1
        return "ok"

    agents = [Agent(name="outer", tools=["nest"]), Agent(name="leaf")]
    async with Client(
        model=FunctionModel(fn), builtins=False, tools=[nest], agents=agents, budget=Budget(concurrency=1)
    ) as c:
        async with asyncio.timeout(10):
            assert (await c.ask("go")).status == "done"
    assert most == 1


async def test_branches_that_lost_their_slot_get_it_back_together() -> None:
    """[ODD-06] Two branches of one run, whose helpers were cut while they delegated, and a run that took the
    only slot meanwhile: nobody waits for ever."""
    cut: list[str] = []
    both = asyncio.Event()
    inner = Agent(name="inner", agents=["leaf"], budget=Budget(seconds=0.02))

    @tool
    async def nest(ctx: ToolContext) -> str:
        """Run an agent that delegates and is cut."""
        cut.append((await ctx.run(inner, "go")).status)
        if len(cut) == 2:
            both.set()
        await both.wait()
        return "cut"

    async def fn(request: ModelRequest) -> Message | str:
        if request.agent == "main":
            tasks = [call("task", agent=agent, prompt="p") for agent in ("flow", "slow")]
            return assistant("", *tasks) if request.turn == 1 else "end"
        if request.agent == "slow":
            await both.wait()
            await asyncio.sleep(0.05)
            return "slow"
        if request.agent == "inner":
            return assistant("", call("task", agent="leaf", prompt="p"))
        return assistant("", call("nest")) if request.turn == 1 else "ok"

    branches = [AgentStep(Agent(name=name, tools=["nest"])) for name in "ab"]
    flow = as_runnable(Parallel(*branches), "flow", "Two at once.")
    async with Client(
        model=FunctionModel(fn),
        builtins=False,
        tools=[nest],
        agents=[flow, Agent(name="slow"), Agent(name="leaf")],
        budget=Budget(concurrency=1),
    ) as c:
        async with asyncio.timeout(10):
            result = await c.ask("go")
    assert (result.text, cut) == ("end", ["incomplete", "incomplete"])
    assert [run.status for run in result.sub_agents] == ["done", "done"]


async def test_turns_without_usage_cost_the_same_each() -> None:
    """[ODD-07] The estimate counts new messages only."""

    class Counted(list[Message]):
        looked = 0

        def __getitem__(self, key: Any) -> Any:
            found = cast("Any", super().__getitem__(key))
            if isinstance(key, slice):
                Counted.looked += len(found)
            return found

    @tool
    async def noop() -> str:
        """Nothing."""
        return ""

    class Watch:
        def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
            from dataclasses import replace

            return replace(request, messages=Counted(request.messages))

    model = FunctionModel(lambda r: assistant("", call("noop")) if r.turn < 50 else "end")
    async with Client(model=model, builtins=False, tools=[noop], max_turns=60, hooks=[Watch()]) as c:
        result = await c.ask("go")
    assert result.usage.estimated and result.turns == 50
    assert Counted.looked == len(result.messages) - 1


async def test_a_call_that_the_host_makes_runs_under_the_rules_of_its_client() -> None:
    """[ODD-08] `toolkit.execute` opens the client, keeps its limits, asks its people, ends with it."""
    turns: list[int] = []

    def child(request: ModelRequest) -> Message:
        turns.append(request.turn)
        return assistant("working", call("noop"))

    async def answer(request: Request) -> Answer:
        return Answer(id=request.id, data="blue")

    @tool
    async def noop() -> str:
        """Nothing."""
        return ""

    client = Client(
        model=FunctionModel(child),
        tools=[noop],
        builtins=["question", "bash"],
        agents=[Agent(name="x", tools=["noop"])],
        max_turns=3,
        on_request=answer,
    )
    asked = await client.toolkit.execute("question", {"questions": [{"question": "Which?"}]})
    assert asked.output == "blue"
    done = await client.toolkit.execute("task", {"agent": "x", "prompt": "p"})
    assert done.output == "working\n[incomplete: max_turns 3]" and turns == [1, 2, 3]
    running = asyncio.create_task(client.toolkit.execute("bash", {"command": "sleep 30"}))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(5):
        await client.aclose()
        ended = await running
    assert ended.is_error and "closed" in ended.output
    late = await client.toolkit.execute("bash", {"command": "echo hi"})
    assert late.is_error and "closed" in late.output
