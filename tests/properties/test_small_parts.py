"""The small parts of the runtime at their bounds: ledgers, slots, deadlines, threads, events, secrets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from toolnexus import Budget, LimitReached, Request, TextDelta, Usage
from toolnexus.core.events import Event, ReasoningDelta, TurnStarted
from toolnexus.runtime.concurrency import run_all, stop
from toolnexus.runtime.counts import BUCKETS, MOST_VALUES, OTHER, UNKNOWN, Counts, Timings
from toolnexus.runtime.deadline import Deadline
from toolnexus.runtime.ledger import Ledger
from toolnexus.runtime.outbox import SOFT_SIZE, Outbox
from toolnexus.runtime.redact import MASK, Masking, Redactor
from toolnexus.runtime.relays import Relays
from toolnexus.runtime.slots import Slot, Slots
from toolnexus.runtime.spill import Spill
from toolnexus.runtime.threads import ThreadPool

pytestmark = pytest.mark.anyio

USED = Usage(
    prompt_tokens=10,
    completion_tokens=5,
    cached_tokens=4,
    cache_write_tokens=3,
    reasoning_tokens=2,
    requests=1,
    cost=0.5,
)


# ledgers


def test_a_ledger_adds_every_amount() -> None:
    """[ROB-13] Of each model, of the run, of all below; also read back from JSON."""
    top = Ledger(("main",), "main")
    below = Ledger(("main", "kid"), "kid", parent=top)
    for ledger, model in ((top, "m"), (top, "m"), (top, "n"), (below, "m")):
        ledger.record(model, USED)
    below.record("m", Usage(prompt_tokens=1, requests=1, estimated=True, cost=0.25))
    below.reserve_tool_call()
    back = Ledger.from_json(top.to_json())
    for ledger in (top, back):
        assert [(row.path, row.agent, row.model) for row in ledger.usage.rows] == [
            (("main",), "main", "m"),
            (("main",), "main", "n"),
            (("main", "kid"), "kid", "m"),
        ]
        first, _, last = [row.usage for row in ledger.usage.rows]
        assert first == USED + USED and first.requests == 2 and first.cost == 1.0
        assert (last.prompt_tokens, last.requests, last.estimated, last.cost) == (11, 2, True, 0.75)
        own = ledger.own_usage
        assert (own.requests, own.cached_tokens, own.cache_write_tokens, own.reasoning_tokens) == (
            3,
            12,
            9,
            6,
        )
        assert not own.estimated and own.cost == 1.5
        assert (ledger.tool_calls, ledger.tool_calls_below) == (0, 1)
        assert ledger.restored(("main", "kid")).own_usage == last
    assert Ledger((), "x").own_usage == Usage() and back.to_json() == top.to_json()


def test_a_cost_that_is_unknown_once_stays_unknown() -> None:
    """[ROB-13] Of that model, whatever comes after; others have theirs."""
    ledger = Ledger(("main",), "main")
    for cost in (0.5, None, 0.25):
        ledger.record("m", Usage(prompt_tokens=1, requests=1, cost=cost))
    ledger.record("n", USED)
    assert [row.usage.cost for row in ledger.usage.rows] == [None, 0.5]


@pytest.mark.parametrize(
    ("budget", "spend", "limit"),
    [
        (Budget(requests=2), "request", "requests"),
        (Budget(tool_calls=2), "tool", "tool_calls"),
        (Budget(tokens=30), "usage", "tokens"),
        (Budget(cost=1.0), "usage", "cost"),
    ],
)
def test_a_budget_is_used_up_exactly_at_its_number(budget: Budget, spend: str, limit: str) -> None:
    """[ROB-13] Before it nothing is refused, from it on everything; a refusal claims nothing, also not below,
    and a part that was restored goes on with what it spent."""
    top = Ledger(("main",), "main", [budget])
    below = Ledger(("main", "kid"), "kid", [Budget(requests=9, tool_calls=9)], parent=top)
    assert top.bounds_cost == below.bounds_cost == (limit == "cost")

    def spent(ledger: Ledger) -> None:
        if spend == "request":
            ledger.reserve_request()
        elif spend == "tool":
            ledger.reserve_tool_call()
        else:
            ledger.check_spent()
            ledger.reserve_request()
            ledger.record("m", USED)

    spent(below)
    spent(top)
    for ledger in (top, below):
        before = [(meter.requests, meter.tool_calls) for meter in below.meters]
        with pytest.raises(LimitReached) as caught:
            spent(ledger)
        assert (caught.value.limit, caught.value.scope) == (limit, ("main",))
        assert caught.value.value == getattr(budget, limit)
        assert [(meter.requests, meter.tool_calls) for meter in below.meters] == before
    if spend == "request":
        top.return_request()
        spent(top)
    again = Ledger.from_json(top.to_json())
    again.bound_by([budget], None)
    if spend != "request":  # requests that gave nothing are in no usage
        with pytest.raises(LimitReached):
            spent(again)
    kid = again.restored(("main", "kid"))
    kid.bound_by([Budget(cost=0.5)], again)
    if spend == "usage":
        with pytest.raises(LimitReached):
            kid.check_spent()
        assert [meter.cost for meter in kid.meters] == [1.0, 0.5]
        assert [meter.tokens for meter in kid.meters] == [30, 15]


# numbers for the operator


def test_durations_are_put_where_they_belong() -> None:
    """[ROB-13] The bounds are those of OpenTelemetry, doubling from 10 ms; each counts up to itself."""
    assert BUCKETS[:2] == (0.01, 0.02) and BUCKETS[-1] == 81.92
    assert all(after == pytest.approx(2 * before) for before, after in pairwise(BUCKETS))
    timings = Timings()
    for seconds in (0.0, 0.01, 0.011, 81.92, 100.0):
        timings.add(seconds)
    assert (timings.buckets[0], timings.buckets[1], timings.buckets[-2], timings.buckets[-1]) == (2, 1, 1, 1)
    assert sum(timings.buckets) == 5 and timings.seconds == pytest.approx(181.941)


def test_every_count_stands_where_it_belongs() -> None:
    """[ROB-13] Tokens by kind, calls by tool and failure, unknown names under one label."""
    counts = Counts()
    for _ in range(2):
        counts.request("m", "ok", 0.5, USED)
        counts.tool("t", "mcp", True, 0.25)
        counts.sub_agent("a", "done")
        counts.failed_run("m")
        counts.failed_run(None)
        counts.unknown_tool()
    counts.request("m", "ok", 0.5, Usage(prompt_tokens=1))
    counts.request("m", "error", 1.0)
    assert counts.tokens == {"prompt": 21, "completion": 10, "cached": 8, "cache_write": 6, "reasoning": 4}
    assert counts.requests["m", "ok"].seconds == 1.5 and counts.requests["m", "error"].seconds == 1.0
    assert counts.tool_calls["t", "mcp", True].seconds == 0.5
    assert counts.tool_calls[UNKNOWN, UNKNOWN, True].seconds == 0.0 and UNKNOWN == "(unknown)"
    assert sum(counts.tool_calls[UNKNOWN, UNKNOWN, True].buckets) == 2
    assert counts.sub_agents == {("a", "done"): 2} and counts.run_errors == {"m": 2, UNKNOWN: 2}
    for n in range(MOST_VALUES):
        counts.tool(f"t{n}", "mcp", False, 0.0)
    counts.tool("t", "mcp", False, 0.0)
    names = [name for name, _, _ in counts.tool_calls]
    assert len(set(names) - {UNKNOWN, OTHER}) == MOST_VALUES and names.count(OTHER) == 1
    assert ("t", "mcp", False) in counts.tool_calls and OTHER == "(other)"


# events


def read(outbox: Outbox) -> list[Event]:
    async def all_of() -> list[Event]:
        return [event async for event in outbox]

    outbox.close()
    return asyncio.run(all_of())


def test_deltas_are_joined_only_behind_a_slow_reader() -> None:
    """[ROB-13] Of one run and kind, the last one that waits; any other event of that run ends it."""
    outbox = Outbox()
    for n in range(SOFT_SIZE + 3):
        outbox.put(TextDelta(path=("a",), text=f"{n} "))
    outbox.put(TextDelta(path=("b",), text="other "))
    outbox.put(TextDelta(path=("b",), text="joined "))
    outbox.put(TextDelta(path=("a",), text="more "))
    outbox.put(ReasoningDelta(path=("a",), text="hm"))
    outbox.put(TextDelta(path=("a",), text="again"))
    outbox.put(TurnStarted(path=("a",), turn=1, model="m"))
    outbox.put(TextDelta(path=("a",), text="last"))
    events = read(outbox)
    assert len(events) == SOFT_SIZE + 5
    texts = [getattr(event, "text", None) for event in events]
    assert texts[SOFT_SIZE - 1] == "".join(f"{n} " for n in range(SOFT_SIZE - 1, SOFT_SIZE + 3)) + "more "
    assert texts[SOFT_SIZE:] == ["other joined ", "hm", "again", None, "last"]


async def test_what_was_read_is_joined_to_no_more() -> None:
    """[ROB-13] A delta that the reader has is complete; the next one is an event of its own."""
    outbox = Outbox()
    for n in range(SOFT_SIZE + 1):
        outbox.put(TextDelta(path=(f"{n}",), text="x"))
    reader = aiter(outbox)
    first = await anext(reader)
    outbox.put(TextDelta(path=("0",), text="y"))
    outbox.close()
    rest = [event async for event in reader]
    assert isinstance(first, TextDelta) and first.text == "x"
    assert len(rest) == SOFT_SIZE + 1 and [e.text for e in rest if isinstance(e, TextDelta)][-1] == "y"


# secrets


def test_secrets_are_masked_from_six_characters_on() -> None:
    """[ROB-13] The longest first; in JSON and addresses, too; shorter ones and other texts stay."""
    redact = Redactor(["12345", "abcdef", "abcdefgh"])
    assert not redact.idle and Redactor(["12345"]).idle and Redactor().idle
    assert redact("12345 abcdef abcdefgh!") == f"12345 {MASK} {MASK}!"
    odd = Redactor(['a"ö/ b\\c'])
    for spelt in ('a"ö/ b\\c', 'a\\"\\u00f6/ b\\\\c', 'a\\"ö/ b\\\\c', "a%22%C3%B6%2F%20b%5Cc"):
        assert odd(f"<{spelt}>") == f"<{MASK}>"


def test_masking_within_values_keeps_what_has_no_secret() -> None:
    """[ROB-13] Keys, lists and what lies in them; what has none is the same object."""
    redact = Redactor(["abcdef"])
    clean = {"a": [1, ("x", None)], "b": {"c": 2.5}}
    assert redact.within(clean) is clean
    found = redact.within({"abcdef": 1, "l": ["x", "abcdef"], "t": ("abcdef",), "n": 7})
    assert found == {MASK: 1, "l": ["x", MASK], "t": [MASK], "n": 7}
    assert redact.within({"k": "abcdef"}) == {"k": MASK}


def test_an_error_that_shows_a_secret_is_no_cause() -> None:
    """[ROB-13] Nor one that another with a secret led to, by cause or context."""
    redact = Redactor(["abcdef"])
    clean, told = ValueError("x"), ValueError("abcdef")
    assert redact.cause(clean) is clean and redact.cause(told) is None
    behind = ValueError("y")
    behind.__cause__ = told
    beside = ValueError("z")
    beside.__context__ = behind
    assert redact.cause(behind) is None and redact.cause(beside) is None
    clean.__cause__ = ValueError("w")
    assert redact.cause(clean) is clean


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 50])
def test_pieces_are_masked_as_the_whole(size: int) -> None:
    """[ROB-13] However it is cut; what only begins like one comes in the end."""
    text = "say abcdef, abcdabcdef and abcde"
    masking = Masking(Redactor(["abcdef", "xyxyxyz"]))
    shown = [masking.more(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*shown, masking.rest()]) == f"say {MASK}, abcd{MASK} and abcde"
    assert masking.rest() == "" and masking.more("no secret") == "no secret"
    assert masking.more("xyxyxyxy") + masking.more("z!") == f"xy{MASK}!"


# time, slots, tasks, threads


async def test_a_deadline_that_is_paused_keeps_what_is_left() -> None:
    """[ROB-13] Pauses that overlap are one; the clock goes on where it stopped, after the last."""
    loop = asyncio.get_running_loop()

    def until(deadline: Deadline) -> float | None:
        assert deadline._timeout is not None
        when = deadline._timeout.when()
        return None if when is None else when - loop.time()

    async with Deadline(60) as deadline:
        assert 59 < (until(deadline) or 0) <= 60
        deadline.pause()
        assert until(deadline) is None
        deadline.pause()
        deadline.resume()
        assert until(deadline) is None
        deadline.resume()
        assert 59 < (until(deadline) or 0) <= 60
        deadline.pause()
        deadline.resume()
        assert 59 < (until(deadline) or 0) <= 60
    assert not deadline.expired
    async with Deadline(0.01) as short:
        await asyncio.Event().wait()
    assert short.expired
    async with Deadline(None) as none:
        none.pause()
        none.resume()
    assert not none.expired
    with pytest.raises(KeyError):
        async with Deadline(60):
            raise KeyError("own")


async def test_slots_go_to_those_who_come_back_first() -> None:
    """[ROB-13] Then to those who wait, in order; a slot that is free is taken at once."""
    slots = Slots(1)
    order: list[str] = []
    first, second, third = Slot(slots), Slot(slots), Slot(slots)
    lend, lent, end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def lender() -> None:
        async with first:
            order.append("first")
            await lend.wait()
            async with first.lent():
                lent.set()
                assert not first.lost
                await end.wait()
            order.append("first again")
        assert not first.lost

    async def waiter(slot: Slot, name: str) -> None:
        async with slot:
            order.append(name)
            end.set()
            await asyncio.sleep(0)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(lender())
        await asyncio.sleep(0)
        assert slots.free == 0
        group.create_task(waiter(second, "second"))
        group.create_task(waiter(third, "third"))
        await asyncio.sleep(0)
        lend.set()
    assert order == ["first", "second", "first again", "third"] and slots.free == 1


async def test_a_slot_that_was_lost_is_taken_again() -> None:
    """[ROB-13] Lost is a run that works while a wait of it was cancelled; taken again it is held once."""
    slots = Slots(1)
    slot = Slot(slots)
    async with slot:
        with pytest.raises(asyncio.CancelledError):
            async with slot.lent():
                raise asyncio.CancelledError
        assert slot.lost and slots.free == 1
        await slot.regain()
        assert not slot.lost and slots.free == 0
    assert slots.free == 1 and not slot.lost


async def test_tasks_that_are_stopped_have_ended() -> None:
    """[ROB-13] Through further cancels, which are raised at the end; what had ended is left alone."""
    begun, ended = asyncio.Event(), list[str]()

    async def stubborn() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("stubborn")

    async def done() -> None:
        pass

    tasks = [asyncio.create_task(stubborn()), asyncio.create_task(done())]
    async with asyncio.timeout(10):
        await begun.wait()
        stopper = asyncio.create_task(stop(tasks))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stopper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopper
        assert ended == ["stubborn"] and tasks[0].cancelled() and not tasks[1].cancelled()
        await stop(tasks)


@pytest.mark.parametrize("many", [1, 3])
async def test_a_job_that_cancels_itself_is_a_failure(many: int) -> None:
    """[ROB-13] Alone and among others; results stand in the order of jobs, and no jobs give none."""

    async def stray() -> int:
        raise asyncio.CancelledError

    def job(n: int) -> Callable[[], Any]:
        async def give() -> int:
            await asyncio.sleep(0)
            return n

        return give

    with pytest.raises(RuntimeError, match="a job was cancelled from inside") as caught:
        await run_all([*[job(n) for n in range(many - 1)], stray])
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert await run_all([job(n) for n in range(many)]) == list(range(many))
    assert await run_all(list[Callable[[], Any]]()) == []


async def test_threads_are_made_when_none_is_idle_and_no_more_than_allowed() -> None:
    """[ROB-13] Work beyond waits its turn, in order; an idle thread is used again."""
    pool = ThreadPool(limit=2, idle=5)
    gate, names, lock = threading.Event(), list[str](), threading.Lock()

    def work(n: int) -> int:
        with lock:
            names.append(threading.current_thread().name)
        gate.wait(10)
        return n

    def ident() -> int:
        return threading.get_ident()

    async with asyncio.timeout(20):
        one = await pool.run(ident)
        assert await pool.run(ident) == one and (pool._live, pool._idle) == (1, 1)
        jobs = [asyncio.create_task(pool.run(work, n)) for n in range(4)]
        while len(names) < 2:
            await asyncio.sleep(0.001)
        assert (pool._live, pool._idle, len(pool._queue)) == (2, 0, 2)
        jobs[3].cancel()
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(*jobs[:3]) == [0, 1, 2] and jobs[3].cancelled()
        assert len(names) == 3
        assert pool._live == 2


async def test_what_a_thread_raises_is_raised_here() -> None:
    """[ROB-13] As itself; the end of an iterator, which no coroutine can raise, named."""

    def stop_early(_: int) -> None:
        raise StopIteration

    def fail() -> None:
        raise KeyError("own")

    pool = ThreadPool(limit=1, idle=1)
    with pytest.raises(KeyError, match="own"):
        await pool.run(fail)
    with pytest.raises(RuntimeError, match=r"stop_early raised StopIteration$") as caught:
        await pool.run(partial(stop_early, 1))
    assert isinstance(caught.value.__cause__, StopIteration)


def test_what_is_kept_on_disk_is_gone_with_its_client() -> None:
    """[ROB-13] Each text a file of its own; after the end nothing is kept, and closing again does nothing."""
    spill = Spill()
    assert spill.folder is None
    first, second = spill.write("a\ud800"), spill.write(b"b", ".bin")
    assert [path.name for path in (first, second)] == ["output-1.txt", "output-2.bin"]
    assert first.read_bytes() == b"a\xed\xa0\x80" and second.read_bytes() == b"b"
    assert spill.folder == first.parent and first.parent.name.startswith("toolnexus-")
    spill.close()
    assert not first.parent.exists() and spill.folder is None
    spill.close()
    with pytest.raises(OSError, match="the client is closed"):
        spill.write("late")


async def test_calls_of_one_turn_are_one_question() -> None:
    """[ROB-13] In call order, when all that come have come; asked once, and its failure is everybody's."""
    asked: list[Request] = []

    async def ask(request: Request) -> str:
        asked.append(request)
        if len(asked) > 1:
            raise ValueError("nobody")
        return "given"

    def request(name: str) -> Request:
        data: dict[str, Any] = {"calls": [{"id": name, "name": name, "arguments": {}}]}
        return Request(id=f"r{name}", kind="tool_call", prompt=name, data=data)

    async with asyncio.timeout(10):
        relays = Relays(["a", "b", "c"])
        jobs = [asyncio.create_task(relays.put(name, request(name), ask)) for name in ("b", "a")]
        await asyncio.sleep(0)
        assert not asked
        relays.left("c")
        relays.left("c")
        assert await asyncio.gather(*jobs) == ["given", "given"]
        assert asked[0].prompt == "a; b" and len(asked) == 1
        again = Relays(["a", "b"])
        jobs = [asyncio.create_task(again.put(name, request(name), ask)) for name in ("a", "b")]
        for one in await asyncio.gather(*jobs, return_exceptions=True):
            assert isinstance(one, ValueError)
        assert len(asked) == 2
