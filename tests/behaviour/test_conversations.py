"""Conversations: order, stores, cancels, pending runs."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.warm import Warm
from toolnexus import (
    Agent,
    Client,
    ConfigError,
    FunctionModel,
    MemoryStore,
    Message,
    ModelError,
    ModelRequest,
    RunError,
    SqliteStore,
    Store,
    StoreError,
    Suspended,
    ToolCallPart,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    run,
    tool,
)
from toolnexus.testing import call

pytestmark = pytest.mark.anyio


def echo(request: ModelRequest) -> str:
    return f"{len(request.messages)}:{request.messages[-1].text}"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "talks.db")


async def test_a_conversation_goes_on_where_it_was(store: Store) -> None:
    """[CONV-01] The stored messages come first; the system prompt is never stored."""
    systems: list[str] = []

    def fn(request: ModelRequest) -> str:
        systems.append(request.system)
        return echo(request)

    async with Client(model=FunctionModel(fn), builtins=False, store=store, system_prompt="Be brief.") as c:
        assert (await c.ask("a", conversation="t")).text == "1:a"
        second = await c.ask("b", conversation="t")
        assert second.text == "3:b" and len(second.messages) == 4
        assert (await c.ask("c")).text == "1:c"
        talk = c.conversation("t")
        assert [m.text for m in await talk.messages()] == ["a", "1:a", "b", "3:b"]
        assert (await talk.ask("d")).text == "5:d"
        await talk.delete()
        assert await talk.messages() == ()
    assert set(systems) == {"Be brief."}


async def test_twenty_asks_at_once_lose_nothing(store: Store) -> None:
    """[CONV-02] They run one after the other: 20 pairs stored, each whole."""
    async with Client(model=FunctionModel(echo), builtins=False, store=store) as c:
        await asyncio.gather(*[c.ask(str(i), conversation="t") for i in range(20)])
        messages = await c.conversation("t").messages()
    assert len(messages) == 40
    assert [m.role for m in messages] == ["user", "assistant"] * 20
    assert sorted(int(m.text) for m in messages[::2]) == list(range(20))
    for n, (asked, answered) in enumerate(zip(messages[::2], messages[1::2], strict=True)):
        assert answered.text == f"{2 * n + 1}:{asked.text}"


async def test_eight_processes_share_one_file(warm: Warm, tmp_path: Path) -> None:
    """[CONV-03] No turn is lost or torn."""
    program = (
        "import asyncio, sys\n"
        "from toolnexus import Client, FunctionModel, SqliteStore\n"
        "async def main():\n"
        "    model = FunctionModel(lambda r: 're ' + r.messages[-1].text)\n"
        "    async with Client(model=model, builtins=False, store=SqliteStore(sys.argv[1])) as c:\n"
        "        for i in range(10):\n"
        "            await c.ask(f'{sys.argv[2]}.{i}', conversation='t')\n"
        "asyncio.run(main())\n"
    )
    file = tmp_path / "talks.db"
    with ExitStack() as stack, (tmp_path / "errors").open("w+") as errors:
        processes = [
            stack.enter_context(warm.start(program, str(file), str(n), stderr=errors)) for n in range(8)
        ]
        assert [process.wait() for process in processes] == [0] * 8, (tmp_path / "errors").read_text()
    store = SqliteStore(file)
    messages, _ = await store.load("t")
    await store.aclose()
    assert len(messages) == 160
    for asked, answered in zip(messages[::2], messages[1::2], strict=True):
        assert answered.text == f"re {asked.text}"
    assert {m.text for m in messages[::2]} == {f"{n}.{i}" for n in range(8) for i in range(10)}


async def test_a_turn_of_another_process_between_a_call_and_its_result_tears_neither() -> None:
    """[CONV-03] Each result is read with its call, wherever it was stored."""
    store = MemoryStore()
    called, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Slow."""
        called.set()
        await go.wait()
        return "slow result"

    seen: list[list[str]] = []

    def fn(request: ModelRequest) -> Message | str:
        seen.append([part.output for message in request.messages for part in message.tool_results])
        if request.messages[-1].text == "work":
            return assistant("", ToolCallPart("1", "slow", "{}"))
        return "done"

    options: dict[str, Any] = {"builtins": False, "tools": [slow], "store": store}
    one, other = (Client(model=FunctionModel(fn), **options) for _ in range(2))
    async with asyncio.timeout(10), one, other:
        working = asyncio.create_task(one.ask("work", conversation="c"))
        await called.wait()
        await other.ask("hello", conversation="c")
        go.set()
        await working
        await other.ask("and?", conversation="c")
    assert seen[-1] == ["slow result"]


async def test_a_cancelled_ask_keeps_what_was_done(store: Store) -> None:
    """[CONV-04] Also cancelled twice: the transcript is complete and the conversation goes on."""
    running = asyncio.Event()

    @tool
    async def quick() -> str:
        """Quick."""
        return "quick result"

    @tool
    async def endless() -> str:
        """Never ends."""
        running.set()
        await asyncio.Event().wait()
        return ""

    def fn(request: ModelRequest) -> Message | str:
        if request.turn == 1 and request.messages[-1].text == "work":
            return assistant("on it", call("quick"), call("endless"))
        return "went on"

    async with Client(model=FunctionModel(fn), builtins=False, tools=[quick, endless], store=store) as c:
        task = asyncio.create_task(c.ask("work", conversation="t"))
        async with asyncio.timeout(5):
            await running.wait()
        task.cancel()
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        messages = await c.conversation("t").messages()
        assert [m.role for m in messages] == ["user", "assistant", "tool"]
        first, second = messages[2].tool_results
        assert first.output == "quick result" and not first.is_error
        assert second.is_error and "cancelled" in second.output
        assert (await c.ask("go on", conversation="t")).text == "went on"


async def test_a_failed_run_keeps_its_completed_turns(store: Store) -> None:
    """[CONV-05] The model's failure is raised with the result on it, and the conversation goes on."""

    @tool
    async def quick() -> str:
        """Quick."""
        return "q"

    def fn(request: ModelRequest) -> Message | str:
        if request.messages[-1].text == "again":
            return "recovered"
        if request.turn == 1:
            return assistant("on it", call("quick"))
        raise ModelError("the endpoint is down")

    async with Client(model=FunctionModel(fn), builtins=False, tools=[quick], store=store) as c:
        with pytest.raises(ModelError, match="is down") as caught:
            await c.ask("work", conversation="t")
        assert caught.value.result.text == "on it" and caught.value.result.turns == 2
        assert len(await c.conversation("t").messages()) == 3
        assert (await c.ask("again", conversation="t")).text == "recovered"


async def test_a_tool_that_asks_its_own_conversation_gets_an_error() -> None:
    """[CONV-06] Not a deadlock."""

    @tool
    async def recurse(ctx: ToolContext) -> str:
        """Ask the own conversation."""
        return (await client.ask("inner", conversation="t")).text

    def fn(request: ModelRequest) -> Message | str:
        if request.turn == 1:
            return assistant("", call("recurse"))
        return request.messages[-1].tool_results[0].output

    client = Client(model=FunctionModel(fn), builtins=False, tools=[recurse])
    async with client, asyncio.timeout(5):
        result = await client.ask("go", conversation="t")
    assert "'t' is asked from within its own run" in result.text


async def test_a_pending_conversation_names_its_questions() -> None:
    """[CONV-07] Finished calls are kept; a new ask is refused until the questions are given up."""
    ran: list[str] = []

    @tool
    async def deploy(ctx: ToolContext) -> ToolResult:
        """Deploy."""
        return pending(kind="approval", prompt="deploy now?")

    @tool
    async def count() -> str:
        """Count."""
        ran.append("count")
        return "1"

    def fn(request: ModelRequest) -> Message | str:
        return assistant("", call("deploy"), call("count")) if request.turn == 1 else "ok"

    def again(request: ModelRequest) -> Message | str:
        return fn(request) if request.messages[-1].text == "go" else "without it"

    async with Client(model=FunctionModel(again), builtins=False, tools=[deploy, count]) as c:
        result = await c.ask("go", conversation="t")
        assert result.status == "pending" and ran == ["count"]
        (question,) = result.pending
        assert question.kind == "approval" and (question.data or {})["path"] == ["main"]
        assert [r.output for r in result.messages[-1].tool_results] == ["no answer yet to: deploy now?", "1"]
        with pytest.raises(Suspended, match="deploy now"):
            result.raise_for_status()
        talk = c.conversation("t")
        assert await talk.pending() == (question,)
        with pytest.raises(Suspended, match=r"deploy now.*discard_pending"):
            await talk.ask("more")
        await talk.discard_pending()
        assert (await talk.ask("more")).text == "without it"


async def test_steering_reaches_the_run_before_its_next_turn() -> None:
    """[CONV-08] And nothing that was said is lost when the run ends before."""

    @tool
    async def steered() -> str:
        """Be steered."""
        client.steer("t", "use metric units")
        return "ok"

    def fn(request: ModelRequest) -> Message | str:
        return assistant("", call("steered")) if request.turn == 1 else request.messages[-1].text

    client = Client(model=FunctionModel(fn), builtins=False, tools=[steered])
    async with client:
        assert (await client.ask("go", conversation="t")).text == "use metric units"
        with pytest.raises(RunError, match="no run in flight"):
            client.steer("t", "too late")


async def test_a_store_that_cannot_write_gives_the_result_back() -> None:
    """[CONV-09] The StoreError carries what the run achieved."""

    class Full(MemoryStore):
        async def append(self, id: str, messages: Sequence[Message], expected: int, state: Any = None) -> int:
            raise StoreError("the disk is full")

    async with Client(model=FunctionModel(echo), builtins=False, store=Full()) as c:
        with pytest.raises(StoreError, match="disk is full") as caught:
            await c.ask("a", conversation="t")
    assert caught.value.result.text == "1:a"


def test_ask_sync_needs_no_event_loop() -> None:
    """[CONV-10] Several asks on one client, from plain code; close is enough."""
    with Client(model=FunctionModel(echo), builtins=False) as client:
        assert client.ask_sync("a", conversation="t").text == "1:a"
        assert client.ask_sync("b", conversation="t").text == "3:b"
    with pytest.raises(ConfigError, match="closed"):
        client.ask_sync("c")


async def test_ask_sync_works_inside_a_running_loop() -> None:
    """[CONV-11] As in a notebook; using the same client on that loop too names the two ways."""
    client = Client(model=FunctionModel(echo), builtins=False)
    assert client.ask_sync("a").text == "1:a"
    with pytest.raises(ConfigError, match=r"one client per loop, or call ask_sync"):
        await client.ask("b")
    client.close()


def test_two_event_loops_one_after_the_other() -> None:
    """[CONV-12] A client whose loop is gone opens again on the next one."""
    client = Client(model=FunctionModel(echo), builtins=False)
    assert asyncio.run(client.ask("a", conversation="t")).text == "1:a"
    assert asyncio.run(client.ask("b", conversation="t")).text == "3:b"
    asyncio.run(client.aclose())


async def test_an_unclosed_client_warns() -> None:
    """[CONV-13] A client that was used and dropped is a ResourceWarning; the files that it kept are gone."""
    client = Client(model=FunctionModel(echo), builtins=False)
    await client.ask("a")
    kept = client._spill.write("much")
    assert kept.exists()
    with pytest.warns(ResourceWarning, match="unclosed Client"):
        del client
        import gc

        gc.collect()
    assert not kept.exists()


async def test_agents_can_be_run_directly() -> None:
    """[CONV-14] `client.run` takes an agent or its name; a wrong name lists the others."""
    agent = Agent(name="x", model=FunctionModel(lambda r: f"x: {r.messages[-1].text}"))
    async with Client(builtins=False, agents=[agent]) as c:
        assert (await c.run("x", "hi")).text == "x: hi"
        assert (await c.run(agent, "hi")).path == ("x",)
        assert (await c.run(Agent(name="y", model=FunctionModel(echo)), "hi")).text == "1:hi"
        with pytest.raises(ConfigError, match=r"'z'; registered: \['x'\]"):
            await c.run("z", "hi")
        with pytest.raises(ConfigError, match="no model is set"):
            await c.ask("hi")


async def test_an_agent_runs_without_a_client_of_its_own() -> None:
    """[CONV-15] `toolnexus.run` opens what it needs and closes it."""
    agent = Agent(name="x", model=FunctionModel(echo), tools=["read"])
    assert (await run(agent, "hi")).text == "1:hi"
    assert (await run(Agent(name="y", tools=[]), "hi", model=FunctionModel(echo))).text == "1:hi"
    with pytest.raises(ConfigError, match=r"agent 'z'.*'raed'.*did you mean 'read'"):
        await run(Agent(name="z", tools=["raed"]), "hi", model=FunctionModel(echo))


async def test_what_outlives_a_run_may_ask_its_conversation() -> None:
    """[CONV-06] Only the run itself would wait for itself: what it started may ask once it is over."""
    later: list[asyncio.Task[Any]] = []
    over = asyncio.Event()

    async def ask_later() -> str:
        await over.wait()
        return (await client.ask("later", conversation="t")).text

    @tool
    async def plan() -> str:
        """Start something that asks when the run is over."""
        later.append(asyncio.create_task(ask_later()))
        return "planned"

    def fn(request: ModelRequest) -> Message | str:
        return assistant("", call("plan")) if request.messages[-1].text == "go" else echo(request)

    client = Client(model=FunctionModel(fn), builtins=False, tools=[plan])
    async with client, asyncio.timeout(10):
        await client.ask("go", conversation="t")
        over.set()
        assert await later[0] == "5:later"


async def test_who_gives_a_run_up_waits_for_the_ask_in_flight() -> None:
    """[CONV-02] So does a deletion: neither takes anything from under a run."""
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def fn(request: ModelRequest) -> str:
        at_work.set()
        await go_on.wait()
        return echo(request)

    async with asyncio.timeout(10), Client(model=FunctionModel(fn), builtins=False) as client:
        talk = client.conversation("t")
        asking = asyncio.create_task(talk.ask("a"))
        await at_work.wait()
        others = [asyncio.create_task(one()) for one in (talk.discard_pending, talk.delete)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(task.done() for task in others)
        go_on.set()
        assert (await asking).text == "1:a"
        await asyncio.gather(*others)
        assert await talk.messages() == ()
