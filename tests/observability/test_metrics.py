"""Counters as Prometheus text, read by Prometheus' own parser."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from toolnexus import (
    Agent,
    Budget,
    Client,
    FallbackModel,
    FunctionModel,
    Message,
    ModelError,
    ModelRequest,
    ModelResponse,
    Tool,
    ToolContext,
    Usage,
    assistant,
    tool,
)
from toolnexus.runtime.counts import MOST_VALUES, OTHER, UNKNOWN
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

NAMES = {
    "toolnexus_llm_requests": ("counter", {"model", "status"}),
    "toolnexus_llm_tokens": ("counter", {"type"}),
    "toolnexus_llm_request_duration_seconds": ("histogram", {"model"}),
    "toolnexus_tool_calls": ("counter", {"tool", "source", "is_error"}),
    "toolnexus_tool_duration_seconds": ("histogram", {"tool"}),
    "toolnexus_run_errors": ("counter", {"model"}),
    "toolnexus_sub_agents": ("counter", {"agent", "status"}),
}


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(client: Client, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one counter, by the values of their labels."""
    samples = families(client.metrics())[name].samples
    return {tuple(sample.labels.values()): sample.value for sample in samples}


@tool
async def look(x: int = 0) -> str:
    """Look."""
    await asyncio.sleep(0)
    if x < 0:
        raise ValueError("negative")
    return "seen"


def family(request: ModelRequest) -> ModelResponse:
    if request.turn > 1:
        message = assistant("end")
    elif request.agent == "main":
        message = assistant("", call("task", agent="x", prompt="p"), call("task", agent="x", prompt="q"))
    else:
        message = assistant("", call("look", x=1), call("look", x=-1), call("invented", a=1))
    used = Usage(
        prompt_tokens=10, completion_tokens=3, cached_tokens=2, cache_write_tokens=1, reasoning_tokens=1
    )
    return ModelResponse(message=message, usage=used)


async def test_a_new_client_has_every_name_and_no_number() -> None:
    """[OBS-20] Valid text with all names, types and help, before anything happened."""
    text = Client(model=FunctionModel(family)).metrics()
    found = families(text)
    assert {name: f.type for name, f in found.items()} == {name: type for name, (type, _) in NAMES.items()}
    assert all(f.documentation and not f.samples for f in found.values()) and text.endswith("\n")


async def test_what_happened_is_counted() -> None:
    """[OBS-21] Requests, tokens, calls, errors and sub-agents, with exactly the promised labels."""
    async with Client(
        model=FunctionModel(family, name="m"), builtins=False, agents=[Agent(name="x", tools=[look])]
    ) as client:
        result = await client.ask("go")
        assert values(client, "toolnexus_llm_requests") == {("m", "ok"): 6}
        usage = result.usage
        assert values(client, "toolnexus_llm_tokens") == {
            ("prompt",): usage.prompt_tokens,
            ("completion",): usage.completion_tokens,
            ("cached",): usage.cached_tokens,
            ("cache_write",): usage.cache_write_tokens,
            ("reasoning",): usage.reasoning_tokens,
        }
        assert values(client, "toolnexus_tool_calls") == {
            ("look", "native", "false"): 2,
            ("look", "native", "true"): 2,
            ("task", "builtin", "false"): 2,
            (UNKNOWN, UNKNOWN, "true"): 2,
        }
        assert values(client, "toolnexus_sub_agents") == {("x", "done"): 2}
        assert values(client, "toolnexus_run_errors") == {}
        for name, (type, labels) in NAMES.items():
            extra = {"le"} if type == "histogram" else set[str]()
            for sample in families(client.metrics())[name].samples:
                assert set(sample.labels) - extra == labels


async def test_histograms_are_cumulative_and_add_up() -> None:
    """[OBS-22] Buckets rise to the count, the sum is the time that was spent."""

    @tool
    async def slow(seconds: float) -> str:
        """Slow."""
        await asyncio.sleep(seconds)
        return ""

    turns = [reply("", call("slow", seconds=0.03)), reply("", call("slow", seconds=0)), reply("end")]
    async with Client(model=ScriptedModel(turns), builtins=False, tools=[slow]) as client:
        await client.ask("go")
        samples = families(client.metrics())["toolnexus_tool_duration_seconds"].samples
    buckets = [s.value for s in samples if s.name.endswith("_bucket")]
    (count,) = [s.value for s in samples if s.name.endswith("_count")]
    (total,) = [s.value for s in samples if s.name.endswith("_sum")]
    assert buckets == sorted(buckets) and buckets[-1] == count == 2 and 0.03 <= total < 5
    below = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    assert below["0.02"] == 1
    assert list(below) == [
        *("0.01", "0.02", "0.04", "0.08", "0.16", "0.32", "0.64", "1.28", "2.56", "5.12", "10.24"),
        *("20.48", "40.96", "81.92", "+Inf"),
    ]


async def test_a_reply_that_was_cut_is_an_error_and_its_tokens_count() -> None:
    """[OBS-23] What came of it is used all the same; the time of a request is that of it alone."""
    async with Client(model=ScriptedModel([reply("half", stop="cut")]), builtins=False) as client:
        result = await client.ask("go")
        assert (result.status, result.limit) == ("incomplete", "connection")
        assert values(client, "toolnexus_llm_requests") == {("scripted", "error"): 1}
        assert values(client, "toolnexus_llm_tokens") == {("prompt",): 10, ("completion",): 5}
        (spent,) = [
            sample.value
            for sample in families(client.metrics())["toolnexus_llm_request_duration_seconds"].samples
            if sample.name.endswith("_sum")
        ]
    assert 0 <= spent < 5


async def test_failures_and_cancels_have_their_status() -> None:
    """[OBS-23] A failed request, a failed child, a cancelled request and the model that answered instead."""

    def down(request: ModelRequest) -> str:
        raise ModelError("down")

    async def never(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    def fn(request: ModelRequest) -> Message | str:
        return assistant("", call("task", agent="x", prompt="p")) if request.turn == 1 else "end"

    broken, good = FunctionModel(down, name="broken"), FunctionModel(fn, name="good")
    agents = [Agent(name="x", model=broken), Agent(name="y", model=FunctionModel(never, name="never"))]
    async with Client(model=FallbackModel(broken, good), builtins=False, agents=agents) as client:
        await client.ask("go")
        with pytest.raises(ModelError):
            await client.run("x", "go")
        late = Agent(name="late", model=FunctionModel(never, name="never"), budget=Budget(seconds=0.02))
        await client.run(late, "go")
        assert values(client, "toolnexus_llm_requests") == {
            ("good", "ok"): 2,
            ("broken", "error"): 2,
            ("never", "cancelled"): 1,
        }
        assert values(client, "toolnexus_run_errors") == {("broken",): 2}
        assert values(client, "toolnexus_sub_agents") == {("x", "error"): 1}


async def test_nothing_is_lost_under_concurrency() -> None:
    """[OBS-24] Two hundred asks at once, read from another thread meanwhile."""
    stop, failures = threading.Event(), list[BaseException]()

    async with Client(
        model=FunctionModel(family, name="m"),
        builtins=False,
        agents=[Agent(name="x", tools=[look])],
    ) as client:

        def scrape() -> None:
            while not stop.is_set():
                try:
                    families(client.metrics())
                except BaseException as error:
                    failures.append(error)
                    return

        reader = threading.Thread(target=scrape)
        reader.start()
        try:
            async with asyncio.timeout(60):
                results = await asyncio.gather(*[client.ask("go") for _ in range(200)])
        finally:
            stop.set()
            reader.join()
        assert not failures
        calls = sum(r.tool_calls + r.sub_agent_tool_calls for r in results)
        counted = Counter[str]()
        for (name, _, _), number in values(client, "toolnexus_tool_calls").items():
            counted[name] += int(number)
        assert counted == {"look": 800, "task": 400, UNKNOWN: 400}
        assert calls == 1200  # a call of a tool that is not there is not claimed
        assert values(client, "toolnexus_llm_requests") == {("m", "ok"): 1200}
        assert values(client, "toolnexus_llm_tokens")["prompt",] == sum(
            r.usage.prompt_tokens for r in results
        )


async def test_labels_are_bounded() -> None:
    """[OBS-25] Tools that a model invents have one label; names beyond the most share one."""

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return ""

    tools = [Tool(f"t{n}", "T.", {"type": "object"}, execute) for n in range(MOST_VALUES + 20)]
    turns = [
        reply("", *[call(t.name) for t in tools]),
        reply("", *[call(f"made_up_{n}") for n in range(50)]),
        reply("end"),
    ]
    async with Client(model=ScriptedModel(turns), builtins=False, tools=tools) as client:
        await client.ask("go")
        counted = values(client, "toolnexus_tool_calls")
    assert len(counted) == MOST_VALUES + 2
    assert counted[OTHER, "custom", "false"] == 20 and counted[UNKNOWN, UNKNOWN, "true"] == 50


async def test_label_values_are_escaped() -> None:
    """[OBS-26] Quotes, backslashes and line ends in a name come back as they were."""
    odd = 'a"b\\c\nd}e,f="'
    async with Client(model=FunctionModel(lambda r: "x", name=odd), builtins=False) as client:
        await client.ask("go")
        assert values(client, "toolnexus_llm_requests") == {(odd, "ok"): 1}


async def test_a_cancelled_call_counts_as_failed() -> None:
    """[OBS-23] What has begun is counted, whatever way it ends."""
    inside = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        inside.set()
        await asyncio.Event().wait()
        return ""

    async with Client(model=ScriptedModel([reply("", call("hang"))]), builtins=False, tools=[hang]) as client:
        task = asyncio.create_task(client.ask("go"))
        async with asyncio.timeout(5):
            await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert values(client, "toolnexus_tool_calls") == {("hang", "native", "true"): 1}
