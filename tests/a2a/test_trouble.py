"""Agents elsewhere in trouble: cancels, deadlines, broken streams, nonsense."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.a2a.seen import LIMIT, Seen
from toolnexus import Budget, Client, FunctionModel, RemoteAgent, RunError, SourceError, assistant
from toolnexus.protocols.a2a import exchange
from toolnexus.runtime.threads import run_in_thread
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def client(*agents: Any, **options: Any) -> Client:
    silent = FunctionModel(lambda request: assistant("unused"))
    given: dict[str, Any] = {"model": silent, "builtins": False, "agents": agents, **options}
    return Client(**given)


async def happened(event: Any) -> None:
    """Wait until something is true in the thread of the agent."""
    assert await run_in_thread(event.wait, LIMIT)


@pytest.mark.parametrize("variant", ["v1", "rest", "old", "oldrest", "poll"])
async def test_a_cancel_of_the_run_cancels_the_task(base: str, seen: Seen, variant: str) -> None:
    """[A2A-30] Over every binding."""
    far = RemoteAgent("far", url=f"{base}/{variant}")
    async with asyncio.timeout(LIMIT), client(far) as c:
        running = asyncio.create_task(c.run(far, "wait"))
        await happened(seen.started)
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await running
        assert seen.cancelled.is_set()
        assert getattr(caught.value, "result").limit == "cancelled"  # noqa: B009


async def test_a_deadline_cancels_the_task(base: str, seen: Seen) -> None:
    """[A2A-30] Its own budget's, while the caller goes on."""
    far = RemoteAgent("far", url=f"{base}/v1", budget=Budget(seconds=0.3))
    model = ScriptedModel([reply(call("task", agent="far", prompt="chunks")), "done"])
    async with asyncio.timeout(LIMIT), client(far, model=model) as c:
        result = await c.ask("go")
    assert result.status == "done" and seen.cancelled.is_set()
    (said,) = result.messages[2].tool_results
    assert said.is_error and "agent 'far' passed its deadline" in said.output


async def test_an_agent_that_cannot_be_cancelled_holds_nobody_up(
    base: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[A2A-30] Telling it takes a bounded time."""
    monkeypatch.setattr(exchange, "FAREWELL", 0.1)
    seen.stubborn.set()
    far = RemoteAgent("far", url=f"{base}/v1")
    async with asyncio.timeout(LIMIT), client(far) as c:
        running = asyncio.create_task(c.run(far, "wait"))
        await happened(seen.started)
        began = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert time.monotonic() - began < 2
    seen.stubborn.clear()


async def test_a_stream_that_breaks_loses_and_doubles_nothing(base: str, seen: Seen) -> None:
    """[A2A-31] The task is asked for the rest: the answer is whole."""
    far = RemoteAgent("far", url=f"{base}/cut")
    async with asyncio.timeout(LIMIT), client(far) as c:
        running = asyncio.create_task(c.run(far, "chunks"))
        await happened(seen.started)
        seen.release.set()
        assert (await running).text == "one two three"
        assert (await c.run(far, "stream")).text == "chunk0 chunk1 chunk2 chunk3 chunk4 \nthe other"
    assert len(seen.messages) == 2


async def test_a_look_that_fails_is_repeated(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[A2A-32] With growing pauses, a bounded number of times; then the error names the task."""
    monkeypatch.setattr(exchange, "_FIRST_DELAY", 0.001)
    monkeypatch.setattr(exchange, "_LONGEST_DELAY", 0.002)
    async with asyncio.timeout(LIMIT), client() as c:
        assert (await c.run(RemoteAgent("far", url=f"{base}/flaky"), "x")).text == "at last"
        with pytest.raises(SourceError, match="remote agent 'far': task t1 was lost: HTTP 503"):
            await c.run(RemoteAgent("far", url=f"{base}/lost"), "x")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/html", "it answered with a web page (text/html) and no A2A; check the address"),
        ("/unauthorized", "HTTP 401 Unauthorized"),
        ("/moved", "it redirects to 127.0.0.1:1, which is not followed; name that address yourself"),
        ("/flood", "its answer is larger than 32 MiB"),
        ("/packed", "its answer is compressed, which was not asked for"),
        ("/odd", "task t1 is in a state that is not known here"),
        ("/torn", "its answer is malformed: it is no such task with a status"),
        ("/empty", "its answer is malformed: ValueError: Response has neither task nor message"),
        ("/number", "its answer is malformed: "),
        ("/deep", "its answer is malformed: RecursionError"),
        ("/wordy", "its answer is malformed: it speaks of task 'xxxxx"),
    ],
)
async def test_nonsense_is_a_clear_error(base: str, path: str, why: str) -> None:
    """[A2A-33] In one line, which names the agent."""
    far = RemoteAgent("far", url=base + path)
    async with asyncio.timeout(LIMIT), client(far) as c:
        with pytest.raises(SourceError) as caught:
            await c.run(far, "x")
    assert str(caught.value).startswith("remote agent 'far': ") and why in str(caught.value)
    assert len(str(caught.value)) < 900 and "\n" not in str(caught.value)


async def test_silence_has_an_end(base: str) -> None:
    """[A2A-34] After `timeout` seconds; a task that is at work is not silent for that."""
    far = RemoteAgent("far", url=f"{base}/hang", timeout=0.2)
    async with asyncio.timeout(LIMIT), client(far) as c:
        with pytest.raises(SourceError, match=r"remote agent 'far': it said nothing for 0\.2 s"):
            await c.run(far, "x")


async def test_a_stream_that_is_silent_for_long_is_followed_by_looks(base: str, seen: Seen) -> None:
    """[A2A-34] Until the task is done, however long that takes."""
    far = RemoteAgent("far", url=f"{base}/v1", timeout=0.3)
    async with asyncio.timeout(LIMIT), client(far) as c:
        running = asyncio.create_task(c.run(far, "chunks"))
        await happened(seen.started)
        await asyncio.wait([running], timeout=0.7)
        assert not running.done()
        seen.release.set()
        assert (await running).text == "one two three"


async def test_what_came_before_a_failure_stays(base: str) -> None:
    """[A2A-33] In the messages of the result."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        with pytest.raises(RunError) as caught:
            await c.run(far, "fail")
    result = caught.value.result
    assert [message.text for message in result.messages] == ["fail", "out of paper"]


async def test_a_task_that_is_over_takes_no_answer(base: str) -> None:
    """[A2A-33] Somebody else cancelled it while the run waited: an error, never a new task."""
    from toolnexus import Answer

    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        waiting = await c.run(far, "ask")
        first = await c.resume(waiting, [Answer(id=waiting.pending[0].id, data="red")])
        assert first.text == "answer: red"
        with pytest.raises(SourceError, match="remote agent 'far': "):
            await c.resume(waiting, [Answer(id=waiting.pending[0].id, data="red")])
