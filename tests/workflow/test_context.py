"""What a run threads down the tree: runner, model, scratchpad, deps, trace, and each agent's own tools."""

import asyncio
import threading
from typing import Any

import pytest

from tests.workflow.worlds import EVERY_STYLE, Asked, Said, client, function_model, task
from toolnexus import Agent, Budget, Client, ConfigError, Price, RunContext, ToolContext, Usage, tool
from toolnexus.testing import ScriptedModel
from toolnexus.workflow import (
    SCRATCHPAD,
    AgentReply,
    AgentStep,
    CoordinatorStep,
    FanOut,
    Fn,
    ModelRunner,
    Parallel,
    Scratchpad,
    Sequential,
    Slot,
    as_tool,
    delegate_to,
    with_runner,
)

pytestmark = pytest.mark.anyio

SHARED: Slot[str] = Slot("shared", str)
MINE: Slot[list[str]] = Slot("mine", list[str], scope="branch")


def pad_of(ctx: RunContext | ToolContext) -> Scratchpad:
    pad = ctx.get(SCRATCHPAD)
    assert pad is not None
    return pad


@tool
async def look(ctx: ToolContext) -> str:
    """Read the shared slot."""
    return pad_of(ctx).get(SHARED) or "nothing"


@tool
async def leave(text: str, ctx: ToolContext) -> str:
    """Write the shared slot."""
    pad_of(ctx).set(SHARED, text)
    return "left"


@EVERY_STYLE
async def test_a_run_slot_reaches_a_delegated_agent_and_comes_back(style: str) -> None:
    """[WF-20] What the coordinator writes the sub-agent sees; what the sub-agent writes, the coordinator."""

    def brain(asked: Asked) -> Said:
        from toolnexus.testing import call

        if "coordinator" in asked.system:
            steps: list[Said] = [
                call("leave", text="from above"),
                task("helper"),
                call("look"),
                f"saw {asked.last}",
            ]
            return steps[asked.turn - 1]
        steps = [call("look"), call("leave", text=f"{asked.last}, then from below"), "done"]
        return steps[asked.turn - 1]

    helper = Agent(name="helper", description="d", system_prompt="helper", tools=[look, leave])
    chief = Agent(name="chief", system_prompt="coordinator", tools=[look, leave])
    async with client(style, brain) as (one, _):
        pad = Scratchpad()
        result = await one.run(delegate_to(chief, helper), "go", scratchpad=pad)
    assert result.output == "saw from above, then from below"
    assert pad.get(SHARED) == "from above, then from below"


@EVERY_STYLE
async def test_branch_slots_of_two_calls_at_once_are_apart(style: str) -> None:
    """[WF-21] The same agent asked twice in one turn: each call has an empty slot of its own."""
    met = asyncio.Barrier(2)

    @tool
    async def note(text: str, ctx: ToolContext) -> str:
        """Add to the own slot, while the other does the same."""
        pad = pad_of(ctx)
        kept = pad.get(MINE) or []
        await met.wait()
        pad.set(MINE, [*kept, text])
        await met.wait()
        return ",".join(pad.get(MINE) or [])

    def brain(asked: Asked) -> Said:
        from toolnexus.testing import call

        if "coordinator" in asked.system:
            return [task("helper", "a"), task("helper", "b")] if asked.turn == 1 else asked.last
        return call("note", text=asked.last) if asked.turn == 1 else asked.last

    helper = Agent(name="helper", description="d", tools=[note])
    async with client(style, brain) as (one, _):
        pad = Scratchpad()
        result = await one.run(
            delegate_to(Agent(name="c", system_prompt="coordinator", tools=[]), helper), "go", scratchpad=pad
        )
    assert sorted(result.output.split("\n")) == ["a", "b"]
    assert pad.get(MINE) is None, "nothing is merged back: there is no order to merge in"


async def test_two_hundred_times_at_once_is_the_same_every_time() -> None:
    """[WF-21] The same agent delegated to twice keeps two pads apart and one run slot shared."""
    counted: Slot[list[str]] = Slot("counted", list[str])

    @tool
    async def note(text: str, ctx: ToolContext) -> str:
        """Write both slots."""
        pad = pad_of(ctx)
        pad.set(MINE, [*(pad.get(MINE) or []), text])
        shared = pad.get(counted)
        assert shared is not None
        shared.append(text)
        await asyncio.sleep(0)
        return ",".join(pad.get(MINE) or [])

    def brain(asked: Asked) -> Said:
        from toolnexus.testing import call

        if "coordinator" in asked.system:
            return [task("helper", "a"), task("helper", "b")] if asked.turn == 1 else asked.last
        return call("note", text=asked.last) if asked.turn == 1 else asked.last

    helper = Agent(name="helper", description="d", tools=[note])
    flow = delegate_to(Agent(name="c", system_prompt="coordinator", tools=[]), helper)
    async with client("function", brain) as (one, _):
        for _ in range(200):
            pad = Scratchpad()
            pad.set(counted, [])
            result = await one.run(flow, "go", scratchpad=pad)
            assert result.output == "a\nb" and sorted(pad.get(counted) or []) == ["a", "b"]


@EVERY_STYLE
async def test_deps_are_the_same_object_at_every_depth(style: str) -> None:
    """[WF-22] Never copied: a lock is the same one in a sub-agent of a sub-agent and in a thread."""
    lock = threading.Lock()
    seen: list[Any] = []

    @tool
    async def see(ctx: ToolContext) -> str:
        """Look at the deps."""
        seen.append(ctx.deps)
        return "ok"

    @tool
    def see_in_a_thread(ctx: ToolContext) -> str:
        """Look at the deps from a thread."""
        seen.append(ctx.deps)
        return "ok"

    def brain(asked: Asked) -> Said:
        from toolnexus.testing import call

        below = {"one": task("two"), "two": task("three"), "three": [call("see"), call("see_in_a_thread")]}
        return below[asked.system] if asked.turn == 1 else "ok"

    three = Agent(name="three", description="d", system_prompt="three", tools=[see, see_in_a_thread])
    two = CoordinatorStep(Agent(name="two", system_prompt="two", tools=[]), [three])
    one_step = CoordinatorStep(Agent(name="one", system_prompt="one", tools=[]), [two])

    async def last(value: str, ctx: RunContext) -> str:
        from toolnexus.runtime.context import DEPS

        seen.append(ctx.get(DEPS))
        return value

    async with client(style, brain) as (one, _):
        await one.run(Parallel(one_step, Fn(last)), "go", deps=lock)
    assert len(seen) == 3 and all(each is lock for each in seen)


@EVERY_STYLE
async def test_a_delegated_agent_has_its_own_tools_and_nobody_elses(style: str) -> None:
    """[WF-23] The coordinator's tools are not offered to it, and its tools run."""

    @tool
    async def own() -> str:
        """Mine."""
        return "own ran"

    @tool
    async def chiefs() -> str:
        """The chief's."""
        return "never"

    def brain(asked: Asked) -> Said:
        from toolnexus.testing import call

        if "coordinator" in asked.system:
            return task("helper") if asked.turn == 1 else asked.last
        return call("own") if asked.turn == 1 else asked.last

    helper = Agent(name="helper", description="d", tools=[own])
    chief = Agent(name="c", system_prompt="coordinator", tools=[chiefs])
    async with client(style, brain) as (one, seen):
        result = await one.run(delegate_to(chief, helper), "go")
    assert result.output == "own ran"
    assert [sorted(asked.tools) for asked in seen] == [
        ["chiefs", "helper"],
        ["own"],
        ["own"],
        ["chiefs", "helper"],
    ]


@EVERY_STYLE
async def test_a_bare_line_of_agents_runs_their_tools(style: str) -> None:
    """[WF-23] Every leaf has the tools of its agent, with no coordinator anywhere."""

    @tool
    async def double(n: int) -> str:
        """Double."""
        return str(2 * n)

    def brain(asked: Asked) -> Said:
        from toolnexus.testing import call

        return call("double", n=int(asked.last)) if asked.turn == 1 else asked.last

    agent = Agent(name="a", tools=[double])
    async with client(style, brain) as (one, _):
        result = await one.run(Sequential(AgentStep(agent), AgentStep(agent), Fn(int)), "3")
    assert result.output == 12


class Echo:
    """An executor of the host's."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def run(self, agent: Agent, message: Any, ctx: RunContext) -> AgentReply:
        self.asked.append((agent.name, message, ctx.path))
        return AgentReply(f"echo {message}", Usage(prompt_tokens=7, completion_tokens=3), "echo-model")

    async def run_structured(self, agent: Agent, message: Any, output_type: Any, ctx: RunContext) -> Any:
        self.asked.append((agent.name, message, ctx.path))
        return output_type(message)


async def test_what_a_runner_of_the_host_reports_is_priced() -> None:
    """[COST-09] By the model of the reply, else by its class; below a ceiling, never without the latter."""
    echo, price = Echo(), Price(input=1, output=10)
    step = AgentStep(Agent(name="a", tools=[]), runner=echo)
    options: dict[str, Any] = {"model": ScriptedModel([]), "builtins": False}
    for name in ("echo-model", "Echo"):
        async with Client(**options, prices={name: price}) as one:
            assert (await one.run(step, "q")).usage.cost == pytest.approx(37e-6)
    async with Client(**options, prices={"Echo": price}, budget=Budget(cost=0.00003)) as one:
        result = await one.run(Sequential(step, step), "q")
    assert (result.status, result.limit, len(echo.asked)) == ("incomplete", "cost", 3)
    async with Client(**options, prices={"other": price}, budget=Budget(cost=1)) as one:
        with pytest.raises(ConfigError, match=r"prices=\{'Echo': Price\("):
            await one.run(step, "q")
    assert len(echo.asked) == 3


@EVERY_STYLE
async def test_with_runner_changes_its_subtree_only(style: str) -> None:
    """[WF-24] A sibling keeps the ambient one; structured output goes through it; usage rolls up."""
    echo = Echo()
    there = with_runner(
        Parallel(AgentStep(Agent(name="a", tools=[])), AgentStep(Agent(name="b", tools=[]), output_type=int)),
        echo,
    )
    flow = Parallel(there, AgentStep(Agent(name="c", tools=[])))
    async with client(style, lambda asked: f"loop {asked.last}") as (one, seen):
        result = await one.run(flow, "5")
    assert result.output == [["echo 5", 5], "loop 5"]
    assert [name for name, _, _ in echo.asked] == ["a", "b"] and len(seen) == 1
    assert result.usage.by("model")["echo-model"].total_tokens == 10
    assert [child.path[0] for child in result.sub_agents] == ["parallel"] * 3


async def test_a_step_with_a_runner_of_its_own_keeps_it() -> None:
    """[WF-24] The nearest one wins, for that step alone; a team below runs on the subtree's."""
    inner, outer = Echo(), Echo()
    step = AgentStep(Agent(name="a", tools=[]), runner=inner)
    flow = with_runner(Sequential(step, AgentStep(Agent(name="b", tools=[]))), outer)
    async with client("function", lambda asked: "never") as (one, seen):
        result = await one.run(flow, "q")
    assert result.output == "echo echo q" and not seen
    assert [name for name, *_ in inner.asked] == ["a"] and [name for name, *_ in outer.asked] == ["b"]


async def test_a_subtree_may_run_on_another_model() -> None:
    """[WF-24] `ModelRunner` is the loop with another model: tools and members below are as ever."""

    async def other(asked: Asked) -> tuple[str, list[Any]]:
        return f"{asked.model}: {asked.last}", []

    model = function_model(other, name="other")
    flow = Parallel(
        with_runner(AgentStep(Agent(name="a", tools=[])), ModelRunner(model)),
        AgentStep(Agent(name="b", tools=[])),
    )
    async with client("function", lambda asked: f"{asked.model}: {asked.last}") as (one, _):
        result = await one.run(flow, "q")
    assert result.output == ["other: q", "main: q"]


@EVERY_STYLE
async def test_a_step_with_a_model_changes_that_step_only(style: str) -> None:
    """[WF-25] Name and runner are overridden independently; the request shows the model."""
    step = AgentStep(Agent(name="a", tools=[]), model=f"{style}:other" if style != "function" else "openai:x")
    if style == "function":

        async def other(asked: Asked) -> tuple[str, list[Any]]:
            return "other", []

        step = AgentStep(Agent(name="a", tools=[]), model=function_model(other, "other"))
    async with client(style, lambda asked: asked.model) as (one, _):
        result = await one.run(Parallel(step, AgentStep(Agent(name="b", tools=[]))), "q")
    assert result.output == ["other", "main"]


@EVERY_STYLE
async def test_the_same_workflow_twice_at_once_does_not_mix(style: str) -> None:
    """[WF-26] A tree keeps nothing of a run."""
    both = asyncio.Barrier(2)

    async def meet(value: str) -> str:
        await both.wait()
        return value

    flow = Sequential(Fn(meet), AgentStep(Agent(name="a", tools=[])), Fn(meet))
    async with client(style, lambda asked: f"re {asked.last}") as (one, _):
        results = await asyncio.gather(one.run(flow, "x"), one.run(flow, "y"))
    assert [result.output for result in results] == ["re x", "re y"]


async def test_a_branch_never_sees_the_append_of_another() -> None:
    """[WF-27] Branch slots begin empty and are merged in index order, whatever ends first."""
    first_is_last = asyncio.Event()
    found: Slot[list[int]] = Slot("found", list[int], scope="branch", merge="append")
    newest: Slot[int] = Slot("newest", int, scope="branch", merge="last")
    total: Slot[int] = Slot("total", int, scope="branch", merge=lambda a, b: (a or 0) + b)
    dropped: Slot[int] = Slot("dropped", int, scope="branch")

    async def work(n: int, ctx: RunContext) -> int:
        pad = pad_of(ctx)
        assert pad.get(found) is None
        if n == 0:
            await first_is_last.wait()
        for slot in (newest, total, dropped):
            pad.set(slot, n)
        pad.set(found, [n])
        if n == 3:
            first_is_last.set()
        return n

    pad = Scratchpad()
    pad.set(found, [-1])
    async with client("function", lambda asked: "") as (one, _):
        result = await one.run(FanOut(Fn(work)), [0, 1, 2, 3], scratchpad=pad)
    assert result.output == [0, 1, 2, 3]
    assert (pad.get(found), pad.get(newest), pad.get(total), pad.get(dropped)) == (
        [-1, 0, 1, 2, 3],
        3,
        6,
        None,
    )


async def test_a_value_is_never_copied_behind_the_back() -> None:
    """[WF-27] What is read is the object that was set, in every branch, for run slots."""
    box: Slot[Any] = Slot("box")
    thing = object()
    seen: list[Any] = []

    async def see(value: int, ctx: RunContext) -> int:
        seen.append(pad_of(ctx).get(box))
        return value

    pad = Scratchpad()
    pad.set(box, thing)
    async with client("function", lambda asked: "") as (one, _):
        await one.run(Sequential(Fn(see), Parallel(Fn(see), Fn(see))), 1, scratchpad=pad)
    assert len(seen) == 3 and all(each is thing for each in seen)


async def test_without_a_pad_there_is_a_fresh_one_for_each_run() -> None:
    """[WF-27] A slot that nobody set has no value, in the next run too."""
    count: Slot[int] = Slot("count", int)

    async def bump(value: int, ctx: RunContext) -> int:
        pad = pad_of(ctx)
        pad.set(count, (pad.get(count) or 0) + value)
        return pad.get(count) or 0

    flow = Sequential(Fn(bump), Fn(bump))
    async with client("function", lambda asked: "") as (one, _):
        assert (await one.run(flow, 1)).output == 2
        assert (await one.run(flow, 1)).output == 2


async def test_a_node_is_a_tool_with_typed_arguments() -> None:
    """[WF-28] A node as a tool of any agent, below the call, with the caller's deps."""
    from dataclasses import dataclass

    from toolnexus.testing import call

    @dataclass
    class Pair:
        a: int
        b: int

    async def add(pair: Pair, ctx: RunContext) -> int:
        from toolnexus.runtime.context import DEPS

        return pair.a + pair.b + (ctx.get(DEPS) or 0)

    adder = as_tool(Fn(add), "add", "Add.", Pair)

    def brain(asked: Asked) -> Said:
        return call("add", a=1, b=2) if asked.turn == 1 else asked.last

    async with client("function", brain, tools=[adder]) as (one, _):
        result = await one.ask("go", deps=10)
    assert result.text == "13" and result.sub_agents[0].path == ("main", "add.call")


def test_what_is_no_slot_is_told() -> None:
    """[WF-27] At once, with what is allowed."""
    with pytest.raises(ConfigError, match="scope='tree' must be 'run' or 'branch'"):
        Slot("x", int, scope="tree")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="merge='last' goes with scope='branch'"):
        Slot("x", int, merge="last")
    with pytest.raises(ConfigError, match="give 'last', 'append'"):
        Slot("x", int, scope="branch", merge="first")  # type: ignore[arg-type]
    pad = Scratchpad()
    pad.set(Slot("x", int), 1)
    with pytest.raises(ConfigError, match="with different scopes"):
        pad.get(Slot("x", int, scope="branch"))


async def test_a_workflow_runs_without_a_client_to_keep() -> None:
    """[WF-29] `toolnexus.run(node, …)`."""
    import toolnexus

    result = await toolnexus.run(Fn(len), "four")
    assert result.output == 4
