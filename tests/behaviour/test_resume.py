"""Runs that wait for people, and go on wherever somebody answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.warm import Warm
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    MemoryStore,
    Request,
    RunError,
    SqliteStore,
    Suspended,
    ToolCallPart,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


class Bank:
    """Pays only when somebody approved, and remembers what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool
        async def pay(to: str, ctx: ToolContext) -> str | ToolResult:
            """Pay somebody."""
            if ctx.answer is None:
                return pending(kind="approval", prompt=f"pay {to}?", data={"to": to})
            self.done.append(f"paid {to}")
            return f"paid {to}"

        @tool
        async def look(what: str) -> str:
            """Look something up."""
            self.done.append(f"looked {what}")
            return f"{what} is fine"

        self.tools = [pay, look]


CALLS = [call("pay", to="ann"), call("look", what="rate"), call("pay", to="bob")]


def model(*after: Any) -> ScriptedModel:
    return ScriptedModel([reply("", *CALLS), *after])


def use(name: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(f"call_{name}", name, json.dumps(arguments))


async def waiting(bank: Bank, **options: Any) -> tuple[Any, Mapping[str, Request]]:
    """A run that waits for two approvals, with its requests by name."""
    async with Client(model=model(), builtins=False, tools=bank.tools, **options) as client:
        result = await client.ask("go", conversation="c" if "store" in options else None)
    assert result.status == "pending"
    return result, {request.prompt: request for request in result.pending}


async def test_approvals_come_in_any_order_and_nothing_runs_twice(tmp_path: Path) -> None:
    """[RES-01] The free call ran once; each approved one runs once; the batch goes back in call order."""
    bank = Bank()
    store = tmp_path / "chat.db"
    _, asked = await waiting(bank, store=SqliteStore(store))
    assert bank.done == ["looked rate"]
    async with Client(
        model=ScriptedModel(["all done"]), builtins=False, tools=bank.tools, store=SqliteStore(store)
    ) as other:
        chat = other.conversation("c")
        assert [request.prompt for request in await chat.pending()] == ["pay ann?", "pay bob?"]
        first = await other.resume("c", [Answer(id=asked["pay bob?"].id)])
        assert first.status == "pending" and bank.done == ["looked rate", "paid bob"]
        assert [request.prompt for request in first.pending] == ["pay ann?"]
        last = await other.resume("c", [Answer(id=asked["pay ann?"].id)])
        assert (last.status, last.text) == ("done", "all done")
        assert bank.done == ["looked rate", "paid bob", "paid ann"]
        messages = await chat.messages()
    (results,) = [message.tool_results for message in messages if message.role == "tool"]
    assert [result.output for result in results] == ["paid ann", "rate is fine", "paid bob"]
    assert last.turns == 2 and last.tool_calls == 3


async def test_the_same_answer_again_does_nothing(tmp_path: Path) -> None:
    """[RES-02] While the run waits and after it ended; another answer, and an id nobody asked, are errors."""
    bank = Bank()
    _, asked = await waiting(bank, store=SqliteStore(tmp_path / "c.db"))
    ann, bob = (Answer(id=asked[f"pay {name}?"].id) for name in ("ann", "bob"))
    async with Client(
        model=ScriptedModel(["end"]),
        builtins=False,
        tools=bank.tools,
        store=SqliteStore(tmp_path / "c.db"),
    ) as client:
        await client.resume("c", [ann])
        again = await client.resume("c", [ann])
        assert again.status == "pending" and bank.done == ["looked rate", "paid ann"]
        with pytest.raises(RunError, match="answered already"):
            await client.resume("c", [replace(ann, ok=False)])
        with pytest.raises(RunError, match="no open request has the id 'x'"):
            await client.resume("c", [Answer(id="x")])
        assert (await client.resume("c", [bob])).text == "end"
        repeated = await client.resume("c", [ann, bob])
        assert (repeated.status, repeated.text, repeated.turns) == ("done", "end", 0)
        with pytest.raises(RunError, match="no open request has the id 'x'; conversation 'c' waits for none"):
            await client.resume("c", [bob, Answer(id="x")])
        with pytest.raises(RunError, match="'c' has no run that waits; ask it instead"):
            await client.resume("c")
        with pytest.raises(RunError, match="answered already"):
            await client.resume("c", [replace(bob, ok=False)])
    assert bank.done == ["looked rate", "paid ann", "paid bob"]


async def test_an_answer_is_for_the_very_arguments() -> None:
    """[RES-03] Arguments that were edited after the question are refused, and the model is told."""
    bank = Bank()
    result, asked = await waiting(bank)
    snapshot = json.loads(json.dumps(result.snapshot).replace('\\"to\\": \\"ann\\"', '\\"to\\": \\"eve\\"'))
    assert snapshot != result.snapshot
    answers = [Answer(id=request.id) for request in asked.values()]
    async with Client(model=ScriptedModel(["end"]), builtins=False, tools=bank.tools) as client:
        last = await client.resume(snapshot, answers)
    assert bank.done == ["looked rate", "paid bob"]
    refused = last.messages[2].tool_results[0]
    assert refused.is_error and "are not those that the answer was for" in refused.output


async def test_a_tool_that_is_not_there_uses_no_answer_up(tmp_path: Path) -> None:
    """[RES-55] Nothing runs and both questions stay open, for a client that has the tool."""
    bank, store = Bank(), tmp_path / "c.db"
    result, asked = await waiting(bank, store=SqliteStore(store))
    ann, bob = (Answer(id=asked[f"pay {name}?"].id) for name in ("ann", "bob"))
    forgot = ScriptedModel(["never"])
    async with Client(model=forgot, builtins=False, tools=bank.tools[1:], store=SqliteStore(store)) as client:
        for waits in ("c", result.snapshot):
            with pytest.raises(
                RunError, match=r"waits for calls of \['pay'\], which are not among the tools"
            ):
                await client.resume(waits, [ann])
        assert len(await client.conversation("c").pending()) == 2
    assert bank.done == ["looked rate"] and forgot.requests == []
    async with Client(
        model=ScriptedModel(["end"]), builtins=False, tools=bank.tools, store=SqliteStore(store)
    ) as client:
        assert (await client.resume("c", [ann, bob])).text == "end"


async def test_a_refusal_and_a_late_answer_are_told() -> None:
    """[RES-04] Declined and expired calls do not run; the run goes on."""
    bank = Bank()

    @tool
    async def late(ctx: ToolContext) -> str | ToolResult:
        """Ask too late."""
        if ctx.answer is None:
            return pending(kind="approval", prompt="now?", expires_at="2020-01-01T00:00:00+00:00")
        return "in time"

    script = ScriptedModel([reply("", call("late"), call("pay", to="ann")), "end"])
    async with Client(model=script, builtins=False, tools=[*bank.tools, late]) as client:
        result = await client.ask("go")
        late_id, pay_id = [request.id for request in result.pending]
        last = await client.resume(
            result, [Answer(id=late_id), Answer(id=pay_id, ok=False, reason="declined")]
        )
    outputs = [part.output for part in last.messages[2].tool_results]
    assert outputs == ["expired: now?", "declined: pay ann?"]
    assert last.text == "end" and bank.done == []


async def test_a_child_that_asks_goes_on_where_it_stood() -> None:
    """[RES-05] The path tells who asks. Finished siblings do not run again, no request is repeated, and
    turns and usage go on counting."""
    bank = Bank()
    tasks = [use("task", agent="fast", prompt="f"), use("task", agent="asker", prompt="a")]
    turns: dict[tuple[str, int], Any] = {
        ("main", 1): assistant("", *tasks),
        ("main", 2): "both are back",
        ("fast", 1): assistant("", use("look", what="f")),
        ("fast", 2): "fast is done",
        ("asker", 1): assistant("", use("pay", to="ann")),
        ("asker", 2): "asker is done",
    }
    script = FunctionModel(lambda request: turns.pop((request.agent, request.turn)))
    agents = [Agent(name="asker", tools=["pay"]), Agent(name="fast", tools=["look"])]
    async with Client(model=script, builtins=["task"], tools=bank.tools, agents=agents) as client:
        result = await client.ask("go")
        (request,) = result.pending
        assert request.data is not None and request.data["path"][1].startswith("asker.")
        before = result.usage.requests
        assert bank.done == ["looked f"] and before == 4
        copied = json.loads(json.dumps(result.snapshot))
        last = await client.resume(copied, [Answer(id=request.id)])
    assert last.text == "both are back" and bank.done == ["looked f", "paid ann"]
    assert last.usage.requests == before + 2 and last.turns == 2
    assert [child.status for child in last.sub_agents] == ["done", "done"]
    assert [child.text for child in last.sub_agents] == ["fast is done", "asker is done"]
    assert last.sub_agents[1].turns == 2 and last.sub_agent_tool_calls == 2


PROGRAM = """
import asyncio, json, sys
from toolnexus import Agent, Answer, Client, FunctionModel, SqliteStore, ToolCallPart, ToolContext
from toolnexus import assistant, pending, tool

def use(name, **arguments):
    return ToolCallPart("call_" + name, name, json.dumps(arguments))

@tool
async def ask_me(ctx: ToolContext) -> object:
    "Ask."
    with open(sys.argv[1] + ".log", "a") as log:
        print("answered" if ctx.answer else "asked", file=log)
    return f"the answer is {ctx.answer.data}" if ctx.answer else pending(kind="input", prompt="what?")

@tool
async def work() -> str:
    "Work."
    with open(sys.argv[1] + ".log", "a") as log:
        print("worked", file=log)
    return "worked"

async def main():
    turns = {
        "main1": assistant("", use("task", agent="a", prompt="x"), use("task", agent="b", prompt="y")),
        "main2": "end",
        "a1": assistant("", use("ask_me")),
        "a2": "a is done",
        "b1": assistant("", use("work")),
        "b2": "b is done",
    }
    model = FunctionModel(lambda request: turns[f"{request.agent}{request.turn}"])
    agents = [Agent(name="a", tools=["ask_me"]), Agent(name="b", tools=["work"])]
    async with Client(model=model, builtins=["task"], tools=[ask_me, work], agents=agents,
                      store=SqliteStore(sys.argv[1])) as client:
        if sys.argv[2] == "ask":
            result = await client.ask("go", conversation="c")
        else:
            (request,) = await client.conversation("c").pending()
            result = await client.resume("c", [{"id": request.id, "ok": True, "data": 42}])
        print(json.dumps([result.status, result.text, result.usage.requests, result.turns]))

asyncio.run(main())
"""


def test_another_interpreter_goes_on_with_the_store_alone(warm: Warm, tmp_path: Path) -> None:
    """[RES-06] Nothing but the path of the store: finished siblings do not run again, counts go on."""

    def play(what: str) -> list[Any]:
        done = warm.run(PROGRAM, str(tmp_path / "c.db"), what)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert play("ask") == ["pending", "what?", 4, 1]
    assert play("resume") == ["done", "end", 6, 2]
    assert (tmp_path / "c.db.log").read_text().split() in (
        ["asked", "worked", "answered"],
        ["worked", "asked", "answered"],
    )


async def test_a_crash_leaves_a_run_that_can_go_on(tmp_path: Path) -> None:
    """[RES-07] `resume` without answers: finished calls stand, a call whose end nobody saw is told as
    unknown and does not run again, unless its tool may."""
    seen: list[str] = []
    hang = asyncio.Event()

    @tool
    async def quick() -> str:
        """Quick."""
        seen.append("quick")
        return "quick result"

    @tool
    async def risky() -> str:
        """Risky."""
        seen.append("risky")
        await hang.wait()
        return "never"

    @tool(idempotent=True)
    async def harmless() -> str:
        """Harmless."""
        seen.append("harmless")
        return "harmless result"

    tools = [quick, risky, harmless]
    store = MemoryStore()
    script = ScriptedModel([reply("", call("quick")), reply("", call("risky"), call("harmless"))])
    frozen: list[Any] = []

    class Dies(MemoryStore):
        """A store whose process ends: nothing is written any more."""

        async def append(self, id: str, messages: Any, expected: int, state: Any = None) -> int:
            if len(frozen) < 3:
                frozen.append(messages)
                return await store.append(id, messages, expected, state)
            return expected

        async def load(self, id: str) -> Any:
            return await store.load(id)

        async def load_state(self, id: str) -> Any:
            return await store.load_state(id)

    async with Client(model=script, builtins=False, tools=tools, store=Dies()) as client:
        asking = asyncio.create_task(client.ask("go", conversation="c"))
        async with asyncio.timeout(10):
            while "risky" not in seen:
                await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    seen.clear()
    async with Client(
        model=ScriptedModel(["after the crash"]), builtins=False, tools=tools, store=store
    ) as c:
        result = await c.resume("c")
        assert await c.conversation("c").pending() == ()
    assert (result.status, result.text, result.turns) == ("done", "after the crash", 3)
    assert seen == ["harmless"]
    first, second = [m.tool_results for m in result.messages if m.role == "tool"]
    assert [part.output for part in first] == ["quick result"]
    assert second[0].is_error and "outcome unknown" in second[0].output
    assert second[1].output == "harmless result"


async def test_after_a_crash_between_two_turns_new_calls_run() -> None:
    """[RES-07] Only calls that were open then are of unknown outcome, not those that come afterwards."""
    seen: list[str] = []

    @tool
    async def step(n: int) -> str:
        """Step."""
        seen.append(f"step {n}")
        return f"did {n}"

    kept = MemoryStore()

    class Dies(MemoryStore):
        """Keeps the first turn and its results; then its process is gone."""

        async def append(self, id: str, messages: Any, expected: int, state: Any = None) -> int:
            if len((await kept.load(id))[0]) < 3:
                return await kept.append(id, messages, expected, state)
            return expected

        async def load(self, id: str) -> Any:
            return await kept.load(id)

        async def load_state(self, id: str) -> Any:
            return await kept.load_state(id)

    script = ScriptedModel([reply("", call("step", n=1)), "never stored"])
    async with Client(model=script, builtins=False, tools=[step], store=Dies()) as client:
        await client.ask("go", conversation="c")
    later = ScriptedModel([reply("", call("step", n=2)), "end"])
    async with Client(model=later, builtins=False, tools=[step], store=kept) as client:
        result = await client.resume("c")
    assert (result.status, result.text) == ("done", "end")
    assert seen == ["step 1", "step 2"]
    outputs = [part.output for message in result.messages for part in message.tool_results]
    assert outputs == ["did 1", "did 2"]


async def test_a_new_ask_on_a_run_that_waits_is_refused_until_it_is_given_up(tmp_path: Path) -> None:
    """[RES-08] In every process; given up, the calls are answered and what was done stays."""
    bank = Bank()
    store = SqliteStore(tmp_path / "c.db")
    await waiting(bank, store=store)
    async with Client(
        model=ScriptedModel(["on we go"]),
        builtins=False,
        tools=bank.tools,
        store=SqliteStore(tmp_path / "c.db"),
    ) as client:
        with pytest.raises(Suspended, match="pay ann"):
            await client.ask("and?", conversation="c")
        await client.conversation("c").discard_pending()
        assert (await client.ask("and?", conversation="c")).text == "on we go"
        messages = await client.conversation("c").messages()
    (results,) = [message.tool_results for message in messages if message.role == "tool"]
    assert [part.output for part in results] == [
        "no answer was given to: pay ann?",
        "rate is fine",
        "no answer was given to: pay bob?",
    ]


async def test_who_answers_in_place_is_asked_when_a_run_goes_on() -> None:
    """[RES-09] A client with `on_request` goes on without any answer given."""
    bank = Bank()
    result, _ = await waiting(bank)
    asked: list[str] = []

    def on_request(request: Request) -> Answer:
        asked.append(request.prompt)
        return Answer(id=request.id)

    async with Client(
        model=ScriptedModel(["end"]), builtins=False, tools=bank.tools, on_request=on_request
    ) as client:
        last = await client.resume(result)
    assert last.text == "end" and sorted(asked) == ["pay ann?", "pay bob?"]
    assert sorted(bank.done) == ["looked rate", "paid ann", "paid bob"]


async def test_budgets_hold_over_the_whole_run() -> None:
    """[RES-10] What was spent before the wait counts after it."""
    bank = Bank()
    options: dict[str, Any] = {"builtins": False, "tools": bank.tools}
    async with Client(model=model(), budget=Budget(requests=1), **options) as client:
        result = await client.ask("go")
        answers = [Answer(id=request.id) for request in result.pending]
        last = await client.resume(result, answers)
    assert last.status == "incomplete" and last.limit == "requests"
    assert bank.done == ["looked rate", "paid ann", "paid bob"]


async def test_what_is_no_snapshot_is_refused() -> None:
    """[RES-11] Another version, a torn one, and a result that waits for nothing; nothing runs."""
    bank = Bank()
    result, _ = await waiting(bank)
    async with Client(model=ScriptedModel(["end"]), builtins=False, tools=bank.tools) as client:
        changes: list[tuple[dict[str, Any], str]] = [({"version": 9}, "version 9"), ({"frame": {}}, "torn")]
        for change, text in changes:
            snapshot: dict[str, Any] = {**result.snapshot, **change}
            with pytest.raises(RunError, match=text):
                await client.resume(snapshot, [])
        done = await client.ask("go")
        with pytest.raises(RunError, match="waits for nothing"):
            await client.resume(done, [])
        with pytest.raises(RunError, match="has no run that waits"):
            await client.resume("nowhere", [])
    assert bank.done == ["looked rate"]


async def test_an_agent_that_was_changed_meanwhile_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[RES-05] The run goes on as the agent is now; one that is the same says nothing."""
    bank = Bank()
    for edits, told in (({}, 0), ({"system_prompt": "Be quick."}, 1), ({"name": "other"}, 1)):
        caplog.clear()
        boss = Agent(name="boss", model=model(), tools=bank.tools)
        async with Client(builtins=False, agents=[boss]) as client:
            result = await client.run("boss", "go")
        options: dict[str, Any] = {"name": "boss", "model": ScriptedModel(["end"]), **edits}
        later = Agent(tools=bank.tools, **options)
        async with Client(builtins=False, agents=[later]) as client:
            answers = [Answer(id=request.id) for request in result.pending]
            assert (await client.resume(result, answers, target=later)).text == "end"
        assert len([r for r in caplog.records if "was changed while its run waited" in r.message]) == told
