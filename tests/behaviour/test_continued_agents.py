"""`task_continue`: a model goes on with an earlier run of an agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    ConfigError,
    ModelRequest,
    RunResult,
    SqliteStore,
    ToolContext,
    ToolResult,
    pending,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

ON = {"tools": ["task"], "task_continue": True}
EXPLORE = Agent(name="explore")


def explore(prompt: str, task_id: str | None = None, agent: str = "explore", **more: Any) -> Any:
    return call("task", agent=agent, prompt=prompt, **({"task_id": task_id} if task_id else {}), **more)


def texts(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages]


def outputs(result: RunResult) -> list[str]:
    return [part.output for message in result.messages for part in message.tool_results]


async def test_a_child_goes_on_with_what_it_knows() -> None:
    """[SUB-23] Its transcript comes first; the old record stays as it was, and only new turns are counted."""
    script = ScriptedModel(
        by_path={
            "main": [
                reply("", explore("look")),
                reply("", explore("and then?", "explore.c1_0")),
                reply("", explore("and then?", "explore.c2_0")),
                "end",
            ],
            "main/explore.c1_0": ["found it"],
            "main/explore.c2_0": ["more of it"],
            "main/explore.c3_0": [""],
        }
    )
    async with Client(model=script, builtins=ON, agents=[EXPLORE]) as client:
        result = await client.ask("go")
    first, second, third = result.sub_agents
    assert [request.path[-1] for request in script.requests if len(request.path) > 1] == [
        "explore.c1_0",
        "explore.c2_0",
        "explore.c3_0",
    ]
    assert texts(script.requests[5]) == ["look", "found it", "and then?", "more of it", "and then?"]
    assert [message.text for message in first.messages] == ["look", "found it"]
    assert second.messages[:2] == first.messages and second.continues == first.path
    assert (first.continues, third.continues, third.turns) == (None, second.path, 1)
    assert third.text == "The run ended without any text."
    assert outputs(result)[:2] == [
        "found it\n[task_id: explore.c1_0]",
        "more of it\n[task_id: explore.c2_0]",
    ]
    assert result.usage.requests == 7


async def test_a_later_ask_goes_on_with_it_in_another_process(tmp_path: Path) -> None:
    """[SUB-23] In a conversation the runs of earlier asks are known, from the store alone."""
    path = {"main/explore.c1_0": ["found it"]}
    first = ScriptedModel([reply("", explore("look")), "end"], by_path=path)
    async with Client(
        model=first, builtins=ON, agents=[EXPLORE], store=SqliteStore(tmp_path / "c.db")
    ) as one:
        await one.ask("go", conversation="c")
    goes_on = explore("more", "explore.c1_0")
    second = ScriptedModel(
        [reply("", goes_on), "end", reply("", goes_on), "end"], by_path={"main/explore.*": ["more of it"]}
    )
    async with Client(
        model=second, builtins=ON, agents=[EXPLORE], store=SqliteStore(tmp_path / "c.db")
    ) as two:
        result = await two.ask("again", conversation="c")
        assert texts(second.requests[1]) == ["look", "found it", "more"]
        (child,) = result.sub_agents
        assert child.continues == ("main", "explore.c1_0")
        chat = two.conversation("c")
        assert [path[-1] for path in await chat.sub_agents()] == ["explore.c1_0", child.path[-1]]
        assert len(await chat.sub_agent(("main", "explore.c1_0"))) == 2
        assert await chat.sub_agent(child.path) == child.messages
        other = await two.ask("go", conversation="another")
        assert "there is no run 'explore.c1_0' to go on with; known: []" in outputs(other)[0]


async def test_what_cannot_go_on_says_why() -> None:
    """[SUB-24] An unknown run, one of another agent, one that was started by somebody else, one that runs."""
    begun, free = asyncio.Event(), asyncio.Event()

    async def slow(_: ModelRequest) -> str:
        begun.set()
        await free.wait()
        return "slow is done"

    async def hold(ctx: ToolContext) -> None:
        if "task_id" in ctx.arguments and not begun.is_set():
            await begun.wait()

    class Hooks:
        before_tool = staticmethod(hold)

        @staticmethod
        async def after_tool(ctx: ToolContext, result: ToolResult) -> None:
            if ctx.arguments.get("task_id") == "explore.c2_0":
                free.set()

    script = ScriptedModel(
        by_path={
            "main": [
                reply("", explore("look")),
                reply("", explore("slow"), explore("x", "explore.c2_0")),
                reply(
                    "",
                    explore("x", "nobody.c9_9"),
                    explore("x", "explore.c1_0", agent="review"),
                    explore("x", "review.c1_0"),
                ),
                "end",
            ],
            "main/explore.c1_0": [reply("", explore("inner", agent="review")), "found it"],
            "main/explore.c1_0/review.*": ["reviewed"],
            "main/explore.c2_0": [slow],
        }
    )
    agents = [EXPLORE, Agent(name="review")]
    async with Client(model=script, builtins=ON, agents=agents, hooks=[Hooks()]) as client:
        async with asyncio.timeout(5):
            result = await client.ask("go")
    assert len(result.sub_agents) == 2
    _, _, running, unknown, other, foreign = outputs(result)
    assert running == "'explore.c2_0' has not ended: it runs, or waits for an answer; go on with it later"
    assert unknown == "there is no run 'nobody.c9_9' to go on with; known: ['explore.c1_0', 'explore.c2_0']"
    assert other == "'explore.c1_0' is a run of agent 'explore', not of 'review'"
    assert foreign.startswith("there is no run 'review.c1_0' to go on with")


async def test_going_on_counts_as_a_start() -> None:
    """[SUB-24] In number and budget; a run that reached its own limit can go on after it."""
    script = ScriptedModel(
        by_path={
            "main": [
                reply("", explore("look")),
                reply("", explore("go on", "explore.c1_0")),
                reply("", explore("go on", "explore.c2_0")),
                "end",
            ],
            "main/explore.c1_0": [reply("one of two", explore("x", agent="nobody"))],
            "main/explore.c2_0": ["two of two"],
        }
    )
    agent = Agent(name="explore", max_turns=1)
    async with Client(
        model=script, builtins=ON, agents=[agent], max_sub_agents=2, budget=Budget(requests=6)
    ) as client:
        result = await client.ask("go")
    first, second, third = outputs(result)
    assert first == "one of two\n[incomplete: max_turns 1]\n[task_id: explore.c1_0]"
    assert second == "two of two\n[task_id: explore.c2_0]"
    assert "all 2 sub-agents of this request have been started" in third
    assert result.status == "incomplete" and result.limit == "max_sub_agents"
    roles = [message.role for message in result.sub_agents[1].messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_run_that_is_continued_knows_the_runs_it_started() -> None:
    """[SUB-23] A helper's run can go on in the run that continues its caller's, over any number of asks."""
    ids = iter([None, "lead.c1_0", "lead.c1_0~2"])

    def main(request: ModelRequest) -> Any:
        return reply("", explore("lead", next(ids), agent="lead"))

    script = ScriptedModel(
        by_path={
            "main/*/helper.c1_0": ["helped"],
            "main/*/helper.*": ["helped more"],
            "main/lead.c1_0": [reply("", explore("help", agent="helper")), "led"],
            "main/lead.c1_0~2": ["led on"],
            "main/lead.c1_0~3": [
                reply("", explore("more", "helper.c1_0", agent="helper")),
                "led to the end",
            ],
            "main": [main, "end"],
        }
    )
    agents = [Agent(name="lead"), Agent(name="helper")]
    async with Client(model=script, builtins=ON, agents=agents) as client:
        await client.ask("go", conversation="c")
        await client.ask("go", conversation="c")
        result = await client.ask("go", conversation="c")
    assert texts(script.requests[-3]) == ["help", "helped", "more"]
    (lead,) = result.sub_agents
    assert lead.sub_agents[0].continues == ("main", "lead.c1_0", "helper.c1_0")


async def test_a_continued_run_that_asks_goes_on_anywhere() -> None:
    """[RES-12] The history that it continues is in the snapshot, and is no part of its own text."""

    @tool
    async def check(ctx: ToolContext) -> str | ToolResult:
        """Ask."""
        return pending(kind="question", prompt="ok?") if ctx.answer is None else "asked"

    script = ScriptedModel(
        by_path={
            "main": [reply("", explore("look")), reply("", explore("more", "explore.c1_0")), "end"],
            "main/explore.c1_0": ["found it"],
            "main/explore.c2_0": [reply("", call("check")), ""],
        }
    )
    options: dict[str, Any] = {"builtins": ON, "agents": [EXPLORE], "tools": [check]}
    async with Client(model=script, **options) as client:
        waiting = await client.ask("go")
    snapshot = json.loads(json.dumps(waiting.snapshot))
    async with Client(model=script, **options) as client:
        result = await client.resume(snapshot, [Answer(id=waiting.pending[0].id)])
    child = result.sub_agents[1]
    assert [message.text for message in child.messages[:3]] == ["look", "found it", "more"]
    assert child.continues == ("main", "explore.c1_0")
    assert texts(script.requests[-2])[:3] == ["look", "found it", "more"]
    assert child.text == "The run ended without any text."


async def test_without_the_option_every_call_is_a_fresh_run() -> None:
    """[SUB-25] Neither the schema nor the texts speak of it; the option is a bool."""
    script = ScriptedModel(
        [reply("", explore("look")), "found it", reply("", explore("x", "explore.c1_0")), "end"]
    )
    async with Client(model=script, builtins=["task"], agents=[EXPLORE]) as client:
        task = client.toolkit.get("task")
        assert task is not None
        assert "task_id" not in task.input_schema["properties"] and "task_id" not in task.description
        result = await client.ask("go")
    first, second = outputs(result)
    assert first == "found it" and "task_id" in second and len(result.sub_agents) == 1
    async with Client(model=script, builtins=ON, agents=[EXPLORE]) as client:
        task = client.toolkit.get("task")
        assert task is not None
        assert (
            "task_id" in task.input_schema["properties"] and "[task_id: explore.call_1]" in task.description
        )
    with pytest.raises(ConfigError, match="builtins: task_continue is 'yes'; allowed are True and False"):
        Client(model=script, builtins={"task_continue": "yes"})


async def test_without_a_conversation_the_runs_of_this_ask_are_known() -> None:
    """[SUB-23] A run that goes on reaches the helpers that it started before, through the runs above it."""
    script = ScriptedModel(
        by_path={
            "main/lead.c1_0/*": ["helper found it"],
            "main/lead.c2_0/*": ["helper knows more"],
            "main/lead.c1_0": [reply("", explore("look", agent="helper")), "lead is done"],
            "main/lead.c2_0": [
                reply("", explore("more?", "helper.c1_0", agent="helper")),
                "lead is done again",
            ],
            "main": [
                reply("", explore("lead", agent="lead")),
                reply("", explore("go on", "lead.c1_0", agent="lead")),
                "end",
            ],
        }
    )
    agents = [Agent(name="lead"), Agent(name="helper")]
    async with Client(model=script, builtins=ON, agents=agents) as client:
        result = await client.ask("go")
    again = result.sub_agents[1]
    assert (again.status, again.text) == ("done", "lead is done again")
    (helper,) = again.sub_agents
    assert helper.text == "helper knows more" and helper.continues == ("main", "lead.c1_0", "helper.c1_0")
    assert [m.text for m in helper.messages if m.role == "user"] == ["look", "more?"]
