"""The board: what the nodes of a graph read and write, as variables and channels of messages.

Values on a board are never changed in place, by anybody: they are copied on their way in and out. So a
snapshot, and the board of a branch, share them and cost no more than the tables that hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from toolnexus.core.messages import Message
from toolnexus.graph.errors import GraphRunError

MAIN_CHANNEL = "__main_channel"
"""The channel that is the transcript of a run."""
INTERRUPTED_NODE = "__interrupted_node"
DEEPEST = 100
_PLAIN = (str, int, float, bool, type(None))
_TOO_LARGE: int = 10**4000
"""Python makes no text of numbers that are much larger."""


@dataclass(frozen=True, slots=True)
class BoardSnapshot:
    """The state of a board at one moment. Nothing changes it."""

    vars: Mapping[str, Any] = field(default_factory=dict[str, Any])
    channels: Mapping[str, Sequence[Message]] = field(default_factory=dict[str, Sequence[Message]])

    def to_json(self) -> dict[str, Any]:
        """`{vars, channels}` as JSON values."""
        channels = {name: [m.to_wire() for m in channel] for name, channel in self.channels.items()}
        return {"vars": copied(dict(self.vars), "vars"), "channels": channels}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BoardSnapshot:
        """The snapshot that `to_json` wrote. Raises `ValueError` for anything else."""
        if unknown := data.keys() - {"vars", "channels"}:
            raise ValueError(f"a board has vars and channels, not {sorted(unknown)}")
        variables: Any = data.get("vars") or {}
        channels: Any = data.get("channels") or {}
        for name, table in (("vars", variables), ("channels", channels)):
            if not isinstance(table, Mapping):
                raise ValueError(f"the {name} of a board are a table, not {type(table).__name__}")
        try:
            held = cast("Mapping[str, Any]", channels)
            messages = {name: [Message.from_wire(m) for m in channel] for name, channel in held.items()}
            return cls(copied(variables, "vars"), messages)
        except (GraphRunError, TypeError) as error:
            raise ValueError(f"not a board: {error}") from None


class Board(MutableMapping[str, Any]):
    """Variables (name → JSON value), as a mapping, and channels (name → messages).

    Reads give copies. Names that begin with `__` are the engine's. Raises `GraphRunError` of kind
    `validation` for a value that is no JSON, with its path. Not for several threads at once.
    """

    __slots__ = ("_channels", "_shared", "_vars")

    def __init__(
        self,
        vars: Mapping[str, Any] | None = None,
        channels: Mapping[str, Iterable[Message]] | None = None,
    ) -> None:
        self._vars: dict[str, Any] = {}
        self._channels: dict[str, list[Message]] = {}
        self._shared: set[str] = set()
        """Channels whose list others hold, too."""
        for name, value in (vars or {}).items():
            self[name] = value
        for name, messages in (channels or {}).items():
            self.replace(name, messages)

    def __getitem__(self, name: str) -> Any:
        value = self._vars[name]
        return value if isinstance(value, _PLAIN) else copied(value)

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphRunError(f"a variable is named by text, not by {name!r}", kind="validation")
        self._vars[name] = copied(value, f"vars.{name}")

    def __delitem__(self, name: str) -> None:
        del self._vars[name]

    def __contains__(self, name: object) -> bool:
        return name in self._vars

    def __iter__(self) -> Iterator[str]:
        return iter(self._vars)

    def __len__(self) -> int:
        return len(self._vars)

    def vars(self) -> dict[str, Any]:
        """All variables, copied."""
        return cast("dict[str, Any]", copied(self._vars))

    @property
    def values_for_reading(self) -> Mapping[str, Any]:
        """All variables as they are held: for conditions and references, which change nothing."""
        return self._vars

    def append_var(self, name: str, *values: Any) -> None:
        """Append to the list in a variable; a missing one becomes a list.

        Raises `GraphRunError` (validation) when the variable holds something else.
        """
        held = self._vars.get(name, [])
        if not isinstance(held, list):
            raise GraphRunError(
                f"vars.{name} is {type(held).__name__}, not a list; nothing can be appended",
                kind="validation",
            )
        self._vars[name] = [*cast("list[Any]", held), *[copied(v, f"vars.{name}") for v in values]]

    @property
    def main(self) -> list[Message]:
        """The messages of the main channel, as a list of one's own."""
        return self.channel()

    def channel(self, name: str = MAIN_CHANNEL) -> list[Message]:
        """The messages of a channel, as a list of one's own; empty for a channel that nobody wrote to."""
        return list(self._channels.get(name or MAIN_CHANNEL, ()))

    def channel_length(self, name: str = MAIN_CHANNEL) -> int:
        """How many messages a channel has."""
        return len(self._channels.get(name or MAIN_CHANNEL, ()))

    def tail(self, name: str = MAIN_CHANNEL, count: int = 1) -> list[Message]:
        """The last `count` messages of a channel, in its order."""
        return self._channels.get(name or MAIN_CHANNEL, [])[-count:] if count > 0 else []

    def append(self, channel: str, *messages: Message) -> None:
        """Append messages to a channel, all or none."""
        _check(messages)
        name = channel or MAIN_CHANNEL
        held = self._channels.get(name)
        if held is None:
            self._channels[name] = list(messages)
        elif name in self._shared:
            self._channels[name] = [*held, *messages]
            self._shared.discard(name)
        else:
            held.extend(messages)

    def replace(self, channel: str, messages: Iterable[Message]) -> None:
        """Make these the messages of a channel."""
        new = list(messages)
        _check(new)
        self._channels[channel or MAIN_CHANNEL] = new
        self._shared.discard(channel or MAIN_CHANNEL)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels."""
        return tuple(self._channels)

    def snapshot(self) -> BoardSnapshot:
        """The state of now."""
        self._shared.update(self._channels)
        return BoardSnapshot(self._vars.copy(), self._channels.copy())

    def restore(self, snapshot: BoardSnapshot) -> None:
        """Take over the state of `snapshot`, all of it."""
        self._vars = dict(snapshot.vars)
        self._channels = {n: c if isinstance(c, list) else list(c) for n, c in snapshot.channels.items()}
        self._shared = set(self._channels)

    @classmethod
    def of(cls, snapshot: BoardSnapshot) -> Board:
        """A board of its own that begins at `snapshot`."""
        board = cls.__new__(cls)
        board.restore(snapshot)
        return board

    def __repr__(self) -> str:
        sizes = {name: len(channel) for name, channel in self._channels.items()}
        return f"Board(vars={self._vars!r}, channels={sizes!r})"


def _check(messages: Sequence[Message]) -> None:
    for message in messages:
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]
            found = type(message).__name__
            raise GraphRunError(
                f"a channel holds messages, not {found}; make one with Message.from_wire(...)",
                kind="validation",
            )


def copied(value: Any, where: str = "value", depth: int = 0) -> Any:
    """A copy of a JSON value. Raises `GraphRunError` (validation) that names what is none, and where."""
    if isinstance(value, _PLAIN):
        if isinstance(value, float) and not _finite(value):
            raise _no_json(where, f"{value} ")
        if isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE:
            raise _no_json(where, "a number of more than 4,000 digits ")
        return value
    if depth >= DEEPEST:
        raise _no_json(where, f"something nested more than {DEEPEST} deep ")
    if isinstance(value, Mapping):
        table = cast("Mapping[Any, Any]", value)
        out: dict[str, Any] = {}
        for key, item in table.items():
            if not isinstance(key, str):
                raise _no_json(where, f"the key {key!r} ")
            out[key] = item if item.__class__ is str else copied(item, f"{where}.{key}", depth + 1)
        return out
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return [
            item if item.__class__ is str else copied(item, f"{where}[{n}]", depth + 1)
            for n, item in enumerate(items)
        ]
    raise _no_json(where, f"{type(value).__name__} ")


def _finite(value: float) -> bool:
    return value - value == 0.0


def _no_json(where: str, what: str) -> GraphRunError:
    return GraphRunError(f"{where}: {what}is not JSON", kind="validation")


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal, types included: neither 1 and 1.0 nor 1 and true are."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        x, y = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
        return x.keys() == y.keys() and all(same(item, y[key]) for key, item in x.items())
    if isinstance(a, list):
        x, y = cast("list[Any]", a), cast("list[Any]", b)
        return len(x) == len(y) and all(same(p, q) for p, q in zip(x, y, strict=True))
    return bool(a == b)
