"""What is wrong with a document, each finding with its place in it."""

from __future__ import annotations

from collections.abc import Iterable

from toolnexus.tools.arguments import path_text

Place = tuple[str | int, ...]
"""The keys and positions that lead to a value."""


class Report:
    """Lines such as `paths['/pets'].get.parameters[0]: …`, each once."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    def add(self, place: Place, text: str) -> None:
        self._lines[f"{path_text(place)}: {text}" if place else text] = None

    def take(self, lines: Iterable[str]) -> None:
        """Add findings of another report."""
        self._lines.update(dict.fromkeys(lines))


def kind_of(value: object) -> str:
    """What a value is, as JSON calls it."""
    names = {"dict": "an object", "list": "a list", "str": "a text", "NoneType": "null", "bool": "a bool"}
    return names.get(type(value).__name__, "a number")
