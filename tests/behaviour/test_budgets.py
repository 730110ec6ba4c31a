"""Budgets: tool calls, requests and tokens of a tree, and how usage is counted."""

import asyncio
from dataclasses import replace

import pytest

from tests.behaviour.test_limits import _assert_paired, fan_out, noop
from toolnexus import (
    Agent,
    Budget,
    Client,
    FunctionModel,
    Hooks,
    Message,
    ModelRequest,
    ModelResponse,
    RunContext,
    Usage,
    assistant,
    tool,
    user,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("width", [2, 4, 8])
async def test_tree_caps_on_tool_calls_are_exact(width: int) -> None:
    """[LIM-08] Widths 2, 4 and 8: never one call over, and every call is answered."""
    ran = 0

    @tool
    async def probe() -> str:
        """Probe."""
        nonlocal ran
        ran += 1
        await asyncio.sleep(0)
        return "ok"

    async def fn(request: ModelRequest) -> Message | str:
        await asyncio.sleep(0)
        if request.agent == "main":
            return fan_out(width) if request.turn == 1 else "end"
        return assistant("", call("probe"), call("probe")) if request.turn == 1 else "ok"

    cap = width + 3  # the task calls count too
    async with Client(
        model=FunctionModel(fn),
        builtins=False,
        agents=[Agent(name="x", tools=[probe])],
        budget=Budget(tool_calls=cap),
    ) as c:
        result = await c.ask("go")
    assert ran == 3
    assert result.tool_calls + result.sub_agent_tool_calls == cap
    assert "tool_calls" in {h.limit for h in result.limits_hit}
    for run in (result, *result.sub_agents):
        _assert_paired(run)


@pytest.mark.parametrize("width", [2, 4, 8])
async def test_tree_caps_on_requests_are_exact(width: int) -> None:
    """[LIM-09] The request that would pass the cap is not sent; the work in flight is kept."""
    sent = 0

    async def fn(request: ModelRequest) -> Message | str:
        nonlocal sent
        sent += 1
        await asyncio.sleep(0)
        return fan_out(width) if request.agent == "main" else "ok"

    async with Client(
        model=FunctionModel(fn),
        builtins=False,
        agents=[Agent(name="x")],
        budget=Budget(requests=width),
    ) as c:
        result = await c.ask("go")
    assert sent == width == result.usage.requests
    assert result.status == "incomplete" and result.limit == "requests"
    outputs = [r.output for r in result.messages[2].tool_results]
    assert sum(o == "ok" for o in outputs) == width - 1


async def test_a_token_budget_stops_before_the_next_request() -> None:
    """[LIM-10] Over at most by the requests in flight."""

    def fn(request: ModelRequest) -> ModelResponse:
        return ModelResponse(
            message=assistant("", call("noop")), usage=Usage(prompt_tokens=40, completion_tokens=10)
        )

    async with Client(model=FunctionModel(fn), builtins=False, tools=[noop], budget=Budget(tokens=100)) as c:
        result = await c.ask("go")
    assert result.status == "incomplete" and result.limit == "tokens"
    assert result.usage.total_tokens == 100 and result.turns == 2


async def test_what_a_run_used_is_added_up_kind_by_kind() -> None:
    """[LIM-10] Over turns and runs below; one estimate makes the sum an estimate."""
    used = [
        Usage(
            prompt_tokens=10, completion_tokens=1, cached_tokens=2, cache_write_tokens=3, reasoning_tokens=4
        ),
        Usage(
            prompt_tokens=20, completion_tokens=2, cached_tokens=4, cache_write_tokens=6, reasoning_tokens=8
        ),
        Usage(
            prompt_tokens=40, completion_tokens=4, cached_tokens=8, cache_write_tokens=12, reasoning_tokens=16
        ),
    ]

    def fn(request: ModelRequest) -> ModelResponse:
        if request.agent == "x":
            return ModelResponse(message=assistant("found"), usage=used[2])
        first = request.turn == 1
        message = assistant("", call("task", agent="x", prompt="p")) if first else assistant("end")
        return ModelResponse(message=message, usage=used[0 if first else 1])

    async with Client(model=FunctionModel(fn), builtins=False, agents=[Agent(name="x")]) as c:
        result = await c.ask("go")
    whole, own = result.usage, result.own_usage
    kinds = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
    assert [getattr(own, kind) for kind in kinds] == [30, 3, 6, 9, 12]
    assert [getattr(whole, kind) for kind in kinds] == [70, 7, 14, 21, 28]
    assert (own.requests, whole.requests, whole.estimated, whole.total_tokens) == (2, 3, False, 77)


async def test_what_no_endpoint_reports_is_estimated_by_its_characters() -> None:
    """[LIM-10] Four are a token: the system prompt and the whole transcript in each request, the reply with
    its calls. A transcript that a hook replaced is counted as it is."""

    class Forgets(Hooks):
        def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest | None:
            return replace(request, messages=[user("z" * 40)]) if request.turn == 2 else None

    turns = [
        reply("x" * 40, call("noop"), usage=None),
        reply("w" * 14, call("noop"), usage=None),
        reply("y" * 80, usage=None),
    ]
    for hooks, second in (([], 40 + 446 + 2), ([Forgets()], 40 + 40)):
        async with Client(
            model=ScriptedModel(turns),
            builtins=False,
            tools=[noop],
            system_prompt="s" * 40,
            hooks=hooks,
        ) as c:
            result = await c.ask("p" * 400)
        prompts = [40 + 400, second, 40 + 448 + 14 + 6 + 2]
        replies = [40 + 6, 14 + 6, 80]
        assert result.usage.estimated
        assert result.usage.prompt_tokens == sum(n // 4 for n in prompts)
        assert result.usage.completion_tokens == sum(n // 4 for n in replies)


async def test_one_estimate_makes_the_sum_one() -> None:
    """[LIM-10] Whichever turn it was."""
    for turns in ([None, Usage(prompt_tokens=1)], [Usage(prompt_tokens=1), None]):
        model = ScriptedModel([reply(call("noop"), usage=turns[0]), reply("end", usage=turns[1])])
        async with Client(model=model, builtins=False, tools=[noop]) as c:
            assert (await c.ask("go")).usage.estimated


async def test_a_batch_that_met_a_limit_is_the_last() -> None:
    """[LIM-08] The model is not asked again; the results that there are stay."""
    model = ScriptedModel([reply("on it", call("noop"), call("noop")), "never"])
    async with Client(model=model, builtins=False, tools=[noop], budget=Budget(tool_calls=1)) as c:
        result = await c.ask("go")
    assert (result.status, result.limit, result.text, len(model.requests)) == (
        "incomplete",
        "tool_calls",
        "on it",
        1,
    )
    assert [part.output for part in result.messages[-1].tool_results] == ["ok", "not run: limit tool_calls 1"]
