"""A client as an A2A agent: with the official client, over both bindings and in both versions."""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from a2a.types import ListTasksRequest, Part
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

from tests.observability.spans import tracing
from tests.serving.callers import TOKEN, asked, calling, said, state, text
from tests.serving.kit import PNG, Kit, client
from toolnexus import Agent, Client, MediaPart, Outcome, RunContext, SkillDef, serve
from toolnexus.protocols.a2a.parts import data_part
from toolnexus.runtime.context import RunSettings
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

A2A = {"name": "Clerk", "description": "Does small things.", "version": "2.1", "token": TOKEN}


class Served:
    def __init__(self, url: str, kit: Kit, owner: Client) -> None:
        self.url = url
        self.kit = kit
        self.owner = owner


@pytest.fixture(scope="module")
async def served() -> AsyncGenerator[Served]:
    kit = Kit()
    skills = SkillDef(name="tidy", description="Tidies up.", content="Tidy.")
    async with client(kit, skills=skills) as owner, serve(owner, a2a=A2A) as server:
        yield Served(server.url, kit, owner)


@pytest.fixture(autouse=True)
def fresh(served: Served) -> None:
    served.kit.again()


async def test_the_card_says_who_it_is_and_what_it_can(served: Served) -> None:
    """[A2A-50] At both paths, for anybody: skills and agents, both bindings in both versions, the token."""
    async with httpx.AsyncClient() as http:
        card = (await http.get(f"{served.url}/.well-known/agent-card.json")).json()
        assert (await http.get(f"{served.url}/.well-known/agent.json")).json() == card
    assert (card["name"], card["description"], card["version"]) == ("Clerk", "Does small things.", "2.1")
    assert [skill["name"] for skill in card["skills"]] == ["tidy", "helper", "hidden"]
    assert card["skills"][0]["description"] == "Tidies up."
    places = {
        (i["url"].removeprefix(served.url), i["protocolBinding"], i["protocolVersion"])
        for i in card["supportedInterfaces"]
    }
    bindings = (("/", "JSONRPC"), ("/v1", "HTTP+JSON"))
    assert places == {(path, binding, v) for path, binding in bindings for v in ("1.0", "0.3")}
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "bearer"
    assert TOKEN not in str(card)


@pytest.mark.parametrize("data", [b'"\\ud800"', b"1e999", b"-Infinity", b"NaN"])
async def test_what_cannot_be_told_back_is_refused(served: Served, data: bytes) -> None:
    """[A2A-81] In data and metadata; kept, it would spoil every list of tasks."""
    given = {"authorization": f"Bearer {TOKEN}", "a2a-version": "1.0", "content-type": "application/json"}
    head = b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": "m", '
    tail = b'"role": "ROLE_USER", "parts": [{"data": {"x": %b}}], "metadata": {"x": %b}}}}' % (data, data)
    async with httpx.AsyncClient(headers=given, timeout=20) as http:
        assert (await http.post(served.url, content=head + tail)).status_code == 400
        listing = await http.post(served.url, json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
        assert "tasks" in listing.json()["result"]


class Odd:
    name, description, settings = "odd", "Odd \ud800.", RunSettings()

    def __init__(self, output: Any) -> None:
        self.output = output

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        return Outcome(output=self.output)


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (float("inf"), "Infinity"),
        ({"x": float("nan")}, '{"x": NaN}'),
        ("half \ud800", "half \ufffd"),
        ({"x": "\ud800"}, {"x": "\ufffd"}),
        ({1: 2**70}, {"1": float(2**70)}),
    ],
)
async def test_whatever_is_answered_can_be_told(output: Any, told: Any) -> None:
    """[A2A-82] What JSON cannot say is text, and half of a character is U+FFFD; the card, too."""
    async with Client(model=ScriptedModel([])) as owner, serve(owner, a2a={"agent": Odd(output)}) as server:
        async with calling(server.url) as caller:
            task = await caller.send("go")
            (part,) = task.artifacts[0].parts
            assert (part.text or MessageToDict(part.data)) == told
            assert (await caller.client.list_tasks(ListTasksRequest())).tasks[0].id == task.id


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("streaming", [False, True])
async def test_every_way_in_gives_the_same(
    served: Served, version: str, binding: str, streaming: bool
) -> None:
    """[A2A-51] Both bindings, both versions, at once and as a stream: completed, with the answer."""
    async with calling(served.url, binding=binding, version=version, streaming=streaming) as caller:
        task = await caller.send("hello")
        assert (state(task), text(task)) == ("completed", "helped with 'hello'")
        assert len(task.artifacts) == 1 and len(task.artifacts[0].parts) == 1
        assert MessageToDict(task.metadata)["usage"]["totalTokens"] == 15


async def test_a_context_is_a_conversation(served: Served) -> None:
    """[A2A-52] It goes on from task to task; two never mix; none of the host's own is within reach."""
    await served.owner.ask("the host's own secret plan", conversation="plans")
    async with calling(served.url) as caller:
        first = await caller.send("one")
        other = await caller.send("two", context="chosen-by-the-caller")
        third = await caller.send("recall", context=first.context_id)
        assert third.id != first.id and text(third) == "one / recall"
        assert text(await caller.send("recall", context=other.context_id)) == "two / recall"
        assert text(await caller.send("recall", context="plans")) == "recall"
    kept = await served.owner.conversation(f"a2a:{first.context_id}").messages()
    assert [m.text for m in kept if m.role == "user"] == ["one", "recall"]


async def test_what_a_turn_says_before_its_calls_is_no_answer(served: Served) -> None:
    """[A2A-53] A stream has it as it comes; the artifact is the last turn's text alone."""
    pieces: list[tuple[bool, str]] = []
    async with calling(served.url, streaming=True) as caller:
        last: Any = None
        async for event in caller.events("say it"):
            if event.WhichOneof("payload") == "artifact_update":
                update = event.artifact_update
                pieces.append((update.append, update.artifact.parts[0].text))
            last = event
        assert pieces == [(False, "first it, then a call"), (False, "2")]
        assert text(await caller.get(last.status_update.task_id)) == "2"


async def test_an_approval_waits_for_a_clear_answer(served: Served) -> None:
    """[A2A-54] `input-required` with text and data; neither yes nor no asks again; then the run goes on."""
    async with calling(served.url) as caller:
        task = await caller.send("pay ann")
        assert (state(task), said(task)) == ("input_required", "pay ann?")
        (request,) = asked(task)
        assert request["kind"] == "approval" and request["data"]["to"] == "ann" and "digest" not in request
        task = await caller.send("well, perhaps", task=task)
        assert state(task) == "input_required" and said(task) == "Answer yes or no.\npay ann?"
        assert served.kit.paid == []
        task = await caller.send("Yes.", task=task)
        assert (state(task), text(task), served.kit.paid) == ("completed", "paid ann", ["ann"])
        no = await caller.send("No", task=await caller.send("pay bob", context=task.context_id))
        assert (state(no), text(no), served.kit.paid) == ("completed", "declined: pay bob?", ["ann"])


async def test_a_form_is_filled_by_data_or_text_and_held_to_its_schema(served: Served) -> None:
    """[A2A-55] What does not fit is asked again with the reason; a text fills a form of one field."""
    async with calling(served.url) as caller:
        task = await caller.send("call city")
        assert state(task) == "input_required" and asked(task)[0]["data"]["schema"]["required"] == ["city"]
        task = await caller.send(data_part({"town": 5}), task=task)
        assert state(task) == "input_required" and "- city: required, but missing" in said(task)
        task = await caller.send(data_part({"city": "Oslo"}), task=task)
        assert (state(task), text(task)) == ("completed", "off to Oslo")
        again = await caller.send("Rome", task=await caller.send("call city"))
        assert text(again) == "off to Rome"


async def test_several_questions_are_answered_by_their_ids(served: Served) -> None:
    """[A2A-56] In any order; a text answers the one that is asked in words; an unknown id asks again."""
    async with calling(served.url) as caller:
        task = await caller.send("pay ann bob cid")
        assert said(task) == "pay ann?" and len(asked(task)) == 3
        bob = next(r for r in asked(task) if r["prompt"] == "pay bob?")
        wrong = data_part({"answers": [{"id": "req_x", "ok": True}]})
        task = await caller.send(wrong, task=task)
        assert said(task).startswith("No open question has the id 'req_x'.\n")
        task = await caller.send(data_part({"answers": [{"id": bob["id"], "ok": True}]}), task=task)
        assert state(task) == "input_required" and served.kit.paid == ["bob"]
        assert [r["prompt"] for r in asked(task)] == ["pay ann?", "pay cid?"]
        task = await caller.send("no", task=task)
        assert said(task) == "pay cid?"
        task = await caller.send("yes", task=task)
        assert text(task) == "declined: pay ann?; paid bob; paid cid" and served.kit.paid == ["bob", "cid"]


async def test_relayed_calls_wait_for_a_result_each(served: Served) -> None:
    """[A2A-77] A text, a wrong list and two answers to one question ask again; the run waits on."""
    async with calling(served.url) as caller:
        task = await caller.send("call browse")
        (request,) = asked(task)
        (wanted,) = request["data"]["calls"]
        results = {"results": [{"id": wanted["id"], "output": "a page"}]}
        answer = {"id": request["id"], "ok": True, "data": results}
        for wrong, why in (
            ("what is that?", 'an answer to tool calls is {"results": '),
            (data_part({"results": []}), f"one result for each of the calls ['{wanted['id']}']"),
            (data_part({"answers": [{**answer, "data": {"results": [{"id": "x"}]}}]}), "needs 'output'"),
            (data_part({"answers": [answer, {**answer, "ok": False}]}), "A question is answered twice."),
        ):
            task = await caller.send(wrong, task=task)
            assert state(task) == "input_required" and why in said(task) and asked(task) == [request]
        task = await caller.send(data_part({"answers": [answer]}), task=task)
        assert (state(task), text(task)) == ("completed", "a page")


async def test_a_context_that_waits_takes_no_other_message(served: Served) -> None:
    """[A2A-57] It is rejected, with the task to answer; when that is cancelled all goes on."""
    async with calling(served.url) as caller:
        task = await caller.send("pay ann")
        other = await caller.send("hello", context=task.context_id)
        assert state(other) == "rejected" and task.id in said(other)
        assert state(await caller.cancel(task.id)) == "canceled"
        assert text(await caller.send("hello", context=task.context_id)) == "helped with 'hello'"
        assert served.kit.paid == []
        with pytest.raises(UnsupportedOperationError):
            await caller.send("yes", task=task)


@pytest.mark.parametrize("prompt", ["call hang", "delegate call hang"])
async def test_a_cancel_stops_the_run_and_its_children(served: Served, prompt: str) -> None:
    """[A2A-58] The tool is cancelled before the task is told so; what was done is in the conversation."""
    async with calling(served.url) as caller:
        task = await caller.send(prompt, return_immediately=True)
        await served.kit.started.wait()
        cancelled = await caller.cancel(task.id)
        assert state(cancelled) == "canceled" and served.kit.cancelled.is_set()
        assert state(await caller.get(task.id)) == "canceled"
        assert text(await caller.send("recall", context=task.context_id)) == f"{prompt} / recall"
        with pytest.raises(TaskNotCancelableError):
            await caller.cancel(task.id)


async def test_a_stream_that_breaks_does_not_stop_the_task(served: Served) -> None:
    """[A2A-59] The run goes on; whoever subscribes again, or asks, gets everything."""
    async with calling(served.url, streaming=True) as caller:
        stream = caller.events("call hang")
        first = await anext(stream)
        await served.kit.started.wait()
        await stream.aclose()
    async with calling(served.url, streaming=True) as caller:
        again = caller.subscribe(first.task.id)
        assert (await anext(again)).task.id == first.task.id
        assert not served.kit.cancelled.is_set()
        served.kit.release.set()
        kinds = [event.WhichOneof("payload") async for event in again]
        assert kinds == ["artifact_update", "status_update"]
        assert text(await caller.get(first.task.id)) == "released"


async def test_messages_that_cannot_be_answered_are_refused(served: Served) -> None:
    """[A2A-60] To a task that runs, is over, or is not there; with another or a wild context; empty."""
    async with calling(served.url) as caller:
        running = await caller.send("call hang", return_immediately=True)
        await served.kit.started.wait()
        with pytest.raises(UnsupportedOperationError, match="is under way"):
            await caller.send("more", task=running)
        served.kit.release.set()
        done = await caller.send("hello")
        with pytest.raises(UnsupportedOperationError):
            await caller.send("more", task=done)
        with pytest.raises(TaskNotFoundError):
            await caller.get("nonsense")
        with pytest.raises(TaskNotFoundError):
            await caller.cancel("nonsense")
        done.context_id = "another"
        with pytest.raises(InvalidParamsError):
            await caller.send("more", task=done)
        for context in ("x" * 300, "a\x00b"):
            with pytest.raises(InvalidParamsError, match="contextId"):
                await caller.send("hello", context=context)
        empty = await caller.send(Part(text=" "))
        assert (state(empty), said(empty)) == ("rejected", "The message is empty.")


async def test_a_failure_says_nothing_of_our_insides(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """[A2A-61] `failed` with the kind and a reference; the log has the rest, without secrets."""
    served.owner._redact.add("hunter2-secret")
    with caplog.at_level(logging.ERROR, "toolnexus.serving"):
        async with calling(served.url) as caller:
            task = await caller.send("break https://inner.example/hunter2-secret")
    assert state(task) == "failed" and said(task).startswith("The agent failed: ModelError (reference ")
    reference = said(task).removesuffix(").").rpartition(" ")[2]
    (record,) = caplog.records
    assert reference in record.message and "inner.example/[redacted]" in record.message


async def test_files_and_data_come_in(served: Served) -> None:
    """[A2A-62] An image is an image to the model, a text file and data are text, a reference stays one."""
    async with calling(served.url) as caller:
        task = await caller.send(
            "look",
            Part(raw=b64decode(PNG), media_type="image/png", filename="dot.png"),
            Part(url="https://example.com/plan.pdf", media_type="application/pdf"),
            data_part({"count": 3}),
            Part(raw=b"\xff not an image", media_type="image/png", filename="bad.png"),
        )
        assert state(task) == "completed"
    messages = await served.owner.conversation(f"a2a:{task.context_id}").messages()
    parts = messages[0].parts
    media = [part for part in parts if isinstance(part, MediaPart)]
    assert (media[0].mime_type, media[0].data, media[0].name) == ("image/png", PNG, "dot.png")
    assert media[1].url == "https://example.com/plan.pdf"
    assert '{"count": 3}' in messages[0].text


async def test_garbage_gets_errors_of_the_protocol(served: Served) -> None:
    """[A2A-63] Parse error, invalid request, unknown method, wrong parameters; REST a 4xx."""
    headers = {"authorization": f"Bearer {TOKEN}", "a2a-version": "1.0"}
    async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=20) as http:
        for content, code in (
            ("{", -32700),
            ("[]", -32600),
            ('{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600),
            ('{"jsonrpc": "2.0", "id": 1, "method": "Nonsense"}', -32601),
            ('{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": 5}}', -32602),
            ('{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {}}}', -32602),
        ):
            response = await http.post("/", content=content, headers={"content-type": "application/json"})
            assert response.json()["error"]["code"] == code, content
            assert "Traceback" not in response.text and "/site-packages" not in response.text
        assert (await http.post("/v1/message:send", content="{")).status_code == 400
        assert (await http.post("/v1/message:send", json={"message": {"parts": []}})).status_code == 400
        assert (await http.get("/v1/tasks/nonsense")).status_code == 404
        assert (await http.get("/nothing")).status_code == 404


async def test_tasks_are_listed(served: Served) -> None:
    """[A2A-64] Of one context, newest first."""
    headers = {"authorization": f"Bearer {TOKEN}", "a2a-version": "1.0"}
    async with calling(served.url) as caller:
        tasks = [await caller.send("hello", context="listed") for _ in range(2)]
    async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=20) as http:
        found = (await http.get("/v1/tasks", params={"contextId": "listed"})).json()["tasks"]
    assert [task["id"] for task in found] == [task.id for task in reversed(tasks)]


async def own(options: dict[str, Any], *prompts: str, **serving: Any) -> list[Any]:
    """What tasks of a server of their own come to."""
    async with Client(**options) as owner, serve(owner, a2a=A2A, **serving) as server:
        async with calling(server.url) as caller:
            return [await caller.send(prompt) for prompt in prompts]


async def test_a_limit_is_told_in_words_and_in_metadata() -> None:
    """[A2A-65] `completed`, since there is a result; its last line and its metadata name the limit."""
    turns = [reply("so far", call("nothing")) for _ in range(3)]
    (task,) = await own({"model": ScriptedModel(turns), "builtins": False, "max_turns": 2}, "go")
    assert (state(task), text(task)) == ("completed", "so far\n[incomplete: max_turns 2]")
    metadata = MessageToDict(task.metadata)
    assert (metadata["status"], metadata["limit"]) == ("incomplete", "max_turns")


async def test_a_run_past_the_deadline_is_stopped() -> None:
    """[A2A-66] `failed`, with the reason, and the tool is cancelled."""
    kit = Kit()
    model = ScriptedModel([reply(call("hang"))])
    (task,) = await own({"model": model, "builtins": False, "tools": kit.tools}, "go", deadline=0.2)
    assert (state(task), said(task)) == ("failed", "The run passed its deadline of 0.2 seconds.")
    assert kit.cancelled.is_set()


async def skills(url: str) -> list[Any]:
    async with httpx.AsyncClient() as http:
        return (await http.get(f"{url}/.well-known/agent-card.json")).json()["skills"]


class Camera:
    """A Runnable of its own kind."""

    name = "camera"
    description = "Takes pictures."

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        return Outcome(output=[f"of {input}", MediaPart("image/png", data=PNG, name="dot.png")])


async def test_values_and_files_go_out() -> None:
    """[A2A-67] Another agent than the client's own loop: a typed answer is data, files are files."""
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    adder = Agent(name="adder", output_type=schema)
    async with Client(model=ScriptedModel(['{"sum": 3}']), builtins=False, agents=[adder]) as owner:
        async with serve(owner, a2a={"agent": "adder"}) as server, calling(server.url) as caller:
            assert [skill["name"] for skill in await skills(server.url)] == ["adder"]
            (part,) = (await caller.send("1+2")).artifacts[0].parts
            assert MessageToDict(part.data) == {"sum": 3}
        async with serve(owner, a2a={"agent": Camera()}) as server, calling(server.url) as caller:
            first, second = (await caller.send("a dot")).artifacts[0].parts
            assert first.text == "of a dot"
            assert (second.raw, second.media_type, second.filename) == (
                b64decode(PNG),
                "image/png",
                "dot.png",
            )


async def test_the_trace_of_a_caller_goes_on(served: Served) -> None:
    """[A2A-68] The run of a message with a `traceparent` is in that trace."""
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with tracing() as traced:
        headers = {
            "authorization": f"Bearer {TOKEN}",
            "a2a-version": "1.0",
            "traceparent": f"00-{trace}-{span}-01",
        }
        async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=20) as http:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
            assert (await http.post("/v1/message:send", json={"message": message})).status_code == 200
        run = traced.one("invoke_agent main")
    assert run.context is not None and f"{run.context.trace_id:032x}" == trace
