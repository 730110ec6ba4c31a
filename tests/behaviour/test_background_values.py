"""What the host sees of runs in the background: metadata, errors, models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Client,
    FunctionModel,
    Hooks,
    ModelRequest,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

ON: dict[str, Any] = {"tools": ["task"], "task_background": True}
AGENTS = [Agent(name="fast"), Agent(name="bad"), Agent(name="asker")]


@tool
async def check(ctx: ToolContext) -> str | ToolResult:
    """Ask somebody."""
    if ctx.answer is None:
        return pending(kind="question", prompt="sure?")
    return f"said {ctx.answer.data}"


class Watch(Hooks):
    """The results of all calls of the main run, by id."""

    def __init__(self) -> None:
        self.seen: dict[str, ToolResult] = {}
        self.sources: dict[str, str] = {}

    async def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
        if ctx.path == ("main",):
            self.seen[ctx.call_id] = result
            self.sources[ctx.tool.name] = ctx.tool.source


def beside(agent: str, id: str) -> Any:
    return call("task", id=id, agent=agent, prompt="p", background=True)


async def watched(*turns: Any) -> dict[str, ToolResult]:
    def fail(_: ModelRequest) -> Any:
        raise RuntimeError("broken")

    watch = Watch()
    script = ScriptedModel(
        by_path={"main": [*turns, "end"], "main/fast.*": ["fast is done"], "main/bad.*": [fail]}
    )
    async with (
        asyncio.timeout(30),
        Client(model=script, builtins=ON, agents=AGENTS, tools=[check], hooks=[watch]) as client,
    ):
        result = await client.ask("go")
    assert result.status == "done"
    assert {watch.sources[name] for name in watch.sources} == {"builtin"}
    return watch.seen


async def test_what_is_started_and_what_is_waited_for_tells_the_host() -> None:
    """[SUB-16] A start says that it runs, and where; a wait has the metadata of each run, in call order."""
    seen = await watched(
        reply("", beside("fast", "a"), beside("bad", "b")), reply("", call("task_wait", id="w"))
    )
    assert dict(seen["a"].metadata) == {"agent": "fast", "status": "running", "path": ["main", "fast.a"]}
    assert seen["a"].output == "started in the background [task_id: fast.a]; task_wait gives its result"
    waited = seen["w"]
    assert waited.output == (
        "[task_id: fast.a]\nfast is done\n\n[task_id: bad.b]\nagent 'bad' failed: broken"
    )
    assert not waited.is_error
    first, second = waited.metadata["tasks"]
    assert (first["agent"], first["status"], first["path"]) == ("fast", "done", ["main", "fast.a"])
    assert (second["agent"], second["status"], second["turns"]) == ("bad", "error", 1)


async def test_a_wait_is_an_error_when_all_it_has_are() -> None:
    """[SUB-14] One failed run alone, or failed ones only; a result is given once."""
    seen = await watched(
        reply("", beside("bad", "a"), beside("bad", "b"), beside("fast", "c")),
        reply("", call("task_wait", id="w1", task_ids=["bad.b", "bad.a", "bad.b"])),
        reply("", call("task_wait", id="w2", task_ids=["bad.a", "fast.c"])),
        reply("", call("task_wait", id="w3", task_ids=["fast.c"]), call("task_wait", id="w4")),
        reply(
            "", call("task_wait", id="w5", task_ids=["nobody"]), call("task_stop", id="s", task_id="nobody")
        ),
    )
    assert seen["w1"].is_error
    assert [line for line in seen["w1"].output.split("\n") if "task_id" in line] == [
        "[task_id: bad.a]",
        "[task_id: bad.b]",
    ]
    assert not seen["w2"].is_error
    given = "its result was given before"
    assert seen["w2"].output == f"[task_id: bad.a]\n{given}\n\n[task_id: fast.c]\nfast is done"
    assert seen["w3"].output == f"[task_id: fast.c]\n{given}" and not seen["w3"].is_error
    assert seen["w4"].output == "nothing runs in the background, and every result was given"
    for id in ("w5", "s"):
        assert seen[id].is_error and seen[id].output.startswith("no task 'nobody' was started")
        assert seen[id].output.endswith("open: []")


async def test_without_any_there_is_nothing_to_wait_for() -> None:
    """[SUB-14] Also when it is named: that is an error."""
    seen = await watched(
        reply(
            "",
            call("task_wait", id="w"),
            call("task_wait", id="x", task_ids=["a.b"]),
            call("task_stop", id="s", task_id="a.b"),
        )
    )
    assert not seen["w"].is_error and seen["w"].output.startswith("nothing runs")
    assert seen["x"].is_error and seen["s"].is_error
    assert seen["s"].output == "no task 'a.b' was started in the background; open: []"


async def test_a_run_that_is_stopped_says_how_far_it_came() -> None:
    """[SUB-16] Incomplete and cancelled, with its agent and path; the end of the run above says it, too."""
    begun = asyncio.Event()
    watch = Watch()

    async def hang(_: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async def then(_: ModelRequest) -> Any:
        await begun.wait()
        return reply("", call("task_stop", id="s", task_id="fast.a"))

    script = ScriptedModel(
        by_path={"main": [reply("", beside("fast", "a")), then, "end"], "main/fast.*": [hang]}
    )
    async with asyncio.timeout(30), Client(model=script, builtins=ON, agents=AGENTS, hooks=[watch]) as client:
        result = await client.ask("go")
    (told,) = watch.seen["s"].metadata["tasks"]
    assert (told["agent"], told["status"], told["limit"]) == ("fast", "incomplete", "cancelled")
    assert told["path"] == ["main", "fast.a"] and told["turns"] == 1
    (run,) = result.sub_agents
    assert (run.agent, run.status, run.path) == ("fast", "incomplete", ("main", "fast.a"))
    assert result.messages[-1].text == "end"


async def test_a_run_goes_on_with_the_model_that_its_call_named() -> None:
    """[SUB-07] In the background, too, and also where it goes on in another process."""
    asked: list[tuple[str, str]] = []

    def model(name: str) -> FunctionModel:
        def answer(request: ModelRequest) -> Any:
            asked.append((request.agent, name))
            if request.agent == "asker":
                return assistant("", call("check")) if request.turn == 1 else "asker is done"
            if request.turn == 1:
                start = call("task", id="a", agent="asker", prompt="p", background=True, model="other")
                return assistant("", start)
            return assistant("", call("task_wait", id="w")) if request.turn == 2 else "end"

        return FunctionModel(answer, name=name)

    def client() -> Client:
        agents = [Agent(name="asker"), Agent(name="own", model=model("other"))]
        return Client(model=model("first"), builtins=ON, agents=agents, tools=[check])

    async with asyncio.timeout(30), client() as one:
        waiting = await one.ask("go")
    assert waiting.status == "pending" and ("asker", "other") in asked
    asked.clear()
    async with asyncio.timeout(30), client() as two:
        result = await two.resume(waiting, [Answer(id=waiting.pending[0].id, data="yes")])
    assert result.status == "done" and asked[0] == ("asker", "other")
