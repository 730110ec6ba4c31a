"""Variables in the settings of a deployment document: `${NAME}`, `${env:NAME}`, `${base}`, `${home}`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from toolnexus.core.plain import path_text
from toolnexus.graph.errors import Issue
from toolnexus.runtime.redact import Redactor

_TEXTS = frozenset(("source", "graph"))
"""Keys whose texts are what a file could hold: nothing in code, or in a graph as text, is a variable."""
_OTHERS = frozenset(("mcpServers",))
"""Keys whose tables have variables that their reader fills in, who knows which are secrets."""
_VARIABLE = re.compile(r"(\\*)\$\{([^{}]*)\}")
_NAME = re.compile(r"(env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_BOARD = "board:"
_ALLOWED = "write ${NAME}, ${env:NAME}, ${NAME:-default}, ${base} or ${home}"


class Expander:
    """Fills the variables of one document in, notes what is wrong, and knows what must not be shown.

    `${board:…}` is left as it is, for the graph to resolve when it runs.
    """

    def __init__(self, folder: Path | None) -> None:
        self.issues: list[Issue] = []
        self.redact = Redactor()
        self._places = {"home": str(Path.home())}
        if folder is not None:
            self._places["base"] = str(folder)

    def value(self, value: Any, path: tuple[str | int, ...]) -> Any:
        """`value` with the variables of every text in it filled in."""
        if isinstance(value, str):
            return self._text(value, path) if "${" in value else value
        if isinstance(value, Mapping):
            table = cast("Mapping[str, Any]", value)
            return {key: self._item(key, item, path) for key, item in table.items()}
        if isinstance(value, list):
            return [self.value(item, (*path, n)) for n, item in enumerate(cast("list[Any]", value))]
        return value

    def _item(self, key: str, item: Any, path: tuple[str | int, ...]) -> Any:
        if key in _OTHERS or (key in _TEXTS and isinstance(item, str)):
            return item
        return self.value(item, (*path, key))

    def _text(self, text: str, path: tuple[str | int, ...]) -> str:
        def filled(match: re.Match[str]) -> str:
            slashes, inner = match.groups()
            if inner.startswith(_BOARD):
                return match[0]
            kept = slashes[: len(slashes) // 2]
            if len(slashes) % 2:
                return f"{kept}${{{inner}}}"
            return kept + self._variable(inner, path)

        return _VARIABLE.sub(filled, text)

    def _variable(self, inner: str, path: tuple[str | int, ...]) -> str:
        if inner in self._places:
            return self._places[inner]
        found = _NAME.fullmatch(inner)
        if found is None or inner == "base":
            why = "there is no folder here" if inner == "base" else _ALLOWED
            self._wrong(path, f"{f'${{{inner}}}'[:40]!r} stands for nothing; {why}")
            return ""
        name, default = found[2], found[3]
        value = os.environ.get(name)
        if not value and default is not None:
            return default
        if value is None:
            self._wrong(
                path,
                f"needs the environment variable {name!r}, which is not set; set it, or write "
                f"${{{name}:-default}}",
            )
            return ""
        self.redact.add(value)
        return value

    def _wrong(self, path: tuple[str | int, ...], message: str) -> None:
        self.issues.append(Issue(message=message, path=path_text(path)))
