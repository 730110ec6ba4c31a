"""Notes in place of old messages: who writes them, what they cost, what happens when there are none."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.compaction.histories import batch, look
from toolnexus import (
    Agent,
    Budget,
    Client,
    Compacted,
    ConfigError,
    FunctionModel,
    Hooks,
    Message,
    ModelError,
    ModelRequest,
    SqliteStore,
    assistant,
    compactor,
    tool,
    user,
)
from toolnexus.core.events import Event, UsageReported
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def rounds(count: int, end: str = "the end") -> list[Any]:
    return [*[reply(call("look", q=str(n))) for n in range(count)], end]


def notes(count: int = 50) -> list[Any]:
    return [f"notes {n}" for n in range(1, count)]


def asked(model: ScriptedModel) -> list[ModelRequest]:
    """The requests for notes."""
    return [r for r in model.requests if r.path[-1] == "summary"]


def turns(model: ScriptedModel) -> list[ModelRequest]:
    return [r for r in model.requests if r.path[-1] != "summary"]


async def test_the_model_of_the_run_writes_the_notes() -> None:
    """[CMP-04] Once over the limit the run's own model is asked, one request that counts in usage and events
    and not as a turn; its path ends in `summary`."""
    model = ScriptedModel(by_path={"main": rounds(8), "main/summary": notes()})
    seen: list[Event] = []
    async with Client(model=model, builtins=False, tools=[look], hooks=[compactor(600)]) as client:
        async with client.stream("find it") as stream:
            seen += [event async for event in stream]
        result = stream.result
    written = len(asked(model))
    assert (result.status, result.text, result.turns) == ("done", "the end", 9)
    assert written >= 1 and result.usage.requests == 9 + written
    assert result.usage.total_tokens == 15 * (9 + written)
    assert sum(isinstance(event, UsageReported) for event in seen) == 9 + written
    first = asked(model)[0]
    text = first.messages[0].text
    assert not first.tools and [m.role for m in first.messages] == ["user"] and first.turn == 1
    assert "find it" in text and "saw 0" in text and "look" in text
    compacted = [event for event in seen if isinstance(event, Compacted)]
    assert len(compacted) == written and all(e.before > 600 >= e.after and e.summarized for e in compacted)
    assert sum(e.dropped for e in compacted) > 4


async def test_an_event_says_what_went() -> None:
    """[CMP-05] `Compacted` tells the tokens before and after and how many messages went, also as JSON."""
    model = ScriptedModel(by_path={"main": ["ok"], "main/summary": ["notes"]})
    history = [message for n in range(6) for message in batch(n, "x")]
    async with Client(model=model, builtins=False, hooks=[compactor(8, count_tokens=len)]) as client:
        async with client.stream([user("one"), *history, user("two")]) as stream:
            seen = [event async for event in stream if isinstance(event, Compacted)]
    data = seen[0].to_json()
    assert data["type"] == "compacted" and data["path"] == ["main"]
    assert (data["before"], data["after"], data["dropped"], data["summarized"]) == (14, 2, 13, True)


async def test_notes_build_on_notes() -> None:
    """[CMP-06] Every message is read for notes once: the next notes are made of the last ones, the user's
    request, and what came since."""
    given: list[list[Message]] = []

    def summarize(messages: Sequence[Message]) -> str:
        given.append(list(messages))
        return f"notes {len(given)}"

    model = ScriptedModel(rounds(30))
    hook = compactor(600, summarize=summarize)
    async with Client(model=model, builtins=False, tools=[look], hooks=[hook], max_turns=40) as client:
        result = await client.ask("find it")
    assert result.status == "done" and len(given) > 3
    for n, messages in enumerate(given[1:], 1):
        assert f"notes {n}" in messages[0].text and messages[1].text == "find it"
    results = [r.call_id for messages in given for m in messages for r in m.tool_results]
    assert len(results) == len(set(results)) and len(results) > 20


def broken(messages: Sequence[Message]) -> Any:
    return 1 / 0


def blank(messages: Sequence[Message]) -> Any:
    return "  \n"


def nothing(messages: Sequence[Message]) -> Any:
    return None


async def no_text(messages: Sequence[Message]) -> Any:
    return b"bytes"


@pytest.mark.parametrize("summarize", [broken, blank, nothing, no_text, None])
async def test_without_notes_the_run_goes_on(
    summarize: Callable[[Sequence[Message]], Any] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """[CMP-07] Notes that fail or are empty cost the run nothing: the old messages go, the head says how many
    went, and the log says why."""
    model = ScriptedModel(by_path={"main": rounds(20)})
    hook = compactor(600, summarize=summarize)
    with caplog.at_level(logging.WARNING, "toolnexus.compaction"):
        async with Client(model=model, builtins=False, tools=[look], hooks=[hook], max_turns=30) as client:
            async with client.stream("find it") as stream:
                seen = [event async for event in stream if isinstance(event, Compacted)]
    assert stream.result.status == "done" and len(stream.result.messages) == 42
    assert seen and not any(event.summarized for event in seen)
    last = model.requests[-1].messages
    gone = len(stream.result.messages) - len(last)
    assert f"{gone} older messages were left out without notes" in last[0].text and last[1].text == "find it"
    assert len(caplog.records) == len(seen) and "no summary of" in caplog.text


async def test_notes_that_come_back_cover_what_was_lost() -> None:
    """[CMP-07] After a failure the old notes stay, and the next good ones stand for all of it."""
    times = 0

    async def summarize(messages: Sequence[Message]) -> str:
        nonlocal times
        times += 1
        if times == 2:
            raise OSError("no")
        return f"notes {times}"

    model = ScriptedModel(rounds(40))
    hook = compactor(600, summarize=summarize)
    async with Client(model=model, builtins=False, tools=[look], hooks=[hook], max_turns=50) as client:
        await client.ask("find it")
    heads = [r.messages[0].text for r in model.requests]
    assert any("notes 1" in h and "without notes" in h for h in heads)
    assert "notes 3" in "".join(heads) and not any("notes 3" in h and "without notes" in h for h in heads)


@pytest.mark.parametrize(("requests", "written"), [(6, 1), (5, 0)])
async def test_a_budget_that_has_no_request_left_for_notes_is_no_failure(requests: int, written: int) -> None:
    """[CMP-08] A request for notes is claimed in every budget; where none is left the messages go without."""
    model = ScriptedModel(by_path={"main": rounds(8), "main/summary": notes()})
    options: dict[str, Any] = {"builtins": False, "tools": [look], "hooks": [compactor(300)]}
    async with Client(model=model, budget=Budget(requests=requests), **options) as client:
        result = await client.ask("find it")
    assert (result.status, result.limit, result.usage.requests) == ("incomplete", "requests", requests)
    assert (len(asked(model)), result.turns) == (written, 5)
    head = turns(model)[-1].messages[0].text
    assert ("notes 1" in head) == bool(written) and ("without notes" in head) != bool(written)


async def test_a_conversation_stays_whole_and_its_notes_are_used_again(tmp_path: Any) -> None:
    """[CMP-09] The stored conversation has every message. The next ask begins with the notes of the last
    one instead of asking for new ones, whatever store the messages come from."""
    script = [*rounds(8), "second", "third"]
    model = ScriptedModel(script, by_path={"main/summary": notes()})
    store = SqliteStore(tmp_path / "talks.db")
    async with Client(
        model=model, builtins=False, tools=[look], hooks=[compactor(600)], store=store
    ) as client:
        await client.ask("find it", conversation="t")
        before = len(asked(model))
        async with client.stream("and then?", conversation="t") as stream:
            seen = [event async for event in stream if isinstance(event, Compacted)]
        await client.ask("really?", conversation="t")
        messages, _ = await store.load("t")
    assert len(messages) == 18 + 2 + 2 and messages[0].text == "find it"
    assert before >= 1 and len(asked(model)) == before and len(seen) == 1 and seen[0].summarized
    second = turns(model)[-2].messages
    assert f"notes {before}" in second[0].text and second[-1].text == "and then?" and len(second) < 12


async def test_a_child_is_asked_with_its_own_model_about_its_own_transcript() -> None:
    """[CMP-10] In a run below its own model writes the notes, of its own transcript; it is counted there."""
    big = ScriptedModel([reply(call("task", agent="digger", prompt="dig")), "thanks"], name="big")
    small = ScriptedModel(
        by_path={"main/digger.*/summary": notes(), "main/digger.*": rounds(8, "dug")}, name="small"
    )
    digger = Agent(name="digger", model=small, tools=[look])
    async with Client(model=big, builtins=False, agents=[digger], hooks=[compactor(600)]) as client:
        result = await client.ask("please")
    assert result.status == "done" and not asked(big) and asked(small)
    assert "please" not in str(asked(small)[0].messages) and "dig" in asked(small)[0].messages[0].text
    child = result.sub_agents[0]
    assert child.own_usage.requests == 9 + len(asked(small)) and result.own_usage.requests == 2


@pytest.mark.parametrize(("outer", "inner"), [(100_000, 600), (600, 100_000)])
async def test_the_nearest_compactor_decides(outer: int, inner: int) -> None:
    """[CMP-10] An agent with a compactor of its own has its own limit, a smaller or a larger one."""
    big = ScriptedModel([reply(call("task", agent="digger", prompt="dig")), "thanks"])
    small = ScriptedModel(rounds(8, "dug"))
    calls: list[str] = []

    def by(name: str, limit: int) -> Hooks:
        return compactor(limit, summarize=lambda m: calls.append(name) or "notes")

    digger = Agent(name="digger", model=small, tools=[look], hooks=[by("inner", inner)])
    async with Client(model=big, builtins=False, agents=[digger], hooks=[by("outer", outer)]) as client:
        result = await client.ask("please")
    assert result.sub_agents[0].text == "dug"
    assert set(calls) == ({"inner"} if inner == 600 else set())


async def test_results_that_are_too_long_by_themselves_are_cut() -> None:
    """[CMP-11] Where leaving out is not enough, the longest results are cut, head and tail, and stay cut."""

    @tool
    async def big() -> str:
        """Give much."""
        return "HEAD" + "y" * 40_000 + "TAIL"

    model = ScriptedModel([reply(call("big", id="b")), reply(call("look", q="1", id="l")), "end"])
    hook = compactor(2_000, summarize=lambda m: "notes")
    async with Client(model=model, builtins=False, tools=[look, big], hooks=[hook]) as client:
        result = await client.ask("find it")
    assert len(result.messages[2].tool_results[0].output) > 40_000, "the transcript has all of it"
    second = model.requests[1].messages
    output = second[-1].tool_results[0].output
    assert len(output) < 6_000 and output.startswith("HEAD") and output.endswith("TAIL")
    assert "characters left out" in output and second[1] is result.messages[1]


async def test_a_long_request_of_the_user_is_never_cut() -> None:
    """[CMP-01] A request longer than the limit is sent as it is, and not every turn asks for notes."""
    model = ScriptedModel(rounds(6))
    given: list[int] = []
    hook = compactor(500, summarize=lambda m: given.append(len(m)) or "notes")
    prompt = "z" * 8_000
    async with Client(model=model, builtins=False, tools=[look], hooks=[hook]) as client:
        await client.ask(prompt)
    assert all(any(m.text == prompt for m in r.messages) for r in model.requests)
    assert len(given) <= 6


async def test_a_cancel_during_the_notes_is_a_cancel() -> None:
    """[CMP-12] A run that is cancelled while its notes are written ends like any other, its work kept."""
    writing = asyncio.Event()

    async def summarize(messages: Sequence[Message]) -> str:
        writing.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(rounds(8))
    hook = compactor(600, summarize=summarize)
    async with (
        asyncio.timeout(10),
        Client(model=model, builtins=False, tools=[look], hooks=[hook]) as client,
    ):
        running = asyncio.create_task(client.ask("find it", conversation="t"))
        await writing.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        kept = await client.conversation("t").messages()
    assert len(kept) > 3 and kept[-1].role == "tool"


async def test_a_cancel_that_a_summarizer_made_up_is_a_failure_of_it() -> None:
    """[CMP-07] Nobody cancelled: the run goes on without notes."""

    async def summarize(messages: Sequence[Message]) -> str:
        raise asyncio.CancelledError

    model = ScriptedModel(rounds(8))
    hook = compactor(600, summarize=summarize)
    async with Client(model=model, builtins=False, tools=[look], hooks=[hook]) as client:
        assert (await client.ask("find it")).status == "done"


async def test_runs_at_once_do_not_mix_their_notes() -> None:
    """[CMP-13] One compactor acts in any number of runs at once; each has its own notes."""

    def answer(request: ModelRequest) -> Message | str:
        who = next(m.text for m in request.messages if m.text.startswith("run "))
        if request.path[-1] == "summary":
            return f"notes of {who.splitlines()[-1]}"
        if request.turn <= 8:
            return assistant("", call("look", q=f"{who} {request.turn}", id=f"c{request.turn}"))
        return f"end of {who}"

    def summarize(messages: Sequence[Message]) -> str:
        return "notes of " + next(m.text for m in messages if m.text.startswith("run "))

    hook = compactor(600, summarize=summarize)
    seen: list[ModelRequest] = []

    def model(request: ModelRequest) -> Message | str:
        seen.append(request)
        return answer(request)

    async with Client(model=FunctionModel(model), builtins=False, tools=[look], hooks=[hook]) as client:
        results = await asyncio.gather(*[client.ask(f"run {n}.") for n in range(20)])
    assert [r.text for r in results] == [f"end of run {n}." for n in range(20)]
    for request in seen:
        text = "".join(
            [m.text for m in request.messages] + [r.output for m in request.messages for r in m.tool_results]
        )
        assert len({part.split(".")[0] for part in text.split("run ")[1:]}) == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: compactor(0), "max_tokens=0"),
        (lambda: compactor("many"), "max_tokens='many'"),  # type: ignore[arg-type]
        (lambda: compactor(100, keep_tail=60), "at most half"),
        (lambda: compactor(100, keep_tail=-1), "keep_tail=-1"),
        (lambda: compactor(100, summarize="x"), "summarize='x'"),  # type: ignore[arg-type]
        (lambda: compactor(100, count_tokens=3), "count_tokens=3"),  # type: ignore[arg-type]
    ],
)
def test_numbers_that_cannot_work_are_refused(make: Callable[[], Hooks], says: str) -> None:
    """[CMP-14] What can be known to be wrong is a `ConfigError` where it is written."""
    with pytest.raises(ConfigError, match=says):
        make()


async def test_a_failing_model_still_fails_the_run() -> None:
    """[CMP-07] Only notes may fail in silence: the error of a turn is the error of the run."""
    model = ScriptedModel([*rounds(4)[:-1], ModelError("gone")])
    hook = compactor(300, summarize=lambda m: "notes")
    async with Client(model=model, builtins=False, tools=[look], hooks=[hook]) as client:
        with pytest.raises(ModelError, match="gone"):
            await client.ask("find it")
