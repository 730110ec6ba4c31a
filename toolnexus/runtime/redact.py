"""Secrets never reach a model, an event, a log or an error text."""

from __future__ import annotations

from collections.abc import Iterable

MASK = "[redacted]"
_SHORTEST = 6


class Redactor:
    """Knows the secret values that a client uses and masks them in text.

    Values shorter than six characters are not masked: they would hit ordinary words.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: list[str] = []
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Mask `secret` from now on."""
        if len(secret) >= _SHORTEST and secret not in self._secrets:
            self._secrets.append(secret)
            self._secrets.sort(key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text
