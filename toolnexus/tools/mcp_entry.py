"""One server's object in an MCP configuration, read key by key."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NoReturn

from toolnexus.core.names import did_you_mean, nearest
from toolnexus.errors import ConfigError

logger = logging.getLogger("toolnexus.mcp")

_OURS = "args command cwd disabled enabled env envFile environment headers protocol timeout tools type url"
_KEYS = _OURS.split()
_FOREIGN = frozenset(
    "$schema alwaysAllow auth autoApprove autoStart description dev displayName gallery icon id name oauth"
    " sandbox sandboxEnabled scope source title transportType trust version".split()
)
"""Keys that other hosts understand and that change nothing here."""


class Entry:
    """Every complaint is a `ConfigError` that names where it is and shows no value."""

    def __init__(self, place: str, data: Mapping[Any, Any]) -> None:
        """Raises `ConfigError` for a key that looks like a typing error; other strange ones warn."""
        self.place = place
        self._data = data
        for key in data:
            self._check(key)

    def has(self, key: str) -> bool:
        return self._data.get(key) is not None

    def any(self, key: str) -> Any:
        """The value as it is, or None."""
        return self._data.get(key)

    def of(self, kind: type | tuple[type, ...], key: str, what: str) -> Any:
        """The value when it is of that kind, or None when there is none."""
        value = self._data.get(key)
        if value is not None and (
            not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        ):
            self.wrong(key, what, value)
        return value

    def text(self, key: str) -> str | None:
        return self.of(str, key, "a string")

    def flag(self, key: str, default: bool) -> bool:
        value = self.of(bool, key, "true or false")
        return default if value is None else value

    def texts(self, key: str) -> list[str]:
        items: Sequence[Any] = self.of((list, tuple), key, "a list of strings") or ()
        for item in items:
            if not isinstance(item, str):
                self.wrong(key, "a list of strings", item)
        return list(items)

    def table(self, key: str) -> dict[str, str]:
        """A mapping of names to scalars, as strings; null leaves a name out."""
        out: dict[str, str] = {}
        table: Mapping[Any, Any] = self.of(Mapping, key, "an object of strings") or {}
        for name, value in table.items():
            if not isinstance(name, str) or not isinstance(value, str | int | float | None):
                self.wrong(key, "an object of strings", value)
            if value is not None:
                out[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return out

    def wrong(self, key: str, what: str, value: Any) -> NoReturn:
        raise ConfigError(f"{self.place}: {key!r} must be {what}, not {kind_of(value)}")

    def _check(self, key: Any) -> None:
        if key in _KEYS or key in _FOREIGN:
            return
        if isinstance(key, str) and (close := nearest(key, _KEYS)) and _is_typo(key, close[0]):
            raise ConfigError(f"{self.place}: unknown key {key!r}{did_you_mean(key, _KEYS)}")
        logger.warning("%s: key %r is not known here and changes nothing", self.place, key)


def _is_typo(key: str, known: str) -> bool:
    return SequenceMatcher(None, key.lower(), known.lower()).ratio() >= 0.75


def kind_of(value: Any) -> str:
    """What a value is, without showing it: it may be a secret."""
    names = {"dict": "an object", "list": "a list", "str": "a string", "NoneType": "null"}
    return names.get(type(value).__name__, type(value).__name__)
