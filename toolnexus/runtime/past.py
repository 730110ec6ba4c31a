"""A run that ended, as far as another one needs it to go on with its transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from toolnexus.core.messages import Message
from toolnexus.core.result import RunResult
from toolnexus.core.values import frozen

Path = tuple[str, ...]


@frozen(kw_only=True)
class Past:
    """A run that ended; `messages` is None when they are in a store."""

    path: Path
    agent: str
    continues: Path | None = None
    """The run whose transcript it went on with."""
    messages: tuple[Message, ...] | None = None

    @classmethod
    def of(cls, run: RunResult) -> Past:
        """What `run` is to those that go on with it."""
        return cls(path=run.path, agent=run.agent, continues=run.continues, messages=run.messages)

    def to_json(self) -> dict[str, Any]:
        """All but the messages."""
        return {"path": self.path, "agent": self.agent, "continues": self.continues}

    @classmethod
    def from_json(cls, data: Any) -> Past:
        """Raises `ValueError`, `TypeError` or `KeyError` for anything else than `to_json` wrote."""
        after, agent = data["continues"], data["agent"]
        if not isinstance(agent, str):
            raise ValueError("the name of an agent is text")
        return cls(path=_path(data["path"]), agent=agent, continues=None if after is None else _path(after))


class Kept(Protocol):
    """The runs below a conversation, in this ask and in earlier ones."""

    async def keep(self, run: RunResult) -> None:
        """Keep one that ended. Raises nothing but `CancelledError`."""
        ...

    async def index(self) -> Mapping[Path, Past]:
        """All of them, without their messages, in the order they ended. Raises `StoreError`."""
        ...

    async def load(self, path: Sequence[str]) -> tuple[Message, ...]:
        """The transcript of the run at `path`; empty when there is none. Raises `StoreError`."""
        ...


def _path(value: Any) -> Path:
    if not isinstance(value, list):
        raise ValueError("a path is a list")
    segments = tuple(cast("list[Any]", value))
    if not segments or not all(isinstance(segment, str) for segment in segments):
        raise ValueError("a path is a list of texts")
    return segments
