"""What runs below a conversation did is kept beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Client,
    ConfigError,
    MemoryStore,
    Message,
    ModelError,
    RunError,
    SqliteStore,
    StoreError,
    ToolContext,
    ToolResult,
    pending,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


class CountingStore(MemoryStore):
    """A store that remembers which ids were written, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.fails = ""

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        self._note(id)
        return await super().append(id, messages, expected, state)

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        self._note(id)
        return await super().replace(id, messages, expected)

    def _note(self, id: str) -> None:
        if self.fails and id.startswith(self.fails):
            raise StoreError("the disk is full")
        self.written.append(id)


def task(agent: str, id: str | None = None) -> Any:
    return call("task", id, agent=agent, prompt=f"do {agent}")


async def test_every_run_below_is_kept_under_its_path(tmp_path: Path) -> None:
    """[SUB-21] At any depth and whatever way it ended; another process reads it from the store."""
    script = ScriptedModel(
        by_path={
            "main": [reply("", task("lead"), task("bad"), task("short")), "end", "again"],
            "main/lead.*/helper.*": ["helped"],
            "main/lead.*": [reply("", task("helper")), "led"],
            "main/bad.*": [ModelError("broken")],
            "main/short.*": [reply("so far", call("nothing"))],
        }
    )
    agents = [Agent(name="lead"), Agent(name="helper"), Agent(name="bad"), Agent(name="short", max_turns=1)]
    store = tmp_path / "chats.db"
    async with Client(model=script, builtins=["task"], agents=agents, store=SqliteStore(store)) as client:
        result = await client.ask("go", conversation="c")
    async with Client(model="openai:x", api_key="k", builtins=False, store=SqliteStore(store)) as other:
        chat = other.conversation("c")
        paths = await chat.sub_agents()
        top = {child.path: child.messages for child in result.sub_agents}
        deep = result.sub_agents[0].sub_agents[0]
        assert set(paths) == {*top, deep.path} and len(paths) == 4
        assert {child.agent: child.status for child in result.sub_agents} == {
            "lead": "done",
            "bad": "error",
            "short": "incomplete",
        }
        for path, messages in {**top, deep.path: deep.messages}.items():
            assert await chat.sub_agent(path) == messages
        assert await chat.sub_agent(list(deep.path)) == deep.messages
        texts = [message.text for message in await chat.messages()]
        assert "helped" not in texts and len(texts) == 4


async def test_a_cancelled_run_is_kept_as_far_as_it_came() -> None:
    """[SUB-21] Its calls are answered."""
    begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Never come back."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    script = ScriptedModel(
        by_path={"main": [reply("", task("slow"))], "main/slow.*": [reply("I try", call("hang"))]}
    )
    async with Client(model=script, builtins=["task"], tools=[hang], agents=[Agent(name="slow")]) as client:
        asking = asyncio.create_task(client.ask("go", conversation="c"))
        async with asyncio.timeout(5):
            await begun.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            chat = client.conversation("c")
            (path,) = await chat.sub_agents()
            kept = await chat.sub_agent(path)
    assert [message.role for message in kept] == ["user", "assistant", "tool"]
    assert "interrupted" in kept[-1].tool_results[0].output


async def test_a_run_that_waited_is_kept_once_when_it_ends() -> None:
    """[SUB-21] A run that waits is in the snapshot; the one that is finished is not written again."""

    @tool
    async def ask_first(ctx: ToolContext) -> str | ToolResult:
        """Ask."""
        return pending(kind="question", prompt="ok?") if ctx.answer is None else "asked"

    script = ScriptedModel(
        by_path={
            "main": [reply("", task("quick"), task("asker")), "end"],
            "main/quick.*": ["quick is done"],
            "main/asker.*": [reply("", call("ask_first")), "asker is done"],
        }
    )
    store = CountingStore()
    agents = [Agent(name="quick"), Agent(name="asker")]
    async with Client(
        model=script, builtins=["task"], tools=[ask_first], agents=agents, store=store
    ) as client:
        waiting = await client.ask("go", conversation="c")
        chat = client.conversation("c")
        assert [path[-1] for path in await chat.sub_agents()] == ["quick.c1_0"]
        result = await client.resume("c", [Answer(id=waiting.pending[0].id)])
        assert [path[-1] for path in await chat.sub_agents()] == ["quick.c1_0", "asker.c1_1"]
        assert await chat.sub_agent(result.sub_agents[1].path) == result.sub_agents[1].messages
    assert len([id for id in store.written if "quick.c1_0" in id]) == 1


async def test_a_run_that_is_given_up_is_kept_as_far_as_it_came() -> None:
    """[SUB-21] Its usage counts, too, when the run above is cancelled after it went on."""
    free = asyncio.Event()

    @tool
    async def ask_first(ctx: ToolContext) -> str | ToolResult:
        """Ask."""
        if ctx.answer is None:
            return pending(kind="question", prompt="ok?")
        free.set()
        await asyncio.Event().wait()
        return ""

    script = ScriptedModel(
        by_path={
            "main": [reply("", task("asker"), task("asker"))] * 2,
            "main/asker.*": [reply("I ask", call("ask_first"))],
        }
    )
    options: dict[str, Any] = {"builtins": ["task"], "tools": [ask_first], "agents": [Agent(name="asker")]}
    async with Client(model=script, **options) as client, asyncio.timeout(5):
        await client.ask("go", conversation="c")
        chat = client.conversation("c")
        await chat.discard_pending()
        first, second = [await chat.sub_agent(path) for path in await chat.sub_agents()]
        assert first == second and [message.role for message in first] == ["user", "assistant", "tool"]
        waiting = await client.ask("go", conversation="d")
        going_on = asyncio.create_task(client.resume("d", [Answer(id=waiting.pending[0].id)]))
        await free.wait()
        going_on.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await going_on
        assert len(await client.conversation("d").sub_agents()) == 2
    result = getattr(cancelled.value, "result", None)
    assert result is not None and [child.turns for child in result.sub_agents] == [1, 1]
    assert [child.status for child in result.sub_agents] == ["incomplete"] * 2
    assert result.usage.requests == 3


async def test_deleting_a_conversation_deletes_what_is_below_it() -> None:
    """[SUB-22] And nothing of another one; without sub-agents nothing but the conversation is written."""
    script = ScriptedModel([reply("", task("helper", "x")), "helped", "end"] * 2 + ["no task"])
    store = CountingStore()
    async with Client(model=script, builtins=["task"], agents=[Agent(name="helper")], store=store) as client:
        await client.ask("go", conversation="a")
        await client.ask("go", conversation="b")
        await client.conversation("a").delete()
        assert await client.conversation("a").sub_agents() == ()
        with pytest.raises(RunError, match=r"'a' has no run at \('main', 'helper.x'\); there are: \[\]"):
            await client.conversation("a").sub_agent(("main", "helper.x"))
        assert len(await client.conversation("b").sub_agent(("main", "helper.x"))) == 2
        left = {id for id in store.written if (await store.load(id))[1]}
        assert len(left) == 3 and not any("'a'" in id for id in left)
        store.written.clear()
        await client.ask("hello", conversation="plain")
        assert set(store.written) == {"plain"}


@pytest.mark.parametrize("way", ["ask", "conversation", "resume", "stream"])
async def test_no_conversation_is_called_like_such_a_record(way: str) -> None:
    """[SUB-22] Their ids are taken: whoever chooses ids cannot read what another conversation keeps."""
    script = ScriptedModel([reply("", task("helper", "x")), "helped", "end"])
    store = CountingStore()
    async with Client(model=script, builtins=["task"], agents=[Agent(name="helper")], store=store) as client:
        await client.ask("go", conversation="a")
        (taken,) = {id for id in store.written if id.endswith("'helper.x']")}
        with pytest.raises(ConfigError, match="ids that begin with 'sub-agents:' are taken"):
            match way:
                case "ask":
                    await client.ask("go", conversation=taken)
                case "conversation":
                    await client.conversation(taken).messages()
                case "resume":
                    await client.resume(taken)
                case _:
                    async with client.stream("go", conversation=taken):
                        pass


async def test_odd_ids_do_not_meet() -> None:
    """[SUB-22] Quotes, brackets, lone surrogates: every conversation has records of its own."""
    names = ["a", "a', 'main", "['a']", "\U0001f600", "\ud83d\ude00", "", "é", "\\xe9"]
    script = ScriptedModel([reply("", task("helper", "x")), "helped", "end"] * len(names))
    store = CountingStore()
    async with Client(model=script, builtins=["task"], agents=[Agent(name="helper")], store=store) as client:
        for name in names:
            await client.ask(f"go {name}", conversation=name)
        for name in names:
            assert await client.conversation(name).sub_agents() == (("main", "helper.x"),)
    assert len({id for id in store.written if "helper.x" in id}) == len(names)


async def test_a_store_that_fails_loses_no_conversation() -> None:
    """[SUB-21] What cannot be kept at once is tried again at the end; then it is a `StoreError`."""
    store = CountingStore()
    store.fails = "sub-agents:"
    script = ScriptedModel([reply("", task("helper")), "helped", "end"])
    async with Client(model=script, builtins=["task"], agents=[Agent(name="helper")], store=store) as client:
        with pytest.raises(StoreError, match="the disk is full") as failed:
            await client.ask("go", conversation="c")
        assert failed.value.result is not None and failed.value.result.text == "end"
        assert len(await client.conversation("c").messages()) == 4
