"""What a reply becomes, the same for every style, wire and way of answering."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.models.support import ALL, ANTHROPIC, OPENAI, Case, bench
from toolnexus.core.messages import Message, TextPart, ToolCallPart, ToolResultPart, user
from toolnexus.core.model import StopReason
from toolnexus.core.usage import Usage
from toolnexus.errors import ConfigError, ModelHTTPError, ModelResponseError
from toolnexus.testing import Turn

pytestmark = pytest.mark.anyio

TEXT_ARGUMENTS = [case for case in ALL if case.streamed or case.style == OPENAI]
"""Where a model's arguments come as text: a whole Anthropic reply holds an object."""
every_case = pytest.mark.parametrize("case", ALL, ids=str)
CALLS: tuple[dict[str, Any], ...] = (
    {"id": "c1", "name": "look", "args": {"q": "ä", "n": 1}},
    {"id": "c2", "name": "look", "args": {}},
    {"id": "c3", "name": "find", "args": {"deep": {"a": [1, 2]}}},
)


@every_case
async def test_a_text_reply_is_a_message_with_its_usage(case: Case) -> None:
    """[WIRE-01] Text, usage, stop and origin are the same whole or streamed; deltas join to the text."""
    text = "Grüße, 世界 🌍! " * 20
    async with bench(case, [Turn(text=text, usage=(7, 3))]) as b:
        response = await b.ask(user("hi"), system="Be brief.")
        assert response.message == Message("assistant", (TextPart(text),), b.model.origin)
        assert response.usage == Usage(prompt_tokens=7, completion_tokens=3)
        assert response.stop == "stop"
        assert response.model is None
        assert b.sink.said == (text if case.streamed else "")
        assert b.bodies[0]["model"] == "m"
        assert b.bodies[0].get("stream", False) is case.streamed


@every_case
async def test_the_endpoint_streams_only_for_a_reader(case: Case) -> None:
    """[WIRE-02] A request without a sink never asks for a stream."""
    async with bench(case, [Turn(text="a"), Turn(text="b")]) as b:
        b.streamed = False
        await b.ask()
        b.streamed = True
        await b.ask()
        assert [body.get("stream", False) for body in b.bodies] == [False, True]
        assert b.sink.said == "b"


@every_case
async def test_parallel_calls_come_in_order_with_their_own_arguments(case: Case) -> None:
    """[WIRE-03] Every call of a reply is given, in order, with id, name and arguments."""
    async with bench(case, [Turn(text="two things", calls=CALLS)]) as b:
        response = await b.ask()
        assert response.stop == "tool_calls"
        assert response.message.text == "two things"
        got = [(c.id, c.name, json.loads(c.arguments)) for c in response.message.tool_calls]
        assert got == [(c["id"], c["name"], c["args"]) for c in CALLS]


@every_case
async def test_results_go_back_in_call_order(case: Case) -> None:
    """[WIRE-04] Results follow their calls in call order, in the form of the style."""
    calls = (ToolCallPart("c1", "look", '{"q":"x"}'), ToolCallPart("c2", "look"))
    results = (ToolResultPart("c1", "one"), ToolResultPart("c2", "no such file", is_error=True))
    async with bench(case, [Turn(text="done")]) as b:
        await b.ask(user("go"), Message("assistant", calls), Message("tool", results))
        messages = b.bodies[0]["messages"]
        if case.style == OPENAI:
            assert messages[2:] == [
                {"role": "tool", "tool_call_id": "c1", "content": "one"},
                {"role": "tool", "tool_call_id": "c2", "content": "no such file"},
            ]
        else:
            assert len(messages) == 3
            assert messages[2]["role"] == "user"
            first, second = messages[2]["content"]
            assert (first["tool_use_id"], first["content"]) == ("c1", "one")
            assert (second["tool_use_id"], second["is_error"]) == ("c2", True)


@pytest.mark.parametrize("case", TEXT_ARGUMENTS, ids=str)
async def test_malformed_arguments_are_kept_and_go_back_as_an_object(case: Case) -> None:
    """[WIRE-05] The model's broken argument text is kept, and sent back whole inside a valid object."""
    broken = '{"path": "a'
    script = [Turn(calls=[{"id": "c1", "name": "read", "args": broken}]), Turn(text="sorry")]
    async with bench(case, script) as b:
        message = (await b.ask()).message
        assert message.tool_calls[0].arguments == broken
        await b.ask(user("hi"), message, Message("tool", (ToolResultPart("c1", "bad", is_error=True),)))
        assert sent_arguments(case, b.bodies[1]) == {"_malformed_arguments": broken}


@pytest.mark.parametrize("case", [Case(OPENAI), Case(ANTHROPIC)], ids=str)
@pytest.mark.parametrize("text", ["[1]", '"x"', "1", "null", "NaN", '{"a": NaN}', '{"a": 1e999}', "{'a': 1}"])
async def test_arguments_that_are_no_json_object_are_wrapped(case: Case, text: str) -> None:
    """[WIRE-05] Whatever is not a JSON object goes back as a valid one."""
    message = Message("assistant", (ToolCallPart("c1", "read", text),))
    async with bench(case, [Turn(text="ok")]) as b:
        await b.ask(user("hi"), message, Message("tool", (ToolResultPart("c1", "bad"),)))
        assert sent_arguments(case, b.bodies[0]) == {"_malformed_arguments": text}


def sent_arguments(case: Case, body: dict[str, Any]) -> Any:
    message = body["messages"][1]
    if case.style == OPENAI:
        return json.loads(message["tool_calls"][0]["function"]["arguments"])
    return message["content"][0]["input"]


@every_case
async def test_empty_arguments_are_an_empty_object(case: Case) -> None:
    """[WIRE-05] No argument text is `{}`."""
    args: Any = {} if case.style == ANTHROPIC and not case.streamed else ""
    async with bench(case, [Turn(calls=[{"id": "c1", "name": "now", "args": args}])]) as b:
        assert (await b.ask()).message.tool_calls[0].arguments == "{}"


@every_case
async def test_missing_ids_are_filled_in(case: Case) -> None:
    """[WIRE-06] A call without an id gets one from its position."""
    script = [Turn(calls=[{"name": "a"}, {"name": "b"}])]
    async with bench(case, script) as b:
        calls = (await b.ask()).message.tool_calls
        assert [(c.id, c.name) for c in calls] == [("call_0", "a"), ("call_1", "b")]


@pytest.mark.parametrize("case", [Case(OPENAI), Case(ANTHROPIC)], ids=str)
async def test_ids_are_made_safe_and_stay_a_pair(case: Case) -> None:
    """[WIRE-06] Ids that an endpoint would refuse become stable ones of at most 40 safe characters."""
    odd = ["call_0~2", "x" * 90, "a.b/c d", "ünï", "fine-1_A"]
    message = Message("assistant", tuple([ToolCallPart(id, "t") for id in odd]))
    results = Message("tool", tuple([ToolResultPart(id, "r") for id in odd]))
    async with bench(case, [Turn(text="ok"), Turn(text="ok")]) as b:
        await b.ask(user("hi"), message, results)
        b.memo.clear()
        await b.ask(user("hi"), message, results)
        first, second = [ids(case, body) for body in b.bodies]
        assert first == second
        called, answered = first
        assert called == answered
        assert len(set(called)) == len(odd)
        assert all(1 <= len(id) <= 40 for id in called)
        assert all(c.isascii() and (c.isalnum() or c in "_-") for id in called for c in id)
        assert called[4] == "fine-1_A"


def ids(case: Case, body: dict[str, Any]) -> tuple[list[str], list[str]]:
    messages = body["messages"]
    if case.style == OPENAI:
        return [c["id"] for c in messages[1]["tool_calls"]], [m["tool_call_id"] for m in messages[2:]]
    return [c["id"] for c in messages[1]["content"]], [r["tool_use_id"] for r in messages[2]["content"]]


@every_case
async def test_cached_tokens_are_part_of_the_prompt(case: Case) -> None:
    """[WIRE-07] Cache and reasoning tokens are counted inside prompt and completion tokens."""
    raw = (
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 15},
        }
        if case.style == OPENAI
        else {
            "input_tokens": 30,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 10,
            "output_tokens": 20,
        }
    )
    async with bench(case, [Turn(text="ok", usage=raw)]) as b:
        usage = (await b.ask()).usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (100, 20, 60)
        assert usage.cache_write_tokens == (0 if case.style == OPENAI else 10)
        assert usage.reasoning_tokens == (15 if case.style == OPENAI else 0)
        assert usage.requests == 0


@every_case
async def test_unreported_usage_is_unknown_not_zero(case: Case) -> None:
    """[WIRE-07] An endpoint that reports no usage gives None."""
    async with bench(case, [Turn(text="ok", usage=None)]) as b:
        response = await b.ask()
        assert response.message.text == "ok"
        assert response.usage is None


STOPS: dict[str, list[tuple[str, StopReason]]] = {
    OPENAI: [("stop", "stop"), ("length", "length"), ("content_filter", "refusal"), ("eos", "stop")],
    ANTHROPIC: [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "paused"),
    ],
}


@every_case
async def test_stop_reasons_are_mapped(case: Case) -> None:
    """[WIRE-08] Each style's stop reasons become ours; an unknown one is a plain stop."""
    reasons = STOPS[case.style]
    async with bench(case, [Turn(text="ok", finish=word) for word, _ in reasons]) as b:
        assert [(await b.ask()).stop for _ in reasons] == [ours for _, ours in reasons]


@every_case
async def test_calls_cut_by_the_length_limit_say_so(case: Case) -> None:
    """[WIRE-08] A reply that ran out of tokens is `length` also when it holds calls."""
    finish = "length" if case.style == OPENAI else "max_tokens"
    async with bench(case, [Turn(calls=[{"id": "c", "name": "t", "args": {}}], finish=finish)]) as b:
        response = await b.ask()
        assert response.stop == "length"
        assert len(response.message.tool_calls) == 1


@pytest.mark.parametrize("case", [c for c in ALL if c.style == OPENAI], ids=str)
async def test_calls_beside_a_plain_stop_are_calls(case: Case) -> None:
    """[WIRE-08] A server that says `stop` beside its calls still called tools."""
    script = [Turn(calls=[{"id": "c", "name": "t"}], finish="stop")]
    async with bench(case, script) as b:
        assert (await b.ask()).stop == "tool_calls"


@pytest.mark.parametrize("case", [c for c in ALL if c.style == OPENAI], ids=str)
async def test_a_refusal_is_text_and_goes_back_as_a_refusal(case: Case) -> None:
    """[WIRE-08] The words of a refusal are the reply's text, its stop is `refusal`."""
    async with bench(case, [Turn(refusal="I will not."), Turn(text="ok")]) as b:
        response = await b.ask()
        assert (response.stop, response.message.text) == ("refusal", "I will not.")
        assert b.sink.said == ("I will not." if case.streamed else "")
        await b.ask(user("hi"), response.message, user("please"))
        sent = b.bodies[1]["messages"][1]
        assert (sent["content"], sent["refusal"]) == (None, "I will not.")


@pytest.mark.parametrize("streamed", [False, True])
async def test_only_the_first_of_several_choices_is_read(streamed: bool) -> None:
    """[WIRE-11] A server that gives more than one choice is read by its first."""
    part = "delta" if streamed else "message"
    choices = [{"index": i, part: {"content": f"choice {i}"}, "finish_reason": "stop"} for i in (0, 1)]
    body = json.dumps({"choices": choices})
    turn = Turn(sse=[f"data: {body}\n\n"]) if streamed else Turn(body=body)
    async with bench(Case(OPENAI, "http", streamed), [turn]) as b:
        assert (await b.ask()).message.text == "choice 0"


@every_case
async def test_without_tools_their_keys_are_left_out(case: Case) -> None:
    """[WIRE-09] A request without tools has neither `tools` nor `tool_choice`."""
    params = {"tool_choice": {"type": "auto"}}
    async with bench(case, [Turn(text="ok")], params=params) as b:
        await b.ask()
        assert not {"tools", "tool_choice"} & b.bodies[0].keys()


@every_case
async def test_params_win_and_body_transform_has_the_last_look(case: Case) -> None:
    """[WIRE-10] `params` replace defaults in every body; `body_transform` changes the finished body."""

    def transform(body: dict[str, Any]) -> dict[str, Any]:
        assert body["max_tokens"] == 5
        return {**body, "metadata": {"user_id": str(len(body["messages"]))}}

    params = {"max_tokens": 5, "temperature": 0.5}
    async with bench(case, [Turn(text="ok")], params=params, body_transform=transform) as b:
        await b.ask()
        body = b.bodies[0]
        assert (body["max_tokens"], body["temperature"]) == (5, 0.5)
        assert body["metadata"] == {"user_id": "1"}


@pytest.mark.parametrize("key", ["messages", "tools", "stream"])
@pytest.mark.parametrize("case", [Case(OPENAI), Case(ANTHROPIC)], ids=str)
def test_params_that_are_ours_are_refused(case: Case, key: str) -> None:
    """[WIRE-10] `messages`, `tools` and `stream` are no params."""
    with pytest.raises(ConfigError, match=key):
        case.model("http://127.0.0.1:1", params={key: []})


@every_case
async def test_an_error_in_a_good_answer_is_an_error(case: Case) -> None:
    """[WIRE-11] An error object that comes as data, in a reply or as an event, is raised as an error."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}
    turn = Turn(sse=[f"data: {json.dumps(error)}\n\n"]) if case.streamed else Turn(body=json.dumps(error))
    async with bench(case, [turn]) as b:
        with pytest.raises(ModelHTTPError, match="too long") as caught:
            await b.ask()
        assert (caught.value.status, caught.value.retryable) == (400, False)
        assert len(b.bodies) == 1


@every_case
@pytest.mark.parametrize("body", ["<html>oops</html>", "[]", "", '{"choices": null}', '{"content": null}'])
async def test_an_answer_of_another_shape_is_named(case: Case, body: str) -> None:
    """[WIRE-11] A good status with a body that is no reply is a `ModelResponseError`."""
    async with bench(case, [Turn(body=body)]) as b:
        b.streamed = False
        with pytest.raises(ModelResponseError, match=r"127\.0\.0\.1"):
            await b.ask()


@every_case
@pytest.mark.parametrize("shape", ['{"choices": [7]}', '{"type": "message", "content": [7]}'])
async def test_a_reply_with_wrong_types_inside_is_named(case: Case, shape: str) -> None:
    """[WIRE-11] Wrong types deep inside a reply never raise a bare Python error."""
    async with bench(case, [Turn(body=shape)]) as b:
        b.streamed = False
        with pytest.raises(ModelResponseError):
            await b.ask()


@every_case
async def test_an_endpoint_that_does_not_stream_is_read_whole(case: Case) -> None:
    """[WIRE-12] A plain JSON reply to a request for a stream is taken as the reply."""
    reply = (
        {"choices": [{"message": {"role": "assistant", "content": "plain"}, "finish_reason": "stop"}]}
        if case.style == OPENAI
        else {"type": "message", "content": [{"type": "text", "text": "plain"}], "stop_reason": "end_turn"}
    )
    async with bench(case, [Turn(body=json.dumps(reply))]) as b:
        b.streamed = True
        assert (await b.ask()).message.text == "plain"
        assert b.sink.said == "plain"
