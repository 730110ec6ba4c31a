"""The syntax of regular expressions: that of RE2, which has no look-around and no back references."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

MOST_REPEATS = 1000
MOST_GROUPS = 100

Test = Callable[[str], bool]
"""Whether one character belongs to a set."""


class Part(NamedTuple):
    """A part of a pattern. `kind`: `set`, `all` (in a row), `any` (one of), `repeat`, `look`."""

    kind: str
    value: Any = None
    parts: tuple[Part, ...] = ()


_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_DIGIT = frozenset("0123456789")
_LETTER = _WORD - _DIGIT - {"_"}
_UPPER = frozenset(c for c in _LETTER if c.isupper())
_PUNCTUATION = frozenset(chr(n) for n in range(33, 127)) - _LETTER - _DIGIT
_PERL = {"d": _DIGIT, "w": _WORD, "s": frozenset("\t\n\f\r ")}
_POSIX = {
    "alnum": _LETTER | _DIGIT,
    "alpha": _LETTER,
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": _DIGIT,
    "graph": _LETTER | _DIGIT | _PUNCTUATION,
    "lower": _LETTER - _UPPER,
    "print": _LETTER | _DIGIT | _PUNCTUATION | {" "},
    "punct": _PUNCTUATION,
    "space": frozenset("\t\n\v\f\r "),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": frozenset("0123456789abcdefABCDEF"),
}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CATEGORIES = frozenset(
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No "
    "P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs".split()
)
_SCRIPTS = {
    **{"Han": "CJK ", "Latin": "LATIN ", "Greek": "GREEK ", "Cyrillic": "CYRILLIC ", "Thai": "THAI "},
    **{"Arabic": "ARABIC ", "Hebrew": "HEBREW ", "Hiragana": "HIRAGANA ", "Katakana": "KATAKANA "},
    **{"Hangul": "HANGUL ", "Devanagari": "DEVANAGARI ", "Armenian": "ARMENIAN ", "Georgian": "GEORGIAN "},
}


def parse(pattern: str) -> Part:
    """The parts of `pattern`. Raises `ValueError`."""
    parser = _Parser(pattern)
    part = parser.alternatives("")
    if parser.at < len(pattern):
        raise parser.error("a ) that nothing opens")
    return part


@lru_cache(4096)
def _variants(character: str) -> frozenset[str]:
    found = {character}
    for _ in range(2):
        found |= {c for old in found for c in (old.lower(), old.upper()) if len(c) == 1}
    return frozenset(found)


def _one_of(characters: frozenset[str], fold: bool, negated: bool = False) -> Test:
    if fold:
        characters = frozenset(c for old in characters for c in _variants(old))
        if negated:
            return lambda c: characters.isdisjoint(_variants(c))
        return lambda c: not characters.isdisjoint(_variants(c))
    return (lambda c: c not in characters) if negated else characters.__contains__


def _anything(character: str) -> bool:
    return True


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.names: set[str] = set()

    def error(self, why: str) -> ValueError:
        shown = self.pattern if len(self.pattern) <= 80 else self.pattern[:79] + "…"
        return ValueError(f"the regular expression {shown!r} has {why}, at {self.at}")

    def peek(self, ahead: int = 0) -> str:
        return self.pattern[self.at + ahead : self.at + ahead + 1]

    def next(self, what: str) -> str:
        character = self.peek()
        if not character:
            raise self.error(f"no {what} at its end")
        self.at += 1
        return character

    def skip(self, text: str) -> bool:
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def alternatives(self, flags: str) -> Part:
        self.depth += 1
        if self.depth > MOST_GROUPS:
            raise self.error("groups nested too deeply")
        choices: list[Part] = []
        row: list[Part] = []
        while self.at < len(self.pattern) and self.peek() != ")":
            if self.skip("|"):
                choices.append(Part("all", parts=tuple(row)))
                row = []
            elif self.pattern.startswith("(?", self.at) and (new := self.flags(flags)) is not None:
                flags = new
            elif self.skip(r"\Q"):
                text, _, rest = self.pattern[self.at :].partition(r"\E")
                self.at = len(self.pattern) - len(rest)
                row += [self.letter(c, flags) for c in text[:-1]]
                row += [self.repeated(self.letter(text[-1], flags))] if text else []
            else:
                row.append(self.repeated(self.single(flags)))
        self.depth -= 1
        choices.append(Part("all", parts=tuple(row)))
        return choices[0] if len(choices) == 1 else Part("any", parts=tuple(choices))

    def flags(self, flags: str) -> str | None:
        """The flags after `(?i)`; None where a group follows instead."""
        end = self.pattern.find(")", self.at)
        text = self.pattern[self.at + 2 : end]
        if end < 0 or ":" in text or text[:1] in ("<", "P"):
            return None
        self.at += 2
        new = self.changed(flags, text)
        self.at = end + 1
        return new

    def changed(self, flags: str, text: str) -> str:
        on, minus, off = text.partition("-")
        if set(on + off) - set("imsU") or not on + off or (minus and not off):
            raise self.error("a group like (?=…) or a flag that RE2 does not have")
        return "".join(sorted((set(flags) | set(on)) - set(off)))

    def group(self, flags: str) -> Part:
        if self.skip("?"):
            if self.skip("P<") or self.skip("<"):
                name, found, _ = self.pattern[self.at :].partition(">")
                if not found or not name or set(name) - _WORD or name in self.names:
                    raise self.error("a group like (?<=…), or a group without a name of its own")
                self.names.add(name)
                self.at += len(name) + 1
            else:
                text, found, _ = self.pattern[self.at :].partition(":")
                if not found or ")" in text:
                    raise self.error("a group like (?=…) or a flag that RE2 does not have")
                flags = self.changed(flags, text) if text else flags
                self.at += len(text) + 1
        inner = self.alternatives(flags)
        if not self.skip(")"):
            raise self.error("a ( that is not closed")
        return inner

    def single(self, flags: str) -> Part:
        character = self.next("character")
        match character:
            case "(":
                return self.group(flags)
            case "[":
                return Part("set", self.members(flags))
            case ".":
                return Part(
                    "set", _anything if "s" in flags else _one_of(frozenset("\n"), False, negated=True)
                )
            case "^":
                return Part("look", "line start" if "m" in flags else "start")
            case "$":
                return Part("look", "line end" if "m" in flags else "end")
            case "*" | "+" | "?":
                raise self.error(f"a {character} with nothing before it")
            case "{" if self.counts(self.at - 1) is not None:
                raise self.error("a count with nothing before it")
            case "\\":
                return self.escaped(flags)
            case _:
                return self.letter(character, flags)

    def letter(self, character: str, flags: str) -> Part:
        return Part("set", _one_of(frozenset(character), "i" in flags))

    def escaped(self, flags: str) -> Part:
        looks = {"A": "start", "z": "end", "b": "edge", "B": "no edge"}
        if self.peek() in looks:
            return Part("look", looks[self.next("")])
        self.at -= 1
        known = self.escaped_class(flags)
        if known is not None:
            return Part("set", known)
        return self.letter(self.escaped_letter(), flags)

    def escaped_class(self, flags: str) -> Test | None:
        kind = self.peek(1)
        if kind and kind.lower() in _PERL:
            self.at += 2
            return _one_of(_PERL[kind.lower()], "i" in flags, kind.isupper())
        if kind not in ("p", "P"):
            return None
        self.at += 2
        name = self.next("class")
        if name == "{":
            name, found, _ = self.pattern[self.at :].partition("}")
            if not found:
                raise self.error("a class that is not closed")
            self.at += len(name) + 1
        test = self.unicode_class(name.removeprefix("^"), "i" in flags)
        if (kind == "P") == name.startswith("^"):
            return test
        return lambda c: not test(c)

    def unicode_class(self, name: str, fold: bool) -> Test:
        if name == "Any":
            return _anything
        if name in _CATEGORIES:

            def one(c: str) -> bool:
                return unicodedata.category(c).startswith(name)
        elif name in _SCRIPTS:
            script = _SCRIPTS[name]

            def one(c: str) -> bool:
                return unicodedata.name(c, "").startswith(script)
        else:
            raise self.error(f"an unknown class {name!r}")
        return (lambda c: any(map(one, _variants(c)))) if fold else one

    def escaped_letter(self) -> str:
        self.at += 1
        character = self.next("character after the backslash")
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            return self.code(16)
        if character in "01234567":
            if character == "0" or self.peek() in tuple("01234567"):
                self.at -= 1
                return self.code(8)
        elif not character.isalnum() and character.isascii():
            return character
        raise self.error(f"an escape \\{character}, which RE2 does not have")

    def code(self, base: int) -> str:
        if base == 8:
            end = self.at
            while end < self.at + 3 and self.pattern[end : end + 1] in tuple("01234567"):
                end += 1
            digits, self.at = self.pattern[self.at : end], end
        elif self.skip("{"):
            digits, found, _ = self.pattern[self.at :].partition("}")
            self.at += len(digits) + 1
            digits = digits if found else ""
        else:
            digits = self.pattern[self.at : self.at + 2]
            digits = digits if len(digits) == 2 else ""
            self.at += 2
        if not digits or set(digits.lower()) - set("0123456789abcdef"[:base]) or int(digits, base) > 0x10FFFF:
            raise self.error("a character code that is none")
        return chr(int(digits, base))

    def members(self, flags: str) -> Test:
        fold = "i" in flags
        negated = self.skip("^")
        letters: set[str] = set()
        ranges: list[tuple[str, str]] = []
        tests: list[Test] = []
        first = True
        while first or self.peek() != "]":
            first = False
            if not self.peek():
                raise self.error("a [ that is not closed")
            if self.pattern.startswith("[:", self.at) and (end := self.pattern.find(":]", self.at + 2)) > 0:
                name = self.pattern[self.at + 2 : end]
                if name.removeprefix("^") not in _POSIX:
                    raise self.error(f"an unknown class {name!r}")
                self.at = end + 2
                tests.append(_one_of(_POSIX[name.removeprefix("^")], fold, name.startswith("^")))
                continue
            known = self.escaped_class(flags) if self.peek() == "\\" else None
            if known is not None:
                tests.append(known)
                continue
            low = self.class_letter()
            if self.peek() == "-" and self.peek(1) not in ("]", ""):
                self.at += 1
                high = self.class_letter()
                if high < low:
                    raise self.error(f"a range {low}-{high} that is empty")
                ranges.append((low, high))
            else:
                letters.add(low)
        self.at += 1
        return _members(letters, ranges, tests, fold, negated)

    def class_letter(self) -> str:
        return self.escaped_letter() if self.peek() == "\\" else self.next("] for a [")

    def counts(self, at: int) -> tuple[int, int | None, int] | None:
        """Least, most, and the place after `{n,m}`; None where the braces are plain characters."""
        text, found, _ = self.pattern[at + 1 :].partition("}")
        low, comma, high = text.partition(",")
        if not found or not _is_count(low) or (high and not _is_count(high)):
            return None
        return int(low), (int(high) if high else None if comma else int(low)), at + 2 + len(text)

    def repeated(self, part: Part) -> Part:
        before = self.at
        character = self.peek()
        if character in ("*", "+", "?") and character:
            self.at += 1
            least, most = (1 if character == "+" else 0), (1 if character == "?" else None)
        elif character == "{" and (found := self.counts(self.at)) is not None:
            least, most, self.at = found
            if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
                self.at = before
                raise self.error(f"a count above {MOST_REPEATS} or a range of counts that is empty")
        else:
            return part
        self.skip("?")
        if self.peek() in ("*", "+", "?") and self.peek():
            raise self.error("two repetitions in a row")
        if self.peek() == "{" and self.counts(self.at) is not None:
            raise self.error("two repetitions in a row")
        whole = Part("repeat", (least, most), (part,))
        if copies(whole) > MOST_REPEATS:
            raise self.error(f"counts inside counts that come to more than {MOST_REPEATS}")
        return whole


def _is_count(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0") and len(digits) < 9


def copies(part: Part) -> int:
    """How often the counts in `part` repeat what they are about, at most."""
    inner = max(map(copies, part.parts), default=1)
    if part.kind != "repeat":
        return inner
    least, most = part.value
    return inner * max(least if most is None else most, 1)


def _members(
    letters: set[str], ranges: Sequence[tuple[str, str]], tests: Sequence[Test], fold: bool, negated: bool
) -> Test:
    def inside(c: str) -> bool:
        return c in letters or any(low <= c <= high for low, high in ranges) or any(test(c) for test in tests)

    if fold:
        exact = inside
        letters = {c for old in letters for c in _variants(old)}

        def folded(c: str) -> bool:
            return exact(c) or any(map(exact, _variants(c)))

        return (lambda c: not folded(c)) if negated else folded
    return (lambda c: not inside(c)) if negated else inside
