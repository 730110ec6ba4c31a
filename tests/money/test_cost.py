"""What runs cost, and ceilings of cost."""

import ast
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage as Amounts
from genai_prices import calc_price

from toolnexus import (
    Agent,
    Budget,
    Client,
    ConfigError,
    FallbackModel,
    FunctionModel,
    LimitReached,
    ModelConnectionError,
    ModelRequest,
    ModelResponse,
    Outcome,
    Price,
    RunContext,
    Usage,
    UsageReported,
    assistant,
    load,
    tool,
)
from toolnexus.runtime.context import RunSettings
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, call, reply
from toolnexus.workflow import AgentStep, Sequential, as_runnable, as_tool

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]

USED = Usage(prompt_tokens=1000, completion_tokens=100)
CHEAP, DEAR = Price(input=1, output=10), Price(input=5, output=50)  # 0.002 and 0.01 dollars for USED


class Listed(FunctionModel):
    """A model that says which host it is at, as the models over HTTP do."""

    host = "api.openai.com"


def model(
    name: str = "own", used: Usage | None = USED, kind: type[FunctionModel] = FunctionModel
) -> FunctionModel:
    async def answer(request: ModelRequest) -> ModelResponse:
        return ModelResponse(message=assistant("done"), usage=used)

    return kind(answer, name=name)


def wrong(value: Any) -> Any:
    return value


@tool
async def noop() -> str:
    """Do nothing."""
    return "ok"


async def test_a_run_says_what_it_cost() -> None:
    """[COST-01] In US dollars, for the run, each agent, each model, and as JSON."""
    child = Agent(name="x", description="d", model=model("dear"))
    main = ScriptedModel(
        [reply(call("task", agent="x", prompt="p"), usage=USED), reply("end", usage=USED)], name="cheap"
    )
    async with Client(
        model=main, agents=[child], builtins=False, prices={"cheap": CHEAP, "dear": DEAR}
    ) as client:
        usage = (await client.ask("q")).usage
    assert usage.cost == pytest.approx(0.014)
    assert usage.by("agent")["x"].cost == pytest.approx(0.01)
    assert usage.by("model")["cheap"].cost == pytest.approx(0.004)
    assert usage.to_json()["cost"] == pytest.approx(0.014)


async def test_what_the_cache_gave_has_a_price_of_its_own() -> None:
    """[COST-01] Cached input, and input that was written to the cache, at their own prices."""
    used = Usage(prompt_tokens=1000, cached_tokens=600, cache_write_tokens=300)
    price = Price(input=10, output=0, cached=1, cache_write=20)
    async with Client(model=model(used=used), builtins=False, prices={"own": price}) as client:
        result = await client.ask("q")
    assert result.usage.cost == pytest.approx((100 * 10 + 600 * 1 + 300 * 20) / 1e6)


async def test_nobody_who_did_not_ask_gets_a_cost() -> None:
    """[COST-02] Without prices a cost is None, never zero, and not in the JSON."""
    async with Client(model=model(kind=Listed, name="gpt-5-mini"), builtins=False) as client:
        usage = (await client.ask("q")).usage
    assert usage.cost is None and "cost" not in usage.to_json()


async def test_an_unknown_price_makes_the_sum_unknown() -> None:
    """[COST-02] What one model costs is known by itself; the whole is unknown, never too low."""
    child = Agent(name="x", description="d", model=model("nobody-knows"))
    main = ScriptedModel(
        [reply(call("task", agent="x", prompt="p"), usage=USED), reply("end", usage=USED)], name="cheap"
    )
    async with Client(model=main, agents=[child], builtins=False, prices={"cheap": CHEAP}) as client:
        usage = (await client.ask("q")).usage
    assert usage.cost is None
    assert usage.by("model")["cheap"].cost == pytest.approx(0.004)
    assert usage.by("model")["nobody-knows"].cost is None


async def test_the_library_knows_listed_models_at_their_host() -> None:
    """[COST-03] `prices=True` asks the price library by host and name."""
    async with Client(model=model("gpt-5-mini", kind=Listed), builtins=False, prices=True) as client:
        cost = (await client.ask("q")).usage.cost
    listed = calc_price(Amounts(input_tokens=1000, output_tokens=100), "gpt-5-mini", provider_id="openai")
    assert cost == pytest.approx(float(listed.total_price)) and cost


async def test_a_known_name_at_another_host_has_no_price() -> None:
    """[COST-03] A local endpoint that serves a model of a listed name costs nobody knows what."""
    async with (
        ScriptedEndpoint(["done"]) as endpoint,
        Client(
            model="openai:gpt-5-mini", base_url=endpoint.url, api_key="k", builtins=False, prices=True
        ) as client,
    ):
        assert (await client.ask("q")).usage.cost is None


async def test_the_model_that_answered_is_priced() -> None:
    """[COST-03] Of a fallback, the one that answered, at its host."""

    async def broken(request: ModelRequest) -> ModelResponse:
        raise ModelConnectionError("down")

    both = FallbackModel(FunctionModel(broken, name="first"), model("gpt-5-mini", kind=Listed))
    async with Client(model=both, builtins=False, prices=True) as client:
        assert (await client.ask("q")).usage.cost


async def test_a_failed_request_costs_nothing_that_is_known() -> None:
    """[COST-02] The requests before keep their cost."""
    main = ScriptedModel([reply(call("noop"), usage=USED), ModelConnectionError("down")], name="cheap")
    async with Client(model=main, tools=[noop], builtins=False, prices={"cheap": CHEAP}) as client:
        with pytest.raises(ModelConnectionError) as failure:
            await client.ask("q")
    assert failure.value.result is not None
    assert failure.value.result.usage.cost == pytest.approx(0.002)


async def test_each_request_is_reported_with_its_cost() -> None:
    """[COST-01] `UsageReported` has the cost of that one request."""
    async with (
        Client(model=model(), builtins=False, prices={"own": CHEAP}) as client,
        client.stream("q") as stream,
    ):
        costs = [event.usage.cost async for event in stream if isinstance(event, UsageReported)]
    assert costs == [pytest.approx(0.002)]


async def test_a_ceiling_of_cost_ends_the_run() -> None:
    """[COST-04] It is checked before each request, so what is over is what was in flight."""
    turns = [reply("part", call("noop"), usage=USED) for _ in range(9)]
    main = ScriptedModel(turns, name="cheap")
    client = Client(
        model=main, tools=[noop], builtins=False, prices={"cheap": CHEAP}, budget=Budget(cost=0.005)
    )
    async with client:
        result = await client.ask("q")
    assert (result.status, result.limit, result.text) == ("incomplete", "cost", "part")
    assert len(main.requests) == 3 and result.usage.cost == pytest.approx(0.006)
    with pytest.raises(LimitReached, match=r"limit 'cost'.*0\.005"):
        result.raise_for_status()


async def test_a_ceiling_holds_for_everything_below() -> None:
    """[COST-04] Children spend of their caller's ceiling, and have their own below it."""
    endless = [reply("part", call("noop"), usage=USED) for _ in range(9)]
    child = Agent(name="x", description="d", tools=["noop"], budget=Budget(cost=0.003))
    main = ScriptedModel(
        [reply(call("task", agent="x", prompt="p"), usage=USED), reply("end", usage=USED)],
        by_path={"main/*": endless},
        name="cheap",
    )
    async with Client(
        model=main,
        tools=[noop],
        agents=[child],
        builtins=False,
        prices={"cheap": CHEAP},
        budget=Budget(cost=1),
    ) as client:
        result = await client.ask("q")
    assert result.status == "done" and result.sub_agents[0].limit == "cost"
    assert result.sub_agents[0].usage.cost == pytest.approx(0.004)


async def test_a_model_without_a_price_is_not_asked_below_a_ceiling_of_cost() -> None:
    """[COST-05] The error names the model and what to write."""
    main = ScriptedModel(["never"], name="mystery")
    async with Client(model=main, builtins=False, budget=Budget(cost=1)) as client:
        with pytest.raises(ConfigError, match=r"'mystery'.*prices=\{'mystery': Price\("):
            await client.ask("q")
    assert main.requests == []


def nested(agent: Agent) -> dict[str, Any]:
    return {"agents": [Agent(name="outer", description="d", agents=[agent])]}


def in_a_workflow(agent: Agent) -> dict[str, Any]:
    return {"agents": [as_runnable(Sequential(AgentStep(agent)), "flow", "d")]}


def behind_a_tool(agent: Agent) -> dict[str, Any]:
    return {"tools": [as_tool(AgentStep(agent), "flow", "d")]}


@pytest.mark.parametrize("reached", [nested, in_a_workflow, behind_a_tool])
async def test_the_ceiling_of_any_agent_brings_prices_along(reached: Callable[[Agent], Any]) -> None:
    """[COST-10] However it is reached: its model has a price, so it runs, and its cost is known."""
    agent = Agent(name="x", description="d", model=model("gpt-5-mini", kind=Listed), budget=Budget(cost=1))
    async with Client(model=model(), builtins=False, **reached(agent)) as client:
        assert (await client.run(agent, "q")).usage.cost


async def test_a_ceiling_that_came_from_nowhere_is_refused() -> None:
    """[COST-10] That of a Runnable of one's own brings no prices: nothing is asked, and the error says what
    to give the client."""
    below = model("gpt-5-mini", kind=Listed)

    class Own:
        name, description, settings = "own", "d", RunSettings(budget=Budget(cost=1))

        async def execute(self, input: Any, ctx: RunContext) -> Outcome:
            result = await ctx.run.runner.run(Agent(name="x", model=below), input, parent=ctx, key="k")
            if result.error is not None:
                raise result.error
            return Outcome(output=result.text)

    async with Client(builtins=False) as client:
        with pytest.raises(ConfigError, match="a budget of cost needs prices: give the client prices=True"):
            await client.run(Own(), "q")
    async with Client(builtins=False, prices=True) as client:
        assert (await client.run(Own(), "q")).usage.cost


async def test_one_of_a_fallback_without_a_price_is_enough_to_refuse() -> None:
    """[COST-05] Any of them may answer."""
    both = FallbackModel(model("own"), model("mystery"))
    async with Client(model=both, builtins=False, prices={"own": CHEAP}, budget=Budget(cost=1)) as client:
        with pytest.raises(ConfigError, match="'mystery'"):
            await client.ask("q")


async def test_a_waiting_run_goes_on_with_what_it_spent() -> None:
    """[COST-06] The snapshot keeps the cost, and the ceiling holds on."""
    from toolnexus import Answer, pending

    @tool
    async def ask() -> object:
        """Ask."""
        return pending(kind="question", prompt="?")

    main = ScriptedModel([reply("part", call("ask"), usage=USED), "never"], name="cheap")
    make = lambda: Client(  # noqa: E731
        model=main, tools=[ask], builtins=False, prices={"cheap": CHEAP}, budget=Budget(cost=0.001)
    )
    async with make() as client:
        waiting = await client.ask("q")
    snapshot = json.loads(json.dumps(waiting.snapshot))
    async with make() as client:
        answer = Answer(id=waiting.pending[0].id, ok=False)
        result = await client.resume(snapshot, [answer])
    assert (result.limit, result.usage.cost) == ("cost", pytest.approx(0.002))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Client(model=model(), prices=wrong({"m": 3})), r"prices\['m'\]=3"),
        (lambda: Client(model=model(), prices=wrong("all")), "give True, or prices by model name"),
        (lambda: Budget(cost=-1), "budget cost=-1 must be 0 or more"),
        (lambda: Budget(cost=True), "give a number of US dollars"),
        (lambda: Price(input=float("nan"), output=1), "price input=nan"),
    ],
)
def test_what_is_no_price_is_told_where_it_is_written(make: Callable[[], object], words: str) -> None:
    """[COST-07] Prices and ceilings are checked at once."""
    with pytest.raises(ConfigError, match=words):
        make()


async def test_a_document_has_prices_and_ceilings() -> None:
    """[COST-08] `prices` is true or a table by model name; `budget.cost` is in US dollars."""
    document = {"prices": {"own": {"input": 1, "output": 10}}, "budget": {"cost": 0.5}, "builtins": False}
    async with load(document, model=model()) as client:
        assert (await client.ask("q")).usage.cost == pytest.approx(0.002)


def test_amounts_add_up_with_what_they_cost() -> None:
    """[COST-02] Nothing spent changes no sum; an unknown part makes it unknown."""
    known, unknown = Usage(requests=1, cost=0.5), Usage(requests=1)
    assert (known + Usage()).cost == 0.5 and (Usage() + known).cost == 0.5
    assert (known + known).cost == 1.0 and (known + unknown).cost is None
    assert Usage.from_json(json.loads(json.dumps(known.to_json()))) == known


def test_the_last_line_of_a_run_has_the_cost() -> None:
    """[COST-08] In US dollars, where it is known."""
    from toolnexus import RunResult
    from toolnexus.cli.run import summary
    from toolnexus.core.usage import TreeUsage

    known = RunResult(status="done", text="", usage=TreeUsage(requests=1, prompt_tokens=9, cost=0.01234))
    assert "9 tokens, $0.0123, 2.0 s" in summary(known, 2.0)
    assert "$" not in summary(RunResult(status="done", text=""), 2.0)


def test_the_page_about_costs_shows_what_runs() -> None:
    """[COST-01] Its programs compile, its document is one."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "costs.md").read_text("utf-8"), re.DOTALL)
    programs = [text for kind, text in blocks if kind == "python"]
    for text in programs:
        compile(text, "docs/costs.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    tables: list[set[str]] = []
    for text in programs[1:]:
        found: dict[str, Any] = {}
        exec(f"from toolnexus import Price\n{text}", {}, found)
        Client(model=model(), prices=found["prices"])
        tables.append(set(found["prices"]))
    document = tomllib.loads(next(text for kind, text in blocks if kind == "toml"))
    load(document, model=model())
    assert len(tables) == 2 and tables[0] == {"our-llama", "cached-one", "local"}
    assert document["budget"] == {"cost": 0.5} and set(document["prices"]) == {"our-llama"}
