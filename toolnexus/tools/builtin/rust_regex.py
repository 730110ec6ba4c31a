"""Rust-style regular expressions as Python ones that match the same lines.

What it is: a reader of the dialect that ripgrep takes, for machines without ripgrep, and the
source of error positions on all. Only whether a line matches counts here, so greediness and
captures are dropped. What it is not: complete; it says of the rest that ripgrep is needed.
"""

from __future__ import annotations

import re

_NO_CHARACTER = "\udc80-\udcff"
"""How Python shows bytes that are no UTF-8: to ripgrep no character, so nothing matches them."""

_SETS = frozenset("dDsSwW")
_EDGES = {
    "b": r"\b",
    "B": r"(?!\b)",
    "A": r"\A",
    "z": r"\Z",
    "<": r"\b(?=\w)",
    ">": r"\b(?<=\w)",
    "b{start}": r"\b(?=\w)",
    "b{end}": r"\b(?<=\w)",
    "b{start-half}": r"(?<!\w)",
    "b{end-half}": r"(?!\w)",
}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "t": "\t", "r": "\r", "v": "\v"}
_HEX = {"x": 2, "u": 4, "U": 8}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_POSIX_NAME = re.compile(r"\[:([a-z]+):\]")
_NAME = re.compile(r"\?P?<(?![=!])(\w[\w.\[\]]*)>")
_FLAGS = re.compile(r"\?([a-zA-Z-]*)([:)])")
_LOOK = re.compile(r"\?<?[=!]")
_COUNT = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d+)?\s*)?\}")
_EDGE_NAME = re.compile(r"\{([a-z-]+)\}")
_BREAKS = ("\n", "\r")
_ESCAPED_BREAKS = tuple(re.escape(sign) for sign in _BREAKS)
_LINE_BREAK = "a match never spans lines, so the pattern cannot hold a line break"


class PatternError(Exception):
    """The pattern is wrong. `position` counts characters from 1."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class NeedsRipgrep(PatternError):
    """The pattern may be right, but only ripgrep knows what it means."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(f"{what} can be used only where ripgrep is installed", position)


def to_python(pattern: str) -> str:
    """The same pattern for `re.search` on one line. Raises `PatternError`."""
    return _Reader(pattern).read()


class _Group:
    """An open group: its finished alternatives, the one being read, and the mode to go back to."""

    def __init__(self, start: int, ignore_case: bool) -> None:
        self.start = start
        self.ignore_case = ignore_case
        self.branches: list[str] = []
        self.items: list[str] = []

    def branch(self) -> None:
        self.branches.append("".join(self.items))
        self.items = []

    def text(self) -> str:
        self.branch()
        return "|".join(self.branches)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.ignore_case = False
        self.groups = [_Group(0, False)]
        self.names: set[str] = set()

    def read(self) -> str:
        while self.at < len(self.text):
            self.item(self.text[self.at])
        if len(self.groups) > 1:
            raise PatternError("unclosed group", self.groups[-1].start)
        return self.groups[0].text()

    def item(self, sign: str) -> None:
        items = self.groups[-1].items
        if sign in "*+?{":
            self.repeat(items)
        elif sign == "(":
            self.open()
        elif sign == ")":
            self.close()
        elif sign == "|":
            self.groups[-1].branch()
            self.at += 1
        elif sign == "[":
            items.append(self.cased(self.char_class()))
        elif sign in ".^$":
            items.append(f"[^{_NO_CHARACTER}]" if sign == "." else sign)
            self.at += 1
        else:
            start = self.at + 1
            kind, text = self.literal()
            if text in _BREAKS:
                raise PatternError(_LINE_BREAK, start)
            if kind == "set" and text.isupper():
                text = f"[^{text.lower()}{_NO_CHARACTER}]"
            items.append(text if kind == "edge" else self.cased(re.escape(text) if kind == "char" else text))

    def cased(self, item: str) -> str:
        return f"(?i:{item})" if self.ignore_case else item

    def repeat(self, items: list[str]) -> None:
        if not items:
            raise PatternError("repetition operator without an expression before it", self.at + 1)
        times = self.text[self.at]
        if times == "{":
            times = self.count()
        else:
            self.at += 1
        if self.text.startswith("?", self.at):  # lazy: the same lines match
            self.at += 1
        items[-1] = f"(?:{items[-1]}){times}"

    def count(self) -> str:
        found = _COUNT.match(self.text, self.at)
        if found is None:
            raise PatternError(r"not a repetition such as {2} or {2,5} (a literal brace is \{)", self.at + 1)
        low, comma, high = found.groups()
        if high is not None and int(high) < int(low):
            raise PatternError("repetition whose start is above its end", self.at + 1)
        self.at = found.end()
        return "{" + low + (comma or "") + (high or "") + "}"

    def open(self) -> None:
        start = self.at + 1
        group = _Group(start, self.ignore_case)
        self.at += 1
        if self.text.startswith("?", self.at):
            if _LOOK.match(self.text, self.at):
                raise PatternError("look-around is not supported", start)
            if named := _NAME.match(self.text, self.at):
                self.name(named.group(1), start)
                self.at = named.end()
            elif flags := _FLAGS.match(self.text, self.at):
                self.flags(flags.group(1))
                self.at = flags.end()
                if flags.group(2) == ")":  # for the rest of the group around it
                    return
            else:
                raise PatternError("unknown kind of group", start)
        self.groups.append(group)

    def name(self, name: str, position: int) -> None:
        if name in self.names:
            raise PatternError(f"two groups are called {name!r}", position)
        self.names.add(name)

    def flags(self, flags: str) -> None:
        """Only `i` changes which lines match; `m`, `s`, `U`, `u` and `R` do not."""
        on = True
        for i, flag in enumerate(flags, self.at + 2):
            if flag == "-":
                on = False
            elif flag == "i":
                self.ignore_case = on
            elif flag == "x" or (flag == "u" and not on):
                raise NeedsRipgrep(f"the flag {flag!r}", i)
            elif flag not in "msUuR":
                raise PatternError(f"unknown flag {flag!r}", i)

    def close(self) -> None:
        if len(self.groups) == 1:
            raise PatternError("closing parenthesis without an opening one", self.at + 1)
        group = self.groups.pop()
        self.ignore_case = group.ignore_case
        self.groups[-1].items.append(f"(?:{group.text()})")
        self.at += 1

    def literal(self) -> tuple[str, str]:
        """What stands here: a `char`, a `set` such as `\\d`, or an `edge` such as `\\b`."""
        start, sign = self.at + 1, self.text[self.at]
        self.at += 1
        if sign != "\\":
            return "char", sign
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if sign in _SETS:
            return "set", f"\\{sign}"
        if sign in _EDGES:
            return "edge", self.edge(sign, start)
        if sign in _CONTROLS:
            return "char", _CONTROLS[sign]
        if sign in _HEX:
            return "char", self.hex(_HEX[sign], start)
        if sign in ("p", "P"):
            raise NeedsRipgrep("a Unicode class", start)
        if sign.isdigit():
            raise PatternError("backreferences are not supported", start)
        if not sign or not sign.isascii() or sign.isalnum():
            raise PatternError(
                "unknown escape sequence" if sign else "the pattern ends in a backslash", start
            )
        return "char", sign

    def edge(self, sign: str, start: int) -> str:
        if sign == "b" and (named := _EDGE_NAME.match(self.text, self.at)):
            sign = f"b{named.group()}"
            if sign not in _EDGES:
                raise PatternError("unknown kind of word boundary", start)
            self.at = named.end()
        return _EDGES[sign]

    def hex(self, digits: int, start: int) -> str:
        code = self.text[self.at : self.at + digits]
        self.at += digits
        if code.startswith("{"):
            self.at = self.text.find("}", self.at - digits) + 1 or len(self.text)
            code = self.text[start + 2 : self.at - 1]
        elif len(code) < digits:
            code = ""
        try:
            return chr(int(code, 16))
        except (ValueError, OverflowError):
            raise PatternError("not a hexadecimal character code", start) from None

    def char_class(self) -> str:
        start = self.at + 1
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        items: list[str] = []
        while not (items and self.text.startswith("]", self.at)):
            if self.at >= len(self.text):
                raise PatternError("unclosed character class", start)
            items.append(self.class_item())
        self.at += 1
        if not negated and all(item in _ESCAPED_BREAKS for item in items):
            raise PatternError(_LINE_BREAK, start)
        return f"[{'^' if negated else ''}{''.join(items)}{_NO_CHARACTER if negated else ''}]"

    def class_item(self) -> str:
        start = self.at + 1
        if self.text[self.at : self.at + 2] in ("&&", "--", "~~"):
            raise NeedsRipgrep("a class with set operators", start)
        if self.text.startswith("[", self.at):
            posix = _POSIX_NAME.match(self.text, self.at)
            if posix is None or posix.group(1) not in _POSIX:
                raise NeedsRipgrep("a class inside a class", start)
            self.at = posix.end()
            return _POSIX[posix.group(1)]
        kind, low = self.class_literal()
        if self.text[self.at : self.at + 1] != "-" or self.text[self.at + 1 : self.at + 2] in ("", "]", "-"):
            return re.escape(low) if kind == "char" else low
        self.at += 1
        other, high = self.class_literal()
        if kind != "char" or other != "char":
            raise PatternError("a range in a class goes from one character to another", start)
        if low > high:
            raise PatternError("a range in a class whose start is above its end", start)
        return f"{re.escape(low)}-{re.escape(high)}"

    def class_literal(self) -> tuple[str, str]:
        start = self.at + 1
        kind, text = self.literal()
        if kind == "edge":
            raise PatternError("a class holds characters, not positions", start)
        return kind, text
