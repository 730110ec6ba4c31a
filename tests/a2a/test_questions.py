"""Agents elsewhere that ask: input and authorization, answered in place, later, and elsewhere."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.a2a.seen import LIMIT, VARIANTS, Seen
from toolnexus import (
    Answer,
    Client,
    FunctionModel,
    MediaPart,
    MemoryStore,
    OnRequest,
    Pending,
    RemoteAgent,
    Request,
    RunError,
    RunResult,
    SqliteStore,
    Suspended,
    assistant,
)
from toolnexus.agents import remote
from toolnexus.runtime.threads import run_in_thread
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def client(*agents: Any, **options: Any) -> Client:
    silent = FunctionModel(lambda request: assistant("unused"))
    given: dict[str, Any] = {"model": silent, "builtins": False, "agents": agents, **options}
    return Client(**given)


def asking() -> ScriptedModel:
    return ScriptedModel([reply(call("task", agent="far", prompt="ask")), "done"])


def answering(data: Any = None, **how: Any) -> OnRequest:
    """A handler that always says the same."""
    return lambda request: Answer(id=request.id, data=data, **how)


def question(result: RunResult) -> Request:
    assert result.status == "pending"
    (request,) = result.pending
    return request


async def test_a_task_that_is_shown_as_it_stood_does_not_ask_again(base: str) -> None:
    """[A2A-20] Some agents begin what they say to an answer with the task as it was before."""
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, data="snapshot red")

    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far, on_request=answer) as c:
        assert (await c.run("far", "ask")).text == "answer: snapshot red"
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("word", "prompt"), [("form", "Which colour?"), ("form only", '{"colours": ["red", "blue"]}')]
)
async def test_data_beside_the_text_of_a_question_is_not_in_its_prompt(
    base: str, word: str, prompt: str
) -> None:
    """[A2A-20] It would grow with every agent that hands it on; without a text it is all there is."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        result = await c.run("far", word)
    assert question(result).prompt == prompt and result.text == prompt


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_question_is_answered_in_place(base: str, seen: Seen, variant: str) -> None:
    """[A2A-20] It carries task and context, and the answer goes to that very task."""
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, data="red")

    far = RemoteAgent("far", url=f"{base}/{variant}")
    async with client(far, model=asking(), on_request=answer) as c, c.stream("go") as stream:
        events = [event async for event in stream]
    (request,) = asked
    data = request.data or {}
    assert (request.kind, request.prompt) == ("input", "Which colour?")
    assert (data["agent"], data["path"]) == ("far", ["main", "far.c1_0"])
    assert [event.request for event in events if isinstance(event, Pending)] == [request]
    (child,) = stream.result.sub_agents
    assert child.text == "answer: red"
    texts = [(message.role, message.text) for message in child.messages]
    assert texts == [
        ("user", "ask"),
        ("assistant", "Which colour?"),
        ("user", "red"),
        ("assistant", "answer: red"),
    ]
    first, second = seen.messages
    assert second["taskId"] == data["taskId"] and second["contextId"] == data["contextId"]
    assert (second["parts"], first.get("taskId")) == ([{"text": "red"}], first["taskId"])


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ("red", [{"text": "red"}]),
        (["red", "blue"], [{"text": "red"}, {"text": "blue"}]),
        ({"size": 3}, [{"data": {"size": 3.0}, "mediaType": "application/json"}]),
        ([1, 2], [{"data": [1.0, 2.0], "mediaType": "application/json"}]),
        (True, [{"data": True, "mediaType": "application/json"}]),
        (None, [{"text": "Yes."}]),
        (
            MediaPart("image/png", url="https://files.example/a.png"),
            [{"url": "https://files.example/a.png", "mediaType": "image/png"}],
        ),
    ],
)
async def test_an_answer_is_text_data_or_media(base: str, seen: Seen, data: Any, parts: Any) -> None:
    """[A2A-21] As the host gives it."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far, on_request=answering(data)) as c:
        assert (await c.run(far, "ask")).status == "done"
    assert seen.messages[1]["parts"] == parts


async def test_an_answer_that_cannot_be_sent_is_an_error(base: str, seen: Seen) -> None:
    """[A2A-21] And the task is cancelled: nobody answers it any more."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far, on_request=answering(object())) as c:
        with pytest.raises(RunError, match=r"the answer to 'Which colour\?' cannot be sent"):
            await c.run(far, "ask")
    assert seen.cancelled.is_set()


async def test_without_an_answer_the_run_waits_and_goes_on_by_its_result(base: str) -> None:
    """[A2A-22] The whole run is pending; the child goes on with the same task, and nothing runs twice."""
    model = asking()
    async with client(RemoteAgent("far", url=f"{base}/v1"), model=model) as c:
        waiting = await c.ask("go")
        request = question(waiting)
        result = await c.resume(waiting, [Answer(id=request.id, data="red")])
    assert (result.status, result.text, len(model.requests)) == ("done", "done", 2)
    assert [m.output for m in result.messages[2].tool_results] == ["answer: red"]


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_run_goes_on_in_another_process_with_its_snapshot(base: str, variant: str) -> None:
    """[A2A-22] Also without a model around it; the whole of the answer is there, not what came since."""
    far = RemoteAgent("far", url=f"{base}/{variant}")
    async with client(far) as c:
        waiting = await c.run("far", "ask some")
    written = json.dumps(waiting.snapshot)
    answer = {"id": question(waiting).id, "ok": True, "data": "red"}
    async with client(RemoteAgent("far", url=f"{base}/{variant}")) as c:
        result = await c.resume(json.loads(written), [answer])
    assert (result.status, result.text) == ("done", "before: some. \nanswer: red")
    assert [message.role for message in result.messages] == ["user", "assistant", "user", "assistant"]


async def test_a_run_goes_on_with_the_store_alone(base: str, tmp_path: Path, seen: Seen) -> None:
    """[A2A-22] Its question is found there; afterwards the conversation stays in its context."""

    def fresh() -> Client:
        store = SqliteStore(tmp_path / "chat.db")
        return client(RemoteAgent("far", url=f"{base}/v1"), store=store)

    async with fresh() as c:
        assert (await c.run("far", "ask", conversation="ann")).status == "pending"
        with pytest.raises(Suspended):
            await c.run("far", "echo hi", conversation="ann")
    async with fresh() as c:
        (request,) = await c.conversation("ann").pending()
        result = await c.resume("ann", [Answer(id=request.id, data="red")])
        assert (result.status, result.text) == ("done", "answer: red")
        again = await c.resume("ann", [Answer(id=request.id, data="red")])
        assert again.text == "answer: red"
        with pytest.raises(RunError, match="no open request has the id 'x'"):
            await c.resume("ann", [Answer(id="x")])
    async with fresh() as c:
        assert (await c.run("far", "echo hi", conversation="ann")).text == "echo: hi"
        assert len(await c.conversation("ann").messages()) == 6
    assert len({message["contextId"] for message in seen.messages}) == 1


async def test_a_question_below_outlives_the_process(base: str, tmp_path: Path, seen: Seen) -> None:
    """[A2A-22] The run of the caller waits with it; elsewhere the answer reaches the very same task."""

    def fresh(*replies: Any) -> Client:
        far, store = RemoteAgent("far", url=f"{base}/v1"), SqliteStore(tmp_path / "chat.db")
        return client(far, model=ScriptedModel(replies), store=store)

    async with fresh(reply(call("task", agent="far", prompt="ask"))) as c:
        request = question(await c.ask("go", conversation="ann"))
    async with fresh("done") as c:
        assert await c.conversation("ann").pending() == (request,)
        result = await c.resume("ann", [Answer(id=request.id, data="red")])
        assert (result.status, result.text) == ("done", "done")
        (said,) = (await c.conversation("ann").messages())[2].tool_results
    assert said.output == "answer: red"
    (_, second), data = seen.messages, request.data or {}
    assert (second["taskId"], second["parts"]) == (data["taskId"], [{"text": "red"}])


async def test_a_question_can_be_given_up(base: str) -> None:
    """[A2A-22] `discard_pending` leaves what was said, and the conversation goes on."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        await c.run(far, "ask", conversation="ann")
        await c.conversation("ann").discard_pending()
        assert (await c.run(far, "echo hi", conversation="ann")).text == "echo: hi"
        texts = [message.text for message in await c.conversation("ann").messages()]
    assert texts == ["ask", "Which colour?", "echo hi", "echo: hi"]


@pytest.mark.parametrize("below", [False, True])
async def test_a_task_whose_question_is_given_up_is_cancelled(
    base: str, seen: Seen, tmp_path: Path, below: bool
) -> None:
    """[A2A-27] Also from another process, and of a run below."""

    def fresh() -> Client:
        far = RemoteAgent("far", url=f"{base}/v1")
        return client(far, model=asking(), store=SqliteStore(tmp_path / "chat.db"))

    async with fresh() as c:
        waiting = await (
            c.ask("go", conversation="ann") if below else c.run("far", "ask", conversation="ann")
        )
        assert waiting.status == "pending" and not seen.cancelled.is_set()
    async with fresh() as c:
        await c.conversation("ann").discard_pending()
        assert seen.cancelled.is_set()
        assert await c.conversation("ann").pending() == ()


async def test_a_question_of_an_agent_that_is_gone_is_given_up(
    base: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[A2A-27] No error, whether it is down, is silent or is no agent; and no wait beyond the bound."""
    monkeypatch.setattr(remote, "WITHDRAW_SECONDS", 0.2)
    far, store = RemoteAgent("far", url=f"{base}/v1"), MemoryStore()
    seen.stubborn.set()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silence = f"http://127.0.0.1:{silent.getsockname()[1]}"
        down = RemoteAgent("far", card=_card("http://127.0.0.1:9"))
        for gone in (down, RemoteAgent("far", card=_card(silence)), RemoteAgent("far", url=silence), far):
            async with client(far, store=store) as c:
                assert (await c.run("far", "ask", conversation="ann")).status == "pending"
            chat = client(gone, store=store).conversation("ann")
            async with asyncio.timeout(5):
                await chat.discard_pending()
            assert await chat.pending() == ()
    seen.stubborn.clear()


def _card(url: str) -> dict[str, Any]:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {"name": "far", "description": "Far.", "version": "1", "supportedInterfaces": [interface]}


async def test_an_agent_may_ask_again_until_its_turns_are_over(base: str, seen: Seen) -> None:
    """[A2A-23] Each message is a turn; at `max_turns` the run is incomplete and the task cancelled."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far, on_request=answering("again"), max_turns=3) as c:
        result = await c.run(far, "ask")
    assert (result.status, result.limit, result.turns) == ("incomplete", "max_turns", 3)
    assert result.text == "And which size?" and len(seen.messages) == 3
    assert seen.cancelled.is_set()
    async with client(far) as c:
        waiting = await c.run(far, "ask")
        for _ in range(2):
            waiting = await c.resume(waiting, [Answer(id=question(waiting).id, data="again")])
            assert question(waiting).prompt == "And which size?"
        result = await c.resume(waiting, [Answer(id=question(waiting).id, data="red")])
    assert (result.text, result.turns) == ("answer: red", 4)


async def test_an_answer_is_for_the_question_that_was_shown(base: str, seen: Seen) -> None:
    """[A2A-26] A task that went on since asks another one: that one comes out, and nothing was sent to it."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        first = await c.run(far, "ask")
        answer = Answer(id=question(first).id, data="again")
        second = await c.resume(first, [answer])
        sent = len(seen.messages)
        again = await c.resume(first, [answer])
        assert question(again).prompt == question(second).prompt == "And which size?"
        assert question(again).id != answer.id and len(seen.messages) == sent


@pytest.mark.parametrize("reason", ["declined", "cancelled", None])
async def test_a_declined_question_ends_the_task(base: str, seen: Seen, reason: Any) -> None:
    """[A2A-24] With an error result that says so, and a cancel of the task."""
    model = asking()
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far, model=model, on_request=answering(ok=False, reason=reason)) as c:
        result = await c.ask("go")
    (said,) = result.messages[2].tool_results
    assert (said.is_error, said.output) == (
        True,
        f"agent 'far' failed: {reason or 'declined'}: Which colour?",
    )
    assert seen.cancelled.is_set()


async def test_a_handler_that_fails_ends_the_task(base: str, seen: Seen) -> None:
    """[A2A-24] As it does for tools of ours."""

    def fail(request: Request) -> Answer:
        raise ValueError("no terminal")

    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far, on_request=fail) as c:
        with pytest.raises(RunError, match=r"nobody could answer: ValueError: no terminal"):
            await c.run(far, "ask")
    assert seen.cancelled.is_set()


async def test_an_authorization_is_a_request_with_its_address(base: str, seen: Seen) -> None:
    """[A2A-25] What is given with the answer goes to the agent and into no transcript."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with client(far) as c:
        waiting = await c.run(far, "auth")
        request = question(waiting)
        assert (request.kind, request.url) == ("authorization", "https://login.example/x")
        assert request.prompt == "Sign in at https://login.example/x, please."
        result = await c.resume(waiting, [Answer(id=request.id, data="code-4711")])
    assert seen.messages[1]["parts"] == [{"text": "code-4711"}]
    assert result.messages[2].text == "The authorization was granted."
    async with client(far, on_request=answering()) as c:
        assert (await c.run(far, "auth")).text == "answer: The authorization was granted."


async def test_an_agent_may_learn_of_an_authorization_elsewhere(base: str, seen: Seen) -> None:
    """[A2A-25] Then nothing is sent, and what came of the task is the answer."""
    far = RemoteAgent("far", url=f"{base}/v1")
    async with asyncio.timeout(LIMIT), client(far) as c:
        waiting = await c.run(far, "elsewhere")
        seen.release.set()
        assert await run_in_thread(seen.finished.wait, LIMIT)
        result = await c.resume(waiting, [Answer(id=question(waiting).id)])
    assert result.text == "answer: authorized" and len(seen.messages) == 1


async def test_many_that_ask_at_once_are_answered_one_by_one(base: str) -> None:
    """[A2A-20] Each answer reaches the task that asked, and no slot is held meanwhile."""
    calls = [call("task", agent="far", prompt="ask") for _ in range(6)]
    model = ScriptedModel([reply("", *calls), "done"])

    async def answer(request: Request) -> Answer:
        await asyncio.sleep(0)
        return Answer(id=request.id, data=(request.data or {})["path"][-1])

    async with asyncio.timeout(LIMIT):
        async with client(RemoteAgent("far", url=f"{base}/v1"), model=model, on_request=answer) as c:
            result = await c.ask("go")
    outputs = [r.output for r in result.messages[2].tool_results]
    assert outputs == [f"answer: far.c1_{n}" for n in range(6)]


async def test_several_wait_and_are_answered_in_any_order(base: str) -> None:
    """[A2A-22] What is not answered yet stays as it is."""
    calls = [call("task", agent="far", prompt="ask") for _ in range(3)]
    model = ScriptedModel([reply("", *calls), "done"])
    async with client(RemoteAgent("far", url=f"{base}/v1"), model=model) as c:
        result = await c.ask("go")
        for request in reversed(result.pending):
            result = await c.resume(result, [Answer(id=request.id, data=request.prompt)])
    assert result.status == "done"
    assert {r.output for r in result.messages[2].tool_results} == {"answer: Which colour?"}
