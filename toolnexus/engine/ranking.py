"""Which tools fit a few words: by name, then by what they take and do. The same words, the same order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any, cast

from toolnexus.core.tools import Tool

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_BETWEEN = re.compile(r"[\s,;\"'`]+")
_SHORTEST_STEM = 3
_WORTH = 3
"""A tool with less than a third of the points of the best is none that was meant."""

_NAME = (8, 5)
_PARAMETER = (3, 2)
_DESCRIPTION = (3, 1)


class Ranking:
    """An index over `tools`, made once for any number of questions."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._entries = [_Entry(tool) for tool in tools]

    def best(self, query: str) -> list[Tool]:
        """The tools that `query` means, best first; nothing when no word of it fits.

        A query of names alone gives just these. Otherwise names that begin with the query come first,
        then whatever has its words, rare ones counting for more, in the order of the tools where they
        count the same.
        """
        asked = {name.casefold() for name in _BETWEEN.split(query) if name}
        named = [entry for entry in self._entries if not asked.isdisjoint(entry.names)]
        if asked <= {name for entry in named for name in entry.names}:
            return [entry.tool for entry in named]
        start = "_".join(_words(query))
        points = self._points(dict.fromkeys(_words(query)))
        begun = [bool(start) and entry.begins_with(start) for entry in self._entries]
        least = max(points, default=0) / _WORTH
        places = [i for i, p in enumerate(points) if begun[i] or (p > 0 and p >= least)]
        places.sort(key=lambda i: (not begun[i], -points[i], i))
        return [self._entries[i].tool for i in places]

    def _points(self, words: Iterable[str]) -> list[float]:
        total = [0.0] * len(self._entries)
        for word in words:
            each = [entry.points(word) for entry in self._entries]
            matching = sum([p > 0 for p in each])
            if matching:
                weight = log(1 + len(each) / matching)
                total = [t + p * weight for t, p in zip(total, each, strict=True)]
        return total


class _Entry:
    """What can be found of one tool."""

    __slots__ = ("_description", "_name", "_parameters", "_starts", "names", "tool")

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.names = {tool.name.casefold(), tool.original_name.casefold()}
        self._starts = tuple(["_".join(_words(name)) for name in (tool.name, tool.original_name)])
        self._name = frozenset(_words(f"{tool.name} {tool.original_name} {tool.origin or ''}"))
        self._parameters = frozenset(_words(" ".join(_parameters(tool.input_schema))))
        self._description = frozenset(_words(tool.description))

    def begins_with(self, start: str) -> bool:
        return any(own.startswith(start) for own in self._starts)

    def points(self, word: str) -> int:
        inside = max(_hit(word, self._parameters, _PARAMETER), _hit(word, self._description, _DESCRIPTION))
        return _hit(word, self._name, _NAME) + inside


def _hit(word: str, among: frozenset[str], worth: tuple[int, int]) -> int:
    """What `word` is worth there: as it is, or as the beginning of a word (or the other way round)."""
    if word in among:
        return worth[0]
    return worth[1] if any(_begins(word, other) for other in among) else 0


def _begins(word: str, other: str) -> bool:
    shorter, longer = sorted((word, other), key=len)
    return len(shorter) >= _SHORTEST_STEM and longer.startswith(shorter)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text))]


def _parameters(schema: Mapping[str, Any]) -> list[str]:
    properties = schema.get("properties")
    return list(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else []
