"""Servers that ask when nobody answers in place: the run waits, and goes on in any process."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.helpers import (
    ROUGH,
    context,
    logged,
    official_server,
    opened,
    remote,
    server,
    use,
)
from tests.warm import Warm
from toolnexus import Agent, Answer, Client, Request, SqliteStore
from toolnexus.core.result import RunResult
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

ERAS = ("handshake", "stateless")
FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def options(era: str, *flags: str, **more: Any) -> dict[str, Any]:
    entry = {"command": sys.executable, "args": ["-S", str(ROUGH), "--era", era, *flags], "protocol": era}
    return {"mcp": {"mcpServers": {"srv": entry}}, "builtins": False, **more}


def asking(**arguments: Any) -> Any:
    return reply("", call("srv_ask", id="c1", **arguments))


def results(result: RunResult) -> list[tuple[bool, str]]:
    return [(part.is_error, part.output) for m in result.messages for part in m.tool_results]


async def waiting(era: str, *flags: str, **arguments: Any) -> RunResult:
    async with (
        asyncio.timeout(30),
        Client(model=ScriptedModel([asking(**arguments)]), **options(era, *flags)) as c,
    ):
        result = await c.ask("go")
    assert result.status == "pending"
    return result


async def resumed(era: str, waits: Any, *answers: Answer, **more: Any) -> RunResult:
    """Gone on with by another client, and so by another server process."""
    flags = more.pop("flags", ())
    async with asyncio.timeout(30), Client(model=ScriptedModel(["end"]), **options(era, *flags, **more)) as c:
        return await c.resume(json.loads(json.dumps(waits.snapshot)), answers)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("said", ["accept", "decline", "cancel"])
async def test_a_run_waits_for_what_a_server_asks(era: str, said: str) -> None:
    """[MCP-68] As for any question: kind, schema, server and path; what was answered later reaches the
    server as it would have in place."""
    first = await waiting(era)
    (request,) = first.pending
    assert (request.kind, request.prompt) == ("input", "Which city?")
    assert request.data == {"schema": FORM, "server": "srv", "path": ["main"]}
    reasons: dict[str, Any] = {"decline": "declined", "cancel": "cancelled"}
    answer = Answer(id=request.id, ok=said == "accept", reason=reasons.get(said), data={"city": "Oslo"})
    last = await resumed(era, first, answer)
    ((wrong, text),) = results(last)
    assert (last.text, wrong, json.loads(text)["action"]) == ("end", False, said)
    assert json.loads(text).get("content") == ({"city": "Oslo"} if said == "accept" else None)


GO_ON = """
import asyncio, json, sys
from toolnexus import Answer, Client, SqliteStore
from toolnexus.testing import ScriptedModel

async def main():
    store = SqliteStore(sys.argv[1])
    async with Client(model=ScriptedModel(["end"]), store=store, **json.loads(sys.argv[2])) as client:
        (request,) = await client.conversation("c").pending()
        result = await client.resume("c", [Answer(id=request.id, data={"city": "Oslo"})])
        print(json.dumps([p.output for m in result.messages for p in m.tool_results]))

asyncio.run(main())
"""


async def test_a_stateless_server_goes_on_where_it_stood(warm: Warm, tmp_path: Path) -> None:
    """[MCP-69] Another interpreter calls the tool once, with the answers and the state of the server."""
    log, chosen = tmp_path / "log", options("stateless", "--log", str(tmp_path / "log"))
    store = SqliteStore(tmp_path / "c.db")
    async with (
        asyncio.timeout(30),
        Client(model=ScriptedModel([asking(rounds=1)]), store=store, **chosen) as c,
    ):
        assert (await c.ask("go", conversation="c")).status == "pending"
    done = await asyncio.to_thread(warm.run, GO_ON, str(tmp_path / "c.db"), json.dumps(chosen))
    assert done.returncode == 0, done.stderr
    (text,) = json.loads(done.stdout)
    assert json.loads(text) == [{"q": {"action": "accept", "content": {"city": "Oslo"}}}]
    asked, answered = [p for p in logged(log, "params") if p.get("name") == "ask"]
    assert "inputResponses" not in asked and answered["requestState"] == "[]"


async def test_questions_of_one_round_are_answered_one_by_one() -> None:
    """[MCP-69] In any order; the server hears them together, and may ask a next round."""
    first = await waiting("stateless", keys=["a", "b"], rounds=2)
    a, b = first.pending
    second = await resumed("stateless", first, Answer(id=b.id, data={"city": "B"}))
    assert second.pending == (a,)
    third = await resumed("stateless", second, Answer(id=a.id, data={"city": "A"}))
    assert third.status == "pending" and len(third.pending) == 2
    answers = [Answer(id=request.id, data={"city": "C"}) for request in third.pending]
    last = await resumed("stateless", third, *answers)
    ((_, text),) = results(last)
    told = [{key: said["content"]["city"] for key, said in round.items()} for round in json.loads(text)]
    assert told == [{"a": "A", "b": "B"}, {"a": "C", "b": "C"}]


@pytest.mark.parametrize("era", ERAS)
async def test_a_handler_answers_what_was_left_open(era: str) -> None:
    """[MCP-68] A client with `on_request` asks it when the run goes on."""
    first = await waiting(era)
    asked: list[Request] = []

    def on_request(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, data={"city": "Rome"})

    last = await resumed(era, first, on_request=on_request)
    ((_, text),) = results(last)
    assert json.loads(text)["content"] == {"city": "Rome"}
    assert [request.id for request in asked] == [first.pending[0].id]


async def test_a_server_that_asks_in_the_middle_is_called_anew(tmp_path: Path) -> None:
    """[MCP-70] It hears a cancel first; asked the same again it gets the answer."""
    flags = ("--log", str(tmp_path / "log"))
    first = await waiting("handshake", *flags)
    cancelled = [entry for entry in logged(tmp_path / "log", "result") if "action" in entry]
    assert cancelled == [{"action": "cancel"}]
    await resumed("handshake", first, Answer(id=first.pending[0].id, data={"city": "Oslo"}), flags=flags)
    assert [p["name"] for p in logged(tmp_path / "log", "params") if "name" in p] == ["ask", "ask"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_login_can_wait_too(era: str) -> None:
    """[MCP-71] An elicitation in URL mode is a request of kind `authorization` with the address."""
    first = await waiting(era, url="https://login.example/x")
    (request,) = first.pending
    assert (request.kind, request.url, request.prompt) == (
        "authorization",
        "https://login.example/x",
        "Log in",
    )
    last = await resumed(era, first, Answer(id=request.id))
    assert json.loads(results(last)[0][1])["action"] == "accept"


async def test_a_call_that_needs_a_login_waits_for_it() -> None:
    """[MCP-71] "URL elicitation required" is that request; afterwards the call is made again."""
    wanted = {"mode": "url", "message": "Log in", "url": "https://login.example/y", "elicitationId": "e"}
    error = {"code": -32042, "message": "login needed", "data": {"elicitations": [wanted]}}
    turn = reply("", call("srv_result", error=error))
    async with asyncio.timeout(30), Client(model=ScriptedModel([turn]), **options("handshake")) as c:
        first = await c.ask("go")
    (request,) = first.pending
    assert (request.kind, request.url) == ("authorization", "https://login.example/y")
    last = await resumed("handshake", first, Answer(id=request.id))
    ((wrong, text),) = results(last)
    assert wrong and text.endswith("login needed")


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_is_for_the_very_arguments(era: str) -> None:
    """[MCP-68] After an edit, or with a torn state, the server is not called."""
    first = await waiting(era, note="a")
    text = json.dumps(first.snapshot)
    answer = Answer(id=first.pending[0].id, data={"city": "Oslo"})
    for old, new, says in (
        ('\\"note\\": \\"a\\"', '\\"note\\": \\"b\\"', "refused:"),
        ('"asked"', '"asket"', "is torn"),
    ):
        edited = text.replace(old, new)
        assert edited != text
        async with asyncio.timeout(30), Client(model=ScriptedModel(["end"]), **options(era)) as c:
            last = await c.resume(json.loads(edited), [answer])
        ((wrong, output),) = results(last)
        assert wrong and says in output


async def test_a_sub_agent_waits_with_its_path() -> None:
    """[MCP-68] And goes on where it stood."""
    agent = Agent(name="helper", description="Helps.", tools=["srv_ask"])
    turns = [reply("", call("task", id="t", agent="helper", prompt="go")), asking()]
    async with (
        asyncio.timeout(30),
        Client(model=ScriptedModel(turns), agents=[agent], **options("stateless")) as c,
    ):
        first = await c.ask("go")
    (request,) = first.pending
    assert (request.data or {})["path"] == ["main", "helper.t"]
    async with (
        asyncio.timeout(30),
        Client(model=ScriptedModel(["helped", "end"]), agents=[agent], **options("stateless")) as c,
    ):
        last = await c.resume(first, [Answer(id=request.id, data={"city": "Oslo"})])
    assert last.text == "end" and json.loads(results(last.sub_agents[0])[0][1])["content"] == {"city": "Oslo"}


async def test_a_question_of_one_of_several_calls_is_declined(warm: Warm) -> None:
    """[MCP-72] Over stdio nobody knows which call asks, so none is made anew; over HTTP each waits."""
    async with opened(server()) as source:
        asked, echoed = await asyncio.gather(use(source, "ask"), use(source, "sleep", seconds=0.5))
        assert json.loads(asked.output)["action"] == "decline" and not echoed.requests
    with official_server(warm) as url:
        async with opened(remote(url, protocol="handshake")) as source:
            both = await asyncio.gather(use(source, "ask"), use(source, "ask", context()))
    assert [len(result.requests) for result in both] == [1, 1]
