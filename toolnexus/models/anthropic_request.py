"""Our values as Anthropic message requests.

Each message is encoded once, to the blocks between the brackets of its `content`. Neighbours of one
role become one wire message, and cache markers are put in from outside, so bytes once sent stay the
same from turn to turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from toolnexus.core.messages import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from toolnexus.core.schema import anthropic_declaration
from toolnexus.core.tools import Tool
from toolnexus.models.encode import Encoded, arguments_object, dumps
from toolnexus.models.ids import wire_id, wire_name
from toolnexus.models.media import anthropic_block, anthropic_result, text_block

_CACHED: Mapping[str, Any] = {"cache_control": {"type": "ephemeral"}}
_MARK = b"," + dumps(_CACHED)[1:]
_MARKED_TURNS = 2  # this turn's end is written to the cache, the last one's is read from it
_END = b"}]}"
_EMPTY = dumps(text_block("(empty)"))


def encode_tools(tools: Sequence[Tool]) -> bytes:
    """The `tools` member of a body, its end marked for the cache."""
    blocks = [anthropic_declaration(tool) for tool in tools]
    blocks[-1] |= _CACHED
    return b'"tools":' + dumps(blocks)


def encode_system(system: str) -> bytes:
    """The `system` member of a body, marked for the cache."""
    return b'"system":' + dumps([{**text_block(system), **_CACHED}])


def encode_message(message: Message, origin: str, thinking: bool = True) -> tuple[str, bytes]:
    """The wire role and the content blocks of `message`, joined by commas; empty when none is left.

    What only another endpoint understands is left out; what `origin` itself sent goes back to it
    byte for byte. `thinking=False` leaves that out too.
    """
    if message.role == "assistant":
        ours = message.origin == origin
        blocks = [_assistant_block(part, origin, ours, thinking) for part in message.parts]
        return "assistant", b",".join([dumps(block) for block in blocks if block is not None])
    blocks, follow = list[dict[str, Any] | None](), list[dict[str, Any]]()
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            blocks.append(_tool_result(part, follow))
        else:
            blocks.append(_user_block(part))
    blocks += follow  # the results come first in their message
    return "user", b",".join([dumps(block) for block in blocks if block is not None]) or _EMPTY


class Turns:
    """The wire messages of a run: the first is the user's, roles alternate, the last turns are marked.

    It grows with the transcript, so a long run costs no more per turn than a short one.
    """

    __slots__ = ("_encoded", "_forms", "_origin", "_roles", "_users", "_wire")

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._encoded = Encoded(partial(encode_message, origin=origin))
        self._forms: list[tuple[str, bytes]] = []
        """What `_wire` was made of."""
        self._roles: list[str] = []
        self._wire: list[bytes] = []
        self._users: list[int] = []
        """Where the user's messages stand in `_wire`."""

    def all(self, messages: Sequence[Message]) -> list[bytes]:
        """Every wire message, in order; at least one."""
        forms = self._encoded.all(messages)
        kept = len(self._forms)
        if forms[:kept] != self._forms:
            kept = 0
            self._roles, self._wire, self._users = [], [], []
        for role, blocks in forms[kept:]:
            if blocks:
                self._add(role, blocks)
        self._forms = forms.copy()
        if not self._wire:
            self._add("user", _EMPTY)
        out = self._wire.copy()
        for position in self._users[-_MARKED_TURNS:]:
            out[position] = out[position][: -len(_END)] + _MARK + _END[1:]
        return out

    def forget_thinking(self, messages: Sequence[Message]) -> None:
        """Leave the thinking out of `messages` from now on; what comes later keeps its own."""
        self._encoded.replace(messages, [encode_message(m, self._origin, thinking=False) for m in messages])

    def _add(self, role: str, blocks: bytes) -> None:
        if not self._roles and role != "user":
            self._add("user", _EMPTY)
        if self._roles and self._roles[-1] == role:
            self._wire[-1] = b"%b,%b]}" % (self._wire[-1][:-2], blocks)
            return
        if role == "user":
            self._users.append(len(self._wire))
        self._roles.append(role)
        self._wire.append(b'{"role":"%b","content":[%b]}' % (role.encode(), blocks))


def _user_block(part: Part) -> dict[str, Any] | None:
    if isinstance(part, TextPart):
        return text_block(part.text) if part.text.strip() else None
    if isinstance(part, MediaPart):
        return anthropic_block(part)
    return None


def _tool_result(result: ToolResultPart, follow: list[dict[str, Any]]) -> dict[str, Any]:
    id = wire_id(result.call_id)
    content, behind = anthropic_result(result, id)
    follow += behind
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": id, "content": content}
    if result.is_error:
        block["is_error"] = True
    return block


def _assistant_block(part: Part, origin: str, ours: bool, thinking: bool) -> dict[str, Any] | None:
    if isinstance(part, TextPart):
        if not part.text.strip():  # an endpoint sends such blocks and refuses to take them back
            return None
        return {**text_block(part.text), **(part.extra or {})} if ours else text_block(part.text)
    if isinstance(part, ToolCallPart):
        extra = {} if part.extra is None or not ours else dict(part.extra)
        name, input = wire_name(part.name), arguments_object(part.arguments)
        return {**extra, "type": "tool_use", "id": wire_id(part.id), "name": name, "input": input}
    if isinstance(part, ReasoningPart):
        signed = (part.extra or {}).get("signature")
        if not thinking or part.origin != origin or not signed:
            return None
        return {"type": "thinking", "thinking": part.text, **(part.extra or {})}
    if isinstance(part, OpaquePart) and part.origin == origin:
        return dict(part.data) if thinking or part.data.get("type") != "redacted_thinking" else None
    return None
