"""Text of an expression → tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from toolnexus.graph.expr.errors import ExprSyntaxError

MAX_SOURCE = 10_000
"""The longest expression, in characters."""


class Token(NamedTuple):
    """One token. `kind` is `name`, `number`, `string`, `bytes`, `operator`, `bracket` or `end`."""

    kind: str
    value: str
    position: int


_WORDS = frozenset(
    ("not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else")
)
_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<bytes> b(?=["']) )
  | (?P<number> (?: 0[xX][0-9a-fA-F_]*(?:\.(?!\.)[0-9a-fA-F_]*)? | 0[oO][0-7_]* | 0[bB][01_]*
                  | [0-9][0-9_]*(?:\.(?!\.)[0-9_]*)? | \.[0-9][0-9_]* ) (?:[eE][+-]?[0-9_]*)? )
  | (?P<name> [\w$]+ )
  | (?P<raw> `(?:[^`]|``)*` )
  | (?P<string> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
  | (?P<bracket> [(\[{)\]}] )
  | (?P<operator> \|\|? | ::? | \?[.?]? | \.\.? | \#\#? | [,;%+^-] | /(?!\*) | [&!=*<>][&=*]? )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?: ([abfnrtv\\"']) | x([0-9a-fA-F]{2}) | u([0-9a-fA-F]{4}) | u\{([0-9a-fA-F]{1,6})\}
        | U([0-9a-fA-F]{8}) | ([0-3][0-7]{2}) | (.|$) )""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_UNCLOSED = {'"': "a string is not closed", "'": "a string is not closed", "`": "a raw string is not closed"}


def tokens(source: str) -> list[Token]:
    """Cut `source` into tokens, the last of kind `end`. Raises `ExprSyntaxError`."""
    if len(source) > MAX_SOURCE:
        raise ExprSyntaxError(
            f"an expression of {len(source)} characters; at most {MAX_SOURCE}", source, MAX_SOURCE
        )
    found: list[Token] = []
    position, end = 0, len(source)
    prefix = ""
    match = _TOKEN.match
    while position < end:
        part = match(source, position)
        if part is None:
            raise ExprSyntaxError(_unreadable(source, position), source, position)
        kind = part.lastgroup or ""
        text = part.group()
        if kind == "name":
            found.append(Token("operator" if text in _WORDS else "name", text, position))
        elif kind == "number":
            found.append(Token("number", text, position))
            if part.end() < end and (source[part.end()].isalnum() or source[part.end()] in "_$"):
                raise ExprSyntaxError(f"{text + source[part.end()]!r} is no number", source, position)
        elif kind == "string":
            found.append(Token("bytes" if prefix else "string", _unescape(source, text, position), position))
        elif kind == "raw":
            found.append(Token("string", text[1:-1].replace("``", "`"), position))
        elif kind != "blank" and kind != "bytes":
            found.append(Token(kind, text, position))
        prefix = text if kind == "bytes" else ""
        position = part.end()
    found.append(Token("end", "", end))
    return found


def _unreadable(source: str, position: int) -> str:
    if source.startswith("/*", position):
        return "a comment is not closed"
    character = source[position]
    return _UNCLOSED.get(character) or f"{character!r} has no meaning here"


def _unescape(source: str, text: str, position: int) -> str:
    quote, body = text[0], text[1:-1]
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    if "\\" not in body:
        return body

    def put(escape: re.Match[str]) -> str:
        plain, *codes, octal, _ = escape.groups()
        if plain and (plain not in "\"'" or plain == quote):
            return _PLAIN.get(plain, plain)
        code = next((int(digits, 16) for digits in codes if digits), int(octal, 8) if octal else None)
        if code is None or code > 0x10FFFF:
            at = position + 1 + escape.start()
            raise ExprSyntaxError(f"{escape.group()!r} is no escape in a {quote} string", source, at)
        return chr(code) if not 0xD800 <= code < 0xE000 else "�"

    return _ESCAPE.sub(put, body)


class Reader:
    """The tokens of a source, one after the other."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokens(source)
        self.at = 0
        self.token = self.tokens[0]

    def next(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
            self.token = self.tokens[self.at]
        return token

    def sees(self, value: str) -> bool:
        token = self.token
        return token.value == value and token.kind in ("operator", "bracket")

    def skip(self, value: str) -> bool:
        if self.sees(value):
            self.next()
            return True
        return False

    def expect(self, value: str) -> Token:
        if not self.sees(value):
            raise self.unexpected(f"{value!r} is missing")
        return self.next()

    def name(self) -> Token:
        if self.token.kind != "name":
            raise self.unexpected("a name is missing")
        return self.next()

    def unexpected(self, why: str = "") -> ExprSyntaxError:
        token = self.token
        met = "the expression ends" if token.kind == "end" else f"{token.value[:40]!r} cannot stand"
        return self.error(f"{met} here{': ' + why if why else ''}", token)

    def error(self, why: str, token: Token) -> ExprSyntaxError:
        return ExprSyntaxError(why, self.source, token.position)
