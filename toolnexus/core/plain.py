"""Plain data with bounds: what a document may be made of, whichever format it came in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, cast

from toolnexus.errors import ConfigError

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

DEEPEST = 60
MOST_VALUES = 100_000
_LONGEST_KEY = 60


class Doubled(dict[str, Any]):
    """A table in which keys stand twice. Readers give it, so that every such key is found at once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.twice = [key for key, _ in pairs if key in seen or seen.add(key)]


def table_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The table of these keys and values, `Doubled` when one stands twice."""
    table = dict(pairs)
    return table if len(table) == len(pairs) else Doubled(pairs)


class Plain:
    """A copy of `data` in dicts, lists, texts, numbers, bools and None, and what was wrong with it.

    Raises `ConfigError` when `data` is nested too deeply or holds too much, as aliases in YAML and
    mappings that hold themselves do.
    """

    def __init__(self, data: object) -> None:
        self.findings: list[str] = []
        """`key: text` lines."""
        self.cut: set[Path] = set()
        """Where something was left out."""
        self._values = 0
        self.data = self._copy(data, ())

    def _copy(self, value: object, path: Path) -> Any:
        self._values += 1
        if len(path) > DEEPEST:
            raise ConfigError(f"{path_text(path[:3])}: tables and lists are nested more than {DEEPEST} deep")
        if self._values > MOST_VALUES:
            raise ConfigError(f"it holds more than {MOST_VALUES:,} values")
        if isinstance(value, Mapping):
            return self._table(cast("Mapping[object, object]", value), path)
        if isinstance(value, (list, tuple)):
            items = cast("list[object]", value)
            return [self._copy(item, (*path, i)) for i, item in enumerate(items)]
        if isinstance(value, PathLike):
            value = str(cast("PathLike[str]", value))
        if problem := _leaf_problem(value):
            self.findings.append(f"{path_text(path)}: {problem}")
            self.cut.add(path)
            return None
        return value

    def _table(self, table: Mapping[object, object], path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key in dict.fromkeys(table.twice if isinstance(table, Doubled) else ()):
            self.findings.append(f"{path_text((*path, key))}: given twice")
        for key, value in table.items():
            if not isinstance(key, str):
                where = f"{path_text(path)}: " if path else ""
                self.findings.append(f"{where}the key {shown(key)} is {kind_of(key)}; put it in quotes")
            elif problem := _text_problem(key):
                self.findings.append(f"{path_text((*path, key))}: its key {problem}")
            else:
                out[key] = self._copy(value, (*path, key))
                continue
            self.cut.add((*path, str(key)))
        return out


def _leaf_problem(value: object) -> str | None:
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "it must be a finite number"
    if value is None or isinstance(value, (bool, int, float)):
        return None
    return f"{kind_of(value)} cannot stand in a document; put it in quotes if it is meant as text"


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair"
    return None


_KINDS = (
    (type(None), "null"),
    (bool, "true or false"),
    (str, "text"),
    (int, "a whole number"),
    (float, "a number"),
    (Mapping, "a table"),
    ((list, tuple), "a list"),
)


def kind_of(value: object) -> str:
    """What a value is, without showing it: it may be a secret."""
    name = type(value).__name__
    other = f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    return next((text for kind, text in _KINDS if isinstance(value, kind)), other)


def shown(value: object) -> str:
    """A number, bool or short text as it is written; of everything else only what it is."""
    if isinstance(value, bool):
        return str(value).lower()
    if (isinstance(value, str) and len(value) <= _LONGEST_KEY) or (
        isinstance(value, (int, float)) and abs(value) < 1e18
    ):
        return repr(value)
    return kind_of(value)


def path_text(path: Path) -> str:
    """`("agents", "my agent", "tools", 0)` as `agents."my agent".tools[0]`."""
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Path) -> Iterator[str]:
    for step in path:
        if isinstance(step, int):
            yield f"[{step}]"
        elif step.replace("-", "_").isidentifier() and len(step) <= _LONGEST_KEY:
            yield f".{step}"
        else:
            yield f".{json.dumps(step if len(step) <= _LONGEST_KEY else f'{step[:_LONGEST_KEY]}…')}"
