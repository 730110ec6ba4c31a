"""An address with `{placeholders}`: an argument fills its place in it and never leaves it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from toolnexus.errors import ConfigError, ToolError
from toolnexus.runtime.secrets import secret_name
from toolnexus.tools.http.values import encoded

_PLACE = re.compile(r"\{([^{}]*)\}")
_VARIABLE = "${"
_PATH_SAFE = "%/:@!$&'()*+,;=~"
_QUERY_SAFE = _PATH_SAFE + "?"


class UrlTemplate:
    """An absolute http or https address, split once.

    Placeholders may stand in the path and the query, `${NAME}` of the environment in values of the
    query; not so in a `foreign` address, which reads nothing of ours. Raises `ConfigError` that begins
    with `where` for anything else.
    """

    def __init__(self, url: str, where: str, *, foreign: bool = False) -> None:
        if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{where} must be a text, not {type(url).__name__}")
        self._where = where
        try:
            parts = urlsplit(url.strip())
            _ = parts.port
        except ValueError:  # its text may show a password
            raise ConfigError(f"{where} is no valid address; look at its host and port") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{where} must begin with http:// or https:// and name a host")
        if "@" in parts.netloc:
            raise ConfigError(f"{where} holds a user name or password; give headers={{'Authorization': …}}")
        if "{" in parts.netloc or "}" in parts.netloc:
            raise ConfigError(f"{where}: a placeholder may stand in the path and the query, not in the host")
        if parts.fragment:
            raise ConfigError(f"{where} has a part behind '#', which is never sent; leave it out")
        if _VARIABLE in parts.path and not foreign:
            raise ConfigError(f"{where}: ${{NAME}} may stand in values of the query and in headers only")
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.host = parts.hostname
        items = [item for item in parts.query.split("&") if item]
        self.keys: dict[str, str] = {}
        """Query values that are secrets or hold variables: name and text."""
        plain = [item for item in items if foreign or not self._is_key(item)]
        self._segments = [self._split(segment, _PATH_SAFE) for segment in parts.path.split("/")]
        self._query = [self._split(item, _QUERY_SAFE) for item in plain]
        self.query_names = [unquote(item.partition("=")[0]) for item in items]

    @property
    def path_names(self) -> list[str]:
        """The placeholders of the path, each once."""
        return _names(self._segments)

    @property
    def names(self) -> list[str]:
        """All placeholders, each once."""
        return list(dict.fromkeys((*self.path_names, *_names(self._query))))

    def fill(self, arguments: Mapping[str, Any], query: Iterable[str] = ()) -> str:
        """The address for `arguments`, with the encoded pairs of `query` behind its own.

        Raises `ToolError` for an argument that is missing or that a path cannot hold.
        """
        written = {name: self._written(name, arguments) for name in self.names}
        return self.fill_encoded(written, query)

    def fill_encoded(self, written: Mapping[str, str], query: Iterable[str] = ()) -> str:
        """Like `fill`, of values that are percent-encoded already."""
        path = "/".join(_checked(segment, written) for segment in self._segments)
        items = [*(_joined(item, written) for item in self._query), *query]
        return f"{self.origin}{path}{'?' if items else ''}{'&'.join(items)}"

    def _is_key(self, item: str) -> bool:
        """Whether a pair of the query is the host's own matter; then it is among `keys`."""
        name, _, value = item.partition("=")
        variable = _VARIABLE in item
        if not variable and ("{" in value or not secret_name(unquote(name))):
            return False
        if _VARIABLE in name or unquote(name) in self.keys:
            raise ConfigError(f"{self._where}: a query value with ${{NAME}} needs a name of its own")
        self.keys[unquote(name)] = unquote(value)
        return True

    def _split(self, text: str, safe: str) -> list[str]:
        """Literals, and names at the odd places."""
        pieces = _PLACE.split(text)
        for i, piece in enumerate(pieces):
            if i % 2 and not piece:
                raise ConfigError(f"{self._where}: a placeholder needs a name: {{id}}")
            if not i % 2 and ("{" in piece or "}" in piece):
                raise ConfigError(f"{self._where} has a brace without its partner; write {{name}}, or %7B")
            if not i % 2:
                pieces[i] = quote(piece, safe=safe)
        return pieces

    def _written(self, name: str, arguments: Mapping[str, Any]) -> str:
        value = arguments.get(name)
        if value is None or isinstance(value, (list, dict)):
            raise ToolError(f"{name!r} must be a text, a number or a bool: it is part of the address")
        return encoded(value)


def _names(split: Iterable[list[str]]) -> list[str]:
    return list(dict.fromkeys(name for pieces in split for name in pieces[1::2]))


def _joined(pieces: list[str], written: Mapping[str, str]) -> str:
    return "".join(written[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _checked(pieces: list[str], written: Mapping[str, str]) -> str:
    """One segment of a path. Servers fold `.` and `..`, many of them encoded, too, and `//`."""
    segment = _joined(pieces, written)
    if len(pieces) == 1:
        return segment
    whole = unquote(segment)
    named = " and ".join(map(repr, pieces[1::2]))
    if not whole:
        raise ToolError(f"{named} must not be empty: it is a step of the address")
    steps = [step.partition(";")[0].strip() for step in re.split(r"[/\\]", whole)]
    if "." in steps or ".." in steps:
        raise ToolError(f"{named} must not be '.' or '..' nor have such a step: it would lead elsewhere")
    return segment
