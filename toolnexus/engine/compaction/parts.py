"""What may be left out of a transcript so that both styles of endpoints still accept it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolnexus.core.messages import Message, ToolResultPart

LEAST_RESULT = 200
"""Characters that are left of a result at least."""


def may_cut(messages: Sequence[Message], at: int) -> bool:
    """Whether the transcript may be cut before `messages[at]`.

    Calls stay with their results, and assistant messages in a row with each other: the later one may
    answer a call of the endpoint's own tools in the earlier one.
    """
    role = messages[at].role
    return at == 0 or role == "user" or (role == "assistant" and messages[at - 1].role != "assistant")


def tail_start(messages: Sequence[Message], sizes: Sequence[int], keep: int) -> int:
    """Where the newest messages begin that take at most `keep` tokens: the newest group in any case."""
    start, size = len(messages), 0
    for at in range(len(messages) - 1, -1, -1):
        size += sizes[at]
        if size > keep and start < len(messages):
            break
        if may_cut(messages, at):
            start = at
    return start


def longest_result(messages: Sequence[Message]) -> int:
    """How many characters the longest result has."""
    return max([len(result.output) for message in messages for result in message.tool_results], default=0)


def shortened(message: Message, most: int) -> Message:
    """`message` with at most `most` characters of each result, and at the least also without their media."""
    if message.role != "tool":
        return message
    parts = tuple([_shortened(part, most) for part in message.tool_results])
    return message if parts == message.parts else replace(message, parts=parts)


def _shortened(result: ToolResultPart, most: int) -> ToolResultPart:
    output, media = result.output, result.media
    if len(output) > most:
        output = clipped(output, most)
    if media and most <= LEAST_RESULT:
        output, media = f"{output}\n[{len(media)} images or files left out: there is no room for them]", ()
    return result if output is result.output else replace(result, output=output, media=media)


def clipped(text: str, most: int | None) -> str:
    """Two thirds of `most` characters from the head of `text`, one third from its end; None: all of it."""
    if most is None or len(text) <= most:
        return text
    head, tail = text[: most * 2 // 3], text[len(text) - most // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"
