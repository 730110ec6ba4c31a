"""Stores that fail for a while, and records in them that are torn."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Client,
    MemoryStore,
    Message,
    RunError,
    StoreError,
    ToolContext,
    ToolResult,
    pending,
    tool,
    user,
)
from toolnexus.runtime.ledger import Ledger
from toolnexus.runtime.snapshot import FramePoint, Snapshot
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


@tool
async def look() -> str:
    """Look."""
    return "saw"


@tool
async def deploy(ctx: ToolContext) -> str | ToolResult:
    """Deploy."""
    return pending(kind="approval", prompt="deploy now?") if ctx.answer is None else "deployed"


class Fails(MemoryStore):
    """Fails as many appends as it is told to."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left, self.asked = times, 0

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        self.asked += 1
        if self.left:
            self.left -= 1
            raise StoreError("the disk is full")
        return await super().append(id, messages, expected, state)


async def test_a_store_that_fails_meanwhile_is_tried_again_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[CONV-09] The steps after the first failure are not written one by one, the log says it once, and
    the end has all of it."""
    store = Fails(1)
    model = ScriptedModel([*[reply(call("look"))] * 3, "end"])
    with caplog.at_level(logging.WARNING, "toolnexus"):
        async with Client(model=model, builtins=False, tools=[look], store=store) as client:
            result = await client.ask("go", conversation="t")
    assert result.text == "end" and store.asked == 2
    assert (await store.load("t"))[0] == result.messages and len(result.messages) == 8
    assert [r.message for r in caplog.records] == [
        "conversation 't' is not stored while it runs: the disk is full"
    ]


async def test_a_word_from_elsewhere_does_not_stop_a_run_that_goes_on() -> None:
    """[RES-26] It still is the one that goes on: its messages come behind."""
    store = MemoryStore()
    said: list[str] = []

    @tool
    async def chat(ctx: ToolContext) -> str:
        """Somebody else writes."""
        _, version = await store.load("t")
        await store.append("t", [user("by the way")], version, await store.load_state("t"))
        said.append("by the way")
        return "ok"

    model = ScriptedModel([reply(call("deploy")), reply(call("chat")), "end"])
    async with Client(model=model, builtins=False, tools=[deploy, chat], store=store) as client:
        result = await client.ask("go", conversation="t")
        done = await client.resume("t", [Answer(id=request.id) for request in result.pending])
        assert (done.text, said) == ("end", ["by the way"])
        kept = [m.text for m in await client.conversation("t").messages() if m.text]
        assert kept == ["go", "by the way", "end"] and await client.conversation("t").pending() == ()


def test_a_loop_that_is_torn_down_keeps_what_it_can() -> None:
    """[CONV-04] Every task is cancelled, the write of a step among them: the end is written all the same."""

    class Hangs(MemoryStore):
        """Its first write never ends."""

        def __init__(self) -> None:
            super().__init__()
            self.reached = asyncio.Event()

        async def append(
            self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
        ) -> int:
            if not self.reached.is_set():
                self.reached.set()
                await asyncio.Event().wait()
            return await super().append(id, messages, expected, state)

    async def program() -> tuple[Message, ...]:
        store, model = Hangs(), ScriptedModel([reply(call("look")), "end"])
        async with (
            asyncio.timeout(10),
            Client(model=model, builtins=False, tools=[look], store=store) as client,
        ):
            asking = asyncio.create_task(client.ask("go", conversation="t"))
            await store.reached.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            return await client.conversation("t").messages()

    assert [m.role for m in asyncio.run(program())] == ["user", "assistant", "tool"]


async def test_a_torn_entry_hides_no_other_run() -> None:
    """[SUB-21] What is no entry of the index is passed over."""
    store = MemoryStore()
    turns = [reply(call("task", agent="a", prompt="p")), "end"]
    model = ScriptedModel(by_path={"main": turns, "main/*": ["found"]})
    async with Client(model=model, builtins=["task"], agents=[Agent(name="a")], store=store) as client:
        result = await client.ask("go", conversation="t")
    index = "sub-agents:['t']"
    _, version = await store.load(index)
    for torn in ("{", "[]", '{"path": ["x"]}', '{"path": [], "agent": "a", "continues": null}', "null"):
        version = await store.append(index, [user(torn)], version)
    async with Client(model=ScriptedModel([]), store=store) as client:
        talk = client.conversation("t")
        assert await talk.sub_agents() == (result.sub_agents[0].path,)
        assert await talk.sub_agent(result.sub_agents[0].path) == result.sub_agents[0].messages


async def test_a_run_whose_messages_are_gone_cannot_go_on() -> None:
    """[RES-27] Nothing is left of what it was asked: that is said, and nothing runs."""
    store = MemoryStore()
    ledger = Ledger(("main",), "main").to_json()
    stood = Snapshot(agent="main", frame=FramePoint(path=("main",), messages=()), ledger=ledger, sub_agents=0)
    await store.append("t", [], 0, {"snapshot": stood.to_json(), "start": 0})
    model = ScriptedModel(["never"])
    async with Client(model=model, builtins=False, store=store) as client:
        with pytest.raises(RunError, match="its messages are gone"):
            await client.resume("t")
        assert model.requests == []
        await client.conversation("t").discard_pending()
        assert (await client.ask("hi", conversation="t")).text == "never"


async def test_of_a_run_that_was_kept_without_its_messages_nothing_goes_on() -> None:
    """[SUB-24] Its id is known, and its transcript is not: the model is told to start anew."""
    store = MemoryStore()
    turns = [reply(call("task", agent="a", prompt="p", id="t1")), "end"]
    model = ScriptedModel(by_path={"main": turns, "main/*": ["found"]})
    options: dict[str, Any] = {
        "builtins": {"tools": ["task"], "task_continue": True},
        "agents": [Agent(name="a")],
        "store": store,
    }
    async with Client(model=model, **options) as client:
        result = await client.ask("go", conversation="t")
    id = result.sub_agents[0].path[-1]
    record = f"sub-agents:{['t', 'main', id]!a}"
    messages, version = await store.load(record)
    assert messages
    await store.replace(record, (), version)
    later = ScriptedModel([reply(call("task", agent="a", prompt="q", task_id=id)), "end"])
    async with Client(model=later, **options) as client:
        result = await client.ask("and?", conversation="t")
    (told,) = result.messages[-2].tool_results
    assert told.is_error and told.output == f"nothing is kept of {id!r}; start a fresh run"
    assert result.sub_agents == ()


async def test_a_timeout_of_the_model_is_what_a_resume_raises() -> None:
    """[RES-01] Not taken for the end of the client, which uses the same exception inside."""
    model = ScriptedModel([reply(call("deploy")), TimeoutError("slow")])
    async with Client(model=model, builtins=False, tools=[deploy]) as client:
        result = await client.ask("go")
        with pytest.raises(TimeoutError, match="slow"):
            await client.resume(result, [Answer(id=request.id) for request in result.pending])


async def test_what_is_not_stored_is_told_also_when_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    """[CONV-09] The log names the conversation and the reason; what was stored is told nowhere."""
    store = Fails(1_000)
    async with Client(model=ScriptedModel(["a", "b"]), builtins=False, store=store) as client:
        with caplog.at_level(logging.ERROR, "toolnexus"):
            with pytest.raises(StoreError):
                await client.ask("hi", conversation="t")
            store.left = 0
            await client.ask("hi", conversation="u")
    assert [r.message for r in caplog.records] == [
        "what conversation 't' gained was not stored: the disk is full"
    ]


async def test_a_result_of_a_conversation_goes_on_in_it() -> None:
    """[RES-01] `resume` of the result itself: what is done is stored there."""
    model = ScriptedModel([reply(call("deploy")), "end"])
    async with Client(model=model, builtins=False, tools=[deploy]) as client:
        result = await client.ask("go", conversation="t")
        await client.resume(result, [Answer(id=request.id) for request in result.pending])
        messages = await client.conversation("t").messages()
        assert await client.conversation("t").pending() == ()
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2].tool_results[0].output == "deployed"
