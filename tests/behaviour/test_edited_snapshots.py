"""Snapshots that somebody edited, answers of every kind, and runs that go on in several places at once."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from toolnexus import (
    Agent,
    Answer,
    Client,
    ConfigError,
    FunctionModel,
    Message,
    ModelRequest,
    RunError,
    SqliteStore,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import call

pytestmark = pytest.mark.anyio

PATIENCE = 30


class Bank:
    """A main run and a child that each ask before they pay."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def client(self, **options: Any) -> Client:
        @tool
        async def pay(to: str, ctx: ToolContext) -> str | ToolResult:
            """Pay somebody."""
            if ctx.answer is None:
                return pending(kind="approval", prompt=f"pay {to}?", expires_at=self.expires)
            await self.gate.wait()
            self.paid.append(to)
            return f"paid {to} for {ctx.answer.data!r}"

        model = FunctionModel(self.model)
        chosen: dict[str, Any] = {"agents": [Agent(name="kid")], **options}
        return Client(model=model, builtins=False, tools=[pay], **chosen)

    expires: str | None = None

    async def model(self, request: ModelRequest) -> Message | str:
        match request.agent, request.turn:
            case "main", 1:
                return assistant("", call("task", agent="kid", prompt="p"), call("pay", to="ann"))
            case "kid", 1:
                return assistant("", call("pay", to="bob"))
            case _:
                return "end"


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in `value`."""
    if way:
        yield way
    members: Any = enumerate(cast("list[Any]", value)) if isinstance(value, list) else ()
    for key, inner in cast("dict[Any, Any]", value).items() if isinstance(value, dict) else members:
        yield from places(inner, (*way, key))


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


GONE = object()
EDITS: list[Any] = [None, -1, True, "x", [], {}, GONE]


def edited(snapshot: Any, way: tuple[Any, ...], value: Any) -> Any:
    """A copy of `snapshot` with another value at `way`."""
    copied = at = copy.deepcopy(snapshot)
    for key in way[:-1]:
        at = at[key]
    if value is GONE:
        del at[way[-1]]
    else:
        at[way[-1]] = value
    return copied


async def test_an_edited_snapshot_is_refused_or_does_no_more_than_it_said() -> None:
    """[RES-52] Every value of it replaced by every other kind: a `RunError` in a line, or a run that pays
    nobody but those who were approved, each at most once."""
    bank = Bank()
    async with asyncio.timeout(PATIENCE), bank.client() as client:
        first = await client.ask("go")
        answers = [Answer(id=request.id) for request in first.pending]
        snapshot = json.loads(json.dumps(first.snapshot))
        refused = 0
        ways = [way for way in places(snapshot) if not {"messages", "usage", "models"} & {*way[:-1]}]
        for way in ways:
            for value in EDITS:
                bank.paid.clear()
                try:
                    await client.resume(edited(snapshot, way, value), answers)
                except (RunError, ConfigError) as error:
                    assert len(str(error)) < 400 and "\n" not in str(error)
                    refused += 1
                    assert not bank.paid
                assert bank.paid in ([], ["bob"], ["ann"], ["ann", "bob"], ["bob", "ann"])
    assert refused > len(ways)


async def test_what_is_nested_without_end_or_has_no_place_is_refused() -> None:
    """[RES-52] Deep values, a child in the place of another, one that the ledger does not know, negative
    counts; nothing runs."""
    bank = Bank()
    async with asyncio.timeout(PATIENCE), bank.client() as client:
        first = await client.ask("go")
        answers = [Answer(id=request.id) for request in first.pending]
        snapshot = json.loads(json.dumps(first.snapshot))
        (kid,) = [way for way in places(snapshot) if way[-1] == "child"]
        cyclic = edited(snapshot, (*kid, "state"), None)
        inside = cyclic
        for key in kid:
            inside = inside[key]
        inside["waiting"] = {"call": {"requests": [], "child": inside}}
        for wrong in (
            edited(snapshot, ("ledger", "children"), [deep(5_000)]),
            edited(snapshot, ("version",), deep(5_000)),
            edited(snapshot, (*kid, "place"), 7),
            edited(snapshot, (*kid, "path"), ["main", "other"]),
            edited(snapshot, ("ledger", "children", 0, "toolCalls"), -5),
            edited(snapshot, ("subAgents",), -100),
            edited(snapshot, ("frame", "waiting", "ghost"), {"requests": [], "child": None}),
            cyclic,
        ):
            with pytest.raises(RunError):
                await client.resume(wrong, answers)
        with pytest.raises(ConfigError, match="'ghost'"):
            await client.resume(edited(snapshot, ("agent",), "ghost"), answers)
    assert bank.paid == []


@pytest.mark.parametrize("data", [None, "text", ["a"], {"a": [1]}, 7, True], ids=repr)
async def test_an_answer_may_hold_any_value(data: Any) -> None:
    """[RES-53] It reaches the tool as it was given, and what is no answer is a `ConfigError`."""
    bank = Bank()
    async with asyncio.timeout(PATIENCE), bank.client() as client:
        first = await client.ask("go")
        answers = [{"id": r.id, "ok": True, "data": data} for r in first.pending]
        last = await client.resume(json.loads(json.dumps(first.snapshot)), answers)
        assert last.messages[2].tool_results[1].output == f"paid ann for {data!r}"
        for wrong in ({"id": 7}, {"id": "x", "ok": "yes"}, {}, {"id": "x", "reason": "tired"}, "yes", None):
            with pytest.raises(ConfigError):
                await client.resume(first, [wrong])  # type: ignore[list-item]
        for odd in ("yes", b"yes", None, 7, answers[0], Answer(id=first.pending[0].id)):
            with pytest.raises(ConfigError, match="answers: give a list"):
                await client.resume(first, cast("Any", odd))


@pytest.mark.parametrize(
    ("expires", "late"),
    [
        ("2020-01-01T00:00:00Z", True),
        ("2020-01-01T00:00:00+05:00", True),
        ("2999-01-01T00:00:00+00:00", False),
        ("2020-01-01T00:00:00", False),
        ("soon", False),
        ("", False),
    ],
)
async def test_a_time_limit_of_a_question(expires: str, late: bool) -> None:
    """[RES-53] One that has passed is kept; one that is no time, or without a zone, is none."""
    bank = Bank()
    bank.expires = expires
    async with asyncio.timeout(PATIENCE), bank.client() as client:
        first = await client.ask("go")
        last = await client.resume(first, [Answer(id=request.id) for request in first.pending])
    assert last.text == "end" and len(bank.paid) == (0 if late else 2)


@pytest.mark.parametrize("clients", [1, 2], ids=["one client", "two clients"])
async def test_a_run_goes_on_once_however_many_resume_it(clients: int, tmp_path: Path) -> None:
    """[RES-54] At once, in one client or in several over one store: each approved call runs once. Who was
    late reads the same end, or that the run went on elsewhere."""
    bank = Bank()

    def client() -> Client:
        return bank.client(store=SqliteStore(tmp_path / "c.db"))

    async with asyncio.timeout(PATIENCE), client() as one, client() as two:
        first = await one.ask("go", conversation="c")
        answers = [Answer(id=request.id) for request in first.pending]
        bank.gate.clear()
        used = [one, two][:clients] * (4 // clients)
        resuming = [asyncio.create_task(each.resume("c", answers)) for each in used]
        await asyncio.sleep(0.05)
        bank.gate.set()
        ends = await asyncio.gather(*resuming, return_exceptions=True)
        told = [end for end in ends if isinstance(end, BaseException)]
        assert all(isinstance(error, RunError) and "went on elsewhere" in str(error) for error in told)
        assert [end.text for end in ends if not isinstance(end, BaseException)].count("end") >= 1
        assert sorted(bank.paid) == ["ann", "bob"]
        assert len(await two.conversation("c").messages()) == 4


async def test_a_finished_run_below_is_read_with_care() -> None:
    """[RES-52] Its value is its text where JSON has no form for it; what is no row of usage is refused."""

    class Size(BaseModel):
        metres: int

    class Family(Bank):
        async def model(self, request: ModelRequest) -> Message | str:
            if request.agent == "kid":
                return '{"metres": 3}'
            if request.turn > 1:
                return "end"
            return assistant("", call("task", id="t", agent="kid", prompt="p"), call("pay", id="p", to="ann"))

    bank = Family()
    async with bank.client(agents=[Agent(name="kid", output_type=Size)]) as client:
        first = await client.ask("go")
        assert first.sub_agents[0].output == Size(metres=3)
        answers = [Answer(id=request.id) for request in first.pending]
        snapshot = json.loads(json.dumps(first.snapshot))
        row = ("frame", "children", 0, "usage", 0)
        rows: list[Any] = ["row", {}, [], [1, 2, 3], [["main"], "kid", "m"], [["main"], "kid", "m", {}]]
        for wrong in rows:
            with pytest.raises(RunError):
                await client.resume(edited(snapshot, row, wrong), answers)
        assert bank.paid == []
        last = await client.resume(snapshot, answers)
    assert (last.text, bank.paid, last.sub_agents[0].output) == ("end", ["ann"], '{"metres": 3}')
    assert last.sub_agents[0].own_usage == first.sub_agents[0].own_usage
