"""Replies with values of the wrong type, and calls of names that nobody can have meant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.models.support import ALL, ANTHROPIC, OPENAI, Case, bench
from toolnexus import AnthropicModel, Client, OpenAIModel, SqliteStore, tool
from toolnexus.core.messages import Message, ToolCallPart, ToolResultPart, user
from toolnexus.errors import ModelResponseError
from toolnexus.models.hosted import HostedModel
from toolnexus.models.ids import wire_name
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

every_case = pytest.mark.parametrize("case", ALL, ids=str)
TAKEN_BACK = re.compile(r"[A-Za-z0-9_-]{1,64}")
ODD_NAMES = ("", "écho 👍", "functions.echo", "n" * 300)


@tool
def echo() -> str:
    """Say E."""
    return "E"


@every_case
@pytest.mark.parametrize("id", [7, ["x"], 1.5, True, {}], ids=repr)
async def test_an_id_that_is_no_text_counts_as_missing(case: Case, id: Any) -> None:
    """[WIRE-42] A call whose id is no text gets one from its position."""
    calls = [{"id": "a", "name": "echo"}, {"id": id, "name": "echo", "args": {"n": 1}}]
    async with bench(case, [Turn(calls=calls)]) as b:
        got = (await b.ask()).message.tool_calls
        assert [(c.id, c.name, json.loads(c.arguments)) for c in got] == [
            ("a", "echo", {}),
            ("call_1", "echo", {"n": 1}),
        ]


@every_case
@pytest.mark.parametrize("name", [5, ["x"], {"a": 1}, True], ids=repr)
async def test_a_name_that_is_no_text_is_a_wrong_reply(case: Case, name: Any) -> None:
    """[WIRE-42] A call whose name is no text makes the reply one of another shape."""
    async with bench(case, [Turn(calls=[{"id": "a", "name": name}])]) as b:
        with pytest.raises(ModelResponseError, match="another shape: 'name' is no text"):
            await b.ask()
        assert len(b.bodies) == 1


WRONG_BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": 5},
    {"type": "thinking", "thinking": 5, "signature": "s"},
    {"type": "thinking", "thinking": "x", "signature": ["s"]},
]
WRONG_DELTAS: list[dict[str, Any]] = [
    {"type": "text_delta", "text": 5},
    {"type": "thinking_delta", "thinking": 5},
    {"type": "signature_delta", "signature": 5},
    {"type": "input_json_delta", "partial_json": 5},
]


@pytest.mark.parametrize("block", WRONG_BLOCKS, ids=json.dumps)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_block_whose_text_is_none_is_a_wrong_reply(block: dict[str, Any], streamed: bool) -> None:
    """[WIRE-42] Text, thinking and signatures of a block are texts, whole or at the start of a stream."""
    body = json.dumps({"type": "message", "content": [block], "stop_reason": "end_turn"})
    events = [sse({"type": "content_block_start", "index": 0, "content_block": block}), END]
    turn = Turn(sse=events) if streamed else Turn(body=body)
    async with bench(Case(ANTHROPIC, streamed=streamed), [turn]) as b:
        with pytest.raises(ModelResponseError, match="is no text but"):
            await b.ask()
        assert (b.sink.texts, b.sink.thoughts) == ([], [])


@pytest.mark.parametrize("delta", WRONG_DELTAS, ids=json.dumps)
async def test_a_delta_that_is_no_text_is_a_wrong_reply(delta: dict[str, Any]) -> None:
    """[WIRE-42] Nothing but text is ever handed on from a stream or put into a message."""
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "so "}}
    events = [sse(start), sse({"type": "content_block_delta", "index": 0, "delta": delta}), END]
    async with bench(Case(ANTHROPIC, streamed=True), [Turn(sse=events)]) as b:
        with pytest.raises(ModelResponseError, match="is no text but int"):
            await b.ask()
        assert (b.sink.texts, b.sink.thoughts) == (["so "], [])


@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning", "refusal"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_text_field_of_another_type_is_a_wrong_reply(field: str, streamed: bool) -> None:
    """[WIRE-42] Content, reasoning and refusal of a chat completion are texts or the reply is wrong."""
    choice = {"delta" if streamed else "message": {"role": "assistant", field: 5}, "finish_reason": "stop"}
    reply: dict[str, Any] = {"choices": [choice]}
    turn = Turn(sse=[sse(reply)]) if streamed else Turn(body=json.dumps(reply))
    async with bench(Case(OPENAI, streamed=streamed), [turn]) as b:
        with pytest.raises(ModelResponseError, match="another shape"):
            await b.ask()
        assert (b.sink.texts, b.sink.thoughts) == ([], [])


def sse(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"


END = sse({"type": "message_stop"})


@pytest.mark.parametrize("cls", [OpenAIModel, AnthropicModel])
@pytest.mark.parametrize("id", [7, ["x"], None], ids=repr)
async def test_a_conversation_survives_ids_of_another_type(
    cls: type[HostedModel], id: Any, tmp_path: Path
) -> None:
    """[WIRE-42] What a wrong id leaves in the store is read again and goes on."""
    script = [Turn(calls=[{"id": id, "name": "echo"}]), Turn(text="one"), Turn(text="two")]
    async with ScriptedEndpoint(script) as endpoint:
        for answer in ("one", "two"):
            model = cls("m", base_url=endpoint.url, api_key="none-at-all")
            store = SqliteStore(tmp_path / "s.db")
            async with Client(model=model, tools=[echo], builtins=False, store=store) as client:
                assert (await client.ask("hi", conversation="a")).text == answer


@every_case
@pytest.mark.parametrize("name", ODD_NAMES, ids=["empty", "unicode", "dotted", "long"])
async def test_a_called_name_goes_back_in_a_form_that_every_endpoint_takes(case: Case, name: str) -> None:
    """[WIRE-43] The history holds a stable stand-in for a name outside the pattern; our record keeps it."""
    async with bench(case, [Turn(calls=[{"id": "a", "name": name}]), Turn(text="x"), Turn(text="x")]) as b:
        message = (await b.ask()).message
        assert message.tool_calls[0].name == name
        for _ in range(2):
            await b.ask(user("hi"), message, Message("tool", (ToolResultPart("a", "unknown tool"),)))
            b.memo.clear()
        sent = [sent_name(case, body) for body in b.bodies[1:]]
        assert sent[0] == sent[1] == wire_name(name)
        assert TAKEN_BACK.fullmatch(sent[0])


def sent_name(case: Case, body: dict[str, Any]) -> str:
    message = body["messages"][1]
    if case.style == OPENAI:
        return message["tool_calls"][0]["function"]["name"]
    return message["content"][0]["name"]


def test_stand_ins_of_different_names_differ() -> None:
    """[WIRE-43] A valid name stays as it is; no two names share a stand-in."""
    assert wire_name("read_file-2") == "read_file-2" and wire_name("n" * 64) == "n" * 64
    names = [*ODD_NAMES, "a.b", "a b", "a/b", "n" * 301, "\ud800"]
    stand_ins = {wire_name(name) for name in names}
    assert len(stand_ins) == len(names)
    assert all(TAKEN_BACK.fullmatch(name) for name in stand_ins)


@pytest.mark.parametrize("name", ODD_NAMES, ids=["empty", "unicode", "dotted", "long"])
async def test_a_conversation_survives_a_name_that_nobody_offered(name: str) -> None:
    """[WIRE-43] An endpoint that checks names in the history answers again after an odd one."""

    def strict(body: dict[str, Any]) -> Turn:
        calls = [c for m in body["messages"] for c in m.get("tool_calls") or ()]
        if not all(TAKEN_BACK.fullmatch(c["function"]["name"]) for c in calls):
            return Turn(status=400)
        return Turn(text=f"{len(calls)} calls") if calls else Turn(calls=[ToolCallPart("", name)])

    async with ScriptedEndpoint(strict) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.url)
        async with Client(model=model, tools=[echo], builtins=False) as client:
            for _ in range(2):
                assert (await client.ask("hi", conversation="a")).text == "1 calls"
