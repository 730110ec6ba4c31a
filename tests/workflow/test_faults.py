"""Whatever goes wrong around a workflow: runners, values, snapshots, budgets, cancels, many at once."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

import toolnexus.workflow as workflow
from tests.workflow.test_waiting import asker, brain
from tests.workflow.worlds import EVERY_STYLE, Asked, Said, as_json, client, task
from toolnexus import (
    Agent,
    Answer,
    Budget,
    ConfigError,
    LimitReached,
    MemoryStore,
    Request,
    RunError,
    RunResult,
    tool,
    user,
)
from toolnexus.graph import Board, BuildOptions, NodeContext, Registry, build
from toolnexus.runtime.context import Outcome, RunContext
from toolnexus.runtime.snapshot import Waiting
from toolnexus.testing import call
from toolnexus.workflow import (
    AgentReply,
    AgentStep,
    FanOut,
    Fn,
    Loop,
    ModelRunner,
    Node,
    Parallel,
    Sequential,
    Switch,
    delegate_to,
    with_runner,
)

pytestmark = pytest.mark.anyio

wf: Any = workflow

ASKING = Agent(name="a", tools=[asker([])])


class Gives:
    """An executor of the host's that gives anything, or raises it."""

    def __init__(self, what: Any) -> None:
        self._what = what

    async def run(self, agent: Agent, message: Any, ctx: Any) -> Any:
        if isinstance(self._what, BaseException):
            raise self._what
        return self._what

    async def run_structured(self, agent: Agent, message: Any, output_type: Any, ctx: Any) -> Any:
        return await self.run(agent, message, ctx)


@dataclass
class Risk:
    level: int


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("text", r"runner Gives gave str; give an AgentReply\(text\)"),
        (None, "runner Gives gave NoneType"),
        (AgentReply(cast("Any", 3)), "the text of its reply is int"),
        (AgentReply("x", cast("Any", 5)), "the usage of its reply is int"),
    ],
)
async def test_a_reply_of_a_runner_that_is_none_is_told(reply: Any, words: str) -> None:
    """[WF-71] By the name of the runner's class, with the place."""
    async with client("function", lambda asked: "never") as (one, _):
        with pytest.raises(RunError, match=words) as caught:
            await one.run(Sequential(AgentStep(Agent(name="a"), runner=Gives(reply))), "q")
    assert caught.value.__notes__ == ["in the node sequential/sequential/a"]


async def test_a_value_of_a_runner_is_held_to_its_type() -> None:
    """[WF-71] A type and a schema; what stands for one becomes one."""
    schema = {"type": "object", "properties": {"level": {"type": "integer"}}, "required": ["level"]}
    agent = Agent(name="a")
    async with client("function", lambda asked: "never") as (one, _):
        for given, kind, out in (
            ({"level": 3}, Risk, Risk(3)),
            (Risk(3), Risk, Risk(3)),
            ([1, 2], list[int], [1, 2]),
            ({"level": 3}, schema, {"level": 3}),
        ):
            step: Node[Any, Any] = AgentStep(agent, output_type=kind)
            assert (await one.run(with_runner(step, Gives(given)), "q")).output == out
        for wrong, kind in (("text", int), (None, Risk), ({"level": "high"}, schema), ("x", schema)):
            step = AgentStep(agent, output_type=kind)
            with pytest.raises(RunError, match=r"runner Gives gave \w+, which does not fit"):
                await one.run(with_runner(step, Gives(wrong)), "q")


@pytest.mark.parametrize("error", [ValueError("boom"), TimeoutError("late"), asyncio.CancelledError("fake")])
async def test_a_runner_that_raises_harms_its_branch_alone(error: BaseException) -> None:
    """[WF-71] Its error is in the list; a cancel that it made up is a failure like others."""
    flow = Parallel(
        AgentStep(Agent(name="a"), runner=Gives(error)), AgentStep(Agent(name="b")), on_error="collect"
    )
    async with client("function", lambda asked: "fine") as (one, _), asyncio.timeout(5):
        result = await one.run(flow, "q")
    failed, fine = result.output
    assert fine == "fine" and isinstance(failed, Exception) and result.status == "done"


class Torn:
    """Deps that raise in the middle."""

    @property
    def database(self) -> str:
        raise ConnectionError("the database is gone")


async def test_deps_that_raise_are_an_error_with_its_place() -> None:
    """[WF-71] And nothing else is disturbed."""

    def reads(value: str, ctx: Any) -> str:
        from toolnexus.runtime.context import DEPS

        return ctx.get(DEPS).database

    async with client("function", lambda asked: "fine") as (one, _):
        flow = Parallel(Fn(reads), AgentStep(Agent(name="b")), on_error="collect")
        failed, fine = (await one.run(flow, "q", deps=Torn())).output
        assert isinstance(failed, ConnectionError) and fine == "fine"
        assert failed.__notes__ == ["in the node parallel/parallel/reads"]


async def test_values_that_no_model_reads_are_told() -> None:
    """[WF-71] What an input is, and what to write; an empty model is none."""
    step = AgentStep(Agent(name="a", tools=[]))
    async with client("function", lambda asked: asked.last) as (one, _):
        for value in (object(), float("nan"), iter("ab")):
            with pytest.raises(RunError, match=r"step 'a': its input is a .* give prompt="):
                await one.run(step, value)
        assert (await one.run(step, Risk(3))).output == '{"level": 3}'
        for wrong in (AgentStep(Agent(name="a"), model=""), with_runner(step, ModelRunner(""))):
            with pytest.raises(ConfigError, match="model '' is not 'provider:name'"):
                await one.run(wrong, "q")
        with pytest.raises(ConfigError, match=r"scratchpad=3 .*give a Scratchpad\(\)"):
            await one.run(step, "q", scratchpad=cast("Any", 3))


# ---- what is kept over a wait


async def waiting(one: Any, flow: Any, value: Any = "x") -> tuple[dict[str, Any], list[Answer]]:
    result = await one.run(flow, value)
    assert result.status == "pending"
    answers = [Answer(id=request.id, ok=True, data=request.prompt) for request in result.pending]
    return as_json(result.snapshot), answers


async def test_what_can_be_read_once_is_no_value_to_keep() -> None:
    """[WF-72] It would be gone when the run goes on; a range is as good as a list."""

    def letters(text: str) -> Any:
        return (letter for letter in text)

    async with client("function", brain) as (one, _):
        for flow, value in (
            (Sequential(Fn(letters), FanOut(AgentStep(ASKING))), "ab"),
            (FanOut(AgentStep(ASKING)), iter("ab")),
        ):
            with pytest.raises(RunError, match="cannot be kept while the run waits"):
                await one.run(flow, value)
        assert (await one.run(Sequential(Fn(letters), Fn(list)), "ab")).output == ["a", "b"]
        flow = FanOut(AgentStep(ASKING, prompt="{input}"))
        snapshot, answers = await waiting(one, flow, range(2))
        assert (await one.resume(snapshot, answers, target=flow)).output == ["0?", "1?"]


async def test_values_of_json_mode_come_back() -> None:
    """[WF-72] Also those of types that take their JSON form only from JSON."""
    from pydantic import BaseModel, ConfigDict

    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        at: datetime
        pair: tuple[int, str]

    def make(value: str) -> Strict:
        return Strict(at=datetime(2020, 1, 1, tzinfo=UTC), pair=(1, value))

    make.__annotations__["return"] = Strict
    flow = Parallel(Fn(make), AgentStep(ASKING))
    async with client("function", brain) as (one, _):
        snapshot, answers = await waiting(one, flow)
        assert (await one.resume(snapshot, answers, target=flow)).output[0] == make("x")

        def wrong(value: str) -> int:
            return cast("Any", "no number")

        flow = Parallel(Fn(wrong), AgentStep(ASKING))
        snapshot, answers = await waiting(one, flow)
        with pytest.raises(RunError, match="a stored value is no <class 'int'> any more") as caught:
            await one.resume(snapshot, answers, target=flow)
        assert "no number" not in str(caught.value)


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no state": lambda frame: frame.update(state=None),
    "another state": lambda frame: frame.update(state=[1]),
    "done": lambda frame: frame["state"].update(done=[1]),
    "pads": lambda frame: frame["state"].update(pads={"0.0": 3}),
    "pad": lambda frame: frame["state"].update(pad={"run": 3}),
    "input": lambda frame: frame["state"].pop("input"),
    "scratch": lambda frame: next(iter(frame["waiting"].values()))["child"].update(scratch=3),
    "below": lambda frame: next(iter(frame["waiting"].values()))["child"].update(state={"done": {}}),
    "place": lambda frame: frame.update(waiting={"0.7": next(iter(frame["waiting"].values()))}),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_a_snapshot_of_another_form_is_an_error(edit: str) -> None:
    """[WF-73] Never a mix-up, and nothing that was approved runs."""
    answered: list[Any] = []
    flow = Sequential(Fn(str.upper), AgentStep(Agent(name="a", tools=[asker(answered)])))
    async with client("function", brain) as (one, _):
        snapshot, answers = await waiting(one, flow)
        EDITS[edit](snapshot["frame"])
        with pytest.raises(RunError, match=r"torn|no workflow|no agent"):
            await one.resume(snapshot, answers, target=flow)
    assert answered == []


async def test_a_snapshot_is_for_the_kind_of_target_that_asked() -> None:
    """[WF-73] An agent does not go on with a workflow, nor a workflow with an agent."""
    flow = Sequential(Fn(str.upper), AgentStep(ASKING))
    async with client("function", brain) as (one, seen):
        for mine, other in ((flow, ASKING), (ASKING, flow)):
            snapshot, answers = await waiting(one, mine)
            with pytest.raises(RunError, match="go on with the target that asked"):
                await one.resume(snapshot, answers, target=other)
    assert len(seen) == 2


async def test_another_target_does_not_use_the_waiting_run_up() -> None:
    """[RES-56] Of another name, or an agent, it is refused before anything runs; the right one goes on."""
    answered: list[Any] = []
    agent = Agent(name="a", tools=[asker(answered)])
    flow = Sequential(Fn(str.upper), AgentStep(agent), name="flow")
    wrong = Sequential(Fn(str.lower), AgentStep(agent), name="other"), Agent(name="flow", tools=agent.tools)
    async with client("function", brain, store=MemoryStore()) as (one, _):
        first = await one.run(flow, "x", conversation="c")
        answers = [Answer(id=first.pending[0].id, ok=True, data="yes")]
        for target in wrong:
            for waits in ("c", first):
                with pytest.raises(RunError, match=r"'flow' asked, .* go on with the target that asked"):
                    await one.resume(waits, answers, target=target)
        assert answered == [] and len(await one.conversation("c").pending()) == 1
        assert (await one.resume("c", answers, target=flow)).output == "yes"


class Plain:
    """A Runnable that keeps no state: it asks once, and gives the answer."""

    name = "desk"
    description = "Asks."

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        stood, ctx.frame.resumed = ctx.frame.resumed, None
        if stood is not None:
            (key,) = stood.waiting
            return Outcome(output=ctx.run.answers[key].data)
        ctx.frame.transcript.append(user(input))
        asks = Request(kind="question", prompt="what?")
        return Outcome(status="pending", requests=(asks,), waiting={asks.id: Waiting(requests=(asks,))})


async def test_another_kind_of_the_same_name_does_not_use_the_waiting_run_up() -> None:
    """[RES-56] Agent, workflow, graph and plain Runnable: no other kind goes on, though it is named alike."""
    ran: list[str] = []

    async def note(ctx: NodeContext, board: Board, config: Any) -> None:
        ran.append(ctx.node_id)

    registry = Registry()
    registry.node_type("note")(note)
    document: dict[str, Any] = {"name": "desk", "entry": "n", "nodes": [{"id": "n", "type": "note"}]}
    document["edges"] = [{"from": "n", "to": "__end__"}]
    agent = Agent(name="desk", tools=[asker(ran)])
    flow = Sequential(Fn(ran.append, name="fn"), AgentStep(ASKING), name="desk")
    graph = build(document, registry, BuildOptions())
    for mine, others in ((agent, (flow, graph, Plain())), (Plain(), (agent,))):
        async with client("function", brain, store=MemoryStore()) as (one, seen):
            first = await one.run(mine, "x", conversation="c")
            answers = [Answer(id=first.pending[0].id, ok=True, data="yes")]
            asked = len(seen)
            for target in others:
                for waits in ("c", first):
                    with pytest.raises(RunError, match=r"'desk' asked, .* go on with the target that asked"):
                        await one.resume(waits, answers, target=target)
            assert ran == [] and len(seen) == asked and len(await one.conversation("c").pending()) == 1
            assert (await one.resume("c", answers, target=mine)).text == "yes"
            ran.clear()


async def test_of_many_that_resume_a_workflow_one_runs_it() -> None:
    """[WF-74] In several clients over one store: every node once, and all get the same end."""
    ran: list[str] = []

    def note(value: str) -> str:
        ran.append(value)
        return value

    answered: list[Any] = []
    agent = Agent(name="a", tools=[asker(answered)])
    flow = Sequential(Fn(note), AgentStep(agent), Fn(note), name="flow")
    store = MemoryStore()
    async with client("function", brain, store=store, agents=[flow]) as (one, _):
        first = await one.run("flow", "x", conversation="c")
        answers = [Answer(id=first.pending[0].id, ok=True, data="yes")]
        async with client("function", brain, store=store, agents=[flow]) as (two, _):
            given = await asyncio.gather(*[each.resume("c", answers) for each in (one, two) * 5])
    assert ran == ["x", "yes"] and answered == ["yes"]
    assert {result.status for result in given} <= {"done", "pending"}
    assert {result.output for result in given if result.status == "done"} == {"yes"}


# ---- limits and cancels


@EVERY_STYLE
async def test_collected_branches_keep_errors_and_limits(style: str) -> None:
    """[WF-75] Each at its index, whole results beside them; a limit is a `LimitReached`."""

    @tool
    async def more() -> str:
        """More."""
        return "more"

    def broken(value: str) -> str:
        raise ValueError("it broke")

    def answers(asked: Asked) -> Said:
        return call("more") if asked.tools else f"{asked.last}!"

    flow: Node[Any, Any] = Parallel(
        AgentStep(Agent(name="fine", tools=[])),
        AgentStep(Agent(name="endless", tools=[more], max_turns=2)),
        AgentStep(Agent(name="bounded", tools=[more], budget=Budget(requests=1))),
        Loop(Fn(str), lambda text: False, max_rounds=2),
        Fn(broken),
        on_error="collect",
    )
    async with client(style, answers) as (one, _):
        result = await one.run(flow, "x")
    assert result.output[0] == "x!" and str(result.output[4]) == "it broke"
    limits = [cast("LimitReached", one) for one in result.output[1:4]]
    assert all(isinstance(one, LimitReached) for one in limits)
    assert [one.limit for one in limits] == ["max_turns", "requests", "max_rounds"]


def thrice(text: str) -> list[str]:
    return [text] * 3


def plus(n: int) -> int:
    return n + 1


def late(n: int) -> bool:
    return n > 5


def very_late(n: int) -> bool:
    return n >= 10_000


def longer(text: str) -> str:
    return text + "x" * 1_000_000


def short(text: str) -> str:
    return "q"


def everything(tools: list[Any]) -> Node[Any, Any]:
    """A tree with every kind of node."""
    inner = Agent(name="inner", description="d", tools=tools)
    team = delegate_to(Agent(name="chief", system_prompt="chief", tools=[]), inner)
    return Sequential(
        Fn(thrice),
        FanOut(Sequential(AgentStep(inner), Parallel(AgentStep(inner), team)), width=2),
        Fn(len),
        Loop(Fn(plus), late, max_rounds=9),
        Switch(late, {True: AgentStep(inner, prompt="{input}"), False: Fn(str)}),
    )


async def test_a_cancel_at_every_step_leaves_nothing_behind() -> None:
    """[WF-76] No call and no task lives on, the conversation is free, and the budget of the next is whole."""
    live = 0

    @tool
    async def work(what: str) -> str:
        """Work."""
        nonlocal live
        live += 1
        try:
            await asyncio.sleep(0)
            return what
        finally:
            live -= 1

    async def said(asked: Asked) -> Said:
        await asyncio.sleep(0)
        if asked.system == "chief":
            return [task("inner", "a"), task("inner", "b")] if asked.turn == 1 else "done"
        return call("work", what=asked.last) if asked.turn == 1 else asked.last

    flow, steps = everything([work]), 0
    async with client("function", cast("Any", said), budget=Budget(requests=32)) as (one, _):
        async with asyncio.timeout(60):
            while True:
                before = asyncio.all_tasks()
                running = asyncio.create_task(one.run(flow, "x", conversation=f"c{steps}"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                over = running.done()
                running.cancel()
                await asyncio.wait([running])
                assert live == 0 and asyncio.all_tasks() == before, steps
                assert await one.conversation(f"c{steps}").pending() == ()
                if over:
                    break
                steps += 1
        assert running.result().output == "6" and steps > 20


@pytest.mark.parametrize("requests", [1, 2, 5, 13, 31])
async def test_a_budget_is_kept_wherever_it_ends(requests: int) -> None:
    """[WF-76] In a branch, below a team, in a loop: never a request more, and `incomplete` with its name."""

    @tool
    async def work(what: str) -> str:
        """Work."""
        return what

    def said(asked: Asked) -> Said:
        if asked.system == "chief":
            return [task("inner", "a"), task("inner", "b")] if asked.turn == 1 else "done"
        return call("work", what=asked.last) if asked.turn == 1 else asked.last

    async with client("function", said, budget=Budget(requests=requests)) as (one, seen):
        result: RunResult = await one.run(everything([work]), "x")
    assert (result.status, result.limit) == ("incomplete", "requests")
    assert result.usage.requests == len(seen) == requests


async def test_huge_outputs_and_long_loops_pass() -> None:
    """[WF-76] Tens of megabytes from node to node; a loop of thousands of rounds."""
    grow = Fn(longer)
    async with client("function", brain) as (one, _), asyncio.timeout(30):
        assert (await one.run(wf.Sequential(*[grow] * 20, Fn(len)), "")).output == 20_000_000
        counted = Loop(Fn(plus), very_late, max_rounds=sys.maxsize)
        assert (await one.run(counted, 0)).output == 10_000
        flow = wf.Sequential(grow, AgentStep(ASKING, prompt=short))
        snapshot, answers = await waiting(one, flow, "")
        assert (await one.resume(snapshot, answers, target=flow)).output == "q?"


@pytest.mark.parametrize("name", ["", " ", 3, b"x", ["x"]])
def test_a_name_is_text(name: Any) -> None:
    """[WF-77] Of every node, and of a slot; whoever gives none has a good one."""
    step, agent = Fn(str), Agent(name="a")
    makes: list[Callable[[], object]] = [
        lambda: wf.Fn(str, name=name),
        lambda: wf.AgentStep(agent, name=name),
        lambda: wf.CoordinatorStep(agent, [step], name=name),
        lambda: wf.Sequential(step, name=name),
        lambda: wf.Parallel(step, name=name),
        lambda: wf.FanOut(step, name=name),
        lambda: wf.Loop(step, bool, max_rounds=1, name=name),
        lambda: wf.Switch(str, {"x": step}, name=name),
    ]
    for make in [*makes, *([lambda: wf.Slot(name)] if name != " " else [])]:
        with pytest.raises(ConfigError, match="name"):
            make()
