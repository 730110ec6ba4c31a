"""Servers that ask a question in the middle of a call."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.mcp.helpers import context, opened, remote, server, use
from toolnexus.core.events import Event, Pending
from toolnexus.core.suspension import Answer, Request

pytestmark = pytest.mark.anyio

FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


async def _answers(source: Any, answer: dict[str, Any] | None) -> tuple[dict[str, Any], list[Request]]:
    asked: list[Request] = []

    async def on_request(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, **(answer or {}))

    result = await use(source, "ask", context(None if answer is None else on_request))
    return json.loads(result.output), asked


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_question_reaches_whoever_answers(era: str) -> None:
    """[MCP-23] An elicitation asks the nearest `on_request`: kind `input`, with schema, path and
    server. The answer, a refusal and a cancel reach the server as such."""
    async with opened(server("--era", era)) as source:
        seen, asked = await _answers(source, {"data": {"city": "Pune"}})
        assert (seen["action"], seen["content"]) == ("accept", {"city": "Pune"})
        (request,) = asked
        assert (request.kind, request.prompt) == ("input", "Which city?")
        assert request.data == {"schema": FORM, "server": "srv", "path": ["toolkit"]}
        assert (await _answers(source, {"data": "Pune"}))[0]["content"] == {"city": "Pune"}
        assert (await _answers(source, {"data": ["a", {"b": 1}]}))[0]["action"] == "cancel"
        assert (await _answers(source, {"ok": False, "reason": "declined"}))[0]["action"] == "decline"
        assert (await _answers(source, {"ok": False}))[0]["action"] == "decline"
        assert (await _answers(source, {"ok": False, "reason": "cancelled"}))[0]["action"] == "cancel"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_what_an_answer_leaves_out_is_as_the_form_has_it(era: str) -> None:
    """[MCP-23] Defaults of the form stand where the answer says nothing, and no others."""

    async def on_request(request: Request) -> Answer:
        return Answer(id=request.id, data={"city": "Pune", "days": 3})

    more = {
        "days": {"type": "integer", "default": 2},
        "train": {"type": "boolean", "default": True},
        "note": {"type": "string"},
        "odd": {"type": "string", "default": {"no": "value"}},
    }
    async with opened(server("--era", era)) as source:
        seen = json.loads((await use(source, "ask", context(on_request), more=more)).output)
    assert seen["content"] == {"city": "Pune", "days": 3, "train": True}


async def test_a_login_is_asked_for_with_its_address() -> None:
    """[MCP-23] An elicitation in URL mode is a request of kind `authorization` with the address."""
    asked: list[Request] = []

    async def on_request(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id)

    async with opened(server()) as source:
        result = await use(source, "ask", context(on_request), url="https://login.example/x")
    assert json.loads(result.output)["action"] == "accept"
    assert [(r.kind, r.url, r.prompt) for r in asked] == [
        ("authorization", "https://login.example/x", "Log in")
    ]


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_call_that_needs_a_login_is_repeated_after_it(agreed: bool) -> None:
    """[MCP-23] A call refused with "URL elicitation required" is sent once more after the login."""
    asked: list[Request] = []

    async def on_request(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, ok=agreed)

    wanted = {"mode": "url", "message": "Log in", "url": "https://login.example/y", "elicitationId": "e"}
    error = {"code": -32042, "message": "login needed", "data": {"elicitations": [wanted]}}
    async with opened(server()) as source:
        result = await use(source, "result", context(on_request), error=error)
    assert result.is_error and result.output.endswith("login needed")
    assert [r.url for r in asked] == ["https://login.example/y"]


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_question_of_an_official_server_over_http_finds_its_call(official: str, era: str) -> None:
    """[MCP-23] Over HTTP each question is asked in the name of its own call."""
    asked: list[tuple[str, str]] = []

    def answering(name: str) -> Any:
        async def on_request(request: Request) -> Answer:
            asked.append((name, request.prompt))
            await asyncio.sleep(0.05)
            return Answer(id=request.id, data={"city": name})

        return context(on_request)

    async with opened(remote(official, protocol=era)) as source:
        names = ["Oslo", "Lima", "Rome"]
        results = await asyncio.gather(*[use(source, "ask", answering(n)) for n in names])
    assert [r.output for r in results] == [f"accept {{'city': '{n}'}}" for n in names]
    assert sorted(asked) == sorted([(n, "Which city?") for n in names])


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_the_time_of_a_human_does_not_count(era: str) -> None:
    """[MCP-23] The clock of a call stands still while its question is open."""

    async def slow(request: Request) -> Answer:
        await asyncio.sleep(2.5)
        return Answer(id=request.id, data={"city": "Bonn"})

    async with opened(server("--era", era, timeout=1500)) as source:
        began = time.monotonic()
        result = await use(source, "ask", context(slow))
        assert time.monotonic() - began > 2.4
    assert json.loads(result.output)["content"] == {"city": "Bonn"}


async def test_a_cancelled_call_takes_its_question_back() -> None:
    """[MCP-23] When the call is cancelled its question is cancelled too, and the server is kept."""
    events: list[Event] = []
    withdrawn = asyncio.Event()
    open_question = asyncio.Event()

    async def never(request: Request) -> Answer:
        open_question.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        raise AssertionError

    async with opened(server()) as source:
        call = asyncio.create_task(use(source, "ask", context(never, events)))
        async with asyncio.timeout(10):
            await open_question.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(10):
            await withdrawn.wait()
        assert (await use(source, "echo", s="x")).output == "x"
    assert [e.request.prompt for e in events if isinstance(e, Pending)] == ["Which city?"]


async def test_a_failing_handler_is_a_cancelled_question(caplog: pytest.LogCaptureFixture) -> None:
    """[MCP-23] An `on_request` that raises, or answers another question, cancels the elicitation."""

    async def broken(request: Request) -> Answer:
        raise LookupError("no human found")

    async def confused(request: Request) -> Answer:
        return Answer(id="req_other", data={"city": "x"})

    async with opened(server()) as source:
        for handler in (broken, confused):
            result = await use(source, "ask", context(handler))
            assert json.loads(result.output)["action"] == "cancel"
    assert "no human found" in caplog.text
