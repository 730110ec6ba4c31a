"""What only its endpoint understands goes back to it unchanged, and to nobody else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.models.support import ALL, ANTHROPIC, OPENAI, Bench, Case, bench
from toolnexus.core.messages import Message, OpaquePart, ReasoningPart, TextPart, ToolResultPart, user
from toolnexus.core.wire import message_from_json, message_to_json
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

OPENAI_CASES = [case for case in ALL if case.style == OPENAI]
ANTHROPIC_CASES = [case for case in ALL if case.style == ANTHROPIC]
SIGNATURE = "EqoBCkgIARAB/+9aZ==/a+b/c=" * 40
THOUGHT = 'Let me think…\n\n 1 < 2 & "quoted" \\ 🌍'
CALL = {"id": "c1", "name": "look", "args": {"q": "x"}}


def answered(message: Message) -> list[Message]:
    results = tuple([ToolResultPart(c.id, "found") for c in message.tool_calls])
    return (
        [user("hi"), message, Message("tool", results)] if results else [user("hi"), message, user("go on")]
    )


def stored(message: Message) -> Message:
    """The message as a store gives it back."""
    return message_from_json(json.loads(json.dumps(message_to_json(message))))


@pytest.mark.parametrize("case", ANTHROPIC_CASES, ids=str)
async def test_thinking_goes_back_byte_for_byte(case: Case) -> None:
    """[WIRE-13] Signed thinking returns to its endpoint unchanged, also through a store."""
    turn = Turn(thinking=(THOUGHT, SIGNATURE), redacted="gAAA+/==", text="so", calls=[CALL])
    async with bench(case, [turn, Turn(text="ok")]) as b:
        message = (await b.ask()).message
        assert isinstance(message.parts[0], ReasoningPart)
        assert message.parts[0].text == THOUGHT
        assert "".join(b.sink.thoughts) == (THOUGHT if case.streamed else "")
        await b.ask(*answered(stored(message)))
        assert b.bodies[1]["messages"][1]["content"] == [
            {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE},
            {"type": "redacted_thinking", "data": "gAAA+/=="},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "x"}},
        ]


@pytest.mark.parametrize("case", ANTHROPIC_CASES, ids=str)
async def test_thinking_without_words_is_kept_for_its_signature(case: Case) -> None:
    """[WIRE-13] A thinking block whose text is withheld goes back all the same."""
    async with bench(case, [Turn(thinking=("", SIGNATURE), text="so"), Turn(text="ok")]) as b:
        message = (await b.ask()).message
        await b.ask(*answered(message))
        block = {"type": "thinking", "thinking": "", "signature": SIGNATURE}
        assert b.bodies[1]["messages"][1]["content"][0] == block


async def test_unsigned_and_foreign_thinking_is_left_out() -> None:
    """[WIRE-13] Thinking without a signature, or of another endpoint, is not sent."""
    async with bench(Case(ANTHROPIC), [Turn(text="ok")]) as b:
        origin = b.model.origin
        parts = (
            ReasoningPart("unsigned", origin),
            ReasoningPart("elsewhere", "anthropic:api.example.com", {"signature": "s"}),
            OpaquePart("anthropic:api.example.com", {"type": "server_tool_use", "id": "x"}),
            TextPart("words"),
        )
        await b.ask(*answered(Message("assistant", parts, origin)))
        assert b.bodies[0]["messages"][1]["content"] == [{"type": "text", "text": "words"}]


async def test_a_message_that_becomes_empty_is_left_out_validly() -> None:
    """[WIRE-13] When nothing of a message may be sent, its neighbours become one user message."""
    nothing = Message("assistant", (ReasoningPart("elsewhere", "openai:other"),), "openai:other")
    async with bench(Case(ANTHROPIC), [Turn(text="ok")]) as b:
        await b.ask(user("one"), nothing, user("two"))
        (message,) = b.bodies[0]["messages"]
        assert [block["text"] for block in message["content"]] == ["one", "two"]


async def test_blank_texts_are_not_sent_to_an_endpoint_that_refuses_them() -> None:
    """[WIRE-13] Anthropic endpoints refuse blank texts; a message of nothing else says so."""
    blank = Message("assistant", (TextPart(" \n"), TextPart("words")))
    async with bench(Case(ANTHROPIC), [Turn(text="ok")]) as b:
        await b.ask(user(" "), blank, user("two"))
        first, second, _ = b.bodies[0]["messages"]
        assert first["content"][0]["text"] == "(empty)"
        assert [block["text"] for block in second["content"]] == ["words"]


async def test_a_history_that_starts_with_the_assistant_starts_with_the_user_on_the_wire() -> None:
    """[WIRE-13] The first wire message is the user's, and roles alternate."""
    async with bench(Case(ANTHROPIC), [Turn(text="ok")]) as b:
        messages = (Message("assistant", (TextPart("a"),)), Message("assistant", (TextPart("b"),)))
        await b.ask(*messages, user("c"), user("d"))
        sent = b.bodies[0]["messages"]
        assert [m["role"] for m in sent] == ["user", "assistant", "user"]
        assert [block["text"] for block in sent[1]["content"]] == ["a", "b"]
        assert [block["text"] for block in sent[2]["content"]] == ["c", "d"]


async def test_results_and_what_the_user_adds_are_one_message() -> None:
    """[WIRE-13] Tool results come first in one user message, the user's words behind them."""
    async with bench(Case(ANTHROPIC), [Turn(calls=[CALL]), Turn(text="ok")]) as b:
        message = (await b.ask()).message
        await b.ask(*answered(message), user("and hurry"))
        sent = b.bodies[1]["messages"]
        assert [m["role"] for m in sent] == ["user", "assistant", "user"]
        assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text"]


@pytest.mark.parametrize("case", ANTHROPIC_CASES, ids=str)
async def test_unknown_fields_of_a_tool_use_go_back(case: Case) -> None:
    """[WIRE-14] Fields that we do not know come back with the block they came with."""
    call = {**CALL, "extra": {"caller": {"type": "direct"}}}
    async with bench(case, [Turn(calls=[call]), Turn(text="ok")]) as b:
        message = (await b.ask()).message
        await b.ask(*answered(message))
        assert b.bodies[1]["messages"][1]["content"][0]["caller"] == {"type": "direct"}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("case", OPENAI_CASES, ids=str)
async def test_reasoning_goes_back_with_calls_only(case: Case, field: str) -> None:
    """[WIRE-14] Reasoning is echoed under its own name beside calls, and dropped beside plain text."""
    script = [
        Turn(calls=[CALL], extra={field: THOUGHT}),
        Turn(text="done", extra={field: THOUGHT}),
        Turn(text="ok"),
    ]
    async with bench(case, script) as b:
        with_call = (await b.ask()).message
        plain = (await b.ask(*answered(with_call))).message
        await b.ask(*answered(with_call), plain, user("more"))
        sent = b.bodies[2]["messages"]
        assert sent[1][field] == THOUGHT
        assert field not in sent[3]
        assert "".join(b.sink.thoughts) == (THOUGHT * 2 if case.streamed else "")


@pytest.mark.parametrize("case", OPENAI_CASES, ids=str)
async def test_vendor_fields_of_calls_and_messages_go_back(case: Case) -> None:
    """[WIRE-14] `extra_content` and other unknown fields return to the host that sent them."""
    signed = {"extra_content": {"google": {"thought_signature": SIGNATURE}}, "rank": 3}
    details = [{"type": "reasoning.encrypted", "index": 0, "data": SIGNATURE}]
    extra = {"reasoning_details": details, "annotations": [{"type": "url_citation"}]}
    script = [Turn(calls=[{**CALL, "extra": signed}], extra=extra), Turn(text="ok")]
    async with bench(case, script) as b:
        message = (await b.ask()).message
        await b.ask(*answered(stored(message)))
        sent = b.bodies[1]["messages"][1]
        assert sent["tool_calls"][0]["extra_content"] == signed["extra_content"]
        assert sent["tool_calls"][0]["rank"] == 3
        assert sent["reasoning_details"] == details
        assert "annotations" not in sent


async def test_reasoning_details_are_put_together_from_a_stream() -> None:
    """[WIRE-14] Pieces of one unknown object grow together; other objects stay apart."""
    pieces = [
        [{"type": "reasoning.text", "index": 0, "text": "I ", "format": "v1"}],
        [{"type": "reasoning.text", "index": 0, "text": "think", "format": "v1"}],
        [{"type": "reasoning.text", "index": 0, "signature": "s+/="}],
        [{"type": "reasoning.encrypted", "index": 0, "data": "x"}],
    ]
    deltas: list[dict[str, Any]] = [{"reasoning_details": piece} for piece in pieces]
    lines = [chunk(delta) for delta in [*deltas, {"content": "hi"}]] + [chunk({}, "stop")]
    async with bench(Case(OPENAI, streamed=True), [Turn(sse=lines)]) as b:
        message = (await b.ask()).message
        assert message.extra == {
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "index": 0,
                    "text": "I think",
                    "format": "v1",
                    "signature": "s+/=",
                },
                {"type": "reasoning.encrypted", "index": 0, "data": "x"},
            ]
        }


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"


@pytest.mark.parametrize("case", OPENAI_CASES, ids=str)
@pytest.mark.parametrize("content", [None, ""])
async def test_content_beside_calls_goes_back_as_it_came(case: Case, content: str | None) -> None:
    """[WIRE-15] Some servers refuse null and some the empty text: each gets back what it gave."""
    async with bench(case, [Turn(text=content, calls=[CALL]), Turn(text="ok")]) as b:
        message = (await b.ask()).message
        await b.ask(*answered(stored(message)))
        sent = b.bodies[1]["messages"][1]
        assert "content" in sent
        assert sent["content"] == content


async def test_content_is_null_beside_calls_of_others_and_never_null_without_calls() -> None:
    """[WIRE-15] Null is the default beside calls; without calls an empty text is sent."""
    async with bench(Case(ANTHROPIC), [Turn(calls=[CALL])]) as b:
        foreign = (await b.ask()).message
    async with bench(Case(OPENAI), [Turn(text="ok")]) as b:
        await b.ask(*answered(foreign), Message("assistant", ()), user("more"))
        sent = b.bodies[0]["messages"]
        assert sent[1]["content"] is None
        assert sent[3]["content"] == ""


@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_nothing_opaque_reaches_another_endpoint_of_the_same_style(style: str) -> None:
    """[WIRE-14] The origin is style and host: the same style elsewhere gets none of it."""
    turn = (
        Turn(reasoning=THOUGHT, calls=[{**CALL, "extra": {"extra_content": {"a": 1}}}], extra={"odd": 1})
        if style == OPENAI
        else Turn(thinking=(THOUGHT, SIGNATURE), redacted="x", calls=[{**CALL, "extra": {"caller": 1}}])
    )
    async with bench(Case(style), [turn]) as b:
        message = (await b.ask()).message
        async with ScriptedEndpoint([Turn(text="ok")]) as other:
            model = Case(style).model(other.url)
            await Bench(other, model, streamed=False).ask(*answered(message))
            await model.aclose()
            text = other.requests[0].raw.decode()
            for secret in ("reasoning", "extra_content", "odd", "signature", "redacted", "caller"):
                assert secret not in text


@pytest.mark.parametrize("case", ANTHROPIC_CASES, ids=str)
async def test_thinking_that_no_longer_fits_its_history_is_given_up(case: Case) -> None:
    """[WIRE-16] When an endpoint finds its thinking bound to another history, the request goes out
    once more without it, and later thinking is kept."""
    stale = "messages.1.content.0: Invalid `signature`. The block is bound to a different conversation."
    error = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": stale}})
    script = [
        Turn(thinking=(THOUGHT, SIGNATURE), calls=[CALL]),
        Turn(status=400, body=error),
        Turn(thinking=("new", "sig2"), text="fresh"),
        Turn(text="ok"),
    ]
    async with bench(case, script) as b:
        first = (await b.ask()).message
        history = answered(first)
        second = (await b.ask(*history)).message
        assert second.text == "fresh"
        assert len(b.sink.retries) == (1 if case.streamed else 0)
        await b.ask(*history, second, user("more"))
        kinds = [[block["type"] for block in body["messages"][1]["content"]] for body in b.bodies[1:]]
        assert kinds == [["thinking", "tool_use"], ["tool_use"], ["tool_use"]]
        assert b.bodies[3]["messages"][3]["content"][0]["signature"] == "sig2"


@pytest.mark.parametrize("case", ANTHROPIC_CASES, ids=str)
async def test_a_paused_reply_goes_back_for_more(case: Case) -> None:
    """[WIRE-14] Blocks that only the endpoint understands come back in their place."""
    used = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "x"}}
    script = [Turn(extra={"content": [used]}, finish="pause_turn"), Turn(text="ok")]
    if case.streamed:
        lines: list[dict[str, Any]] = [
            {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {**used, "input": {}}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
        script[0] = Turn(sse=[f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in lines])
    async with bench(case, script) as b:
        response = await b.ask()
        assert response.stop == "paused"
        await b.ask(user("hi"), stored(response.message))
        assert b.bodies[1]["messages"][1]["content"] == [used]
