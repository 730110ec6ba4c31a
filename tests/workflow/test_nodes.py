"""Order, width, errors, limits, cancel and events of nodes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import toolnexus.workflow as workflow
from tests.workflow.worlds import EVERY_STYLE, Asked, Said, client, task
from toolnexus import (
    Agent,
    Budget,
    Client,
    ConfigError,
    NodeFinished,
    NodeStarted,
    RunContext,
    RunError,
    RunResult,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply
from toolnexus.workflow import (
    AgentStep,
    CoordinatorStep,
    FanOut,
    Fn,
    Loop,
    Node,
    Parallel,
    Sequential,
    Switch,
    as_runnable,
    as_tool,
)

pytestmark = pytest.mark.anyio


async def plus(n: int) -> int:
    return n + 1


def double(n: int) -> int:
    return 2 * n


async def out_of(node: Node[Any, Any], input: Any, **options: Any) -> Any:
    async with Client(model=ScriptedModel(), builtins=False, **options) as one:
        return (await one.run(node, input)).output


async def test_each_output_is_the_next_input() -> None:
    """[WF-01] Functions plain and async, with and without the context."""

    def named(n: int, ctx: RunContext) -> str:
        return f"{ctx.path[0]} {n}"

    assert await out_of(Sequential(Fn(plus), Fn(double), Fn(named)), 1) == "sequential 4"


async def test_branches_get_the_same_input_and_come_out_in_node_order() -> None:
    """[WF-02] Whatever ends first; they run at once."""
    both, order = asyncio.Barrier(2), list[str]()

    async def late(n: int) -> str:
        await both.wait()
        await asyncio.sleep(0)
        order.append("late")
        return f"late {n}"

    async def early(n: int) -> str:
        await both.wait()
        order.append("early")
        return f"early {n}"

    async with asyncio.timeout(10):
        assert await out_of(Parallel(Fn(late), Fn(early)), 1) == ["late 1", "early 1"]
    assert order == ["early", "late"]


async def test_a_fan_out_keeps_its_width_and_its_order() -> None:
    """[WF-03] Twenty items at width four: never more than four under way."""
    now, most, gate = 0, 0, asyncio.Event()

    async def work(n: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 4:
            gate.set()
        await gate.wait()
        await asyncio.sleep(0)
        now -= 1
        return -n

    async with asyncio.timeout(10):
        assert await out_of(FanOut(Fn(work), width=4), range(20)) == [-n for n in range(20)]
    assert most == 4


async def test_what_fails_is_in_the_list_when_it_is_collected() -> None:
    """[WF-04] Every error at its index; the others are whole."""

    def odd(n: int) -> int:
        if n % 2:
            raise ValueError(f"odd {n}")
        return n

    found = await out_of(FanOut(Fn(odd), width=4, on_error="collect"), range(20))
    assert [str(one) if isinstance(one, ValueError) else one for one in found] == [
        f"odd {n}" if n % 2 else n for n in range(20)
    ]


@EVERY_STYLE
async def test_a_failing_branch_cancels_the_others_and_is_raised_as_itself(style: str) -> None:
    """[WF-04] No exception group, and nothing outlives it."""
    waiting, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    async def fail(value: str) -> str:
        await waiting.wait()
        raise KeyError("mine")

    flow = Parallel(AgentStep(Agent(name="a", tools=[wait])), Fn(fail))
    async with client(style, lambda asked: call("wait")) as (one, _):
        with pytest.raises(KeyError, match="mine") as failure:
            await one.run(flow, "go")
    assert cancelled.is_set()
    assert failure.value.__notes__ == ["in the node parallel/parallel/fail"]


async def test_a_loop_ends_when_it_is_enough() -> None:
    """[WF-05] `until` sees each output once; async will do."""
    seen: list[int] = []

    async def enough(n: int) -> bool:
        seen.append(n)
        return n >= 3

    assert await out_of(Loop(Fn(plus), enough, max_rounds=9), 0) == 3
    assert seen == [1, 2, 3]


async def test_a_loop_at_its_cap_is_incomplete_with_the_last_output() -> None:
    """[WF-05] Never a silent success, also in the middle of a sequence."""
    after: list[int] = []
    flow = Sequential(Loop(Fn(plus), lambda n: False, max_rounds=4), Fn(after.append))
    async with Client(model=ScriptedModel(), builtins=False) as one:
        result = await one.run(flow, 0)
    assert (result.status, result.limit, result.output) == ("incomplete", "max_rounds", 4)
    assert after == [] and result.limits_hit[0].value == 4


async def test_a_switch_takes_one_branch_by_value() -> None:
    """[WF-06] Else the default; without one a value that fits no case is an error that lists them."""
    flow = Switch(lambda n: n % 3, {0: Fn(plus), 1: Fn(double)})
    assert await out_of(flow, 3) == 4 and await out_of(flow, 4) == 8
    with pytest.raises(RunError, match=r"no case for 2; there are: \[0, 1\]"):
        await out_of(flow, 5)
    assert await out_of(Switch(lambda n: n % 3, {0: Fn(plus)}, Fn(double)), 5) == 10


async def test_an_agent_that_a_limit_stops_ends_the_workflow_incomplete() -> None:
    """[WF-07] With its text so far; what comes behind does not run on half an answer."""

    @tool
    async def more() -> str:
        """More."""
        return "more"

    model = ScriptedModel([reply("so far", call("more")), reply("further", call("more"))])
    flow = Sequential(AgentStep(Agent(name="a", tools=[more], max_turns=1)), Fn(str.upper))
    async with Client(model=model, builtins=False) as one:
        result = await one.run(flow, "go")
    assert (result.status, result.limit, result.text) == ("incomplete", "max_turns", "so far")


async def test_a_budget_holds_across_the_whole_tree() -> None:
    """[WF-08] Requests of every branch count in one budget, exactly."""
    model = ScriptedModel(["x"] * 9)
    flow = Sequential(*[AgentStep(Agent(name="a", tools=[])) for _ in range(9)])
    async with Client(model=model, builtins=False, budget=Budget(requests=4)) as one:
        result = await one.run(flow, "go")
    assert (result.status, result.limit, len(model.requests)) == ("incomplete", "requests", 4)
    assert result.usage.requests == 4 and len(result.sub_agents) == 5


@EVERY_STYLE
async def test_cancelling_the_top_stops_every_branch(style: str) -> None:
    """[WF-09] Nothing outlives it, and the result holds what was done."""
    both, stopped = asyncio.Barrier(3), list[str]()

    @tool
    async def wait(name: str) -> str:
        """Wait for ever."""
        try:
            await both.wait()
            await asyncio.Event().wait()
        finally:
            stopped.append(name)
        return "never"

    a, b = (AgentStep(Agent(name=name, system_prompt=name, tools=[wait])) for name in "ab")
    async with client(style, lambda asked: call("wait", name=asked.system)) as (one, _):
        running = asyncio.create_task(one.run(Parallel(a, b), "go"))
        async with asyncio.timeout(10):
            await both.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await running
    assert sorted(stopped) == ["a", "b"]
    result: RunResult = vars(cancelled.value)["result"]
    assert result.status == "incomplete" and len(result.sub_agents) == 2


@EVERY_STYLE
async def test_a_failure_deep_below_is_one_error_with_its_path(style: str) -> None:
    """[WF-10] A node in `Parallel`, in an agent's tool, in a coordinator: siblings are unharmed."""

    def broken(text: str) -> str:
        raise ValueError("it broke")

    inside = Parallel(Fn(broken), Fn(str.upper))
    worker = Agent(name="worker", description="d", tools=[as_tool(inside, "both", "Do both.")])

    def brain(asked: Asked) -> Said:
        if "coordinator" in asked.system:
            return [task("worker", "x"), task("fine", "y")] if asked.turn == 1 else asked.last
        if "fine" in asked.system:
            return "fine"
        return call("both", prompt="x") if asked.turn == 1 else asked.last

    fine = Agent(name="fine", description="d", system_prompt="fine", tools=[])
    flow = CoordinatorStep(Agent(name="c", system_prompt="coordinator", tools=[]), [worker, fine])
    async with client(style, brain) as (one, _):
        result = await one.run(flow, "go")
    told, sibling = result.output.rsplit("\n", 1)
    assert sibling == "fine" and told.count("it broke") == 1
    assert "'both' failed in c/c.0/worker." in told and "/parallel/broken: it broke" in told


async def test_a_tool_with_agents_in_it_counts_as_one_of_them() -> None:
    """[WF-11] Beyond the number it is refused like any delegation, and nothing of it runs."""
    inside = ScriptedModel(["one of it"])
    flow = as_tool(AgentStep(Agent(name="inner", model=inside)), "flow", "Do it.")
    script = ScriptedModel([reply(call("flow", prompt="a"), call("flow", prompt="b")), "end"])
    async with Client(model=script, builtins=False, tools=[flow], max_sub_agents=1) as one:
        result = await one.ask("go")
    first, second = result.messages[2].tool_results
    assert (first.is_error, first.output) == (False, "one of it") and second.is_error
    assert second.output.startswith("not started: all 1 sub-agents of this request have been started")
    assert (result.status, result.limit, len(inside.requests)) == ("incomplete", "max_sub_agents", 1)


@EVERY_STYLE
async def test_a_workflow_is_a_target_of_task(style: str) -> None:
    """[WF-11] Under a name and a description of its own, beside agents."""
    flow = as_runnable(Sequential(Fn(str.upper), Fn(len)), "measure", "Measures a text.")

    def brain(asked: Asked) -> Said:
        return call("task", agent="measure", prompt="four") if asked.turn == 1 else f"it is {asked.last}"

    async with client(style, brain, agents=[flow]) as (one, _):
        assert (await one.ask("go")).text == "it is 4"
        assert (await one.run("measure", "seven77")).output == 7


async def test_events_say_where_each_node_stands() -> None:
    """[WF-12] Start and end of every node with its path, in the one stream of the run."""
    flow = Sequential(Fn(plus), Parallel(Fn(double), Fn(plus)), name="flow")
    async with Client(model=ScriptedModel(), builtins=False) as one, one.stream(1, target=flow) as stream:
        events = [event async for event in stream]
    started = ["/".join(event.node) for event in events if isinstance(event, NodeStarted)]
    ended = ["/".join(event.node) for event in events if isinstance(event, NodeFinished)]
    assert started == ["flow", "flow/plus", "flow/parallel", "flow/parallel/double", "flow/parallel/plus"]
    assert sorted(ended) == sorted(started) and ended[-1] == "flow"
    assert {event.path for event in events} == {("flow",)}
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_a_failed_node_says_so_without_secrets() -> None:
    """[WF-12] The status is `error`, the text redacted."""

    def fail(value: str) -> str:
        raise ValueError("the key is sk-very-secret-0123456789")

    client = Client(
        model="openai:m", base_url="http://127.0.0.1:9", api_key="sk-very-secret-0123456789", builtins=False
    )
    events: list[Any] = []
    async with client as one:
        with pytest.raises(ValueError):
            async with one.stream("x", target=Fn(fail)) as stream:
                async for event in stream:
                    events.append(event)
    (ended,) = [event for event in events if isinstance(event, NodeFinished)]
    assert ended.status == "error" and ended.error is not None and "very-secret" not in ended.error


async def test_nested_agents_have_paths_below_the_workflow() -> None:
    """[WF-13] Roll-up by agent, and each run under a path of its own, the same every time."""
    model = ScriptedModel(["one", "two", "three"])
    agent = Agent(name="a", tools=[])
    flow = Sequential(AgentStep(agent), FanOut(AgentStep(agent), width=1), name="flow")
    flow = Sequential(
        AgentStep(agent), Fn(lambda text: [text, text]), FanOut(AgentStep(agent), width=1), name="flow"
    )
    async with Client(model=model, builtins=False) as one:
        result = await one.run(flow, "go")
    assert [child.path for child in result.sub_agents] == [
        ("flow", "a.0.0"),
        ("flow", "a.0.2.0"),
        ("flow", "a.0.2.1"),
    ]
    assert result.usage.by("agent")["a"].requests == 3 and result.output == ["two", "three"]


def test_the_tree_is_drawn() -> None:
    """[WF-14] As a Mermaid flowchart, labels escaped."""
    flow = Sequential(
        Fn(plus, name='say "hi"'),
        Parallel(AgentStep(Agent(name="a")), Switch(str, {"x": Fn(plus)}, Fn(double))),
        Fn(len),
        Loop(Fn(plus), bool, max_rounds=2),
    )
    text = flow.to_mermaid()
    assert text.startswith("flowchart TD\n") and text.count("subgraph") == text.count(
        "end\n"
    ) + text.endswith("end")
    assert "say #quot;hi#quot;" in text and '(["AgentStep: a"])' in text and "at most 2 times" in text


wf: Any = workflow


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: wf.Sequential(), "at least one node"),
        (lambda: wf.Sequential(plus), r"plus is a function; make it a node with Fn\(plus\)"),
        (lambda: wf.Parallel(Agent(name="a")), r"is an agent; make it a node with AgentStep\(agent\)"),
        (lambda: wf.Parallel(Fn), "Fn is a class; give an instance"),
        (lambda: wf.Sequential("x"), "'x' is no node"),
        (lambda: wf.Parallel(Fn(plus), on_error="ignore"), "on_error='ignore' must be 'fail' or 'collect'"),
        (lambda: wf.FanOut(Fn(plus), width=0), "width=0 must be 1 or more"),
        (lambda: wf.Loop(Fn(plus), bool, max_rounds=0), "max_rounds=0"),
        (lambda: wf.Loop(Fn(plus), None, max_rounds=1), "until=None"),
        (lambda: wf.Switch(str, {}), "at least one case"),
        (lambda: wf.Switch("x", {"a": Fn(plus)}), "give a function of the input"),
        (lambda: wf.Fn(3), "3 is no function"),
        (lambda: wf.Fn(lambda: 1), r"must be called as fn\(input\) or fn\(input, ctx\)"),
        (lambda: wf.AgentStep("a"), "give an Agent"),
        (lambda: wf.AgentStep(Agent(name="a"), prompt="say it"), "the prompt has no {input} in it"),
        (lambda: wf.AgentStep(Agent(name="a"), runner=object()), "ModelRunner"),
        (lambda: wf.AgentStep(Agent(name="a"), output_type=3), "output_type"),
        (lambda: wf.with_runner(Fn(plus), None), "ModelRunner"),
        (lambda: wf.CoordinatorStep(Agent(name="c"), []), "must be a list of agents or nodes"),
        (lambda: wf.CoordinatorStep(Agent(name="c"), [Agent(name="a"), Agent(name="a")]), r"called \['a'\]"),
        (lambda: wf.CoordinatorStep("x", []), "CoordinatorStep: agent='x' .*give an Agent"),
        (lambda: wf.CoordinatorStep(Agent(name="c"), 5), "team=5 must be a list of agents or nodes"),
        (lambda: wf.as_runnable(Fn(plus), "", "d"), "the name is empty"),
        (lambda: wf.as_tool(Fn(plus), "a", ""), "the description is empty"),
        (lambda: wf.as_tool(Fn(plus), "a tool", "d"), "tool name 'a tool' is not allowed"),
        (lambda: wf.as_tool(Fn(plus), "a", "d", {"type": "array"}), "the JSON Schema of an object"),
        (lambda: wf.as_tool(Fn(plus), "a", "d", "x"), "input_type"),
    ],
)
def test_what_is_no_workflow_is_told_where_it_is_written(make: Callable[[], Any], words: str) -> None:
    """[WF-15] At once, with what is allowed and what to write."""
    with pytest.raises(ConfigError, match=words):
        make()


async def test_a_fan_out_over_no_list_is_an_error() -> None:
    """[WF-15] Also over a text, which would fall apart into letters."""
    with pytest.raises(RunError, match="the input is str, no list of items"):
        await out_of(FanOut(Fn(plus)), "text")
    assert await out_of(FanOut(Fn(plus)), []) == []
