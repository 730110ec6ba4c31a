"""Messages and states as the text that stores keep, and what could not be read of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from toolnexus.core.messages import Message
from toolnexus.core.values import frozen
from toolnexus.core.wire import message_from_json, message_to_json
from toolnexus.errors import StoreConflict, StoreError

Where = TypeVar("Where")


@frozen()
class StoreProblem:
    """A record that could not be read and was set aside."""

    id: str
    """The conversation."""
    reason: str


def conflict(id: str, expected: int, found: int) -> StoreConflict:
    """The error of a writer that came second."""
    return StoreConflict(
        f"conversation {id!r} is at version {found}, not {expected}; load it and write again", version=found
    )


def records_of(id: str, messages: Iterable[Message]) -> list[str]:
    """A record of each message. Raises `StoreError` when one of them holds what is no JSON value."""
    try:
        return [_record(message) for message in messages]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise StoreError(
            f"conversation {id!r}: a message cannot be stored: {error}; only JSON values may be in it"
        ) from error


def read_records(
    records: Iterable[tuple[Where, str | bytes]],
) -> tuple[tuple[Message, ...], Sequence[tuple[Where, str]]]:
    """The messages, and where records stand that cannot be read, with the reason."""
    messages: list[Message] = []
    broken: list[tuple[Where, str]] = []
    for where, record in records:
        try:
            messages.append(message_from_json(json.loads(record)))
        except (ValueError, TypeError, RecursionError) as error:
            reason = str(error).encode("utf-8", "backslashreplace").decode()
            broken.append((where, reason[:200]))
    return tuple(messages), broken


def state_text(id: str, state: Mapping[str, Any] | None) -> str | None:
    """`state` as JSON. Raises `StoreError` for what is no JSON value."""
    try:
        return None if state is None else json.dumps(state, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"conversation {id!r}: what its run needs to go on cannot be stored: {error}; "
            "only JSON values may be in it"
        ) from error


def _record(message: Message) -> str:
    data = message_to_json(message)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=_plain)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate survives as an escape only
        text = json.dumps(data, separators=(",", ":"), default=_plain)
    return text


def _plain(value: object) -> dict[Any, Any]:
    """Opaque provider data may be any mapping; anything else has no place in a record."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} is no JSON value")
