"""Transcripts with everything in them that a cut could tear apart."""

from __future__ import annotations

from collections.abc import Sequence

from toolnexus import MediaPart, Message, TextPart, ToolCallPart, ToolResultPart, assistant, tool, user
from toolnexus.core.messages import OpaquePart, ReasoningPart

PIXEL = MediaPart("image/png", data="iVBORw0KGgo=")


@tool
async def look(q: str) -> str:
    """Look at something."""
    return f"saw {q}: " + "x" * 300


def batch(n: int, origin: str, *, calls: int = 1, media: bool = False) -> list[Message]:
    """One round: thinking, text, calls, and their results."""
    thought = ReasoningPart(f"hm {n}", origin, {"signature": f"sig{n}"})
    made = [ToolCallPart(f"c{n}_{i}", "look", f'{{"q": "{n}.{i}"}}') for i in range(calls)]
    shown = (PIXEL,) if media else ()
    results = [ToolResultPart(c.id, f"saw {c.id}", is_error=i == 1, media=shown) for i, c in enumerate(made)]
    return [
        Message("assistant", (thought, TextPart(f"I look {n}"), *made), origin),
        Message("tool", tuple(results)),
    ]


def everything(origin: str) -> list[Message]:
    """Several asks with parallel calls, thinking, media, a pause, a nudge and an interruption."""
    server = OpaquePart(origin, {"type": "redacted_thinking", "data": "x"})
    return [
        user("ask one"),
        *batch(1, origin, calls=3),
        *batch(2, origin, media=True),
        Message("assistant", (TextPart("answer one"),), origin),
        user([TextPart("ask two, see"), PIXEL]),
        *batch(3, origin, calls=2, media=True),
        Message("assistant", (server, TextPart("I paused")), origin),
        Message("assistant", (TextPart("and went on"), ToolCallPart("p1", "look", "{}")), origin),
        Message("tool", (ToolResultPart("p1", "saw p1"),)),
        user("be quick"),
        *batch(4, origin),
        assistant("answer two"),
        user("ask three"),
        user("and this"),
        *batch(5, origin, calls=4),
        *batch(6, origin),
        user("ask four"),
    ]


def last_request(messages: Sequence[Message]) -> str:
    """What the user said last, the neighbouring messages with it."""
    at = max(i for i, m in enumerate(messages) if m.role == "user")
    first = at
    while first and messages[first - 1].role == "user":
        first -= 1
    return "\n".join([m.text for m in messages[first : at + 1]])
