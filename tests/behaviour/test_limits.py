"""Limits: depth, number, concurrency, turns, deadlines."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from toolnexus import (
    Agent,
    Budget,
    Client,
    ConfigError,
    FunctionModel,
    LimitReached,
    Message,
    ModelError,
    ModelRequest,
    ModelResponse,
    RunResult,
    ToolContext,
    assistant,
    tool,
)
from toolnexus.testing import ScriptedModel, call

pytestmark = pytest.mark.anyio


@tool
async def noop() -> str:
    """Do nothing."""
    return "ok"


def fan_out(width: int, agent: str = "x") -> Message:
    return assistant("", *[call("task", agent=agent, prompt=str(i)) for i in range(width)])


async def test_agents_that_delegate_to_each_other_for_ever_end_by_themselves() -> None:
    """[LIM-01] At most depth 3 and 16 runs in all branches together; the next ask starts afresh."""
    depths: list[int] = []

    def fn(request: ModelRequest) -> Message | str:
        depths.append(len(request.path) - 1)
        other = "b" if request.agent == "a" else "a"
        return fan_out(2, other) if request.turn == 1 else "ok"

    async with Client(
        model=FunctionModel(fn), builtins=False, agents=[Agent(name="a"), Agent(name="b")]
    ) as c:
        for _ in range(2):
            depths.clear()
            async with asyncio.timeout(10):
                result = await c.ask("go")
            assert max(depths) == 3
            runs = _count(result)
            assert runs <= 16
            assert {h.limit for h in result.limits_hit} <= {"depth", "max_sub_agents"} and result.limits_hit


async def test_the_deepest_level_is_not_offered_task_and_is_refused_when_it_calls_it() -> None:
    """[LIM-02] The refusal names the limit, the run goes on and ends incomplete."""
    offers: dict[int, bool] = {}
    answers: list[str] = []

    def fn(request: ModelRequest) -> Message | str:
        depth = len(request.path) - 1
        offers[depth] = any(t.name == "task" for t in request.tools)
        if request.turn == 1:
            return assistant("", call("task", agent="x", prompt="p"))
        answers.append(request.messages[-1].tool_results[0].output)
        return f"level {depth}"

    async with Client(
        model=FunctionModel(fn), builtins=False, agents=[Agent(name="x")], max_sub_agent_depth=2
    ) as c:
        result = await c.ask("go")
    assert offers == {0: True, 1: True, 2: False}
    assert "limit depth 2" in answers[0] and "deepest level" in answers[0]
    deepest = result.sub_agents[0].sub_agents[0]
    assert deepest.status == "incomplete" and deepest.limit == "depth" and deepest.text == "level 2"
    assert result.status == "done" and [h.limit for h in result.limits_hit] == ["depth"]


async def test_ten_tasks_that_each_start_three_start_exactly_sixteen() -> None:
    """[LIM-03] The number is claimed at the call, before anything is queued."""
    starts: list[tuple[str, ...]] = []

    async def fn(request: ModelRequest) -> Message | str:
        if request.turn > 1:
            return "ok"
        if request.agent == "main":
            return fan_out(10)
        starts.append(request.path)
        return fan_out(3) if len(request.path) == 2 else "leaf"

    async with Client(model=FunctionModel(fn), builtins=False, agents=[Agent(name="x")]) as c:
        result = await c.ask("go")
    assert len(starts) == 16 == _count(result)
    refused = [h for h in result.limits_hit if h.limit == "max_sub_agents"]
    assert len(refused) == 10 + 30 - 16
    assert {s.status for s in result.sub_agents} == {"done", "incomplete"}


async def test_concurrency_holds_while_children_delegate() -> None:
    """[LIM-04] Never more than 4 active, no deadlock, starts in call order."""
    active = peak = 0
    order: list[str] = []

    async def fn(request: ModelRequest) -> Message | str:
        nonlocal active, peak
        if request.agent == "main":
            return fan_out(8) if request.turn == 1 else "end"
        if request.turn == 1 and len(request.path) == 2:
            order.append(request.messages[0].text)
        active += 1
        peak = max(peak, active)
        for _ in range(5):
            await asyncio.sleep(0)
        active -= 1
        if request.turn == 1 and len(request.path) < 4:
            return fan_out(2)
        return "ok"

    async with Client(
        model=FunctionModel(fn),
        builtins=False,
        agents=[Agent(name="x")],
        max_sub_agents=100,
        budget=Budget(concurrency=4),
    ) as c:
        async with asyncio.timeout(20):
            result = await c.ask("go")
    assert peak == 4
    assert order == [str(i) for i in range(8)]
    assert result.status == "done" and _count(result) == 8 + 16 + 32


@pytest.mark.parametrize("text", ["", "2 of 5 files done"])
async def test_max_turns_ends_incomplete_and_keeps_the_last_text(text: str) -> None:
    """[LIM-05] Also when the last turn carried text; its calls ran and the transcript is complete."""
    requests: list[ModelRequest] = []

    def fn(request: ModelRequest) -> Message:
        requests.append(request)
        return assistant(text if request.turn == 2 else "first", call("noop"))

    async with Client(model=FunctionModel(fn), builtins=False, tools=[noop], max_turns=2) as c:
        result = await c.ask("go")
    assert len(requests) == 2 and result.turns == 2
    assert result.status == "incomplete" and result.limit == "max_turns"
    assert result.text == (text or "first")
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert all(not r.is_error for m in result.messages for r in m.tool_results)
    with pytest.raises(LimitReached, match="max_turns") as caught:
        result.raise_for_status()
    assert caught.value.result is result


async def test_a_length_stop_is_incomplete_and_its_calls_never_run() -> None:
    """[LIM-06] The cut calls are answered, so that the conversation can go on."""
    ran: list[int] = []

    @tool
    async def count() -> str:
        """Count."""
        ran.append(1)
        return "ok"

    def fn(request: ModelRequest) -> ModelResponse:
        return ModelResponse(message=assistant("so far", call("count")), stop="length")

    async with Client(model=FunctionModel(fn), builtins=False, tools=[count]) as c:
        result = await c.ask("go")
    assert ran == [] and result.status == "incomplete" and result.limit == "length"
    assert result.text == "so far"
    assert result.messages[-1].tool_results[0].is_error


async def test_a_natural_stop_is_done() -> None:
    """[LIM-07] Without options and limits a run that ends by itself is done."""
    async with Client(model=FunctionModel(lambda r: "hello"), builtins=False) as c:
        result = await c.ask("hi")
    assert (result.status, result.limit, result.limits_hit, result.text) == ("done", None, (), "hello")
    assert result.raise_for_status() is result


async def test_a_child_stopped_by_its_own_turns_is_not_an_error() -> None:
    """[LIM-11] Its text comes back with a line that names the limit; the parent is done."""

    def child(request: ModelRequest) -> Message:
        return assistant(f"{request.turn} of 5 files done", call("noop"))

    def parent(request: ModelRequest) -> Message | str:
        return assistant("", call("task", agent="x", prompt="p")) if request.turn == 1 else "end"

    agent = Agent(name="x", model=FunctionModel(child), tools=[noop], max_turns=2)
    async with Client(model=FunctionModel(parent), builtins=False, agents=[agent]) as c:
        result = await c.ask("go")
    answer = result.messages[2].tool_results[0]
    assert not answer.is_error and answer.output == "2 of 5 files done\n[incomplete: max_turns 2]"
    assert result.status == "done" and result.sub_agents[0].turns == 2


async def test_an_agent_that_never_answers_ends_at_its_deadline() -> None:
    """[LIM-12] An error result that names agent and deadline, with the text so far; siblings unaffected."""

    async def hangs(request: ModelRequest) -> Message:
        if request.turn == 1:
            return assistant("began", call("noop"))
        await asyncio.Event().wait()
        raise AssertionError

    agents = [
        Agent(name="slow", model=FunctionModel(hangs), tools=[noop], budget=Budget(seconds=0.2)),
        Agent(name="fast", model=FunctionModel(lambda r: "intact")),
    ]

    def parent(request: ModelRequest) -> Message | str:
        tasks = [call("task", agent=n, prompt="p") for n in ("slow", "fast")]
        return assistant("", *tasks) if request.turn == 1 else "end"

    async with Client(model=FunctionModel(parent), builtins=False, agents=agents) as c:
        async with asyncio.timeout(5):
            result = await c.ask("go")
    slow, fast = result.messages[2].tool_results
    assert slow.is_error and "'slow'" in slow.output and "seconds 0.2" in slow.output
    assert "began" in slow.output and fast.output == "intact" and result.status == "done"


async def test_the_clients_deadline_ends_the_tree() -> None:
    """[LIM-13] What runs is cancelled, the status is incomplete, the text so far is kept."""
    cancelled = asyncio.Event()

    async def child(request: ModelRequest) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    def parent(request: ModelRequest) -> Message:
        return assistant("thinking", call("task", agent="x", prompt="p"))

    async with Client(
        model=FunctionModel(parent),
        builtins=False,
        agents=[Agent(name="x", model=FunctionModel(child))],
        budget=Budget(seconds=0.2),
    ) as c:
        async with asyncio.timeout(5):
            result = await c.ask("go")
    assert cancelled.is_set()
    assert (result.status, result.limit, result.text) == ("incomplete", "seconds", "thinking")
    _assert_paired(result)
    assert "seconds 0.2" in result.messages[-1].tool_results[0].output


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_should_continue_nudges_within_max_turns(asynchronous: bool) -> None:
    """[LIM-14] Asked at a natural stop; true goes on with a nudge, until the turns are used up."""
    asked: list[str] = []

    def sync(result: RunResult) -> bool:
        asked.append(result.text)
        return result.turns < 3

    async def asyncly(result: RunResult) -> bool:
        return sync(result)

    choose: Callable[[RunResult], bool | Awaitable[bool]] = asyncly if asynchronous else sync
    model = FunctionModel(lambda r: f"turn {r.turn}")
    async with Client(model=model, builtins=False, should_continue=choose) as c:
        result = await c.ask("go")
    assert asked == ["turn 1", "turn 2", "turn 3"] and result.status == "done" and result.text == "turn 3"
    assert [m.role for m in result.messages] == ["user", "assistant"] * 3
    async with Client(model=model, builtins=False, should_continue=lambda r: True, max_turns=2) as c:
        result = await c.ask("go")
    assert (result.status, result.limit, result.turns) == ("incomplete", "max_turns", 2)


def test_limits_that_make_no_sense_are_refused() -> None:
    """[LIM-15] At definition, naming the option."""
    with pytest.raises(ConfigError, match="max_turns"):
        Client(max_turns=0)
    with pytest.raises(ConfigError, match="tokens"):
        Budget(tokens=-1)
    with pytest.raises(ConfigError, match="concurrency"):
        Budget(concurrency=0)
    with pytest.raises(ConfigError, match="concurrency is set on the client"):
        Agent(name="x", budget=Budget(concurrency=2))
    with pytest.raises(ConfigError, match="max_sub_agents"):
        Client(max_sub_agents=-1)


def _count(result: RunResult) -> int:
    return sum(1 + _count(child) for child in result.sub_agents)


def _assert_paired(result: RunResult) -> None:
    asked = [c.id for m in result.messages for c in m.tool_calls]
    answered = [r.call_id for m in result.messages for r in m.tool_results]
    assert asked == answered and len(set(asked)) == len(asked)


async def test_a_run_without_a_number_has_ten_turns() -> None:
    """[LIM-05] And so has a child of it."""
    asked: list[str] = []

    def fn(request: ModelRequest) -> Message:
        asked.append(request.agent)
        first = request.agent == "main" and request.turn == 1
        return assistant("", call("task", agent="x", prompt="p") if first else call("noop"))

    async with Client(
        model=FunctionModel(fn), builtins=["task"], tools=[noop], agents=[Agent(name="x")]
    ) as c:
        result = await c.ask("go")
    assert (asked.count("main"), asked.count("x"), result.turns) == (10, 10, 10)
    assert str(result.limits_hit[-1]) == "max_turns 10" and result.sub_agents[0].limit == "max_turns"


async def test_a_deadline_that_does_not_come_changes_no_error() -> None:
    """[LIM-13] What fails before it is what is raised."""
    model = ScriptedModel([ModelError("gone")])
    async with Client(model=model, builtins=False, budget=Budget(seconds=30)) as c:
        with pytest.raises(ModelError, match="gone"):
            await c.ask("go")


async def test_runs_of_one_call_have_places_of_their_own() -> None:
    """[SUB-17] However often a tool runs one agent."""

    @tool
    async def thrice(ctx: ToolContext) -> str:
        """Run an agent three times."""
        inner = Agent(name="inner")
        return " ".join(["/".join((await ctx.run(inner, str(n))).path) for n in range(3)])

    def fn(request: ModelRequest) -> Message | str:
        if request.agent == "inner":
            return "done"
        return assistant("", call("thrice", id="c")) if request.turn == 1 else "end"

    async with Client(model=FunctionModel(fn), builtins=False, tools=[thrice]) as c:
        result = await c.ask("go")
    assert result.messages[2].tool_results[0].output == "main/inner.c main/inner.c~2 main/inner.c~3"
    assert [run.path[-1] for run in result.sub_agents] == ["inner.c", "inner.c~2", "inner.c~3"]
