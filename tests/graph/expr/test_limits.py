"""What an expression may cost."""

import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from toolnexus.graph.expr import Condition, ExprEvalError, ExprSyntaxError, compile_value, evaluate

TOKENS = (
    *(
        "a",
        "b",
        "xs",
        "m",
        "#",
        ".v",
        "#acc",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "+",
        "-",
        "*",
        "/",
        "%",
        "**",
        "==",
    ),
    *(
        "!=",
        "<",
        ">",
        "in",
        "not",
        "and",
        "or",
        "??",
        "?",
        "?.",
        ":",
        "::",
        ",",
        ";",
        "..",
        ".",
        "|",
        "let",
        "=",
    ),
    *(
        "if",
        "else",
        "1",
        "0",
        "2.5",
        '"x"',
        "'y'",
        "`z`",
        "true",
        "nil",
        "len",
        "map",
        "filter",
        "reduce",
        "sum",
    ),
    *("sort", "string", "toJSON", 'date("2026-01-01")', ".Year()", "matches", "contains", "$env", "duration"),
    *("1e9", "9223372036854775807", "0x", "\\", '"', "é", "\n", "//", "/*", 'b"q"', "repeat", "split", "get"),
    *("groupBy", "fromPairs", "toPairs", "int", "float", "\ud800", "1..1000", '"(a+)+$"'),
)


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def doubled(times: int) -> list[Any]:
    found: list[Any] = [1]
    for _ in range(times):
        found = [found, found]
    return found


BOARD: dict[str, Any] = {
    "a": 1,
    "b": "text",
    "xs": [1, 2, None, "q", {"v": 1}],
    "m": {"v": [1]},
    "big": 10**400,
    "deep": deep(50_000),
    "twice": doubled(60),
    "text": "a" * 100_000,
    "many": list(range(100_000)),
    "inf": float("inf"),
}


def outcome(text: str) -> str:
    try:
        evaluate(text, BOARD)
    except ExprSyntaxError:
        return "compile"
    except ExprEvalError:
        return "run"
    return "ok"


def test_a_text_is_not_longer_than_ten_thousand_characters() -> None:
    """[GR-105] Told before anything of it is read."""
    assert evaluate("1" + " " * 9_999, {}) == 1
    with pytest.raises(ExprSyntaxError, match="10001 characters; at most 10000"):
        compile_value("1" + " " * 10_000)


@pytest.mark.parametrize(
    "text",
    [
        *("(" * 4_000, "[" * 4_000, "!" * 4_000 + "a", "{a:" * 2_000, "f(" * 3_000, "-" * 4_000 + "1"),
        *("(" * 3_000 + "1" + ")" * 3_000, "a" + ".b" * 3_000, "a" + "[0]" * 3_000, "a" + "?.b" * 3_000),
        *(
            "a + " * 2_000 + "1",
            "a ? b : " * 1_000 + "c",
            "if a {1} else " * 700 + "{2}",
            "a ** " * 2_000 + "1",
        ),
        *("1" + "|string()" * 900, "".join(f"let v{n} = 1;" for n in range(600)) + "1"),
    ],
)
def test_nesting_is_limited_to_two_hundred(text: str) -> None:
    """[GR-105] A syntax error, and never a RecursionError."""
    with pytest.raises(ExprSyntaxError):
        compile_value(text)


def test_long_chains_of_and_and_or_are_not_nested() -> None:
    """[GR-105] A condition may have a thousand alternatives."""
    assert Condition(" || ".join(f"n == {n}" for n in range(700)))({"n": 699}) is True
    assert Condition(" && ".join(f"n != {n}" for n in range(700)))({"n": 700}) is True
    assert evaluate("(" * 60 + "1" + ")" * 60, {}) == 1


def test_neither_a_deep_stack_nor_deep_values_end_in_a_recursion_error() -> None:
    """[GR-106] Wherever the expression is evaluated from."""

    def below(levels: int, run: Callable[[], object]) -> object:
        return run() if not levels else below(levels - 1, run)

    room = sys.getrecursionlimit() - len([1 for _ in _frames()]) - 30
    for levels in range(0, room, 90):
        for text in ("(" * 100 + "1" + ")" * 100, "a" + ".b" * 100, "[[[[[[[[1]]]]]]]]"):
            assert below(levels, partial(outcome, text + " " * levels)) in ("ok", "compile", "run")
    for text in (
        "deep == deep",
        "string(deep)",
        "toJSON(deep)",
        "flatten(deep)",
        "deep",
        "min(deep)",
        "mean(deep)",
    ):
        assert outcome(text) == "run"
    assert outcome('fromJSON(repeat("[", 100000))') == "run"


def _frames() -> list[Any]:
    found: list[Any] = []
    frame: Any = sys._getframe()
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


@pytest.mark.parametrize(
    "text",
    [
        *("map(many, map(many, #))", "any(many, any(many, false))", "filter(many, # in many)", "0..9999999"),
        *("map(many, upper(text))", 'map(many, text contains "b")', "join(map(many, text))", "twice"),
        *(
            "twice == twice",
            "toJSON(twice)",
        ),
        *('repeat("ab", 999999)', 'repeat("a", -1)', "repeat(text, 100)", 'replace(text, "", text)'),
        *(
            "all(many, (text + text) != text)",
            "map(many, many[1:] | len())",
            "many[inf]",
            "inf..1",
            "big * 1.5",
        ),
    ],
)
def test_steps_and_sizes_are_limited(text: str) -> None:
    """[GR-105] One evaluation takes a million steps: items that loops visit, pieces of text and lists."""
    start = time.thread_time()
    with pytest.raises(ExprEvalError):
        evaluate(text, BOARD)
    assert time.thread_time() - start < 3


def test_growing_texts_and_lists_end_before_the_memory_does() -> None:
    """[GR-105] Doubling forty times is no way around."""
    texts = "let v0 = text; " + "".join(f"let v{n + 1} = v{n} + v{n}; " for n in range(40)) + "v40"
    lists = (
        "let v0 = many; " + "".join(f"let v{n + 1} = concat(v{n}, v{n}); " for n in range(40)) + "len(v40)"
    )
    for text in (texts, lists):
        with pytest.raises(ExprEvalError, match="more than 1,000,000 steps"):
            evaluate(text, BOARD)


def test_random_tokens_raise_nothing_but_the_two_errors() -> None:
    """[GR-106] Two thousand of them, with values of every kind on the board."""
    rnd = random.Random(7)
    seen: set[str] = set()
    for _ in range(2_000):
        words = [rnd.choice(TOKENS) for _ in range(rnd.randint(1, 12))]
        seen.add(outcome(" ".join(words) if rnd.random() < 0.7 else "".join(words)))
    assert seen == {"ok", "compile", "run"}
