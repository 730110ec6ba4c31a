"""The one transcript model: what loops, stores and wires all carry.

Messages are pure values. Whatever a provider needs back and nobody else understands travels as
opaque data tagged with its `origin` and returns only to where it came from; a provider's wire
shapes never get further than `models/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from os import PathLike
from typing import Any, Literal

from toolnexus.core.values import value

Role = Literal["user", "assistant", "tool", "system"]


@value()
class TextPart:
    """Plain text."""

    text: str
    extra: Mapping[str, Any] | None = None
    """Opaque provider fields of this text (citations, …)."""


@value()
class MediaPart:
    """An image, a sound or a file: inline (`data`, base64) or by reference (`url`, http or https).

    `mime_type` may be left out where the content or the end of the address tells it; a label that
    the content belies is corrected. Raises `ConfigError` for what cannot be media: neither or both
    of data and url, text that is no base64, a data: URL, a kind that is none. It never looks at the
    size: what an endpoint does not take is a note to the model in its place.
    """

    mime_type: str = ""
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        from toolnexus.core.media_check import checked

        kind, content = checked(self.mime_type, self.data, self.url, self.name)
        object.__setattr__(self, "mime_type", kind)
        object.__setattr__(self, "data", content)

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], *, mime_type: str | None = None, name: str | None = None
    ) -> MediaPart:
        """An image, a PDF, a sound or a text file as a part, its kind told by content, then by name.

        Reads the file at once: call it from a thread when the loop must not wait for a disk. `name`
        is what models see, the file's own when None. Raises `ConfigError` for what cannot be read
        and for what no endpoint takes: images above 3,932,160 bytes (5 MiB in base64) or 8,000
        pixels on a side, other files above 20,000,000 bytes, and kinds that are none of PNG, JPEG,
        GIF, WebP, PDF, WAV, MP3 and UTF-8 text, unless `mime_type` names one.
        """
        from toolnexus.core.media_file import load

        kind, data, own_name = load(path, mime_type)
        return cls(kind, data=data, name=own_name if name is None else name)


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
    order the model gave them. `tool`: the results of one batch, in call order. `system`: stands only
    in the channels of a graph; a transcript has none, its system prompt is derived for each request.
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

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Message:
        """The message of `{role, content: {parts}}`, the form of graphs and their scripts.

        Raises `ValueError` that names what is unknown, missing or of the wrong type.
        """
        from toolnexus.core.content import message_from_wire

        return message_from_wire(data)

    def to_wire(self) -> dict[str, Any]:
        """`{role, content: {parts}}` as JSON values, the form of graphs and their scripts."""
        from toolnexus.core.content import message_to_wire

        return message_to_wire(self)


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
    Results stand directly after their assistant message, in call order, also those that came late,
    because another run wrote in between; a result without a call is dropped. Pure and synchronous: a
    second cancel cannot interrupt it.
    """
    messages, known = tuple(messages), known or {}
    out: list[Message] = []
    pending: tuple[ToolCallPart, ...] = ()
    found: dict[str, ToolResultPart] = {}
    unanswered: set[str] = set()
    late: dict[str, ToolResultPart] = {}

    def settle() -> None:
        nonlocal pending
        if pending:
            unanswered.update(c.id for c in pending if c.id not in found and c.id not in known)
            answers = [
                found.get(c.id) or known.get(c.id) or ToolResultPart(c.id, reason, is_error=True)
                for c in pending
            ]
            out.append(Message("tool", tuple(answers)))
            pending = ()
        found.clear()

    for message in messages:
        if message.role == "tool":
            found.update((r.call_id, r) for r in message.tool_results)
            if unanswered:
                late.update((r.call_id, r) for r in message.tool_results if r.call_id in unanswered)
            continue
        settle()
        out.append(message)
        if message.role == "assistant":
            pending = message.tool_calls
    settle()
    return tuple(out) if not late else close_transcript(messages, reason, {**late, **known})


Prompt = str | Message | TextPart | MediaPart | Sequence[Message] | Sequence[str | TextPart | MediaPart]
"""What may be asked: text, text and media parts, a message, or messages."""
