"""Streams that break, hang, are cancelled, or come in odd pieces."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.models.support import ALL, ANTHROPIC, KEY, OPENAI, QUICK, STREAMS, Bench, Case, Sink, bench
from toolnexus.core.messages import user
from toolnexus.core.model import ModelRequest
from toolnexus.errors import ModelConnectionError, ModelHTTPError, ModelResponseError
from toolnexus.models.http import HttpWire
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

every_stream = pytest.mark.parametrize("case", STREAMS, ids=str)
CALL = {"id": "c1", "name": "write", "args": {"path": "a", "content": "b" * 40}}
TEXT = "some words that take more than one event"


def events_until(style: str, what: str) -> int:
    """How many events lie before the break: behind the first text, or inside the call's arguments."""
    return {(OPENAI, "text"): 3, (ANTHROPIC, "text"): 5, (OPENAI, "call"): 8, (ANTHROPIC, "call"): 12}[
        style, what
    ]


@every_stream
async def test_a_break_before_any_text_is_a_plain_retry(case: Case) -> None:
    """[WIRE-27] Nothing was handed on, so the reader sees one whole reply."""
    async with bench(case, [Turn(text=TEXT, drop_after=1), Turn(text=TEXT)]) as b:
        response = await b.ask()
        assert (response.message.text, response.stop) == (TEXT, "stop")
        assert b.sink.said == TEXT
        assert [r["restarted"] for r in b.sink.retries] == [False]


@every_stream
async def test_a_break_behind_text_restarts_and_says_so(case: Case) -> None:
    """[WIRE-27] Text was handed on: the retry is reported as a restart, and the text comes again."""
    first = Turn(text=TEXT, drop_after=events_until(case.style, "text"))
    async with bench(case, [first, Turn(text=TEXT)]) as b:
        response = await b.ask()
        assert (response.message.text, response.stop) == (TEXT, "stop")
        assert [r["restarted"] for r in b.sink.retries] == [True]
        assert b.sink.said.endswith(TEXT)
        assert len(b.sink.said) > len(TEXT)


@every_stream
async def test_a_stream_given_up_behind_text_is_cut(case: Case) -> None:
    """[WIRE-27] When the retries run out behind text, the text so far comes back with stop `cut`."""
    broken = Turn(text=TEXT, calls=[CALL], drop_after=events_until(case.style, "call"))
    async with bench(case, [broken] * 3) as b:
        response = await b.ask()
        assert response.stop == "cut"
        assert response.message.text == TEXT
        assert response.message.tool_calls == ()
        assert [r["restarted"] for r in b.sink.retries] == [True, True]


@every_stream
async def test_a_cut_text_survives_attempts_that_bring_none(case: Case) -> None:
    """[WIRE-27] What was handed on is not lost when the last attempts fail before any text."""
    script = [
        Turn(text=TEXT, drop_after=events_until(case.style, "text")),
        Turn(status=503),
        Turn(status=503),
    ]
    async with bench(case, script) as b:
        response = await b.ask()
        assert response.stop == "cut"
        assert response.message.text and TEXT.startswith(response.message.text)
        assert [r["restarted"] for r in b.sink.retries] == [True, False]


@every_stream
async def test_a_stream_given_up_before_text_is_an_error(case: Case) -> None:
    """[WIRE-27] Without any text there is nothing to give back: a `ModelConnectionError`."""
    async with bench(case, [Turn(text=TEXT, drop_after=1)] * 3) as b:
        with pytest.raises(ModelConnectionError):
            await b.ask()
        assert len(b.bodies) == 3
        assert b.sink.said == ""


@every_stream
async def test_half_a_call_is_never_given_back(case: Case) -> None:
    """[WIRE-27] A call whose arguments broke off is dropped, and the whole request goes out again."""
    broken = Turn(calls=[CALL], drop_after=3 if case.style == OPENAI else 4)
    async with bench(case, [broken, Turn(calls=[CALL])]) as b:
        (call,) = (await b.ask()).message.tool_calls
        assert json.loads(call.arguments) == CALL["args"]
        assert [r["restarted"] for r in b.sink.retries] == [False]


def openai_chunks(*deltas: dict[str, Any], finish: str | None = None) -> list[str]:
    choices: list[dict[str, Any]] = [{"index": 0, "delta": d, "finish_reason": None} for d in deltas]
    if finish:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    return [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]


def anthropic_events(*events: dict[str, Any]) -> list[str]:
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events]


UNFINISHED = {
    OPENAI: [*openai_chunks({"content": "half"}), "data: [DONE]\n\n"],
    ANTHROPIC: anthropic_events(
        {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "half"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    ),
}


@every_stream
async def test_a_stream_without_its_end_counts_as_broken(case: Case) -> None:
    """[WIRE-28] A stream that closes properly but without its terminal event is not a reply."""
    async with bench(case, [Turn(sse=UNFINISHED[case.style]), Turn(text="whole")]) as b:
        response = await b.ask()
        assert (response.message.text, response.stop) == ("whole", "stop")
        assert [r["restarted"] for r in b.sink.retries] == [True]


@pytest.mark.parametrize("wire", ["http", "sdk"])
async def test_a_finish_reason_without_done_is_an_end(wire: str) -> None:
    """[WIRE-28] `finish_reason` ends a reply, with or without `[DONE]` behind it."""
    lines = openai_chunks({"content": "all"}, finish="stop")
    async with bench(Case(OPENAI, wire, True), [Turn(sse=lines)]) as b:
        assert (await b.ask()).message.text == "all"
        assert b.sink.retries == []


@every_stream
async def test_a_break_behind_the_end_costs_nothing(case: Case) -> None:
    """[WIRE-28] A connection that breaks when the reply is complete is no failure."""
    if case.style == OPENAI:
        lines = [*openai_chunks({"content": "all"}, finish="stop"), "data: [DONE]\n\n"]
    else:
        lines = [*UNFINISHED[ANTHROPIC], *anthropic_events({"type": "message_stop"}), ": more\n\n"]
    async with bench(case, [Turn(sse=lines, drop_after=len(lines) - 1)]) as b:
        assert (await b.ask()).stop == "stop"
        assert len(b.bodies) == 1


@every_stream
async def test_an_error_event_behind_text_restarts_or_is_raised(case: Case) -> None:
    """[WIRE-28] An overload told inside the stream is tried again; a lasting error is raised."""
    start = UNFINISHED[case.style][: 1 if case.style == OPENAI else 2]
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    wrong = {"type": "error", "error": {"type": "invalid_request_error", "message": "wrong"}}
    script = [Turn(sse=[*start, *anthropic_events(busy)]), Turn(sse=[*start, *anthropic_events(wrong)])]
    async with bench(case, script) as b:
        with pytest.raises(ModelHTTPError, match="wrong") as caught:
            await b.ask()
        assert caught.value.status == 400
        assert [r["restarted"] for r in b.sink.retries] == [True]


@every_stream
async def test_an_event_that_is_no_json_is_named(case: Case) -> None:
    """[WIRE-28] Garbage in a complete event is a `ModelResponseError`; a torn last one is a break."""
    async with bench(case, [Turn(sse=["data: {oops}\n\n"])]) as b:
        with pytest.raises(ModelResponseError, match="no JSON"):
            await b.ask()
    async with bench(case, [Turn(sse=['data: {"choices": [{"del']), Turn(text="ok")]) as b:
        assert (await b.ask()).message.text == "ok"


@every_stream
@pytest.mark.parametrize("split", [1, 2, 7, 61])
async def test_any_cut_of_the_bytes_gives_the_same_reply(case: Case, split: int) -> None:
    """[WIRE-29] Events are put together from any pieces, also inside a character."""
    text = "Grüße 世界 🌍"
    async with bench(case, [Turn(text=text, calls=[CALL], split=split, chunk=3)]) as b:
        response = await b.ask()
        assert response.message.text == b.sink.said == text
        assert json.loads(response.message.tool_calls[0].arguments) == CALL["args"]


@pytest.mark.parametrize("wire", ["http", "sdk"])
async def test_a_usage_chunk_without_choices_is_counted_once(wire: str) -> None:
    """[WIRE-07] The last cumulative report counts, also where a server sends one with every chunk."""
    lines = [
        *[
            f"data: {json.dumps({**c, 'usage': {'prompt_tokens': 9, 'completion_tokens': i}})}\n\n"
            for i, c in enumerate([{"choices": [{"index": 0, "delta": {"content": "a"}}]}] * 3)
        ],
        *openai_chunks(finish="stop"),
        'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}\n\n',
        "data: [DONE]\n\n",
    ]
    async with bench(Case(OPENAI, wire, True), [Turn(sse=lines)]) as b:
        usage = (await b.ask()).usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens) == (9, 4)


def call_delta(index: int | None, id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    delta: dict[str, Any] = {"function": function}
    if index is not None:
        delta["index"] = index
    if id is not None:
        delta["id"] = id
    return {"tool_calls": [delta]}


ODD_CALLS: dict[str, list[dict[str, Any]]] = {
    "interleaved by index": [
        call_delta(0, "a", "t", '{"n"'),
        call_delta(1, "b", "t", '{"n"'),
        call_delta(0, None, None, ": 1}"),
        call_delta(1, None, None, ": 2}"),
    ],
    "without index": [
        call_delta(None, "a", "t", '{"n": '),
        call_delta(None, None, None, "1}"),
        call_delta(None, "b", "t", '{"n": 2}'),
    ],
    "every index 0": [call_delta(0, "a", "t", '{"n": 1}'), call_delta(0, "b", "t", '{"n": 2}')],
    "id and name repeated": [
        call_delta(0, "a", "t", '{"n": '),
        call_delta(0, "a", "t", "1}"),
        call_delta(1, "b", "t", '{"n": 2}'),
    ],
    "no ids, every index 0": [call_delta(0, "", "t", '{"n": 1}'), call_delta(0, "", "t", '{"n": 2}')],
    "arguments as objects": [call_delta(0, "a", "t", {"n": 1}), call_delta(1, "b", "t", {"n": 2})],
}


@pytest.mark.parametrize("shape", ODD_CALLS)
async def test_calls_of_many_servers_are_put_together(shape: str) -> None:
    """[WIRE-03] Missing or repeated indexes and ids do not mix calls up."""
    lines = openai_chunks(*ODD_CALLS[shape], finish="tool_calls")
    async with bench(Case(OPENAI, "http", True), [Turn(sse=lines)]) as b:
        calls = (await b.ask()).message.tool_calls
        assert [(c.name, json.loads(c.arguments)) for c in calls] == [("t", {"n": 1}), ("t", {"n": 2})]


@pytest.mark.parametrize("case", ALL, ids=str)
async def test_cancelling_closes_the_request(case: Case) -> None:
    """[WIRE-24] Cancelling the awaiting task closes the connection: the endpoint sees the client go."""
    async with bench(case, [Turn(hang=True)]) as b:
        task = asyncio.create_task(b.ask())
        await b.endpoint.until(lambda: len(b.endpoint.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await b.endpoint.until(lambda: b.endpoint.requests[0].gone)


@every_stream
async def test_cancelling_in_the_middle_of_a_stream_closes_it(case: Case) -> None:
    """[WIRE-24] Also a stream under way is closed by cancelling."""
    reached = asyncio.Event()

    class Reader(Sink):
        def text(self, delta: str) -> None:
            super().text(delta)
            reached.set()

    endless = Turn(text="x" * 100_000, chunk=1)
    async with bench(case, [endless]) as b:
        b.sink = Reader()
        task = asyncio.create_task(b.ask())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await b.endpoint.until(lambda: b.endpoint.requests[0].gone)
        assert len(b.sink.said) < 100_000


@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("streamed", [False, True])
async def test_silence_is_a_connection_error(style: str, streamed: bool) -> None:
    """[WIRE-30] An endpoint that sends no byte for `silence` seconds is given up, and tried again."""
    async with ScriptedEndpoint([Turn(hang=True), Turn(hang=True), Turn(text="awake")]) as endpoint:
        wire = HttpWire(endpoint.url, silence=0.05)
        model = Case(style).model("", wire=wire, retries=QUICK)
        b = Bench(endpoint, model, streamed)
        async with asyncio.timeout(10):
            assert (await b.ask()).message.text == "awake"
        if streamed:
            assert "not a byte for 0.05 s" in b.sink.retries[0]["reason"]
        await model.aclose()


async def test_a_slow_stream_that_keeps_talking_is_not_silent() -> None:
    """[WIRE-30] The limit counts from the last byte: there is none on the whole request."""
    lines = openai_chunks(*[{"content": "x"}] * 12, finish="stop")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for line in lines:
            writer.write(line.encode())
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = Case(OPENAI).model("", wire=HttpWire(f"http://127.0.0.1:{port}", silence=0.4), retries=0)
    sink = Sink()
    async with asyncio.timeout(10):
        response = await model.generate(ModelRequest(messages=(user("x"),), sink=sink))
    assert response.message.text == "x" * 12
    await model.aclose()
    server.close()
    await server.wait_closed()


async def test_a_connection_that_is_not_accepted_is_given_up() -> None:
    """[WIRE-30] Connecting may take `connect` seconds."""
    # An address for documentation: packets to it go nowhere.
    wire = HttpWire("http://192.0.2.1", {"authorization": f"Bearer {KEY}"}, connect=0.05)
    model = Case(OPENAI).model("", wire=wire, retries=0)
    async with asyncio.timeout(10):
        with pytest.raises(ModelConnectionError) as caught:
            await model.generate(ModelRequest(messages=(user("x"),)))
    await model.aclose()
    assert "192.0.2.1" in str(caught.value)
    assert KEY not in str(caught.value)
