"""Node classes of a user's own, and what else may be done wrong or in anger."""

import asyncio
import re
from enum import Enum
from typing import Any

import pytest

from tests.workflow.test_waiting import asker, brain
from tests.workflow.worlds import as_json, client
from toolnexus import Agent, Answer, RunContext, RunError
from toolnexus.workflow import (
    AgentStep,
    FanOut,
    Fn,
    Loop,
    ModelRunner,
    Node,
    Parallel,
    Sequential,
    Switch,
    visit,
    with_runner,
)

pytestmark = pytest.mark.anyio

ASKING = Agent(name="a", tools=[asker([])])


class Retry(Node[Any, Any]):
    """Tries again when a node fails."""

    def __init__(self, node: Node[Any, Any], times: int) -> None:
        self.name = "retry"
        self._node, self._times = node, times

    async def run(self, input: Any, ctx: RunContext) -> Any:
        for attempt in range(self._times - 1):
            try:
                return await visit(self._node, input, ctx, str(attempt))
            except ValueError:
                continue
        return await visit(self._node, input, ctx, "last")


async def test_a_node_of_ones_own_is_a_node() -> None:
    """[WF-62] It needs `run` alone, also in branches and through a wait."""
    tried: list[str] = []

    def fails_twice(value: str) -> str:
        tried.append(value)
        if tried.count(value) < 3:
            raise ValueError(value)
        return value

    flow = FanOut(Sequential(Retry(Fn(fails_twice), 3), Retry(AgentStep(ASKING), 2)))
    async with client("function", brain) as (one, seen):
        result = await one.run(flow, ["x", "y"])
        answers = [Answer(id=r.id, ok=True, data=r.prompt) for r in result.pending]
        result = await one.resume(as_json(result.snapshot), answers, target=flow)
    assert result.output == ["x?", "y?"]
    assert len(seen) == 4


class Twice(Node[Any, Any]):
    """Wrong in one of several ways."""

    def __init__(self, node: Node[Any, Any], *, through_visit: bool) -> None:
        self._node, self._through_visit = node, through_visit

    async def run(self, input: Any, ctx: RunContext) -> Any:
        if self._through_visit:
            return [await visit(self._node, input, ctx, "0"), await visit(self._node, input, ctx, "0")]
        return [await self._node.run(input, ctx), await self._node.run(input, ctx)]


async def test_a_place_that_is_taken_is_told() -> None:
    """[WF-62] Two children in one place would get each other's results: an error, never a mix-up."""
    async with client("function", lambda asked: "ok") as (one, _):
        for node in (AgentStep(Agent(name="s", tools=[])), Parallel(Fn(str)), Sequential(Fn(str))):
            for through_visit in (True, False):
                with pytest.raises(RunError, match=r"visit\(child, input, ctx, key\)"):
                    await one.run(Twice(node, through_visit=through_visit), "x")


async def test_branches_in_branches_wait_and_go_on() -> None:
    """[WF-63] Answers one at a time, in any order."""
    step = AgentStep(ASKING)
    flow = FanOut(
        Parallel(step, Sequential(Fn(str.upper), step), Sequential(Fn(list), FanOut(step))), width=2
    )
    async with client("function", brain) as (one, seen), asyncio.timeout(20):
        result = await one.run(flow, ["a", "b", "c"])
        prompts = [r.prompt for r in result.pending]
        assert prompts == [f"{q}?" for low in "abc" for q in (low, low.upper(), low)]
        while result.status == "pending":
            request = result.pending[-1]
            answer = Answer(id=request.id, ok=True, data=request.prompt)
            result = await one.resume(as_json(result.snapshot), [answer], target=flow)
    assert result.output == [[f"{c}?", f"{c.upper()}?", [f"{c}?"]] for c in "abc"]
    assert len(seen) == 18


async def test_a_tree_that_was_edited_while_it_waited() -> None:
    """[WF-63] What fits goes on; what does not is an error that says so, and no result of another node."""
    flow = Sequential(Fn(str.upper), AgentStep(ASKING))
    async with client("function", brain) as (one, _):
        result = await one.run(flow, "x")
        answer = Answer(id=result.pending[0].id, ok=True, data="yes")
        longer = Sequential(Fn(str.upper), AgentStep(ASKING), Fn(len))
        assert (await one.resume(as_json(result.snapshot), [answer], target=longer)).output == 3
        for other in (
            Sequential(Fn(str.upper)),
            Sequential(Fn(str.upper), Fn(len), AgentStep(ASKING)),
            Fn(len, name="sequential"),
        ):
            with pytest.raises(RunError, match="changed while it waited"):
                await one.resume(as_json(result.snapshot), [answer], target=other)


async def test_ten_thousand_branches() -> None:
    """[WF-63] Of a huge fan-out no more than `width` are under way."""
    under_way, most = 0, 0

    async def work(n: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return n

    async with client("function", lambda asked: "") as (one, _), asyncio.timeout(30):
        result = await one.run(FanOut(Fn(work), width=7), range(10_000))
    assert result.output == list(range(10_000)) and most == 7


async def test_errors_of_key_and_until_are_raised_as_themselves() -> None:
    """[WF-63] With the place."""

    def broken(value: Any) -> Any:
        raise KeyError("no such thing")

    async with client("function", lambda asked: "") as (one, _):
        for node in (Switch(broken, {1: Fn(str)}), Loop(Fn(str), broken, max_rounds=2)):
            with pytest.raises(KeyError) as caught:
                await one.run(Sequential(node), "x")
            assert any("sequential/" in note for note in caught.value.__notes__)
        with pytest.raises(RunError, match="no case for"):
            await one.run(Switch(lambda value: [value], {1: Fn(str)}), "x")  # a key that is none


async def test_a_value_with_a_cycle_is_told() -> None:
    """[WF-63] When it would have to be kept; otherwise it passes."""

    def cycle(value: Any) -> Any:
        ring: list[Any] = []
        ring.append(ring)
        return ring

    async with client("function", brain) as (one, _):
        assert (await one.run(Sequential(Fn(cycle), Fn(len)), "x")).output == 1
        with pytest.raises(RunError, match=r"node .* holds a list"):
            await one.run(Parallel(Fn(cycle), AgentStep(ASKING)), "x")
        with pytest.raises(RunError, match="step 'a': its input is a list that is no JSON; give prompt="):
            await one.run(Sequential(Fn(cycle), AgentStep(ASKING)), "x")


@pytest.mark.parametrize("kind", ["sequential", "parallel", "fan_out", "loop", "switch", "runner", "own"])
async def test_a_cancel_reaches_every_kind_of_node(kind: str) -> None:
    """[WF-63] Nothing outlives it."""
    there, ended = asyncio.Event(), 0

    async def hang(value: Any) -> Any:
        nonlocal ended
        there.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    step: Node[Any, Any] = Fn(hang)
    nodes: dict[str, Node[Any, Any]] = {
        "sequential": Sequential(Fn(str), step),
        "parallel": Parallel(step, step),
        "fan_out": FanOut(step, width=1),
        "loop": Loop(step, bool, max_rounds=3),
        "switch": Switch(str, {"x": step}),
        "runner": with_runner(step, ModelRunner("openai:none")),
        "own": Retry(step, 3),
    }
    async with client("function", lambda asked: "") as (one, _), asyncio.timeout(10):
        running = asyncio.create_task(one.run(nodes[kind], ["x"] if kind == "fan_out" else "x"))
        await there.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert ended == (2 if kind == "parallel" else 1)


class Way(Enum):
    """Keys that are no JSON."""

    ASK = ("a", 1)


async def test_choices_that_are_no_json_survive_a_wait() -> None:
    """[WF-63] An enum as a key, a match as the word of `until`, and what failed in a branch."""
    ran: list[str] = []

    def fails(value: str) -> str:
        ran.append(value)
        raise ValueError("broken")

    def told(both: list[Any]) -> str:
        return ", ".join([str(one) for one in both])

    def enough(text: str) -> Any:
        return re.search("yes", text)

    flow = Sequential(
        Switch(lambda value: Way.ASK, {Way.ASK: Parallel(Fn(fails), AgentStep(ASKING), on_error="collect")}),
        Fn(told),
        Loop(AgentStep(ASKING, prompt="again {input}"), enough, max_rounds=3),
    )
    async with client("function", brain) as (one, _):
        result = await one.run(flow, "x")
        for data in ("first", "yes"):
            answer = Answer(id=result.pending[0].id, ok=True, data=data)
            result = await one.resume(as_json(result.snapshot), [answer], target=flow)
    assert result.output == "yes" and ran == ["x"]
