"""What both styles need to write request bodies: JSON bytes, made once per message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from toolnexus.core.messages import Message
from toolnexus.core.strict_json import decode

T = TypeVar("T")

MALFORMED = "_malformed_arguments"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, (set, frozenset)):
        return list(cast("set[Any]", value))
    raise TypeError(f"{type(value).__name__} {value!r} cannot be sent as JSON")


# what we send are trees that we built: looking for circles would cost a fifth of the encoding
_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_plain, check_circular=False
).encode


def dumps(value: Any) -> bytes:
    """`value` as compact JSON in UTF-8. A lone surrogate, which no endpoint takes, becomes U+FFFD."""
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


class Encoded(Generic[T]):
    """The encoded form of each message, made once.

    Lives as long as a run, whose transcript mostly grows at its end: what it has seen is compared in
    one step. Where a hook has changed the middle, the messages are found again by identity, in a table
    that is made then; it holds them, so an identity is never reused.
    """

    __slots__ = ("_encode", "_forms", "_known", "_seen")

    def __init__(self, encode: Callable[[Message], T]) -> None:
        self._encode = encode
        self._known: dict[int, tuple[Message, T]] | None = None
        self._seen: list[Message] = []
        self._forms: list[T] = []

    def all(self, messages: Sequence[Message]) -> list[T]:
        """The encoded form of every message, in order. The list is ours: read it, do not change it."""
        kept = len(self._forms)
        self._seen[kept:] = messages[kept:]
        # comparing lists of the same objects looks at none of them: in a long run few are in the cache
        if self._seen != (messages if isinstance(messages, list) else list(messages)):
            del self._seen[kept:]
            self._look_up()
            self._seen, kept = list(messages), 0
        for message in messages[kept:]:
            entry = None if self._known is None else self._known.get(id(message))
            self._forms.append(self._encode(message) if entry is None else entry[1])
        if self._known is not None and len(self._known) > 2 * len(messages) + 64:
            self._known = None  # hooks that copy must not make us grow for ever
        return self._forms

    def replace(self, messages: Sequence[Message], encoded: Sequence[T]) -> None:
        """Use `encoded` for `messages` from now on."""
        known = self._look_up()
        for message, form in zip(messages, encoded, strict=True):
            known[id(message)] = (message, form)

    def _look_up(self) -> dict[int, tuple[Message, T]]:
        """Find by identity from now on what was found by its place."""
        known = self._known = self._known or {}
        for message, form in zip(self._seen, self._forms, strict=True):
            known[id(message)] = (message, form)
        self._seen, self._forms = [], []
        return known


def remembered(memo: dict[Any, Any], key: Any, value: object, encode: Callable[[], bytes]) -> bytes:
    """The bytes made of `value` (a system prompt, a sequence of tools), again only when it changed."""
    entry = memo.get(key)
    if entry is None or (entry[0] is not value and entry[0] != value):
        entry = memo[key] = (value, encode())
    return entry[1]


def arguments_object(text: str) -> dict[str, Any]:
    """The arguments of a call as the object that every endpoint takes back.

    What a model wrote wrongly is kept whole under one key: endpoints refuse or fail on anything but
    an object in the history, and the model still sees what it had written.
    """
    try:
        value = decode(text or "{}")
    except (ValueError, RecursionError):
        return {MALFORMED: text}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {MALFORMED: text}
