"""Workers of one name in several processes, over one store."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.warm import Piped, Warm
from tests.workflow.test_waiting import asker
from tests.workflow.test_workers import items, said
from tests.workflow.worlds import Asked, Said, client
from toolnexus import (
    Agent,
    Answer,
    Bus,
    ConfigError,
    MemoryStore,
    RunError,
    RunResult,
    SqliteStore,
    StoreError,
    Worker,
    tool,
)
from toolnexus.testing import call
from toolnexus.workers.post import Post

pytestmark = pytest.mark.anyio

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from toolnexus import Agent, Bus, Client, FunctionModel, SqliteStore, Worker, assistant, tool
from toolnexus.testing import call
from toolnexus.workers.post import Post

path, me, hangs, texts = sys.argv[1], sys.argv[2], sys.argv[3] == "hang", sys.argv[4:]
lease = 0.8 if hangs else 10

def note(text):
    with open(path + ".log", "a") as log:
        log.write(f"{me} {text}\\n")

@tool
async def work(what: str) -> str:
    "Work."
    note(what)
    print("working", flush=True)
    if hangs:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("cut", flush=True)
            raise
    return "worked"

async def generate(request):
    last = request.messages[-1]
    if last.role == "tool":
        return "ok"
    texts = [json.loads(line)["text"] for line in last.text.splitlines() if line.startswith("{")]
    await asyncio.sleep(0.002)
    return assistant("", *[call("work", what=text) for text in texts])

async def main():
    bus, store = Bus(), SqliteStore(path)
    client = Client(model=FunctionModel(generate), store=store, builtins=False)
    async with Worker(Agent(name="w", tools=[work]), bus=bus, client=client, lease=lease):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for text in texts:
            await bus.post("w", text)
            await asyncio.sleep(0.002)
        print("posted", flush=True)
        await bus.idle()
        print("idle", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    await store.aclose()

asyncio.run(main())
"""


class Process:
    """A process with a worker `w` of its own; `hangs`: its tool never ends."""

    def __init__(self, process: Piped) -> None:
        self._process = process
        self.pid = process.pid

    async def says(self, word: str) -> None:
        while (line := (await asyncio.to_thread(self._process.stdout.readline)).strip()) != word:
            assert line, f"it ended before it said {word!r}"

    async def go(self) -> None:
        self._process.put("go")


@asynccontextmanager
async def started(
    warm: Warm, path: Path, me: str, *texts: str, hangs: bool = False
) -> AsyncGenerator[Process]:
    with warm.piped(PROGRAM, str(path), me, "hang" if hangs else "", *texts) as process:
        one = Process(process)
        await one.says("ready")
        yield one


def log_of(path: Path) -> list[str]:
    return path.with_name("s.db.log").read_text().splitlines()


async def shown(path: Path) -> list[str]:
    """Every item of the conversation, and every answer, in order; and the inbox, which has to be empty."""
    async with client("function", lambda asked: "never", store=SqliteStore(path)) as (one, _):
        messages = await one.conversation("worker:w").messages()
        assert (await one.store.load("inbox:worker:w"))[0] == ()
    return [m.role[0] + "".join(item["text"] for item in items(m.text)) for m in messages]


async def test_two_processes_share_an_inbox(warm: Warm, tmp_path: Path) -> None:
    """[WF-70] Both post and both read: nothing is lost, nothing handled twice, and turns never overlap."""
    path, texts = tmp_path / "s.db", [f"{n:02}" for n in range(24)]
    async with (
        asyncio.timeout(60),
        started(warm, path, "a", *texts[:12]) as first,
        started(warm, path, "b", *texts[12:]) as second,
    ):
        await asyncio.gather(first.go(), second.go())
        await asyncio.gather(first.says("idle"), second.says("idle"))
        await asyncio.gather(first.go(), second.go())
    assert sorted(line[2:] for line in log_of(path)) == texts
    turns = await shown(path)
    assert "".join(turn[0] for turn in turns) == "uata" * (len(turns) // 4), "one turn after the other"
    read = "".join(turn[1:] for turn in turns)
    assert sorted(read[at : at + 2] for at in range(0, len(read), 2)) == texts


async def test_a_turn_is_taken_up_when_its_process_is_gone_and_not_before(warm: Warm, tmp_path: Path) -> None:
    """[WF-70] As long as it beats nobody else does anything; killed, it is taken up after the lease."""
    path, bus = tmp_path / "s.db", Bus()
    store = SqliteStore(path)
    async with asyncio.timeout(60), started(warm, path, "a", "first", hangs=True) as other:
        await other.go()
        await other.says("working")
        async with here(path, bus, store):
            await bus.post("w", "second")
            begun = await beat_of(store)
            while await beat_of(store) < begun + 3:
                await asyncio.sleep(0.05)
            assert log_of(path) == ["a first"]
            os.kill(other.pid, signal.SIGKILL)
            await bus.idle()
    assert log_of(path) == ["a first", "here second"]
    assert await shown(path) == ["ufirst", "a", "t", "a", "usecond", "a", "t", "a"]


async def test_a_process_that_stood_still_is_cut_short_when_it_wakes(warm: Warm, tmp_path: Path) -> None:
    """[WF-70] Its turn was taken up elsewhere by then; it reads on with the others."""
    path, bus = tmp_path / "s.db", Bus()
    store = SqliteStore(path)
    async with asyncio.timeout(60), started(warm, path, "a", "first", hangs=True) as other:
        await other.go()
        await other.says("working")
        async with here(path, bus, store):
            os.kill(other.pid, signal.SIGSTOP)
            await bus.post("w", "second")
            await bus.idle()
            assert log_of(path) == ["a first", "here second"]
            os.kill(other.pid, signal.SIGCONT)
            await other.says("cut")
            await other.says("idle")
            await bus.post("w", "third")
            await bus.idle()
        await other.go()
    assert log_of(path) == ["a first", "here second", "here third"]
    assert await shown(path) == [
        *["ufirst", "a", "t", "a"],
        *["usecond", "a", "t", "a"],
        *["uthird", "a", "t", "a"],
    ]


@asynccontextmanager
async def here(path: Path, bus: Bus, store: SqliteStore) -> AsyncGenerator[Worker]:
    """The same worker in this process."""

    @tool
    async def work(what: str) -> str:
        """Work."""
        with path.with_name("s.db.log").open("a") as log:
            log.write(f"here {what}\n")
        return "worked"

    async def brain(asked: Asked) -> Said:
        return [call("work", what=text) for text in said(asked)] or "ok"

    async with client("function", brain, store=store) as (one, _):
        async with Worker(Agent(name="w", tools=[work]), bus=bus, client=one, lease=0.8) as worker:
            yield worker


async def beat_of(store: SqliteStore) -> int:
    state = await store.load_state("inbox:worker:w")
    assert state is not None
    return state["beat"]


async def test_a_turn_whose_store_is_out_of_reach_is_cut_short() -> None:
    """[WF-70] Others may have it by then. It is taken up when the store is back."""
    there, cut = asyncio.Event(), asyncio.Event()

    class Fails(MemoryStore):
        broken = False

        async def append(self, id: str, *given: Any, **more: Any) -> int:
            if self.broken and id.startswith("inbox:"):
                raise StoreError("out of reach")
            return await super().append(id, *given, **more)

    async def brain(asked: Asked) -> Said:
        if not there.is_set():
            there.set()
            try:
                await asyncio.Event().wait()
            finally:
                cut.set()
        return "ok"

    bus, store = Bus(), Fails()
    async with client("function", brain, store=store) as (one, seen), asyncio.timeout(10):
        worker = Worker(Agent(name="w", tools=[]), bus=bus, client=one, lease=0.06)
        await worker.start()
        await bus.post("w", "a")
        await there.wait()
        store.broken = True
        await cut.wait()
        await bus.idle()
        with pytest.raises(StoreError, match="out of reach"):
            await worker.stop()
        store.broken = False
        async with worker:
            await bus.idle()
    assert [said(asked) for asked in seen] == [["a"], []]


async def test_no_claim_looks_like_another() -> None:
    """[WF-70] Else one who looks now and then would take turn after turn for one that stands still."""
    claims: list[Any] = []

    class Seen(MemoryStore):
        async def append(self, id: str, messages: Any, expected: int, state: Any = None) -> int:
            if id.startswith("inbox:") and state is not None and not messages:
                claims.append((state["by"], state["beat"]))
            return await super().append(id, messages, expected, state)

    bus = Bus()
    async with client("function", lambda asked: "ok", store=Seen()) as (one, seen):
        async with Worker(Agent(name="w", tools=[]), bus=bus, client=one):
            for n in range(5):
                await bus.post("w", str(n))
                await bus.idle()
    assert len(seen) == 5 and len(claims) >= 5 and len(set(claims)) == len(claims)


async def test_an_answer_waits_for_the_turn_of_another_process() -> None:
    """[WF-70] Of two workers of one name one is at it; a question may be answered by either."""
    go, there = asyncio.Event(), asyncio.Event()
    got: list[RunResult] = []

    async def brain(asked: Asked) -> Said:
        if asked.last.startswith("New"):
            if said(asked) == ["slow"]:
                there.set()
                await go.wait()
                return "slowly"
            return call("ask", about="q")
        return asked.last

    store, bus, other_bus = MemoryStore(), Bus(), Bus()
    agent = Agent(name="w", tools=[asker([])])
    async with client("function", brain, store=store) as (one, _), asyncio.timeout(20):
        async with client("function", brain, store=store) as (two, _):
            first = Worker(agent, bus=bus, client=one, lease=5, on_result=got.append)
            second = Worker(agent, bus=other_bus, client=two, lease=5)
            async with first, second:
                await bus.post("w", "question")
                await bus.idle()
                (question,) = got[-1].pending
                answered = await second.resume([Answer(id=question.id, ok=True, data="yes")])
                assert answered.text == "yes"
                await bus.post("w", "slow")
                await there.wait()
                await other_bus.post("w", "question")
                waiting = asyncio.create_task(second.resume([Answer(id="none", ok=True)]))
                done, _ = await asyncio.wait([waiting], timeout=0.2)
                assert not done
                go.set()
                with pytest.raises(RunError, match=r"no open request|no run that waits"):
                    await waiting
                await asyncio.gather(bus.idle(), other_bus.idle())


async def test_an_inbox_that_others_filled_or_emptied_is_known() -> None:
    """[WF-70] The store says how full it is, not what this process saw of it."""
    store, bus, other_bus = MemoryStore(), Bus(), Bus()
    async with client("function", lambda asked: "ok", store=store) as (one, seen):
        first = Worker(Agent(name="w", tools=[]), bus=bus, client=one, max_inbox=2)
        second = Worker(Agent(name="w", tools=[]), bus=other_bus, client=one, max_inbox=2)
        await bus.post("w", "a")
        await other_bus.post("w", "b")
        for each in (bus, other_bus):
            with pytest.raises(RunError, match="is full"):
                await each.post("w", "c")
        async with second:
            await other_bus.idle()
        await bus.post("w", "c")
        async with first:
            await bus.idle()
    assert [said(asked) for asked in seen] == [["a", "b"], ["c"]]


async def test_a_message_that_a_crash_repeats_elsewhere_arrives_once() -> None:
    """[WF-56] Also when another process has read the first of them."""
    store, bus, other_bus = MemoryStore(), Bus(), Bus()
    post = Post(id="1" * 16, sender="x", text="a", trusted=True, hops=1)
    async with client("function", lambda asked: "ok", store=store) as (one, seen):
        first = Worker(Agent(name="w", tools=[]), bus=bus, client=one)
        second = Worker(Agent(name="w", tools=[]), bus=other_bus, client=one)
        async with first:
            await bus.idle()
            async with second:
                await other_bus.send("w", post)
                await other_bus.idle()
            await bus.send("w", post)
            await bus.idle()
    assert [said(asked) for asked in seen] == [["a"]]


@pytest.mark.parametrize("lease", [0, -1, float("inf"), float("nan"), True, "10"])
def test_a_lease_is_a_number_of_seconds(lease: Any) -> None:
    """[WF-70] What is none is told."""
    with pytest.raises(ConfigError, match="lease="):
        Worker(Agent(name="w"), bus=Bus(), lease=lease)


async def test_a_torn_claim_is_none() -> None:
    """[WF-70] Whatever is in its place, the worker goes on."""
    for state in ({}, {"by": 3}, {"by": "x", "beat": 1, "lease": None}):
        store, bus = MemoryStore(), Bus()
        await store.append("inbox:worker:w", (), 0, state)
        async with client("function", lambda asked: "ok", store=store) as (one, seen):
            async with Worker(Agent(name="w", tools=[]), bus=bus, client=one), asyncio.timeout(5):
                await bus.post("w", "a")
                await bus.idle()
        assert len(seen) == 1
