"""`task_background`: a model leaves runs in the background, and nothing of them is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Budget,
    Client,
    ConfigError,
    ModelError,
    ModelRequest,
    RunResult,
    Tool,
    ToolContext,
    ToolResult,
)
from toolnexus.core.events import ToolFinished
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

ON: dict[str, Any] = {"tools": ["task"], "task_background": True}
AT_REST = "[Results of background tasks. This message comes from the system, not from the user.]"
AT_END = "[Background tasks when the run ended. This message comes from the system, not from the user.]"


def beside(agent: str, **more: Any) -> Any:
    return call("task", agent=agent, prompt=f"do {agent}", background=True, **more)


def agents(*names: str) -> list[Agent]:
    return [Agent(name=name) for name in names]


def outputs(result: RunResult) -> list[str]:
    return [part.output for message in result.messages for part in message.tool_results]


class Gate:
    """A reply that waits until it is let through."""

    def __init__(self) -> None:
        self.begun, self.open = asyncio.Event(), asyncio.Event()

    def __call__(self, text: Any) -> Callable[[ModelRequest], Awaitable[Any]]:
        async def answer(_: ModelRequest) -> Any:
            self.begun.set()
            await self.open.wait()
            return text

        return answer


async def asked(client: Client, **options: Any) -> RunResult:
    async with asyncio.timeout(10):
        return await client.ask("go", **options)


async def test_the_caller_goes_on_and_collects_each_result_once() -> None:
    """[SUB-26] [SUB-27] The call answers at once; results come in call order, whoever was first."""
    slow = Gate()

    def let_go(_: ModelRequest) -> Any:
        slow.open.set()
        return reply("", call("task_wait"))

    script = ScriptedModel(
        by_path={
            "main": [
                reply("", beside("slow"), beside("fast")),
                reply("", call("task_wait", task_ids=["fast.c1_1"])),
                let_go,
                reply("", call("task_wait"), call("task_wait", task_ids=["slow.c1_0"])),
                "end",
            ],
            "main/slow.*": [slow("slow is done")],
            "main/fast.*": ["fast is done"],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("slow", "fast")) as client:
        result = await asked(client)
    assert outputs(result) == [
        "started in the background [task_id: slow.c1_0]; task_wait gives its result",
        "started in the background [task_id: fast.c1_1]; task_wait gives its result",
        "[task_id: fast.c1_1]\nfast is done",
        "[task_id: slow.c1_0]\nslow is done",
        "nothing runs in the background, and every result was given",
        "[task_id: slow.c1_0]\nits result was given before",
    ]
    assert (result.status, result.text) == ("done", "end")
    assert [child.agent for child in result.sub_agents] == ["slow", "fast"]
    assert result.usage.requests == 7 and len(result.messages) == 10


async def test_results_are_in_call_order_whatever_ended_first() -> None:
    """[SUB-27] Two children, the later one ends first; the parent gets both."""
    slow = Gate()

    async def fast(_: ModelRequest) -> str:
        slow.open.set()
        return "fast is done"

    class Hooks:
        async def before_tool(self, ctx: ToolContext) -> None:
            if ctx.arguments.get("agent") == "slow":  # so that it is started behind the other one
                await asyncio.sleep(0)

    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("slow"), beside("fast")), reply("", call("task_wait")), "end"],
            "main/slow.*": [slow("slow is done")],
            "main/fast.*": [fast],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("slow", "fast"), hooks=[Hooks()]) as client:
        result = await asked(client)
    assert outputs(result)[2] == "[task_id: slow.c1_0]\nslow is done\n\n[task_id: fast.c1_1]\nfast is done"


async def test_a_time_limit_leaves_what_runs() -> None:
    """[SUB-27] What ended is given, what runs is named; an id that nobody knows gives nothing away."""
    slow, fast = Gate(), asyncio.Event()

    def let_go(_: ModelRequest) -> Any:
        slow.open.set()
        return reply("", call("task_wait"))

    class Hooks:
        async def before_tool(self, ctx: ToolContext) -> None:
            if ctx.arguments.get("timeout") == 0:
                await fast.wait()

    async def told(_: ModelRequest) -> str:
        asyncio.get_running_loop().call_soon(fast.set)
        return "fast is done"

    script = ScriptedModel(
        by_path={
            "main": [
                reply("", beside("slow"), beside("fast")),
                reply("", call("task_wait", task_ids=["fast.c1_1", "other"])),
                reply("", call("task_wait", task_ids=["fast.c1_1"]), call("task_wait", timeout=0.01)),
                let_go,
                "end",
            ],
            "main/slow.*": [slow("slow is done")],
            "main/fast.*": [told],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("slow", "fast"), hooks=[Hooks()]) as client:
        result = await asked(client)
    unknown, fast_result, first, last = outputs(result)[2:]
    assert unknown == "no task 'other' was started in the background; open: ['slow.c1_0', 'fast.c1_1']"
    assert fast_result == "[task_id: fast.c1_1]\nfast is done"
    assert first.startswith("[task_id: slow.c1_0]\nstill running")
    assert last == "[task_id: slow.c1_0]\nslow is done"


async def test_what_nobody_collected_comes_by_itself() -> None:
    """[SUB-29] The run waits, gives all results as one marked message, and goes on with a turn."""
    slow = Gate()

    def let_go(_: ModelRequest) -> str:
        slow.open.set()
        return "I am through"

    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("slow"), beside("fast"), beside("bad")), let_go, "now with all"],
            "main/slow.*": [slow("slow is done")],
            "main/fast.*": ["fast is done"],
            "main/bad.*": [ModelError("no luck")],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("slow", "fast", "bad")) as client:
        result = await asked(client)
    assert (result.status, result.text, result.turns) == ("done", "now with all", 3)
    message = result.messages[-2]
    assert message.role == "user" and message.text == (
        f"{AT_REST}\n\n[task_id: slow.c1_0]\nslow is done\n\n[task_id: fast.c1_1]\nfast is done"
        "\n\n[task_id: bad.c1_2]\nagent 'bad' failed: no luck"
    )


async def test_the_hooks_and_the_bounds_of_results_hold_for_them() -> None:
    """[SUB-29] A hook sees them as a result of `task_wait`; secrets and lengths are looked after."""
    seen: list[str] = []

    class Hooks:
        def after_tool(self, ctx: ToolContext, result: ToolResult) -> ToolResult | None:
            seen.append(ctx.tool.name)
            if ctx.tool.name == "task_wait":
                return ToolResult(output=result.output.replace("private", "***"))
            return None

    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("long")), "through", "end"],
            "main/long.*": ["private " + "x" * 80_000],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("long"), hooks=[Hooks()]) as client:
        result = await asked(client)
    text = result.messages[-2].text
    assert seen == ["task", "task_wait"]
    assert text.startswith(f"{AT_REST}\n\n[task_id: long.c1_0]\n*** xxx")
    assert "characters" in text and len(text) < 55_000


async def test_the_limits_of_the_caller_hold_while_it_collects() -> None:
    """[SUB-29] At its last turn it gets the results and ends `incomplete`, with the results kept."""
    script = ScriptedModel(
        by_path={"main": [reply("", beside("fast")), "through"], "main/fast.*": ["fast is done"]}
    )
    async with Client(model=script, builtins=ON, agents=agents("fast"), max_turns=2) as client:
        result = await asked(client)
    assert (result.status, result.limit, result.text) == ("incomplete", "max_turns", "through")
    assert result.messages[-1].text == f"{AT_REST}\n\n[task_id: fast.c1_0]\nfast is done"


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_caller_that_waits_lends_its_slot(concurrency: int) -> None:
    """[SUB-31] Nested background runs in one slot come to their end, collected or not."""
    script = ScriptedModel(
        by_path={
            "main/lead.*/helper.*": ["helped"],
            "main/lead.*": [
                reply("", beside("helper"), beside("helper")),
                reply("", call("task_wait", task_ids=["helper.c1_0"])),
                "led",
                "led with both",
            ],
            "main": [reply("", beside("lead"), beside("lead")), "through", "end"],
        }
    )
    budget = Budget(concurrency=concurrency)
    async with Client(model=script, builtins=ON, agents=agents("lead", "helper"), budget=budget) as client:
        result = await asked(client)
    assert result.status == "done"
    assert [child.text for child in result.sub_agents] == ["led with both"] * 2
    assert all(len(child.sub_agents) == 2 for child in result.sub_agents)


async def test_starts_in_the_background_are_counted_exactly() -> None:
    """[SUB-26] Number and depth are claimed at the call; budgets hold in the whole tree."""
    wide = [beside("leaf") for _ in range(20)]
    script = ScriptedModel(
        by_path={"main": [reply("", *wide), "through", "end"], "main/leaf.*": ["x"]},
    )
    async with Client(model=script, builtins=ON, agents=agents("leaf"), max_sub_agents=5) as client:
        result = await asked(client)
    assert len(result.sub_agents) == 5 and result.limit == "max_sub_agents"
    assert sum("have been started" in output for output in outputs(result)) == 15
    script = ScriptedModel(
        by_path={"main": [reply("", *wide[:12]), "through"], "main/leaf.*": [reply("", call("no")), "x"]},
    )
    async with Client(model=script, builtins=ON, agents=agents("leaf"), budget=Budget(requests=10)) as client:
        result = await asked(client)
    assert result.usage.requests == 10 and result.status == "incomplete"
    told = result.messages[-1].text  # who gets the last request is a question of scheduling
    assert len(result.sub_agents) == 12 and told.startswith((AT_REST, AT_END))


async def test_it_is_there_only_when_it_is_turned_on() -> None:
    """[SUB-32] `task_wait` and `task_stop` come with `task`, unless they are denied."""
    main = Agent(name="main2", tools=["task"])
    plain = Agent(name="plain", tools=[])
    denied = Agent(name="denied", tools={"builtins": {"task_stop": False}})
    known = [plain, denied, main]

    def offered(client: Client, agent: Agent) -> list[str]:
        return [name for name in client.tools_of(agent).names() if name.startswith("task")]

    async with Client(model=ScriptedModel(), builtins=ON, agents=known) as client:
        assert offered(client, main) == ["task", "task_wait", "task_stop"]
        assert offered(client, denied) == ["task", "task_wait"]
        assert offered(client, plain) == []
        assert client.toolkit.names() == ["task", "task_wait", "task_stop"]
        assert (await client.toolkit.execute("task_wait", {})).output.startswith("nothing runs")
        outside = await client.toolkit.execute("task", {"agent": "plain", "prompt": "x", "background": True})
        assert outside.is_error and "outside a run" in outside.output
    off = {"tools": {"task_wait": False, "bash": False}, "task_background": True}
    async with Client(model=ScriptedModel(), builtins=off, agents=[plain]) as client:
        assert "task_wait" not in client.toolkit.names() and "task_stop" in client.toolkit.names()
    async with Client(model=ScriptedModel(), builtins=["task"], agents=[plain]) as client:
        task = client.toolkit.get("task")
        assert isinstance(task, Tool) and "background" not in str(task.input_schema) + task.description
        assert client.toolkit.names() == ["task"]
    with pytest.raises(ConfigError, match="there is no 'task_wait'"):
        Client(model=ScriptedModel(), builtins=["task"], agents=[Agent(name="x", tools=["task_wait"])])


async def test_results_say_which_runs_they_are_of() -> None:
    """[SUB-26] [SUB-27] As data beside the text, for those who watch: its path, and a part for each."""
    script = ScriptedModel(
        by_path={
            "main/*": ["done"],
            "main": [reply("", beside("a"), beside("b")), reply("", call("task_wait")), "end"],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("a", "b")) as client, asyncio.timeout(10):
        async with client.stream("go") as stream:
            seen = [e async for e in stream if isinstance(e, ToolFinished) and e.path == ("main",)]
    starts, waited = [e.result.metadata for e in seen[:2]], seen[2].result.metadata
    assert [(m["agent"], m["status"], m["path"]) for m in starts] == [
        ("a", "running", ["main", "a.c1_0"]),
        ("b", "running", ["main", "b.c1_1"]),
    ]
    assert [(m["agent"], m["status"], m["path"][-1]) for m in waited["tasks"]] == [
        ("a", "done", "a.c1_0"),
        ("b", "done", "b.c1_1"),
    ]
    assert [e.name for e in seen] == ["task", "task", "task_wait"] and not any(
        e.result.is_error for e in seen
    )


async def test_where_nothing_was_started_nothing_is_known() -> None:
    """[SUB-27] [SUB-28] A wait for all is no error, a wait for one and a stop are."""
    script = ScriptedModel(
        [
            reply(
                "",
                call("task_wait"),
                call("task_wait", task_ids=["x"]),
                call("task_stop", task_id="y"),
            ),
            "end",
        ]
    )
    async with Client(model=script, builtins=ON, agents=agents("a")) as client:
        result = await asked(client)
    results = [part for message in result.messages for part in message.tool_results]
    assert [(part.is_error, part.output) for part in results] == [
        (False, "nothing runs in the background, and every result was given"),
        (True, "no task 'x' was started in the background; open: []"),
        (True, "no task 'y' was started in the background; open: []"),
    ]
