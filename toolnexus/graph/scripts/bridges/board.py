"""`board`: the variables and channels of the run."""

from __future__ import annotations

from typing import Any, cast

from toolnexus.core.messages import Message
from toolnexus.graph.board import MAIN_CHANNEL, Board
from toolnexus.graph.refs import RefError, resolve_string, resolve_text
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, items, shown, text, whole
from toolnexus.graph.scripts.invocation import Function, Invocation


def board(invocation: Invocation) -> Binding:
    """The global. What scripts read of it is theirs: to change it changes no board."""
    it = _Board(invocation.board)
    return Binding(
        "board",
        {
            "MAIN_CHANNEL": MAIN_CHANNEL,
            "getVar": it.get_var,
            "setVar": it.set_var,
            "deleteVar": it.delete_var,
            "getVars": it.get_vars,
            "hasVar": it.has_var,
            "resolve": Function(it.resolve, "value, err"),
            "resolveString": Function(it.resolve_string, "value, err"),
            "channel": it.channel,
            "channelLen": it.channel_length,
            "lastMessage": it.last_message,
            "channelTail": it.channel_tail,
            "setChannel": Function(it.set_channel, "err"),
            "appendChannel": Function(it.append_channel, "err"),
        },
    )


class _Board:
    def __init__(self, held: Board) -> None:
        self._held = held

    def get_var(self, key: Any) -> Any:
        return self._held.get(_key(key))

    def set_var(self, key: Any, value: Any) -> None:
        self._held[_key(key)] = value

    def delete_var(self, key: Any) -> None:
        self._held.pop(_key(key), None)

    def get_vars(self) -> dict[str, Any]:
        return self._held.vars()

    def has_var(self, key: Any) -> bool:
        return _key(key) in self._held

    def resolve(self, source: Any) -> Any:
        try:
            return resolve_text(_source(source), self._held.values_for_reading)
        except RefError as error:
            raise invalid(f"board.resolve: {error}") from error

    def resolve_string(self, source: Any) -> str:
        try:
            return resolve_string(_source(source), self._held.values_for_reading)
        except RefError as error:
            raise invalid(f"board.resolveString: {error}") from error

    def channel(self, name: Any) -> list[dict[str, Any]]:
        return [message.to_wire() for message in self._held.channel(_name(name))]

    def channel_length(self, name: Any) -> int:
        return self._held.channel_length(_name(name))

    def last_message(self, name: Any) -> dict[str, Any] | None:
        last = self._held.tail(_name(name))
        return last[0].to_wire() if last else None

    def channel_tail(self, name: Any, count: Any) -> list[dict[str, Any]]:
        last = self._held.tail(_name(name), whole(count, "the number of messages"))
        return [message.to_wire() for message in last]

    def set_channel(self, name: Any, messages: Any) -> None:
        new = [_message(m, f"messages[{n}]") for n, m in enumerate(items(messages, "the messages"))]
        self._held.replace(_name(name), new)

    def append_channel(self, name: Any, messages: Any) -> None:
        if isinstance(messages, dict) and messages:
            messages = [messages]
        batch = items(messages, "the message, or list of messages,")
        self._held.append(_name(name), *[_message(m, f"messages[{n}]") for n, m in enumerate(batch)])


def _key(key: Any) -> str:
    return text(key, "the name of a variable")


def _name(name: Any) -> str:
    return text(name, "the name of a channel")


def _source(source: Any) -> str:
    if not isinstance(source, str):
        raise invalid(f"what is resolved must be text, not {shown(source)}")
    return source


def _message(data: Any, where: str) -> Message:
    try:
        return Message.from_wire(cast("dict[str, Any]", data))
    except ValueError as error:
        raise invalid(f"{where}: {error}") from error
