"""`matches`: whether a text holds a match. The time is linear in the text whatever the pattern is.

google-re2 does the work where it is installed; else the automaton below, which gives the same answers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from toolnexus.graph.expr.pattern import Part, Test, copies, parse

MOST_PATTERN = 1_000
"""The longest pattern, in characters."""
_MOST_STEPS = 20_000
_MOST_KNOWN = 5_000

Pay = Callable[[int], None]
Match = Callable[[str, Pay], bool]
"""Whether a text holds a match; work is paid for, so that a limit can end it."""


@lru_cache(256)
def matcher(pattern: str) -> Match:
    """The test for `pattern`. Raises `ValueError` where it is none, or too large."""
    if len(pattern) > MOST_PATTERN:
        raise ValueError(f"a regular expression of {len(pattern)} characters; at most {MOST_PATTERN}")
    part = parse(pattern)
    return _by_re2(pattern, copies(part)) or _Automaton(part).match


@lru_cache(1)
def _re2() -> Any:
    try:
        return importlib.import_module("re2")
    except ImportError:
        return None


def _by_re2(pattern: str, repeated: int) -> Match | None:
    """None where google-re2 is not installed, or the pattern needs more memory than it takes."""
    engine = _re2()
    if engine is None:
        return None
    options = engine.Options()
    options.log_errors = False
    try:
        found = engine.compile(pattern, options)
    except engine.error:
        return None

    def match(text: str, pay: Pay) -> bool:
        pay(len(text) * repeated >> 8)
        return found.search(text.encode("utf-8", "replace").decode()) is not None

    return match


class _Step(NamedTuple):
    """`kind`: `set` (a character), `look` (a place), `fork` (without reading), `done`."""

    kind: str
    value: Any
    to: tuple[int, ...]


_NONE, _LINE, _WORD, _OTHER = range(4)
_LOOKS: dict[str, Callable[[int, int], bool]] = {
    "start": lambda before, after: before == _NONE,
    "end": lambda before, after: after == _NONE,
    "line start": lambda before, after: before in (_NONE, _LINE),
    "line end": lambda before, after: after in (_NONE, _LINE),
    "edge": lambda before, after: (before == _WORD) != (after == _WORD),
    "no edge": lambda before, after: (before == _WORD) == (after == _WORD),
}


def _kind(character: str) -> int:
    if character == "\n":
        return _LINE
    return _WORD if character.isascii() and (character.isalnum() or character == "_") else _OTHER


class _State:
    """The steps at which the automaton can be between two characters, and what followed so far."""

    __slots__ = ("before", "known", "places")

    def __init__(self, places: frozenset[int], before: int) -> None:
        self.places = places
        self.before = before
        self.known: dict[str, _State | None] = {}


class _Automaton:
    """All ways through a pattern at once; the ways that were gone before are remembered."""

    def __init__(self, part: Part) -> None:
        self.steps: list[_Step] = []
        done = self._step("done", None)
        self.start = self._build(part, done)
        self.states: dict[tuple[frozenset[int], int], _State] = {}
        self.size = 0

    def _step(self, kind: str, value: Any, *to: int) -> int:
        if len(self.steps) >= _MOST_STEPS:
            raise ValueError("a regular expression with too many repetitions")
        self.steps.append(_Step(kind, value, to))
        return len(self.steps) - 1

    def _build(self, part: Part, to: int) -> int:
        """Steps for `part` that lead to the step `to`; the first of them."""
        match part.kind:
            case "all":
                for inner in reversed(part.parts):
                    to = self._build(inner, to)
                return to
            case "any":
                return self._step("fork", None, *(self._build(inner, to) for inner in part.parts))
            case "repeat":
                return self._repeat(part, to)
            case kind:
                return self._step(kind, part.value, to)

    def _repeat(self, part: Part, to: int) -> int:
        (inner,) = part.parts
        least, most = part.value
        if most is None:
            again = self._step("fork", None)
            self.steps[again] = _Step("fork", None, (self._build(inner, again), to))
            to = again
        else:
            end = to
            for _ in range(most - least):
                to = self._step("fork", None, self._build(inner, to), end)
        for _ in range(least):
            to = self._build(inner, to)
        return to

    def match(self, text: str, pay: Pay) -> bool:
        """Whether `text` holds a match."""
        pay(len(text) >> 3)
        state: _State | None = self._state(frozenset((self.start,)), _NONE)
        for character in text:
            known = state.known
            if character in known:
                state = known[character]
            else:
                state = known[character] = self._next(state, character, pay)
            if state is None:
                return True
        return self._places(state, _NONE) is None

    def _state(self, places: frozenset[int], before: int) -> _State:
        key = (places, before)
        state = self.states.get(key)
        if state is None:
            self.size += 1
            if self.size > _MOST_KNOWN:  # forget, so that memory stays bounded
                self.size, self.states = 1, {}
            state = self.states[key] = _State(places, before)
        return state

    def _next(self, state: _State, character: str, pay: Pay) -> _State | None:
        after = _kind(character)
        places = self._places(state, after)
        if places is None:
            return None
        pay(len(places))
        self.size += 1
        moved = {self.steps[place].to[0] for place in places if self._accepts(place, character)}
        moved.add(self.start)
        return self._state(frozenset(moved), after)

    def _accepts(self, place: int, character: str) -> bool:
        test: Test = self.steps[place].value
        return test(character)

    def _places(self, state: _State, after: int) -> list[int] | None:
        """The steps that read the next character; None where the match is complete."""
        found: list[int] = []
        seen = set(state.places)
        waiting = list(state.places)
        while waiting:
            place = waiting.pop()
            kind, value, to = self.steps[place]
            if kind == "done":
                return None
            if kind == "set":
                found.append(place)
            elif kind == "fork" or _LOOKS[value](state.before, after):
                new = [place for place in to if place not in seen]
                seen.update(new)
                waiting += new
        return found
