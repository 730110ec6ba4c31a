"""No budget is overshot, whatever runs beside whatever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus import (
    Agent,
    Budget,
    Client,
    FunctionModel,
    Message,
    ModelRequest,
    ToolCallPart,
    Usage,
    assistant,
    tool,
)
from toolnexus.core.model import ModelResponse
from toolnexus.errors import LimitReached
from toolnexus.runtime.ledger import Ledger

CEILING = st.none() | st.integers(0, 4)
BUDGETS = st.lists(st.tuples(CEILING, CEILING, st.none() | st.integers(0, 40)), min_size=1, max_size=5)
"""Of a run and of those below: requests, tool calls, tokens."""
DOINGS = st.lists(
    st.tuples(st.sampled_from(["ask", "told", "given back", "call"]), st.integers(0, 4)), max_size=40
)
USED = Usage(prompt_tokens=8, completion_tokens=2)


def tree(budgets: Sequence[tuple[int | None, int | None, int | None]]) -> list[Ledger]:
    """Ledgers in which number n stands below number n // 2."""
    out: list[Ledger] = []
    for n, (requests, calls, tokens) in enumerate(budgets):
        budget = Budget(requests=requests, tool_calls=calls, tokens=tokens)
        out.append(Ledger((str(n),), "a", [budget], out[(n - 1) // 2] if n else None))
    return out


def claims(ledger: Ledger) -> list[tuple[int, int]]:
    return [(meter.requests, meter.tool_calls) for meter in ledger.meters]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(BUDGETS, DOINGS)
def test_no_order_of_claims_passes_a_ceiling(
    budgets: list[tuple[int | None, int | None, int | None]], doings: list[tuple[str, int]]
) -> None:
    """[ROB-01] In a tree of budgets no order of claims, returns and reports passes a countable ceiling; a
    refusal names a budget that is used up and claims nothing; a restore counts the same."""
    ledgers = tree(budgets)
    open = dict.fromkeys(range(len(ledgers)), 0)
    for what, at in doings:
        ledger = ledgers[at := at % len(ledgers)]
        before = claims(ledger)
        try:
            if what == "ask":
                ledger.reserve_request()
                open[at] += 1
            elif what == "call":
                ledger.reserve_tool_call()
            elif open[at]:
                open[at] -= 1
                ledger.record("m", USED) if what == "told" else ledger.return_request()
        except LimitReached as limit:
            assert claims(ledger) == before
            meter = next(m for m in ledger.meters if m.scope == limit.scope)
            assert getattr(meter, limit.limit) >= getattr(meter.budget, limit.limit) == limit.value
        for one in ledgers:
            for meter in one.meters:
                budget = meter.budget
                assert budget.requests is None or 0 <= meter.requests <= budget.requests
                assert budget.tool_calls is None or meter.tool_calls <= budget.tool_calls
    root = ledgers[0]
    assert root.usage.requests + sum(open.values()) == root.meters[0].requests
    again = Ledger.from_json(root.to_json())
    assert (again.usage, again.tool_calls_below) == (root.usage, root.tool_calls_below)
    again.bound_by([Budget()], None)
    assert again.meters[0].tokens == root.meters[0].tokens
    assert again.meters[0].tool_calls == root.meters[0].tool_calls


PACES = st.lists(st.integers(0, 5), min_size=12, max_size=12)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.tuples(*[st.integers(1, 12)] * 3), st.integers(1, 4), st.integers(1, 3), PACES)
def test_no_interleaving_of_runs_passes_a_ceiling(
    ceilings: tuple[int, int, int], width: int, slots: int, paces: list[int]
) -> None:
    """[ROB-02] Parents and children that wait as they like for model and tools: never more requests or calls
    than the budget has, tokens over by those in flight at most, and the result counts what there was."""
    requests, calls, tens = ceilings
    asked = ran = flying = most = 0

    async def wait(seed: int) -> None:
        for _ in range(paces[seed % len(paces)]):
            await asyncio.sleep(0)

    async def model(request: ModelRequest) -> ModelResponse:
        nonlocal asked, flying, most
        number = asked = asked + 1
        flying += 1
        most = max(most, flying)
        await wait(number)
        flying -= 1
        return ModelResponse(
            message=said(request), usage=USED, stop="stop" if request.turn > 2 else "tool_calls"
        )

    def said(request: ModelRequest) -> Message:
        if request.turn > 2:
            return assistant("end")
        names = ["work"] + ["task"] * (0 if request.path[1:] else width)
        texts = {"work": "{}", "task": json.dumps({"agent": "child", "prompt": "p"})}
        calls = [ToolCallPart(f"{request.turn}-{n}", name, texts[name]) for n, name in enumerate(names)]
        return assistant("", *calls)

    @tool
    async def work() -> str:
        """Work."""
        nonlocal ran
        ran += 1
        await wait(ran * 7)
        return f"worked {ran}"

    async def run() -> None:
        budget = Budget(requests=requests, tool_calls=calls, tokens=tens * 10, concurrency=slots)
        async with (
            asyncio.timeout(10),
            Client(
                model=FunctionModel(model),
                tools=[work],
                builtins=False,
                agents=[Agent(name="child", agents=False)],
                budget=budget,
            ) as client,
        ):
            result = await client.ask("go")
        assert result.usage.requests == asked <= requests
        assert ran <= result.tool_calls + result.sub_agent_tool_calls <= calls
        assert result.usage.total_tokens == asked * 10 < tens * 10 + max(most, 1) * 10

    asyncio.run(run())
