"""The one transcript model: what loops, stores and wires all carry.

Messages are pure values. Whatever a provider needs back and nobody else understands travels as
opaque data tagged with its `origin` and returns only to where it came from; a provider's wire
shapes never get further than `models/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from toolnexus.core.values import value

Role = Literal["user", "assistant", "tool"]


@value()
class TextPart:
    """Plain text."""

    text: str
    extra: Mapping[str, Any] | None = None
    """Opaque provider fields of this text (citations, …)."""


@value()
class MediaPart:
    """An image, an audio clip or a file: inline (`data`, base64) or by reference (`url`)."""

    mime_type: str
    data: str | None = None
    url: str | None = None
    name: str | None = None


@value()
class ReasoningPart:
    """What a model thought aloud. It goes back to its `origin` byte for byte, or nowhere."""

    text: str
    origin: str
    """The endpoint that wrote it: style and host, such as `anthropic:api.anthropic.com`."""
    extra: Mapping[str, Any] | None = None
    """Opaque provider fields (signature, field name, …)."""


@value()
class OpaquePart:
    """A block that only its `origin` understands; others never see it."""

    origin: str
    data: Mapping[str, Any]


@value()
class ToolCallPart:
    """One call of a tool, as the model wrote it.

    `id` is unique in the whole conversation. `arguments` is the model's own JSON text, malformed
    if the model's was; dispatch parses it.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: Mapping[str, Any] | None = None
    """Opaque provider fields of this call (thought signatures, …), sent back with it."""


@value()
class ToolResultPart:
    """The answer to one call."""

    call_id: str
    output: str
    is_error: bool = False
    media: tuple[MediaPart, ...] = ()


Part = TextPart | MediaPart | ReasoningPart | OpaquePart | ToolCallPart | ToolResultPart


@value()
class Message:
    """One entry of a transcript.

    `user`: text and media. `assistant`: text, reasoning, opaque blocks and tool calls in the
    order the model gave them. `tool`: the results of one batch, in call order.
    """

    role: Role
    parts: tuple[Part, ...]
    origin: str | None = None
    """For an assistant message: the endpoint that wrote it. None: anybody."""
    extra: Mapping[str, Any] | None = None
    """Opaque provider fields of the message itself, for its `origin` only."""

    @property
    def text(self) -> str:
        """All text parts joined; `""` when there are none."""
        return "".join([p.text for p in self.parts if isinstance(p, TextPart)])

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls of an assistant message, in order."""
        return tuple([p for p in self.parts if isinstance(p, ToolCallPart)])

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        """The results of a tool message, in call order."""
        return tuple([p for p in self.parts if isinstance(p, ToolResultPart)])


def user(content: str | Iterable[TextPart | MediaPart]) -> Message:
    """A user message from text, or from text and media parts."""
    return Message("user", (TextPart(content),) if isinstance(content, str) else tuple(content))


def assistant(text: str = "", *calls: ToolCallPart) -> Message:
    """An assistant message from text and calls."""
    head: tuple[Part, ...] = (TextPart(text),) if text else ()
    return Message("assistant", head + calls)


def close_transcript(
    messages: Iterable[Message], reason: str, known: Mapping[str, ToolResultPart] | None = None
) -> tuple[Message, ...]:
    """The same transcript with every tool call answered, so that any provider accepts it.

    A call without a result gets the one in `known`, or an error result that says `reason`.
    Results stand directly after their assistant message, in call order; a result without a call
    is dropped. Pure and synchronous: a second cancel cannot interrupt it.
    """
    out: list[Message] = []
    pending: tuple[ToolCallPart, ...] = ()
    found: dict[str, ToolResultPart] = {}

    def settle() -> None:
        nonlocal pending
        if pending:
            answers = [
                found.get(c.id) or (known or {}).get(c.id) or ToolResultPart(c.id, reason, is_error=True)
                for c in pending
            ]
            out.append(Message("tool", tuple(answers)))
            pending = ()
        found.clear()

    for message in messages:
        if message.role == "tool":
            found.update((r.call_id, r) for r in message.tool_results)
            continue
        settle()
        out.append(message)
        if message.role == "assistant":
            pending = message.tool_calls
    settle()
    return tuple(out)


Prompt = str | Message | TextPart | MediaPart | Sequence[Message] | Sequence[str | TextPart | MediaPart]
"""What may be asked: text, text and media parts, a message, or messages."""
