"""The same faults in the middle of a run: behind finished work, in a summary, in a repair, after a wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.server import faulty_endpoint, good
from tests.faults.table import FAULTS, FINE, TRIES, Fault
from tests.faults.test_faults import DEADLINE, PATIENCE, Stand, check, silent_about_secrets
from tests.loop.support import WAYS, Way, paired, task, use
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    OutputError,
    RunError,
    ToolContext,
    ToolResult,
    compactor,
    pending,
    tool,
)
from toolnexus.testing.turns import Turn

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]

ROWS = [fault for fault in FAULTS if fault.wire != "refused"]
"""Nobody listens: then there is no middle."""


def cases(*ways: Way) -> pytest.MarkDecorator:
    """Each row in each of `ways` that can have it."""
    found = [(f, w) for f in ROWS for w in ways if w.streamed or not f.only_streams]
    named = [pytest.param(fault, way, id=f"{fault.name}-{way}") for fault, way in found]
    return pytest.mark.parametrize(("fault", "way"), named)


OPENAI_WHOLE, _, ANTHROPIC_WHOLE, ANTHROPIC_STREAMED = WAYS
each_case = cases(OPENAI_WHOLE, ANTHROPIC_STREAMED)
each_whole_case = cases(OPENAI_WHOLE, ANTHROPIC_WHOLE)
"""Where nobody reads along: a summary, and a run that goes on."""
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@tool
async def look(ctx: ToolContext) -> str:
    """Look."""
    return "a long result " * 200


@tool
async def probe(q: str) -> str:
    """Never runs here: every call of it is cut off."""
    raise AssertionError(q)


@tool
async def confirm(ctx: ToolContext) -> ToolResult:
    """Confirm."""
    return ToolResult(output="confirmed") if ctx.answer else pending(kind="approval", prompt="sure?")


@asynccontextmanager
async def stand(way: Way, fault: Fault, **options: Any) -> AsyncGenerator[tuple[Stand, Client]]:
    async with asyncio.timeout(PATIENCE), faulty_endpoint() as endpoint:
        here = Stand(endpoint, way, fault)
        late = Budget(seconds=DEADLINE) if fault.wire == "deadline" else None
        helper = Agent(
            name="helper", model=here.model("helper", endpoint.url), tools=[look, probe], budget=late
        )
        given: dict[str, Any] = {"budget": late, "agents": [helper], **options}
        async with Client(
            model=here.model("main", endpoint.url), tools=[look, probe, confirm], builtins=False, **given
        ) as client:
            yield here, client


async def goes_on(here: Stand, client: Client) -> None:
    here.endpoint.answers = {}
    behind = await here.ask(client, "two", "c")
    assert (behind.status, behind.text) == ("done", f"{FINE} main") and paired(behind.messages)
    assert here.sent("main")[-1].users[-1].endswith("two")


@each_case
async def test_behind_finished_work_of_a_child(
    fault: Fault, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """[FLT-50] What the child had done is kept; else its row holds as at its first request."""
    caplog.set_level(logging.DEBUG)
    expected = fault.outcome(way.streamed)
    async with stand(way, fault, budget=None) as (here, client):
        here.endpoint.answers = {
            "main": [good(Turn(calls=[task("helper")]))],
            "helper": [good(Turn(text="first", calls=[use("look")])), *[fault.answer] * TRIES],
        }
        run = await here.ask(client, "one", "c")
        (child,) = run.sub_agents
        assert (run.status, run.text) == ("done", f"{FINE} main")
        assert child.messages[2].tool_results[0].output.startswith("a long result")
        check(replace(child, tool_calls=0), expected, len(here.endpoint.of("helper")) - 1, refused=False)
        await goes_on(here, client)
        silent_about_secrets(here, [run], caplog)


@each_whole_case
async def test_in_a_summary(fault: Fault, way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """[FLT-51] The run goes on without notes, with a warning that says why; the request is counted, and the
    transcript stays whole."""
    caplog.set_level(logging.DEBUG)
    expected = fault.whole
    async with stand(way, fault, hooks=[compactor(900, keep_tail=100)]) as (here, client):
        calls = [good(Turn(calls=[use("look", id=f"look{n}")])) for n in range(2)]
        here.endpoint.answers = {"main": [*calls, *[fault.answer] * expected.requests]}
        run = await here.ask(client, "one", "c")
        if expected.limit == "seconds":
            assert (run.status, run.limit) == ("incomplete", "seconds")
        else:
            assert (run.status, run.text) == ("done", f"{FINE} main")
            assert ("no summary of" in caplog.text) == (expected.status == "error")
            assert len(here.endpoint.asked) == 3 + expected.requests
            assert run.usage.requests == 4 and run.turns == 3
        assert paired(run.messages) and len(run.messages[2].tool_results[0].output) > 2000
        silent_about_secrets(here, [run], caplog)


@each_case
async def test_in_the_repair_of_a_typed_answer(
    fault: Fault, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """[FLT-52] The run ends as its row says and has no output; a good reply that does not fit is an
    `OutputError`. Never a value that was not checked."""
    caplog.set_level(logging.DEBUG)
    expected = fault.outcome(way.streamed)
    if expected.http in (400, 404):  # perhaps it does not know the form: it is asked once without
        expected = replace(expected, requests=2, retryable=False)
    async with stand(way, fault) as (here, client):
        here.endpoint.answers = {"main": [good(Turn(text="no json")), *[fault.answer] * TRIES]}
        try:
            run = await here.ask(client, "one", "c", output_type=FORM)
        except OutputError as error:
            assert expected.status == "done"
            run = error.result
            assert run.status == "error" and run.output is None
        else:
            assert run.output is None
            check(run, expected, len(here.endpoint.asked) - 1, refused=False)
        await goes_on(here, client)
        silent_about_secrets(here, [run], caplog)


@each_whole_case
async def test_after_a_wait(fault: Fault, way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """[FLT-53] The answered call has run and is kept; the same answers again tell the same end, and an error
    is raised again."""
    caplog.set_level(logging.DEBUG)
    expected = fault.whole
    async with stand(way, fault) as (here, client):
        here.endpoint.answers = {"main": [good(Turn(calls=[use("confirm")])), *[fault.answer] * TRIES]}
        first = await here.ask(client, "one", "c")
        answers = [Answer(id=first.pending[0].id)]
        run = await here.giving(client.resume("c", answers))
        check(replace(run, tool_calls=0), expected, len(here.endpoint.asked) - 1, refused=False)
        assert run.messages[2].tool_results[0].output == "confirmed"
        if expected.status == "error":
            with pytest.raises(RunError, match="model 'main'"):
                await client.resume("c", answers)
        else:
            assert (await client.resume("c", answers)).status == expected.status
        await goes_on(here, client)
        silent_about_secrets(here, [run], caplog)
