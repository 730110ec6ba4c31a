"""Every fault of a provider, in both styles, streamed or not, at the root and in a child."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.page import page
from tests.faults.server import FaultyEndpoint, faulty_endpoint, good
from tests.faults.table import FAULTS, FINE, LONG, SAID, TRIES, Fault, Outcome
from tests.loop.bodies import Sent
from tests.loop.support import ANTHROPIC, HEADER, KEYS, QUICK, WAYS, Way, as_text, everything, paired, task
from toolnexus import Agent, AnthropicModel, Budget, Client, OpenAIModel, RunResult, tool
from toolnexus.core.events import Event, Retrying
from toolnexus.errors import ModelError, ModelHTTPError
from toolnexus.models.http import HttpWire
from toolnexus.models.keys import Provider
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PATIENCE = 10
DEADLINE = 0.15
SILENCE = 0.04

CASES = [
    pytest.param(fault, way, id=f"{fault.name}-{way}")
    for fault in FAULTS
    for way in WAYS
    if way.streamed or not fault.only_streams
]
each_case = pytest.mark.parametrize(("fault", "way"), CASES)
each_way = pytest.mark.parametrize("way", WAYS, ids=str)


@tool
async def probe(q: str) -> str:
    """Never runs here: every call of it is cut off."""
    raise AssertionError(q)


class Stand:
    """A client whose model `main` delegates to `helper`, before an endpoint of its own."""

    def __init__(self, endpoint: FaultyEndpoint, way: Way, fault: Fault) -> None:
        self.endpoint, self.way, self.fault = endpoint, way, fault
        self.events: list[Event] = []
        self.texts: list[str] = []
        """All that was said about a failure."""

    def model(self, name: str, url: str) -> Any:
        style: Provider = "anthropic" if self.way.style == ANTHROPIC else "openai"
        cls = AnthropicModel if style == "anthropic" else OpenAIModel
        key, secrets = KEYS[style], {"x-team": HEADER}
        if self.fault.wire != "silence":
            return cls(name, base_url=url, api_key=key, headers=secrets, retries=QUICK)
        login = {"x-api-key": key} if style == "anthropic" else {"authorization": f"Bearer {key}"}
        return cls(name, wire=HttpWire(url, {**login, **secrets}, silence=SILENCE), retries=QUICK)

    async def ask(self, client: Client, prompt: str, conversation: str, **options: Any) -> RunResult:
        """What the run gave, whatever way it ended."""
        return await self.giving(
            self.way.ask(client, prompt, self.events, conversation=conversation, **options)
        )

    async def giving(self, run: Awaitable[RunResult]) -> RunResult:
        try:
            return await run
        except ModelError as error:
            self.texts.append("".join(traceback.format_exception(error)))
            assert error is error.result.error or str(error) == str(error.result.error)
            return error.result

    def sent(self, model: str) -> list[Sent]:
        """The requests of one model, each valid in its style."""
        found = [Sent(asked.body, anthropic=asked.anthropic) for asked in self.endpoint.of(model)]
        for request in found:
            request.check()
        return found


@asynccontextmanager
async def stand(way: Way, fault: Fault, *, of: str) -> AsyncGenerator[tuple[Stand, Client]]:
    """A stand, and a client where the model `of` meets the fault."""
    async with asyncio.timeout(PATIENCE), faulty_endpoint() as endpoint:
        here = Stand(endpoint, way, fault)
        urls = {"main": endpoint.url, "helper": endpoint.url}
        if fault.wire == "refused":
            urls[of] = f"http://127.0.0.1:{unused_port()}/v1"
        late = Budget(seconds=DEADLINE) if fault.wire == "deadline" else None
        helper = Agent(
            name="helper",
            model=here.model("helper", urls["helper"]),
            tools=[probe],
            budget=late if of == "helper" else None,
        )
        client = Client(
            model=here.model("main", urls["main"]),
            agents=[helper],
            tools=[probe],
            builtins=False,
            budget=late if of == "main" else None,
        )
        async with client:
            yield here, client


def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def check(run: RunResult, expected: Outcome, sent: int, *, refused: bool) -> None:
    """One run against its row."""
    assert (run.status, run.limit) == (expected.status, expected.limit)
    assert refused or sent == expected.requests
    error = run.error
    if expected.status == "error":
        assert isinstance(error, ModelError) and type(error).__name__ == expected.error
        assert expected.says in str(error) and error.retryable == expected.retryable
        assert len(str(error)) < 1500
    if isinstance(error, ModelHTTPError):
        assert error.status == expected.http
        hint = error.retry_after
        assert hint == expected.wait or (expected.wait == LONG and hint and LONG - 30 < hint <= LONG)
    if expected.status == "done":
        assert run.text.startswith(FINE) or run.text == SAID
        assert run.usage.estimated == ("estimated" in expected.says)
    if expected.limit == "connection":
        assert run.text == SAID
    assert run.tool_calls == 0 or run.sub_agents
    for each in everything(run):
        assert paired(each.messages)


@pytest.mark.exhaustive
@each_case
async def test_a_fault_of_the_provider_at_the_root(
    fault: Fault, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """[FLT-01] [FLT-03] [FLT-04] The run ends as its row says, every time in time; no key and no header value
    is in any text; the conversation goes on behind it."""
    caplog.set_level(logging.DEBUG)
    expected = fault.outcome(way.streamed)
    async with stand(way, fault, of="main") as (here, client):
        here.endpoint.answers["main"] = [fault.answer] * TRIES
        run = await here.ask(client, "one", "c")
        check(run, expected, len(here.endpoint.of("main")), refused=fault.wire == "refused")
        if fault.wire != "refused":
            here.endpoint.answers["main"] = []
            behind = await here.ask(client, "two", "c")
            assert (behind.status, behind.text) == ("done", f"{FINE} main")
            assert [m.text for m in behind.messages if m.role == "user"] == ["one", "two"]
            assert paired(behind.messages) and here.sent("main")[-1].users[-1].endswith("two")
        silent_about_secrets(here, [run], caplog)


@pytest.mark.exhaustive
@each_case
async def test_a_fault_of_the_provider_in_a_child(
    fault: Fault, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """[FLT-02] [FLT-03] [FLT-04] The child's result is the row's; its caller reads the failure or the limit,
    ends `done`, and goes on; nothing leaks."""
    caplog.set_level(logging.DEBUG)
    expected = fault.outcome(way.streamed)
    async with stand(way, fault, of="helper") as (here, client):
        here.endpoint.answers = {
            "main": [good(Turn(calls=[task("helper")]))],
            "helper": [fault.answer] * TRIES,
        }
        run = await here.ask(client, "one", "c")
        (child,) = run.sub_agents
        check(child, expected, len(here.endpoint.of("helper")), refused=fault.wire == "refused")
        assert (run.status, run.text) == ("done", f"{FINE} main") and paired(run.messages)
        (read,) = here.sent("main")[-1].results
        if expected.status == "error":
            assert read.text == f"agent 'helper' failed: {child.error}"
        elif expected.limit == "seconds":
            assert read.text.startswith("agent 'helper' passed its deadline (seconds 0.15)")
        elif expected.limit == "connection":
            assert read.text == f"{SAID}\n[incomplete: connection]"
        else:
            assert read.text == child.text
        (result,) = run.messages[2].tool_results
        assert result.is_error == (expected.status == "error" or expected.limit == "seconds")
        assert run.usage.requests == 3
        behind = await here.ask(client, "two", "c")
        assert behind.status == "done"
        silent_about_secrets(here, [run], caplog)


PASSING = [f for f in FAULTS if f.whole.requests == TRIES and f.wire == "http" and f.streamed is None]


@each_way
@pytest.mark.parametrize("fault", [f for f in PASSING if not f.only_streams], ids=lambda f: f.name)
async def test_a_fault_that_passes_is_no_fault(fault: Fault, way: Way) -> None:
    """[FLT-05] What is tried again and then goes well costs one turn and one request of the run; a reader is
    told of it, and whether text that came before is void."""
    async with stand(way, fault, of="main") as (here, client):
        here.endpoint.answers["main"] = [fault.answer]
        run = await here.ask(client, "one", "c")
        assert (run.status, run.text, run.turns, run.usage.requests) == ("done", f"{FINE} main", 1, 1)
        assert len(here.endpoint.of("main")) == 2
        told = [e for e in here.events if isinstance(e, Retrying)]
        assert len(told) == way.streamed and not any(e.restarted for e in told)


def silent_about_secrets(here: Stand, runs: list[RunResult], caplog: pytest.LogCaptureFixture) -> None:
    """No key and no header value is in an error, a traceback, an event, a result, a log or a request."""
    bodies = [asked.body for asked in here.endpoint.asked]
    shown = [*here.texts, as_text([e.to_json() for e in here.events]), as_text(bodies), caplog.text]
    shown += [as_text([m for each in everything(run) for m in each.messages]) for run in runs]
    shown += [repr(each.error) + str(each.error) for run in runs for each in everything(run)]
    for secret in (KEYS[here.way.style], HEADER):
        assert all(secret not in text for text in shown)
        assert any(secret in asked.head for asked in here.endpoint.asked) or here.fault.wire == "refused"


def test_the_page_shows_the_table() -> None:
    """[FLT-06] `docs/faults.md` is made of the same rows: `python -m tests.faults.page` writes it."""
    assert (ROOT / "docs" / "faults.md").read_text(encoding="utf-8") == page()
