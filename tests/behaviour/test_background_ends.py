"""Runs in the background that end before their result was wanted: stopped, queued, or with their caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.behaviour.test_background_agents import AT_END, ON, Gate, agents, asked, beside, outputs
from toolnexus import (
    Budget,
    Client,
    ModelError,
    ModelRequest,
    tool,
)
from toolnexus.core.events import RunFinished, SubAgentFinished
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def after(event: asyncio.Event, answer: Any) -> Callable[[ModelRequest], Awaitable[Any]]:
    async def wait(_: ModelRequest) -> Any:
        await event.wait()
        return answer

    return wait


async def test_one_is_stopped_and_says_what_it_had() -> None:
    """[SUB-28] With everything below it; a queued one never begins; one that ended gives its result."""
    below = Gate()
    script = ScriptedModel(
        by_path={
            "main/lead.*/helper.*": [below("never")],
            "main/lead.*": [reply("half of it", call("task", agent="helper", prompt="x")), "never"],
            "main/fast.*": ["fast is done"],
            "main": [
                reply("", beside("fast")),
                reply("", beside("lead")),
                after(
                    below.begun,
                    reply(
                        "",
                        call("task_stop", task_id="lead.c2_0"),
                        call("task_stop", task_id="fast.c1_0"),
                    ),
                ),
                reply("", call("task_stop", task_id="x"), call("task_stop", task_id="lead.c2_0")),
                "end",
            ],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("lead", "helper", "fast")) as client:
        result = await asked(client)
    assert outputs(result)[2:] == [
        "[task_id: lead.c2_0]\nhalf of it\n[incomplete: cancelled]",
        "[task_id: fast.c1_0]\nfast is done",
        "no task 'x' was started in the background; open: []",
        "[task_id: lead.c2_0]\nits result was given before",
    ]
    assert (result.status, result.text) == ("done", "end")
    lead = result.sub_agents[1]
    assert (lead.status, lead.limit) == ("incomplete", "cancelled")
    assert lead.sub_agents[0].limit == "cancelled" and lead.messages[-1].role == "tool"


async def test_a_queued_one_that_is_stopped_never_begins() -> None:
    """[SUB-28] It has no transcript, and no slot is lost."""
    first = Gate()
    script = ScriptedModel(
        by_path={
            "main": [
                reply("", beside("first"), beside("second")),
                after(first.begun, reply("", call("task_stop", task_id="second.c1_1"))),
                lambda _: (first.open.set(), "through")[1],
                "end",
            ],
            "main/first.*": [first("first is done")],
        }
    )
    budget = Budget(concurrency=1)
    async with Client(model=script, builtins=ON, agents=agents("first", "second"), budget=budget) as client:
        result = await asked(client)
    stopped = outputs(result)[2]
    assert stopped == "[task_id: second.c1_1]\nIt was stopped before it began.\n[incomplete: cancelled]"
    assert [child.agent for child in result.sub_agents] == ["first"] and result.text == "end"


@pytest.mark.parametrize("end", ["max_turns", "error", "seconds", "cancelled", "tool_calls"])
async def test_a_run_that_ends_otherwise_ends_them(end: str) -> None:
    """[SUB-30] They are cancelled, counted and closed, and the transcript says what became of them."""
    slow = Gate()

    async def last(_: ModelRequest) -> Any:
        await slow.begun.wait()
        if end == "cancelled":
            asking.cancel()
        if end in ("cancelled", "seconds"):
            await asyncio.Event().wait()
        if end == "error":
            raise ModelError("no luck")
        return reply("", call("task_wait", timeout=0), call("task_wait", timeout=0))

    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("slow"), beside("fast")), last],
            "main/slow.*": [reply("half of it", call("nothing")), slow("never")],
            "main/fast.*": ["fast is done"],
        }
    )
    limits = {"seconds": Budget(seconds=1.0), "tool_calls": Budget(tool_calls=4)}
    options: dict[str, Any] = {"budget": limits.get(end), "max_turns": 2}
    async with Client(model=script, builtins=ON, agents=agents("slow", "fast"), **options) as client:
        before = asyncio.all_tasks()
        asking = asyncio.create_task(asked(client, conversation="c"))
        await asyncio.wait([asking])
        assert asyncio.all_tasks() == before
        if asking.cancelled():
            result: Any = None
        elif (failure := asking.exception()) is not None:
            result = getattr(failure, "result", None)
        else:
            result = asking.result()
        messages = await client.conversation("c").messages()
        kept = await client.conversation("c").sub_agents()
    note = messages[-1]
    if end in ("max_turns", "tool_calls"):  # there `task_wait` gave what had ended before
        assert note.text == f"{AT_END}\n\n[task_id: slow.c1_0]\nhalf of it\n[incomplete: cancelled]"
    else:
        assert note.text == (
            f"{AT_END}\n\n[task_id: slow.c1_0]\nhalf of it\n[incomplete: cancelled]"
            "\n\n[task_id: fast.c1_1]\nfast is done"
        )
    assert {path[-1] for path in kept} == {"slow.c1_0", "fast.c1_1"}
    if result is not None:
        assert {child.agent: child.status for child in result.sub_agents} == {
            "slow": "incomplete",
            "fast": "done",
        }
        assert result.usage.requests == 5 and result.status != "done"


async def test_the_end_of_one_is_told_after_its_last_event() -> None:
    """[SUB-26] Events carry its path and come before those of the caller's end; each end comes once."""
    script = ScriptedModel(
        by_path={
            "main": [reply("", beside("fast"), beside("fast")), reply("", call("task_wait")), "end"],
            "main/fast.*": [reply("", call("nothing")), "fast is done"],
        }
    )
    async with Client(model=script, builtins=ON, agents=agents("fast")) as client:
        async with client.stream("go") as stream:
            events = [event async for event in stream]
    for path in (("main", "fast.c1_0"), ("main", "fast.c1_1")):
        own = [event for event in events if event.path == path]
        assert isinstance(own[-1], RunFinished) and len(own) > 5
        (end,) = [event for event in events if isinstance(event, SubAgentFinished) and event.child == path]
        told = next(
            event for event in events if getattr(event, "name", "") == "task_wait" and event.seq > end.seq
        )
        assert own[-1].seq < end.seq < told.seq
    assert isinstance(events[-1], RunFinished) and events[-1].path == ("main",)


async def test_a_stream_of_cancels_leaves_nothing() -> None:
    """[SUB-30] A cancel at any step of the loop, and a second one while the first is at work."""

    @tool
    async def work() -> str:
        """Work a little."""
        for _ in range(3):
            await asyncio.sleep(0)
        return "worked"

    def script() -> ScriptedModel:
        return ScriptedModel(
            by_path={
                "main/lead.*/helper.*": [reply("", call("work")), "helped"],
                "main/lead.*": [reply("", beside("helper"), call("work")), "led", "led on"],
                "main": [reply("", beside("lead"), beside("lead")), reply("", call("task_wait")), "end"],
            }
        )

    names = agents("lead", "helper")
    for steps in range(0, 60, 3):
        async with Client(
            model=script(), builtins=ON, agents=names, tools=[work], budget=Budget(concurrency=2)
        ) as client:
            await client.conversation("x").messages()
            before = asyncio.all_tasks()
            asking = asyncio.create_task(client.ask("go", conversation="c"))
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.sleep(0)
            asking.cancel()
            async with asyncio.timeout(5):
                await asyncio.wait([asking])
            await asyncio.sleep(0)
            assert {t for t in asyncio.all_tasks() - before if "ask" in repr(t)} == set()
            for message in await client.conversation("c").messages():
                assert message.role in ("user", "assistant", "tool")
