"""One server's object in an MCP configuration, read key by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from toolnexus.core.names import nearest
from toolnexus.core.options import unknown_key
from toolnexus.errors import ConfigError
from toolnexus.tools.mcp_hosts import HTTP_KEYS, STDIO_KEYS, Note, is_foreign, says_nothing

_KEYS = (*STDIO_KEYS, *HTTP_KEYS, "disabled", "enabled", "protocol", "timeout", "tools", "type")


class Entry:
    """Every complaint is a `ConfigError` that names where it is and shows no value."""

    def __init__(self, place: str, data: Mapping[Any, Any], notes: list[Note]) -> None:
        """Raises `ConfigError` for a key that looks like a typing error."""
        self.place = place
        self._notes = notes
        self._data = data
        self.ignored: list[str] = [str(key) for key in data if not self._knows(key)]
        """Keys that change nothing here."""

    def note(self, text: str, *, serious: bool = True) -> None:
        """Something to be said about this server."""
        self._notes.append(Note(f"{self.place}: {text}", serious))

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

    def ignore(self, keys: Iterable[str]) -> None:
        """Count these among the keys that change nothing, where they are there."""
        self.ignored += [key for key in keys if key in self._data]

    def matters(self, key: str) -> bool:
        """Whether the value under a key asks for anything."""
        return not says_nothing(self._data.get(key))

    def _knows(self, key: Any) -> bool:
        if key in _KEYS:
            return True
        if isinstance(key, str) and not is_foreign(key):
            if (close := nearest(key, _KEYS)) and _is_typo(key, close[0]):
                raise unknown_key(self.place, key, _KEYS)
        return False


def _is_typo(key: str, known: str) -> bool:
    """Whether one was meant as the other: nearly the same letters, or the same in another order."""
    from difflib import SequenceMatcher

    key, known = key.lower(), known.lower()
    return sorted(key) == sorted(known) or SequenceMatcher(None, key, known).ratio() >= 0.75


def kind_of(value: Any) -> str:
    """What a value is, without showing it: it may be a secret."""
    names = {"dict": "an object", "list": "a list", "str": "a string", "NoneType": "null"}
    return names.get(type(value).__name__, type(value).__name__)
