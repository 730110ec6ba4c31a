"""Somebody else writes the same conversation at the worst moment, or a write takes long."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Answer,
    Client,
    FunctionModel,
    MemoryStore,
    Message,
    ModelRequest,
    RunError,
    StoreConflict,
    Suspended,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
    user,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


class Shared(MemoryStore):
    """What another process works on, too: `first` does its work right before one of our writes."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Callable[[], Awaitable[Any]] | None = None
        self.at = ""
        self.ids: set[str] = set()

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        await self._let_others(id)
        return await super().append(id, messages, expected, state)

    async def replace(self, id: str, messages: Sequence[Message], expected: int) -> int:
        await self._let_others(id)
        return await super().replace(id, messages, expected)

    def before(self, id: str, first: Callable[[], Awaitable[Any]]) -> None:
        """Run `first` before the next write of what begins with `id`."""
        self.at, self.first = id, first

    async def _let_others(self, id: str) -> None:
        self.ids.add(id)
        if self.first is not None and id.startswith(self.at):
            first, self.first = self.first, None
            await first()


class Slow(MemoryStore):
    """A store whose appends wait from the moment that `hold` was called."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()

    def hold(self) -> None:
        self.go.clear()

    async def append(
        self, id: str, messages: Sequence[Message], expected: int, state: Mapping[str, Any] | None = None
    ) -> int:
        if not self.go.is_set():
            self.reached.set()
            await self.go.wait()
        return await super().append(id, messages, expected, state)


def waiting_model() -> FunctionModel:
    """A run that delegates, then asks."""

    def answer(request: ModelRequest) -> Message | str:
        if request.path != ("main",):
            return "found"
        last = request.messages[-1]
        if last.role == "user" and last.text == "go":
            return assistant("", call("task", id="t1", agent="look", prompt="look"))
        return assistant("", call("deploy", id="d1")) if last.role == "tool" else "said"

    return FunctionModel(answer)


@tool
async def deploy(ctx: ToolContext) -> str | ToolResult:
    """Deploy."""
    return pending(kind="approval", prompt="deploy now?") if ctx.answer is None else "deployed"


def client(store: MemoryStore) -> Client:
    agents = [Agent(name="look")]
    return Client(model=waiting_model(), builtins=["task"], agents=agents, tools=[deploy], store=store)


def texts(messages: Sequence[Message]) -> list[str]:
    return [m.text for m in messages if m.text]


@pytest.mark.parametrize("at", ["t", "sub-agents:"])
async def test_a_conversation_that_grows_while_it_is_deleted_is_gone(at: str) -> None:
    """[SUB-22] With all that another process added meanwhile, to it or to the runs below it."""
    store = Shared()
    async with asyncio.timeout(10), client(store) as here, client(store) as there:
        await here.ask("go", conversation="t")
        await here.conversation("t").discard_pending()
        store.before(at, lambda: there.ask("go", conversation="t"))
        await here.conversation("t").delete()
        assert store.first is None
    assert len(store.ids) == 4 and [id for id in store.ids if (await store.load(id))[0]] == []
    assert await store.load_state("t") is None


async def test_what_was_said_while_a_run_is_given_up_stays() -> None:
    """[RES-08] The run is given up behind it, once."""
    store = Shared()
    async with asyncio.timeout(10), client(store) as here:
        await here.ask("go", conversation="t")
        _, version = await store.load("t")
        state = await store.load_state("t")
        store.before("t", lambda: MemoryStore.append(store, "t", [user("by the way")], version, state))
        await here.conversation("t").discard_pending()
        assert await here.conversation("t").pending() == ()
        kept = await here.conversation("t").messages()
        assert texts(kept).count("by the way") == 1
        results = [(part.call_id, part.is_error, part.output) for m in kept for part in m.tool_results]
        assert results == [
            ("t1", False, "found"),
            ("d1", True, "no answer was given to: deploy now?"),
        ]
        assert (await here.ask("more", conversation="t")).text == "said"


async def test_a_resume_that_is_cancelled_after_it_lost_gives_nothing_back() -> None:
    """[RES-25] Whoever took the run has it: their mark stays."""
    store = Shared()
    async with asyncio.timeout(10), client(store) as here:
        result = await here.ask("go", conversation="t")
        answers = [Answer(id=request.id) for request in result.pending]
        loaded, version = await store.load("t")
        theirs = {**(await store.load_state("t") or {}), "resumed": {"by": "them", "asks": False}}
        claiming, lost = asyncio.Event(), asyncio.Event()

        async def they_take_it() -> None:
            await MemoryStore.append(store, "t", [], version, theirs)
            claiming.set()
            await lost.wait()

        store.before("t", they_take_it)
        resuming = asyncio.create_task(here.resume("t", answers))
        await claiming.wait()
        resuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resuming
        lost.set()
        await here.conversation("t").pending()
        assert await store.load_state("t") == theirs and (await store.load("t"))[0] == loaded


async def test_who_reads_after_a_cancel_reads_what_was_kept() -> None:
    """[CONV-04] Messages, questions and runs below wait for the write that is under way; so does a close."""
    store = Slow()
    running = asyncio.Event()

    @tool
    async def endless() -> str:
        """Never ends."""
        running.set()
        await asyncio.Event().wait()
        return ""

    def answer(request: ModelRequest) -> Message | str:
        if request.path != ("main",):
            return "found"
        last = request.messages[-1]
        if last.role == "user":
            return assistant("", call("task", id="t1", agent="look", prompt="look"))
        return assistant("", call("endless", id="e1"))

    there = Client(
        model=FunctionModel(answer),
        builtins=["task"],
        agents=[Agent(name="look")],
        tools=[endless],
        store=store,
    )
    async with asyncio.timeout(10), there:
        asking = asyncio.create_task(there.ask("go", conversation="t"))
        await running.wait()
        store.hold()
        asking.cancel()
        await store.reached.wait()
        asking.cancel()  # once more: the ask lets go, the write goes on
        with pytest.raises(asyncio.CancelledError):
            await asking
        talk = there.conversation("t")
        reading = asyncio.gather(talk.messages(), talk.sub_agents(), talk.pending())
        closing = asyncio.create_task(there.aclose())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not reading.done() and not closing.done()
        store.go.set()
        messages, below, asked = await reading
        await closing
    assert [part.call_id for m in messages for part in m.tool_results] == ["t1", "e1"]
    assert (below, asked) == ((("main", "look.t1"),), ())


async def test_a_resume_without_answers_gives_the_run_as_it_stands() -> None:
    """[RES-02] Of a snapshot, where nobody answers in place: nothing runs, and the questions are the same."""
    async with client(MemoryStore()) as here:
        result = await here.ask("go")
        assert result.status == "pending"
        again = await here.resume(result, [])
    assert (again.status, again.pending, again.text) == ("pending", result.pending, "deploy now?")
    assert (again.turns, again.usage, again.path) == (result.turns, result.usage, ("main",))
    assert [run.path for run in again.sub_agents] == [("main", "look.t1")]
    assert again.snapshot == result.snapshot


async def test_a_run_that_goes_on_elsewhere_takes_no_answer_to_another_question() -> None:
    """[RES-24] It is `Suspended` for whoever comes meanwhile, with the question or with no answer at all."""
    store = MemoryStore()
    at_work, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow(ctx: ToolContext) -> str | ToolResult:
        """Ask, then work."""
        if ctx.answer is None:
            return pending(kind="approval", prompt="slow?")
        at_work.set()
        await go_on.wait()
        return "worked"

    options: dict[str, Any] = {"builtins": False, "tools": [deploy, slow], "store": store}
    script = ScriptedModel([reply(call("deploy"), call("slow")), "end"])
    async with asyncio.timeout(10), Client(model=script, **options) as here, Client(**options) as there:
        result = await here.ask("go", conversation="t")
        one, two = (Answer(id=request.id) for request in result.pending)
        resuming = asyncio.create_task(here.resume("t", [two]))
        await at_work.wait()
        with pytest.raises(Suspended, match="deploy now"):
            await there.resume("t", [one])
        with pytest.raises(Suspended):
            await there.ask("more", conversation="t")
        go_on.set()
        assert [request.prompt for request in (await resuming).pending] == ["deploy now?"]
        assert (await here.resume("t", [one])).text == "end"


async def test_a_run_that_was_taken_over_while_it_works_is_a_conflict() -> None:
    """[RES-24] Given up and asked anew elsewhere while it goes on: its own end is not stored."""
    store = Shared()
    at_work, done = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        at_work.set()
        await done.wait()
        return "worked"

    script = ScriptedModel([reply(call("deploy")), reply(call("work")), "end"])
    async with asyncio.timeout(10), client(store) as there:
        async with Client(model=script, builtins=False, tools=[deploy, work], store=store) as here:
            result = await here.ask("go", conversation="t")
            answers = [Answer(id=request.id) for request in result.pending]
            resuming = asyncio.create_task(here.resume("t", answers))
            await at_work.wait()
            await there.conversation("t").discard_pending()
            assert (await there.ask("hello", conversation="t")).text == "said"
            done.set()
            with pytest.raises((StoreConflict, RunError)):
                await resuming
        kept = texts(await there.conversation("t").messages())
        assert kept[-2:] == ["hello", "said"] and "end" not in kept
