"""Runs in the background that ask, and go on wherever somebody answers."""

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
    MemoryStore,
    ModelRequest,
    Request,
    RunResult,
    SqliteStore,
    ToolContext,
    ToolResult,
    pending,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

ON: dict[str, Any] = {"tools": ["task"], "task_background": True}
AT_REST = "[Results of background tasks. This message comes from the system, not from the user.]\n\n"
AT_END = "[Background tasks when the run ended. This message comes from the system, not from the user.]\n\n"


@tool
async def check(what: str, ctx: ToolContext) -> str | ToolResult:
    """Ask somebody."""
    if ctx.answer is None:
        return pending(kind="question", prompt=f"{what}?")
    return f"{what}: {ctx.answer.data}"


def beside(agent: str, **more: Any) -> Any:
    return call("task", agent=agent, prompt=f"do {agent}", background=True, **more)


ASKS = {
    "main/asker.*": [reply("", call("check", what="a")), "asker is done"],
    "main/fast.*": ["fast is done"],
}
AGENTS = [Agent(name="asker"), Agent(name="fast"), Agent(name="lead")]


def client(script: ScriptedModel, **options: Any) -> Client:
    return Client(model=script, builtins=ON, tools=[check], agents=AGENTS, **options)


def outputs(result: RunResult) -> list[str]:
    return [part.output for message in result.messages for part in message.tool_results]


def prompts(result: RunResult) -> list[str]:
    return [request.prompt for request in result.pending]


async def test_whoever_answers_is_asked_at_once() -> None:
    """[RES-13] The nearest `on_request` answers while the caller goes on; it is nobody else's wait."""
    answered = asyncio.Event()

    async def answer(request: Request) -> Answer:
        answered.set()
        return Answer(id=request.id, data="yes")

    async def later(_: ModelRequest) -> Any:
        await answered.wait()
        return reply("", call("task_wait"))

    script = ScriptedModel(by_path={"main": [reply("", beside("asker")), later, "end"], **ASKS})
    async with client(script, on_request=answer) as one, asyncio.timeout(5):
        result = await one.ask("go")
    assert outputs(result)[1] == "[task_id: asker.c1_0]\nasker is done" and result.status == "done"


@pytest.mark.parametrize("where", ["task_wait", "rest"])
async def test_a_question_nobody_answers_makes_the_caller_wait(where: str, tmp_path: Path) -> None:
    """[RES-13] It comes out where the results are wanted, and another process goes on from the store."""
    wait = reply("", call("task_wait")) if where == "task_wait" else "through"
    script = ScriptedModel(by_path={"main": [reply("", beside("asker"), beside("fast")), wait], **ASKS})
    async with client(script, store=SqliteStore(tmp_path / "c.db")) as one, asyncio.timeout(5):
        waiting = await one.ask("go", conversation="c")
        assert (waiting.status, prompts(waiting)) == ("pending", ["a?"])
        assert waiting.pending[0].data == {"path": ["main", "asker.c1_0"]}
        assert await one.conversation("c").pending() == waiting.pending
    more = ScriptedModel(by_path={"main": ["", "", "end"], **ASKS})
    async with client(more, store=SqliteStore(tmp_path / "c.db")) as two, asyncio.timeout(5):
        result = await two.resume("c", [Answer(id=waiting.pending[0].id, data="yes")])
        again = await two.resume("c", [Answer(id=waiting.pending[0].id, data="yes")])
        kept = await two.conversation("c").messages()
        paths = await two.conversation("c").sub_agents()
    both = "[task_id: asker.c1_0]\nasker is done\n\n[task_id: fast.c1_1]\nfast is done"
    if where == "task_wait":
        assert outputs(result)[2] == both
    else:
        assert result.messages[-2].text == AT_REST + both
    assert (result.status, result.text, again.text) == ("done", "end", "end")
    assert kept == result.messages and {path[-1] for path in paths} == {"asker.c1_0", "fast.c1_1"}
    assert [(child.agent, child.status, child.turns) for child in result.sub_agents] == [
        ("asker", "done", 2),
        ("fast", "done", 1),
    ]
    assert result.usage.requests == 6 and len(more.requests) == 2


async def test_several_questions_are_answered_one_by_one() -> None:
    """[RES-13] What was answered goes on at once; the rest stays open, results are given when all are in."""
    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("asker"), beside("asker"), call("check", what="own")), "", "end"],
            **ASKS,
        }
    )
    async with client(script) as one, asyncio.timeout(5):
        first = await one.ask("go")
        assert prompts(first) == ["own?", "a?", "a?"]
        ids = [request.id for request in first.pending]
        second = await one.resume(json.loads(json.dumps(first.snapshot)), [Answer(id=ids[2], data="2")])
        assert prompts(second) == ["own?", "a?"] and second.usage.requests == 4
        third = await one.resume(json.loads(json.dumps(second.snapshot)), [Answer(id=ids[0], data="0")])
        assert prompts(third) == ["a?"] and third.text == "a?"
        last = await one.resume(json.loads(json.dumps(third.snapshot)), [Answer(id=ids[1], data="1")])
    assert (last.status, last.text, last.usage.requests) == ("done", "end", 7)
    assert outputs(last)[2] == "own: 0"
    assert last.messages[-2].text == (
        f"{AT_REST}[task_id: asker.c1_0]\nasker is done\n\n[task_id: asker.c1_1]\nasker is done"
    )
    texts = [child.messages[2].tool_results[0].output for child in last.sub_agents]
    assert texts == ["a: 1", "a: 2"]


async def test_a_run_that_waits_has_nothing_alive_below_it() -> None:
    """[RES-14] Before it ends `pending` it waits for what runs, and the result is there afterwards."""
    free = asyncio.Event()

    async def slow(_: ModelRequest) -> str:
        await free.wait()
        return "slow is done"

    async def later(_: ModelRequest) -> Any:
        asyncio.get_running_loop().call_later(0.01, free.set)
        return reply("", call("check", what="own"))

    script = ScriptedModel(
        by_path={"main": [reply("", beside("fast")), later, "", "end"], "main/fast.*": [slow]}
    )
    async with client(script) as one, asyncio.timeout(5):
        before = asyncio.all_tasks()
        waiting = await one.ask("go")
        assert waiting.status == "pending" and asyncio.all_tasks() == before
        assert [child.text for child in waiting.sub_agents] == ["slow is done"]
        result = await one.resume(waiting, [Answer(id=waiting.pending[0].id, data="yes")])
    assert result.messages[-2].text == f"{AT_REST}[task_id: fast.c1_0]\nslow is done"
    assert result.usage.requests == 5 and len(result.sub_agents) == 1


async def test_questions_come_up_through_every_level() -> None:
    """[RES-13] A run in the background of one in the background asks, in one slot, and goes on."""
    script = ScriptedModel(
        by_path={
            "main/lead.*/asker.*": [reply("", call("check", what="deep")), "asker is done"],
            "main/lead.*": [reply("", beside("asker")), "led", "led with it"],
            "main": [reply("", beside("lead")), "through", "end"],
        }
    )
    async with client(script, budget=Budget(concurrency=1)) as one, asyncio.timeout(5):
        waiting = await one.ask("go")
        assert prompts(waiting) == ["deep?"] and waiting.pending[0].data is not None
        assert waiting.pending[0].data["path"] == ["main", "lead.c1_0", "asker.c1_0"]
        snapshot = json.loads(json.dumps(waiting.snapshot))
        result = await one.resume(snapshot, [Answer(id=waiting.pending[0].id, data="yes")])
    assert (result.status, result.text) == ("done", "end")
    assert result.sub_agents[0].text == "led with it" and result.usage.requests == 8
    assert result.sub_agents[0].sub_agents[0].text == "asker is done"


async def test_one_that_waits_is_given_up_with_its_caller() -> None:
    """[RES-14] Stopped, or left when the caller ends: its transcript and its usage stay."""
    stop = call("task_stop", task_id="asker.c1_0")
    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("asker"), call("check", what="own")), reply("", stop), "end"],
            **ASKS,
        }
    )
    async with client(script) as one, asyncio.timeout(5):
        waiting = await one.ask("go")
        own = next(request for request in waiting.pending if request.prompt == "own?")
        snapshot = json.loads(json.dumps(waiting.snapshot))
        result = await one.resume(snapshot, [Answer(id=own.id, data="yes")])
    assert (result.status, result.text, result.pending) == ("done", "end", ())
    (child,) = result.sub_agents
    assert (child.status, child.limit, child.turns, child.usage.requests) == ("incomplete", "cancelled", 1, 1)
    assert child.messages[-1].tool_results[0].output == "no answer was given, and the run was stopped"
    assert outputs(result)[2].startswith("[task_id: asker.c1_0]\n")


async def test_a_conversation_that_gives_up_keeps_what_they_did() -> None:
    """[RES-14] `discard_pending` puts finished results into the conversation and keeps transcripts."""
    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("asker"), beside("fast")), "through", "next"],
            **ASKS,
        }
    )
    async with client(script, store=MemoryStore()) as one, asyncio.timeout(5):
        await one.ask("go", conversation="c")
        chat = one.conversation("c")
        await chat.discard_pending()
        note = (await chat.messages())[-1].text
        assert note.startswith(f"{AT_END}[task_id: asker.c1_0]\n")
        assert note.endswith("[incomplete: cancelled]\n\n[task_id: fast.c1_1]\nfast is done")
        assert {path[-1] for path in await chat.sub_agents()} == {"asker.c1_0", "fast.c1_1"}
        assert len(await chat.sub_agent(("main", "asker.c1_0"))) == 3


async def test_a_crash_loses_no_result_that_was_there() -> None:
    """[RES-14] What had ended is given when the run goes on; what ran then is told as lost."""
    begun, crashed = asyncio.Event(), asyncio.Event()

    async def hang(_: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    def first(_: ModelRequest) -> Any:
        before.update(asyncio.all_tasks())
        return reply("", beside("fast"))

    async def second(_: ModelRequest) -> Any:
        if beside_us := asyncio.all_tasks() - before:
            await asyncio.wait(beside_us)
        return reply("", beside("lead"))

    async def crash(_: ModelRequest) -> Any:
        await begun.wait()
        frozen.append(await store.load("c"))
        frozen.append(await store.load_state("c"))
        crashed.set()
        return "through"

    frozen: list[Any] = []
    before: set[asyncio.Task[Any]] = set()
    store = MemoryStore()
    script = ScriptedModel(
        by_path={
            "main": [first, second, crash],
            "main/fast.*": ["fast is done"],
            "main/lead.*": [hang],
        }
    )

    async with client(script, store=store) as one, asyncio.timeout(5):
        asking = asyncio.create_task(one.ask("go", conversation="c"))
        await crashed.wait()
        asking.cancel()
        await asyncio.wait([asking])
    left = MemoryStore()
    await left.append("c", frozen[0][0], 0, frozen[1])
    more = ScriptedModel(["end"])
    async with client(more, store=left) as two, asyncio.timeout(5):
        result = await two.resume("c")
    note = result.messages[-2].text
    assert note.startswith(f"{AT_REST}[task_id: fast.c1_0]\nfast is done\n\n[task_id: lead.c2_0]\n")
    assert "agent 'lead' failed: outcome unknown" in note and result.text == "end"


async def test_of_several_that_wait_the_one_that_is_meant_is_stopped() -> None:
    """[RES-14] And one that was started since, and never began, has done nothing."""
    go_on = asyncio.Event()

    async def slow(_: ModelRequest) -> str:
        await go_on.wait()
        return "fast is done"

    async def release(_: ModelRequest) -> str:
        go_on.set()
        return ""

    def stop(id: str) -> Any:
        return call("task_stop", task_id=id)

    script = ScriptedModel(
        by_path={
            "main": [
                reply("", beside("asker"), beside("asker"), call("check", what="own")),
                reply("", stop("asker.c1_1"), beside("fast")),
                reply("", beside("lead")),
                reply("", stop("lead.c3_0"), stop("asker.c1_0")),
                release,
                "end",
            ],
            **ASKS,
            "main/fast.*": [slow],
        }
    )
    async with client(script, budget=Budget(concurrency=1)) as one, asyncio.timeout(5):
        waiting = await one.ask("go")
        own = next(request for request in waiting.pending if request.prompt == "own?")
        snapshot = json.loads(json.dumps(waiting.snapshot))
        result = await one.resume(snapshot, [Answer(id=own.id, data="yes")])
    assert [(child.path[-1], child.status) for child in result.sub_agents] == [
        ("asker.c1_0", "incomplete"),
        ("asker.c1_1", "incomplete"),
        ("fast.c2_1", "done"),
    ]
    told = outputs(result)[3:]
    assert told[0].startswith("[task_id: asker.c1_1]\n") and told[4].startswith("[task_id: asker.c1_0]\n")
    assert told[3] == "[task_id: lead.c3_0]\nIt was stopped before it began.\n[incomplete: cancelled]"
    assert result.text == "end" and result.usage.requests == 9


async def test_an_agent_that_is_gone_cannot_go_on() -> None:
    """[RES-13] Its run in the background fails with a reason that the caller reads, and `sub_agents` says it,
    too, with what it had done; the caller goes on."""
    script = ScriptedModel(by_path={"main": [reply("", beside("asker"), beside("fast")), "", "end"], **ASKS})
    async with client(script) as one, asyncio.timeout(5):
        waiting = await one.ask("go")
        snapshot = json.loads(json.dumps(waiting.snapshot))
    others = [Agent(name="fast")]
    async with Client(model=script, builtins=ON, tools=[check], agents=others) as two, asyncio.timeout(5):
        result = await two.resume(snapshot, [Answer(id=waiting.pending[0].id, data="yes")])
    assert (result.status, result.text) == ("done", "end")
    assert result.messages[-2].text == (
        f"{AT_REST}[task_id: asker.c1_0]\nagent 'asker' failed: there is no agent 'asker' any more\n\n"
        "[task_id: fast.c1_1]\nfast is done"
    )
    gone, fast = result.sub_agents
    assert (gone.status, gone.agent, str(gone.error)) == (
        "error",
        "asker",
        "there is no agent 'asker' any more",
    )
    assert (fast.status, gone.limit, gone.turns) == ("done", None, 1) and len(gone.messages) == 3


async def test_what_a_run_leaves_behind_at_its_end_is_bounded() -> None:
    """[SUB-30] The note in its transcript is cut as results are, and says where the whole is."""
    ended = asyncio.Event()

    def long(_: ModelRequest) -> str:
        ended.set()
        return "y" * 200_000

    async def then(_: ModelRequest) -> Any:
        await ended.wait()
        return reply("", call("task_wait", timeout=0.001, task_ids=["nobody"]))

    script = ScriptedModel(by_path={"main": [reply("", beside("fast")), then], "main/fast.*": [long]})
    async with client(script, max_turns=2) as one, asyncio.timeout(5):
        result = await one.ask("go")
    assert (result.status, result.limit) == ("incomplete", "max_turns")
    note = result.messages[-1].text
    assert note.startswith(f"{AT_END}[task_id: fast.c1_0]\nyyy") and len(note) < 60_000
    assert "the transcripts of these runs" in note and len(result.sub_agents[0].text) == 200_000
