"""Secrets never reach a model, an event, a log or an error text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

MASK = "[redacted]"
_SHORTEST = 6
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
"""What no address writes in another way (RFC 3986, 2.3)."""


class Redactor:
    """Knows the secret values that a client uses and masks them in text.

    Values shorter than six characters are not masked: they would hit ordinary words. A secret is known in
    JSON and in an address, too, where some of its characters are written as escapes.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: list[str] = []
        for secret in secrets:
            self.add(secret)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to mask so far."""
        return not self._secrets

    def add(self, secret: str) -> None:
        """Mask `secret` from now on."""
        if len(secret) >= _SHORTEST and secret not in self._secrets:
            self._secrets += dict.fromkeys(_spellings(secret))
            self._secrets.sort(key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def within(self, value: Any) -> Any:
        """`value` with every text in it masked, keys of mappings too; itself when nothing was."""
        if isinstance(value, str):
            return self(value)
        found: list[str] = []
        _collect(value, found)
        return value if self.finds_none(found) else self._masked(value)

    def finds_none(self, texts: Iterable[str]) -> bool:
        """Whether there is nothing to mask in any of `texts`: one look at all is faster than one at each."""
        whole = "\0".join(texts)
        return self(whole) is whole

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            given = cast("Mapping[Any, Any]", value)
            return {self._masked(k): self._masked(v) for k, v in given.items()}
        if isinstance(value, (list, tuple)):
            return [self._masked(item) for item in cast("Sequence[Any]", value)]
        return value

    def cause(self, error: BaseException) -> BaseException | None:
        """`error` as the cause of one of ours, or None when it, or what led to it, shows a secret."""
        at: BaseException | None = error
        while at is not None:
            if self(shown := str(at)) is not shown:
                return None
            at = at.__cause__ or at.__context__
        return error

    def begun(self, text: str) -> int:
        """How many characters at the end of `text` may be the beginning of a secret."""
        longest = 0
        for secret in self._secrets:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            if at >= 0:
                longest = max(longest, len(text) - at)
        return longest


class Masking:
    """Masks a text that comes in pieces: what may be the beginning of a secret waits for the next one."""

    __slots__ = ("_held", "_redact")

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._held = ""

    def more(self, piece: str) -> str:
        """What can be shown, now that `piece` has come; often nothing is held back."""
        text = self._redact(self._held + piece)
        held = self._redact.begun(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held] if held else text

    def rest(self) -> str:
        """What was held back: no more comes."""
        rest, self._held = self._held, ""
        return rest


def _collect(value: Any, texts: list[str]) -> None:
    """Add every text in `value` to `texts`."""
    if isinstance(value, str):
        texts.append(value)
    elif value is None or isinstance(value, (int, float)):
        return
    elif isinstance(value, Mapping):
        for key, member in cast("Mapping[Any, Any]", value).items():
            _collect(key, texts)
            _collect(member, texts)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            _collect(item, texts)


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    if not UNRESERVED.issuperset(secret):
        from urllib.parse import quote  # 4 ms, for the few keys that an address writes in another way

        yield quote(secret.encode("utf-8", "surrogatepass"), safe="")
