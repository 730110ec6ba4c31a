"""What is written down is read back the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus import MediaPart, Message, TextPart, ToolCallPart, ToolResultPart, user
from toolnexus.core.messages import OpaquePart, Part, ReasoningPart, Role, close_transcript
from toolnexus.core.wire import message_from_json, message_to_json
from toolnexus.models.anthropic_reply import AnthropicReading
from toolnexus.models.anthropic_request import Turns
from toolnexus.models.chat.messages import read_messages
from toolnexus.models.openai_reply import OpenAIReading
from toolnexus.models.openai_request import encode_message
from toolnexus.runtime.redact import Redactor
from toolnexus.stores.records import read_records, records_of

HERE = {"openai": "openai:example.com", "anthropic": "anthropic:example.com"}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SAID = TEXTS.filter(str.strip)
IDS = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
EXTRA = st.none() | OBJECTS
MEDIA = st.sampled_from(
    [
        MediaPart("image/png", data="iVBORw0KGgo="),
        MediaPart("audio/wav", data="UklGRgAAAABXQVZF", name="a.wav"),
        MediaPart("application/pdf", data="JVBERi0=", name="a.pdf"),
        MediaPart("image/jpeg", url="https://example.com/a.jpg"),
    ]
)
CALLS = st.builds(ToolCallPart, IDS, NAMES, OBJECTS.map(json.dumps))
ODD_CALLS = st.builds(ToolCallPart, SAID, SAID, TEXTS, EXTRA)
RESULTS = st.builds(ToolResultPart, SAID, TEXTS, st.booleans(), st.lists(MEDIA, max_size=2).map(tuple))


@st.composite
def messages(draw: st.DrawFn, texts: st.SearchStrategy[Part], *more: st.SearchStrategy[Part]) -> Message:
    role: Role = draw(st.sampled_from(["user", "assistant", "tool"]))
    kinds = {"user": [texts, MEDIA], "assistant": [texts, ODD_CALLS, *more], "tool": [RESULTS]}[role]
    parts = draw(st.lists(st.one_of(kinds), min_size=1, max_size=4))
    return Message(role, tuple(parts))


THOUGHTS = st.builds(ReasoningPart, TEXTS, SAID, EXTRA)
BLOCKS = st.builds(OpaquePart, SAID.filter(lambda origin: origin != "data"), OBJECTS)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(messages(st.builds(TextPart, TEXTS, EXTRA), THOUGHTS, BLOCKS), st.none() | TEXTS, EXTRA)
def test_stores_give_back_what_they_were_given(message: Message, origin: str | None, extra: Any) -> None:
    """[ROB-06] A message of any parts is the same after a record of a store."""
    whole = Message(message.role, message.parts, origin, extra)
    assert message_from_json(json.loads(json.dumps(message_to_json(whole)))) == whole
    kept, broken = read_records(enumerate(records_of("c", [whole])))
    assert (list(kept), list(broken)) == ([whole], [])


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    messages(
        st.builds(TextPart, TEXTS),
        THOUGHTS,
        BLOCKS,
        st.builds(OpaquePart, st.just("data"), st.fixed_dictionaries({"value": JSON})),
    )
)
def test_the_content_of_graphs_is_the_same_behind_json(message: Message) -> None:
    """[ROB-06] A message of any parts is the same after the wire form of graphs and their scripts."""
    wire = json.loads(json.dumps(message.to_wire()))
    assert Message.from_wire(wire) == message
    assert Message.from_wire(wire).to_wire() == wire


@st.composite
def transcripts(draw: st.DrawFn) -> tuple[Message, ...]:
    """Plain messages as every endpoint takes them: no thoughts, no provider's fields, ids that all differ."""
    ids = iter(draw(st.lists(IDS, min_size=6, max_size=6, unique=True)))
    out = [user(draw(SAID))]
    for _ in range(draw(st.integers(0, 2))):
        calls = [
            ToolCallPart(next(ids), draw(NAMES), json.dumps(draw(OBJECTS)))
            for _ in range(draw(st.integers(1, 3)))
        ]
        head = draw(st.lists(st.builds(TextPart, SAID), max_size=1))
        out.append(Message("assistant", (*head, *calls)))
        results = tuple([ToolResultPart(c.id, draw(TEXTS)) for c in calls])
        out.append(Message("tool", results))
        if draw(st.booleans()):
            out += [Message("assistant", (TextPart(draw(SAID)),)), user(draw(SAID))]
    return close_transcript(out, "-")


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(transcripts())
def test_chat_completions_are_read_as_they_are_written(transcript: tuple[Message, ...]) -> None:
    """[ROB-07] A transcript that goes out as chat completions comes in as the same one."""
    body = b"[" + b",".join([encode_message(message, HERE["openai"]) for message in transcript]) + b"]"
    assert read_messages(json.loads(body)) == ("", transcript)


REPLIES = st.tuples(
    st.lists(st.builds(TextPart, SAID), max_size=1), st.lists(CALLS, max_size=3, unique_by=lambda c: c.id)
).filter(any)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(REPLIES, OBJECTS)
def test_a_reply_is_read_as_it_goes_back(
    parts: tuple[list[TextPart], list[ToolCallPart]], odd: dict[str, Any]
) -> None:
    """[ROB-07] What a model said, sent back to it in either style and read again as its reply, is the same:
    text, calls, arguments as JSON, and on Anthropic's style its signed thoughts."""
    texts, calls = parts
    origin = HERE["openai"]
    said = Message("assistant", (*texts, *calls), origin)
    wire = json.loads(encode_message(said, origin))
    reading = OpenAIReading(origin, None, Redactor())
    reading.feed({"choices": [{"message": wire, "finish_reason": "stop"}]})
    assert reading.response().message == said

    origin = HERE["anthropic"]
    thought = ReasoningPart(
        "so", origin, {"signature": "s", **{f"x-{k}": v for k, v in odd.items() if v is not None}}
    )
    said = Message("assistant", (thought, *texts, *calls), origin)
    _, blocks = json.loads(b"[" + b",".join(Turns(origin).all([user("hi"), said])) + b"]")
    again = AnthropicReading(origin, None, Redactor())
    again.feed({"type": "message", "content": blocks["content"], "stop_reason": "end_turn"})
    read = again.response().message
    assert _comparable(read) == _comparable(said)


def _comparable(message: Message) -> list[Any]:
    return [
        (p.id, p.name, json.loads(p.arguments)) if isinstance(p, ToolCallPart) else p for p in message.parts
    ]
