"""Runs that several processes resume, or that die while they are resumed."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.processes import Processes
from tests.behaviour.test_resume import Bank, model, use, waiting
from tests.warm import Warm
from toolnexus import (
    Agent,
    Answer,
    Client,
    ConfigError,
    FunctionModel,
    Hooks,
    MemoryStore,
    ModelRequest,
    Request,
    RunError,
    SqliteStore,
    StoreConflict,
    Suspended,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
    user,
)
from toolnexus.runtime.ledger import Ledger
from toolnexus.runtime.snapshot import FramePoint, Snapshot
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked"),
]

UNKNOWN = "outcome unknown"


@pytest.fixture(scope="module")
def processes(warm: Warm) -> Iterator[Processes]:
    started = Processes(warm)
    yield started
    started.close()


class Waits:
    """A conversation in a file of its own that waits for two approvals."""

    def __init__(self, processes: Processes, path: Path, **more: Any) -> None:
        self._processes, self.path, self._more = processes, path, more
        ((status, _, self.ids),) = self.run({"do": "ask"})
        assert status == "pending"
        self.yes = {id: True for id in self.ids.values()}

    def run(self, *jobs: dict[str, Any]) -> list[list[Any]]:
        return self._processes.run(*[{"path": str(self.path), **self._more, **job} for job in jobs])

    def copy(self, name: str) -> Waits:
        """The same, once more."""
        twin = Waits.__new__(Waits)
        twin.__dict__ = {**self.__dict__, "path": self.path.with_name(f"{name}.db")}
        shutil.copy(self.path, twin.path)
        shutil.copy(f"{self.path}.log", f"{twin.path}.log")
        return twin

    def did(self) -> Counter[str]:
        """What tools did, how often."""
        return Counter(Path(f"{self.path}.log").read_text().splitlines())

    async def results(self) -> list[str]:
        """The results of the batch, as the conversation has them now."""
        async with Client(model=FunctionModel(lambda _: "x"), store=SqliteStore(self.path)) as client:
            messages = await client.conversation("c").messages()
        return [part.output for message in messages for part in message.tool_results]


@pytest.fixture(scope="module")
def waits(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Waits:
    return Waits(processes, tmp_path_factory.mktemp("waits") / "one.db")


@pytest.fixture(scope="module")
def below(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Waits:
    """It is a sub-agent that asks."""
    return Waits(processes, tmp_path_factory.mktemp("below") / "one.db", teller=True)


async def test_of_many_resumers_with_the_same_answers_one_runs(waits: Waits) -> None:
    """[RES-20] What was approved happens once; whoever comes second gets the run as it stands."""
    here = waits.copy("same")
    said = here.run(*[{"do": "resume", "answers": here.yes}] * 6)
    assert here.did() == {"look": 1, "pay ann": 1, "pay bob": 1}
    assert {(status, tuple(open)) for status, _, open in said} <= {("done", ()), ("pending", ())}
    texts = {text for _, text, _ in said}
    assert "end of main" in texts
    assert len(texts) == 1 or any("being resumed with these answers already" in text for text in texts)
    assert await here.results() == ["pay ann", "look", "pay bob"]


async def test_of_resumers_with_different_answers_the_first_decides(waits: Waits) -> None:
    """[RES-21] The others are told that it was answered differently; nothing of theirs runs."""
    here = waits.copy("different")
    ann, bob = here.ids["pay ann?"], here.ids["pay bob?"]
    answers = [{ann: ok, bob: True} for ok in (True, False) * 3]
    said = here.run(*[{"do": "resume", "answers": given} for given in answers])
    first = next(n for n, (status, *_) in enumerate(said) if status == "done") % 2
    assert here.did() == {"look": 1, "pay bob": 1, **({} if first else {"pay ann": 1})}
    for n, (status, text, *_) in enumerate(said):
        if n % 2 == first:
            assert status in ("done", "pending")
        else:
            assert (status, text.endswith("answered already, and differently")) == ("RunError", True)
    assert (await here.results())[0] == ("declined: pay ann?" if first else "pay ann")


async def test_resumers_with_answers_to_different_questions_come_one_after_the_other(waits: Waits) -> None:
    """[RES-21] In whatever order; one that comes in between is told to try again, and then it runs."""
    here = waits.copy("parts")
    jobs = [{"do": "resume", "answers": {id: True}} for id in here.ids.values()]
    random.shuffle(jobs)
    for _ in range(3):
        said = here.run(*jobs)
        if any(status == "done" for status, *_ in said):
            break
        assert {status for status, *_ in said} <= {"pending", "Suspended"}
    assert here.did() == {"look": 1, "pay ann": 1, "pay bob": 1}
    assert await here.results() == ["pay ann", "look", "pay bob"]


async def test_each_answer_may_come_from_another_process_last_question_first(waits: Waits) -> None:
    """[RES-01] The process that asked is gone, and so is the one that answered the other question."""
    here = waits.copy("reverse")
    ann, bob = here.ids["pay ann?"], here.ids["pay bob?"]
    assert here.run({"do": "resume", "answers": {bob: True}}) == [["pending", "pay ann?", {"pay ann?": ann}]]
    assert here.did() == {"look": 1, "pay bob": 1}
    assert here.run({"do": "resume", "answers": {ann: True}}) == [["done", "end of main", {}]]
    assert here.did() == {"look": 1, "pay bob": 1, "pay ann": 1}
    assert await here.results() == ["pay ann", "look", "pay bob"]


POINTS = [
    *[f"{when} write {n}" for n in (1, 2, 3) for when in ("before", "after")],
    *["before pay ann", "after pay ann", "after pay bob"],
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "points"), [("waits", POINTS), ("below", ["after write 1", "after pay ann", "after write 2"])]
)
async def test_a_resumer_may_die_at_any_point(
    kind: str, points: list[str], request: pytest.FixtureRequest
) -> None:
    """[RES-22] `kill -9` at every write and around every side effect: nothing happens twice, a call that
    was let go and has no result is told as unknown, and the run can be resumed or given up."""
    origin: Waits = request.getfixturevalue(kind)
    for point in points:
        here = origin.copy(point)
        assert here.run({"do": "resume", "answers": here.yes, "kill": point}) == [["killed", 9]], point
        before = here.did()
        gone = here.copy(point + " given up")
        assert gone.run({"do": "give up"}) == [["given up"]]
        assert gone.run({"do": "ask"}) == [["done", "end of main", {}]]
        if point != "before write 1":  # there it had not begun: the answers are new still
            asked, again = here.run({"do": "ask"}, {"do": "resume", "answers": here.yes})
            if point == "after write 3":  # it was over
                assert asked[0] == "done" and again[0] in ("done", "RunError")
                continue
            assert (asked[0], again[0]) == ("Suspended", "pending") and "is being resumed" in asked[1]
            assert here.run({"do": "resume"}) == [["done", "end of main", {}]]
            assert here.did() == before, point
            assert max(before.values()) <= (2 if kind == "below" else 1), point
            if kind == "waits":
                known = point in ("after write 2", "before write 3")
                first, _, third = await here.results()
                assert [UNKNOWN in first, UNKNOWN in third] == [not known] * 2, point
        else:
            assert here.run({"do": "resume", "answers": here.yes}) == [["done", "end of main", {}]]
            assert here.did() == {"look": 1, "pay ann": 1, "pay bob": 1}


async def test_a_child_that_waits_is_entered_again_after_a_crash(below: Waits) -> None:
    """[RES-23] Its call is not of unknown outcome: the child goes on, and what it had not let go waits."""
    here = below.copy("descends")
    ann, bob = here.ids["pay ann?"], here.ids["pay bob?"]
    assert here.run({"do": "resume", "answers": {ann: True}, "kill": "after pay ann"}) == [["killed", 9]]
    assert here.run({"do": "resume"}) == [["pending", "pay bob?", {"pay bob?": bob}]]
    assert here.run({"do": "resume", "answers": {bob: True}}) == [["done", "end of main", {}]]
    assert here.did() == {"look": 2, "pay ann": 1, "pay bob": 1}
    assert await here.results() == ["end of teller", "look"]


async def test_what_was_not_let_go_waits_still_and_what_may_run_again_does() -> None:
    """[RES-23] After a crash: the question without an answer is asked still, and an idempotent tool,
    such as the builtin `question`, gets its answer again."""
    died = asyncio.Event()
    bank = Bank()

    class Dies(MemoryStore):
        async def append(self, id: str, messages: Any, expected: int, state: Any = None) -> int:
            return expected if died.is_set() else await super().append(id, messages, expected, state)

    ask = call("question", questions=[{"question": "which?"}])
    script = ScriptedModel([reply("", ask, call("pay", to="ann"), call("pay", to="bob"))])
    store = Dies()
    options: dict[str, Any] = {"builtins": ["question"], "store": store}

    class Crash(Hooks):
        async def before_tool(self, ctx: ToolContext) -> None:
            if ctx.answer is not None and ctx.tool.name == "pay":
                died.set()
                await asyncio.Event().wait()

    async with Client(model=script, tools=bank.tools, **options) as client:
        waiting = {r.prompt: r.id for r in (await client.ask("go", conversation="c")).pending}
    answers = [Answer(id=waiting["which?"], data="red"), Answer(id=waiting["pay ann?"])]
    dying: dict[str, Any] = {**options, "tools": bank.tools, "hooks": [Crash()]}
    async with Client(model=ScriptedModel([]), **dying) as client:
        running = asyncio.create_task(client.resume("c", answers))
        async with asyncio.timeout(10):
            await died.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    died.clear()
    async with Client(model=ScriptedModel(["end"]), tools=bank.tools, **options) as client:
        stood = await client.resume("c")
        assert [r.prompt for r in stood.pending] == ["pay bob?"] and bank.done == []
        last = await client.resume("c", [Answer(id=waiting["pay bob?"])])
    assert last.text == "end" and bank.done == ["paid bob"]
    first, second, third = [part.output for m in last.messages for part in m.tool_results]
    assert "red" in first and UNKNOWN in second and third == "paid bob"


class Gate:
    """A tool that asks once and then waits to be let through."""

    def __init__(self) -> None:
        self.entered, self.open = asyncio.Event(), asyncio.Event()

        @tool
        async def slow(ctx: ToolContext) -> str | ToolResult:
            """Ask, then take long."""
            if ctx.answer is None:
                return pending(kind="approval", prompt="slow?")
            self.entered.set()
            await self.open.wait()
            return "slow is done"

        self.tools = [slow]

    async def waiting(self, store: MemoryStore) -> str:
        """The id of the question that conversation `c` waits with."""
        script = ScriptedModel([reply("", call("slow"))])
        async with Client(model=script, builtins=False, tools=self.tools, store=store) as client:
            return (await client.ask("go", conversation="c")).pending[0].id


async def test_a_run_that_is_being_resumed_takes_nothing_else_and_can_be_given_up() -> None:
    """[RES-24] A new ask is `Suspended`; given up elsewhere, the resumer stores and starts nothing more."""
    gate, store = Gate(), MemoryStore()
    id = await gate.waiting(store)
    options: dict[str, Any] = {"builtins": False, "tools": gate.tools, "store": store}
    script, later = ScriptedModel(["never asked"]), ScriptedModel(["new"])
    async with Client(model=script, **options) as one, Client(model=later, **options) as two:
        running = asyncio.create_task(one.resume("c", [Answer(id=id)]))
        async with asyncio.timeout(10):
            await gate.entered.wait()
        chat = two.conversation("c")
        with pytest.raises(Suspended, match="is being resumed; try again when that is over") as raised:
            await chat.ask("and?")
        assert raised.value.requests == () == await chat.pending()
        same = await two.resume("c", [Answer(id=id)])
        assert same.status == "pending" and same.pending == () and "nothing was done" in same.text
        with pytest.raises(RunError, match="answered already, and differently"):
            await two.resume("c", [Answer(id=id, ok=False)])
        await chat.discard_pending()
        gate.open.set()
        with pytest.raises(StoreConflict, match="taken over or given up elsewhere") as lost:
            await running
        assert lost.value.result.tool_calls == 1 and script.requests == []
        assert (await chat.ask("and?")).text == "new"
        (result,) = [part for m in await chat.messages() for part in m.tool_results]
    assert UNKNOWN in result.output


async def test_of_two_that_take_up_a_crashed_run_at_once_one_does() -> None:
    """[RES-24] The other is `Suspended`, although it gave no answer."""
    store = MemoryStore()
    ran: list[int] = []
    both = asyncio.Barrier(2)

    class Slow(MemoryStore):
        """Both look before one of them writes."""

        async def load_state(self, id: str) -> Any:
            state = await store.load_state(id)
            if len(ran) == 0 and both.n_waiting < 2 and not both.broken:
                await both.wait()
            return state

        async def load(self, id: str) -> Any:
            return await store.load(id)

        async def append(self, id: str, messages: Any, expected: int, state: Any = None) -> int:
            return await store.append(id, messages, expected, state)

    frame = FramePoint(path=("main",), messages=())
    ledger = Ledger(("main",), "main").to_json()
    snapshot = Snapshot(agent="main", frame=frame, ledger=ledger, sub_agents=0)
    await store.append("c", [user("go")], 0, {"snapshot": snapshot.to_json(), "start": 0})

    def say(_: ModelRequest) -> str:
        ran.append(1)
        return "went on"

    clients = [Client(model=FunctionModel(say), builtins=False, store=Slow()) for _ in range(2)]
    async with asyncio.timeout(10), clients[0], clients[1]:
        said = await asyncio.gather(*[c.resume("c") for c in clients], return_exceptions=True)
    assert ran == [1]
    assert sorted(type(one).__name__ for one in said) == ["RunResult", "Suspended"]


async def test_a_resume_that_does_not_begin_leaves_the_run_as_it_was() -> None:
    """[RES-25] An agent that is not there, and a cancel before it starts: the answers can be given again."""
    bank, store = Bank(), MemoryStore()
    boss = Agent(name="boss", tools=bank.tools)
    async with Client(model=model(), builtins=False, agents=[boss], store=store) as client:
        result = await client.run("boss", "go", conversation="c")
    answers = [Answer(id=request.id) for request in result.pending]
    before = await store.load_state("c")
    async with Client(model=ScriptedModel([]), builtins=False, store=store) as client:
        with pytest.raises(ConfigError, match="boss"):
            await client.resume("c", answers)
        await client.conversation("c").pending()
        assert await store.load_state("c") == before
    reached, go = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def load(self, id: str) -> Any:
            return await store.load(id)

        async def load_state(self, id: str) -> Any:
            return await store.load_state(id)

        async def append(self, id: str, messages: Any, expected: int, state: Any = None) -> int:
            version = await store.append(id, messages, expected, state)
            reached.set()
            await go.wait()
            return version

    async with Client(model=ScriptedModel([]), builtins=False, agents=[boss], store=Slow()) as client:
        running = asyncio.create_task(client.resume("c", answers))
        async with asyncio.timeout(10):
            await reached.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            go.set()
            assert len(await client.conversation("c").pending()) == 2
    assert await store.load_state("c") == before
    async with Client(model=ScriptedModel(["end"]), builtins=False, agents=[boss], store=store) as client:
        assert (await client.resume("c", answers)).text == "end"
    assert bank.done == ["looked rate", "paid ann", "paid bob"]


@pytest.mark.parametrize("end", ["resumed", "given up"])
async def test_an_ask_that_ran_elsewhere_meanwhile_does_not_take_the_place_of_a_run_that_waits(
    end: str,
) -> None:
    """[RES-26] Both began before either ended: all that the ask adds goes in, and the run waits still."""
    bank, store = Bank(), MemoryStore()
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(request: ModelRequest) -> Any:
        asked.set()
        await go.wait()
        return "from elsewhere" if request.turn == 3 else assistant("", use("look", what=str(request.turn)))

    options: dict[str, Any] = {"builtins": False, "tools": bank.tools, "store": store}
    async with (
        Client(model=FunctionModel(slow), **options) as other,
        Client(model=model("end"), **options) as one,
    ):
        running = asyncio.create_task(other.ask("you?", conversation="c"))
        async with asyncio.timeout(10):
            await asked.wait()
            result = await one.ask("go", conversation="c")
            go.set()
            assert (await running).text == "from elsewhere"
            chat = one.conversation("c")
            assert await chat.pending() == result.pending
            if end == "resumed":
                last = await one.resume("c", [Answer(id=request.id) for request in result.pending])
                assert last.text == "end"
            else:
                await chat.discard_pending()
            messages = await chat.messages()
    outputs = [part.output for message in messages for part in message.tool_results]
    first, second = "paid ann", "paid bob"
    if end == "given up":
        first, second = (f"no answer was given to: pay {who}?" for who in ("ann", "bob"))
    assert outputs == [first, "rate is fine", second, "1 is fine", "2 is fine"]
    assert "from elsewhere" in [message.text for message in messages]


async def test_two_runs_cannot_wait_in_one_conversation() -> None:
    """[RES-26] The second that would is a `StoreConflict` with its result; the first waits still."""
    gate, store = Bank(), MemoryStore()
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(_: ModelRequest) -> Any:
        asked.set()
        await go.wait()
        return assistant("", use("pay", to="eve"))

    options: dict[str, Any] = {"builtins": False, "tools": gate.tools, "store": store}
    async with Client(model=FunctionModel(slow), **options) as other, Client(model=model(), **options) as one:
        running = asyncio.create_task(other.ask("you?", conversation="c"))
        async with asyncio.timeout(10):
            await asked.wait()
            result = await one.ask("go", conversation="c")
            go.set()
            with pytest.raises(StoreConflict, match="waits for answers of another run") as raised:
                await running
            assert [request.prompt for request in raised.value.result.pending] == ["pay eve?"]
            assert await one.conversation("c").pending() == result.pending


async def test_what_was_answered_in_place_before_a_crash_is_not_asked_again() -> None:
    """[RES-23] Nobody knows which of the questions were answered then, so every call of them is unknown."""
    bank, store = Bank(), MemoryStore()
    await waiting(bank, store=store)
    options: dict[str, Any] = {"builtins": False, "tools": bank.tools, "store": store}
    state: list[Any] = []

    async def answer(request: Request) -> Answer:
        state.append(await store.load_state("c"))
        return Answer(id=request.id)

    async with Client(model=ScriptedModel(["end"]), on_request=answer, **options) as client:
        await client.resume("c")
    loaded, _ = await store.load("c")
    crashed = MemoryStore()  # as it was when the questions were asked
    await crashed.append("c", loaded[:2], 0, state[0])
    options["store"] = crashed
    async with Client(model=ScriptedModel(["end"]), **options) as client:
        last = await client.resume("c")
    outputs = [part.output for message in last.messages for part in message.tool_results]
    assert [UNKNOWN in output for output in outputs] == [True, False, True] and last.text == "end"


UNREADABLE: list[Any] = [
    {"snapshot": {"version": 9}, "start": 0},
    {"snapshot": {"version": 1, "agent": "main"}, "start": 0},
    {"start": 0},
    {"snapshot": None, "start": 0},
    {"snapshot": [], "start": 0},
    {},
    [],
    [1],
    "torn",
    5,
]


@pytest.mark.parametrize("state", UNREADABLE, ids=repr)
async def test_an_open_run_that_cannot_be_read_can_be_given_up(
    state: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """[RES-27] Another version, or torn: what is stored stays until somebody gives the run up, and every
    error says how. Its calls are answered then."""
    store = MemoryStore()
    said = [user("go"), assistant("", use("pay", to="ann"), use("look", what="rate"))]
    version = await store.append("c", said, 0, state)
    async with Client(model=ScriptedModel(["on we go"]), builtins=False, store=store) as client:
        chat = client.conversation("c")
        for ask in (chat.ask("and?"), chat.pending(), client.resume("c", [Answer(id="x")])):
            with pytest.raises(RunError, match=r"cannot be read.*'c'\)\.discard_pending\(\) gives it up"):
                await ask
        assert await store.load("c") == (tuple(said), version)
        with caplog.at_level(logging.WARNING, logger="toolnexus.conversations"):
            await chat.discard_pending()
        assert "what its open run had done is lost" in caplog.text
        assert await chat.pending() == ()
        assert (await chat.ask("and?")).text == "on we go"
        outputs = [part.output for message in await chat.messages() for part in message.tool_results]
    assert len(outputs) == 2 and all("could not be read" in output for output in outputs)
