"""Functions of texts, and those that make texts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.functions.base import builtin, needs_array, needs_text, of_texts, one, takes
from toolnexus.graph.expr.natures import ANY, ARRAY, BOOL, INT, STRING, STRINGS
from toolnexus.graph.expr.texts import from_json, text, to_json
from toolnexus.graph.expr.values import Frame, as_int, is_map, is_row, spend, text_of, type_name

_MOST_REPEATED = 1_000_000


def _len(frame: Frame, value: Any) -> int:
    if not is_row(value) and not is_map(value):
        raise ExprEvalError(f"len needs a string, an array or a map, got {type_name(value)}")
    return len(value)


def _upper(value: str) -> str:
    if value.isascii():
        return value.upper()  # else letter by letter: "ß" has no capital of one letter and stays
    return "".join(new if len(new := letter.upper()) == 1 else letter for letter in value)


def _lower(value: str) -> str:
    return value.lower() if value.isascii() else "".join(letter.lower()[0] for letter in value)


def _cut(name: str, *, keep: bool) -> Callable[..., list[str]]:
    def run(frame: Frame, value: Any, mark: Any, limit: Any = -1) -> list[str]:
        whole, separator, most = needs_text(value, name), needs_text(mark, name), as_int(limit, name)
        spend(frame, len(whole) >> 3)
        if not most:
            return []
        if separator:
            parts = whole.split(separator, most - 1 if most > 0 else -1)
        else:
            head = len(whole) if most < 0 else min(most - 1, len(whole))
            parts = [*whole[:head], *([whole[head:]] if whole[head:] else [])]
        return [part + separator for part in parts[:-1]] + parts[-1:] if keep else parts

    return run


def _replace(frame: Frame, value: Any, old: Any, new: Any, limit: Any = -1) -> str:
    whole, a, b = (needs_text(part, "replace") for part in (value, old, new))
    most = as_int(limit, "replace")
    found = whole.count(a) if most < 0 else min(most, whole.count(a))
    spend(frame, (len(whole) + found * len(b)) >> 6)
    return whole.replace(a, b, most if most >= 0 else -1)


def _repeat(frame: Frame, value: Any, times: Any) -> str:
    number = as_int(times, "repeat")
    whole = needs_text(value, "repeat")
    if not 0 <= number <= _MOST_REPEATED or number * len(whole) >= _MOST_REPEATED:
        raise ExprEvalError(
            f"repeat makes less than {_MOST_REPEATED:,} characters, and not a negative number"
        )
    spend(frame, number * len(whole) >> 6)
    return whole * number


def _join(frame: Frame, value: Any, glue: Any = "") -> str:
    items = [needs_text(item, "join") for item in needs_array(value, "join")]
    between = needs_text(glue, "join")
    spend(frame, (sum(map(len, items)) + len(items) * (1 + len(between))) >> 6)
    return between.join(items)


def _place(find: Callable[[str, str], int]) -> Callable[[str, str], int]:
    def run(value: str, part: str) -> int:
        at = find(value, part)
        return at if at < 1 or value.isascii() else len(value[:at].encode("utf-8", "surrogatepass"))

    return run


def _to_base64(value: str) -> str:
    return base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()


def _from_base64(value: str) -> str:
    try:
        return text_of(base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True))
    except (binascii.Error, ValueError):
        raise ExprEvalError("fromBase64: this is not base64") from None


def _type(frame: Frame, value: Any) -> str:
    return type_name(value)


def _trim_prefix(value: str, part: str = " ") -> str:
    return value.removeprefix(part)


def _trim_suffix(value: str, part: str = " ") -> str:
    return value.removesuffix(part)


def _from_json(frame: Frame, value: Any) -> Any:
    return from_json(frame, needs_text(value, "fromJSON"))


_ONE = takes(STRING, gives=STRING)
_TWO = takes(STRING, STRING, gives=STRING)
_TEST = takes(STRING, STRING, gives=BOOL)
_FIND = takes(STRING, STRING, gives=INT)
_CUT = (takes(STRING, STRING, gives=STRINGS), takes(STRING, STRING, INT, gives=STRINGS))
_REPLACE = (takes(STRING, STRING, STRING, gives=STRING), takes(STRING, STRING, STRING, INT, gives=STRING))
_JOIN = tuple(takes(kind, *glue, gives=STRING) for kind in (ARRAY, STRINGS) for glue in ((STRING,), ()))

FUNCTIONS = dict(
    (
        builtin("len", _len, rule=one(INT, "array", "map", "string")),
        builtin("type", _type, takes(ANY, gives=STRING)),
        builtin("string", text, takes(ANY, gives=STRING)),
        builtin("trim", of_texts("trim", str.strip), _ONE, _TWO),
        builtin("trimPrefix", of_texts("trimPrefix", _trim_prefix), _TWO, _ONE),
        builtin("trimSuffix", of_texts("trimSuffix", _trim_suffix), _TWO, _ONE),
        builtin("upper", of_texts("upper", _upper), _ONE),
        builtin("lower", of_texts("lower", _lower), _ONE),
        builtin("split", _cut("split", keep=False), *_CUT),
        builtin("splitAfter", _cut("splitAfter", keep=True), *_CUT),
        builtin("replace", _replace, *_REPLACE),
        builtin("repeat", _repeat, takes(STRING, INT, gives=STRING)),
        builtin("join", _join, *_JOIN),
        builtin("indexOf", of_texts("indexOf", _place(str.find)), _FIND),
        builtin("lastIndexOf", of_texts("lastIndexOf", _place(str.rfind)), _FIND),
        builtin("hasPrefix", of_texts("hasPrefix", str.startswith), _TEST),
        builtin("hasSuffix", of_texts("hasSuffix", str.endswith), _TEST),
        builtin("toJSON", to_json, takes(ANY, gives=STRING)),
        builtin("fromJSON", _from_json, takes(STRING, gives=ANY)),
        builtin("toBase64", of_texts("toBase64", _to_base64), _ONE),
        builtin("fromBase64", of_texts("fromBase64", _from_base64), _ONE),
    )
)
