"""Conditions, values, errors, names."""

import threading
from typing import Any

import pytest

from toolnexus.errors import ConfigError, ToolnexusError
from toolnexus.graph.expr import (
    Condition,
    ExprError,
    ExprEvalError,
    ExprSyntaxError,
    compile_value,
    evaluate,
    program,
)


def test_a_condition_takes_nil_for_no_and_refuses_what_is_no_bool() -> None:
    """[GR-101] At the run where the type is not known before, else when it is compiled."""
    ready = Condition("ready")
    assert ready({"ready": True}) is True
    assert ready({"ready": False}) is False
    assert ready({"ready": None}) is False
    assert ready({}) is False
    values: tuple[Any, ...] = (1, 0, "", "true", [], {})
    for value in values:
        with pytest.raises(ExprEvalError, match="a condition is a bool, this gave"):
            ready({"ready": value})
    for text in ('"x"', "1", "nil", "[true]", "{}", "len(xs)", "now()", "1 + 1", "filter(xs, true)"):
        with pytest.raises(ExprSyntaxError, match="a condition is a bool"):
            Condition(text)


def test_a_syntax_error_shows_the_line_and_a_caret() -> None:
    """[GR-102] With the position in the text; long lines are cut around it."""
    with pytest.raises(ExprSyntaxError) as caught:
        compile_value("a +\n  b c")
    assert str(caught.value) == "'c' cannot stand here (line 2, column 5)\n |   b c\n | ....^"
    assert (caught.value.position, caught.value.source) == (8, "a +\n  b c")
    with pytest.raises(ExprSyntaxError) as caught:
        compile_value(f"{'x + ' * 200}?")
    line, caret = str(caught.value).splitlines()[1:]
    assert line[len(caret) - 1] == "?"
    assert len(line) < 110


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("count > 3", r"the built-in function count \(write \$env\.count for a variable\)"),
        ("a ?? b + 1", r"\+ after \?\? needs parentheses"),
        ("score >", "the expression ends here"),
        ("n = 3", "'=' cannot stand here"),
        ('"true" == true', "== cannot take string and bool"),
        ("upper(1)", "upper: int is given where string is needed"),
        ("upper()", "upper: takes 1 argument, got 0"),
        ('s matches "("', r"a \( that is not closed"),
        ('"it\\q"', r"is no escape"),
        ("let len = 1; len", "len is a built-in function; take another name"),
        ("filter(xs, #index > 1)", "#index is not known here"),
        ("7 % 0", "% by zero"),
        ("/* open", "a comment is not closed"),
        ("'open", "a string is not closed"),
        ("a § b", "'§' has no meaning here"),
    ],
)
def test_a_syntax_error_says_what_is_wrong(text: str, says: str) -> None:
    """[GR-102] In words of the language, with what to do."""
    with pytest.raises(ExprSyntaxError, match=says):
        compile_value(text)


def test_both_errors_are_caught_as_what_they_are() -> None:
    """[GR-102] A wrong text is a wrong definition; a wrong value is not."""
    assert issubclass(ExprSyntaxError, (ExprError, ConfigError))
    assert issubclass(ExprEvalError, (ExprError, ValueError))
    assert not issubclass(ExprEvalError, ConfigError)
    assert issubclass(ExprError, ToolnexusError)


def test_a_program_tells_which_variables_it_reads() -> None:
    """[GR-103] Free names only, each once, in their order; also by way of `$env`."""
    text = 'let own = a; own > b && any(xs, .field == # && c) || $env.d || $env["e"] || f(1) || a'
    assert Condition(text).names == ("a", "b", "xs", "c", "d", "e", "f")
    assert Condition("m.count > 1 and true").names == ("m",)
    assert compile_value("1 + 2").names == ()


def test_constants_of_other_languages_are_told() -> None:
    """[GR-103] `True`, `None`, `null`, `undefined` are variables here, and mostly missing ones."""
    assert Condition("ok == True or x == None or y != null or z == undefined").suspicious == (
        "True",
        "None",
        "null",
        "undefined",
    )
    assert Condition("ok == true or x == nil or m.null").suspicious == ()
    assert Condition("ok == True")({"ok": True}) is False
    assert Condition("ok == True")({"ok": True, "True": True}) is True


def test_a_result_is_a_detached_copy_in_json_types() -> None:
    """[GR-104] Times as RFC 3339, durations in nanoseconds, months and weekdays as numbers."""
    board: dict[str, Any] = {"list": [{"a": 1}]}
    got = compile_value("list")(board)
    got[0]["a"] = 2
    assert board == {"list": [{"a": 1}]}
    constant = compile_value("[1, 2]")
    constant({}).append(3)
    assert constant({}) == [1, 2]
    assert evaluate('date("2026-01-31T10:00:00+02:00")', {}) == "2026-01-31T10:00:00+02:00"
    assert evaluate('[duration("2ms"), date("2026-03-01").Month(), date("2026-03-01").Weekday()]', {}) == [
        2_000_000,
        3,
        0,
    ]
    assert evaluate("groupBy([1, 2, 3], # % 2)", {}) == {"1": [1, 3], "0": [2]}
    assert evaluate('{z: timezone("Europe/Berlin"), b: b"hi"}', {}) == {"z": "Europe/Berlin", "b": "aGk="}
    with pytest.raises(ExprEvalError, match="func has no JSON"):
        evaluate('date("2026-01-31").Year', {})


def test_the_last_texts_stay_compiled() -> None:
    """[GR-104] 512 of them; a text that is none is not remembered as anything else."""
    program._cached.cache_clear()
    for n in range(600):
        assert evaluate(f"a + {n}", {"a": 1}) == n + 1
    assert evaluate("a + 599", {"a": 2}) == 601
    info = program._cached.cache_info()
    assert (info.currsize, info.hits) == (512, 1)
    for _ in range(2):
        with pytest.raises(ExprSyntaxError):
            evaluate("a +", {})


def test_any_mapping_can_be_the_board() -> None:
    """[GR-104] Unknown names are nil."""

    class Board(dict[str, Any]):
        pass

    assert evaluate("a + 1", Board(a=1)) == 2
    assert evaluate("type(a)", {}) == "nil"
    assert evaluate("[$env.a, len($env)]", Board(a=1)) == [1, 1]


def test_integers_have_64_bits() -> None:
    """[GR-108] They wrap as in expr-lang; larger ones of a board are compared exactly, or refused."""
    most = 2**63 - 1
    assert evaluate("a + 1", {"a": most}) == -(2**63)
    assert evaluate("a * 2", {"a": most}) == -2
    assert evaluate("bitshl(1, 63)", {}) == -(2**63)
    assert evaluate("[a == b, a > b, a]", {"a": 2**70, "b": 2**70 - 1}) == [False, True, 2**70]
    for text in ("a + 1", "a * 2", "-a", "1 - a", "abs(a)"):
        with pytest.raises(ExprEvalError, match="arithmetic is for integers of 64 bits"):
            evaluate(text, {"a": -(2**70)})
    for text in ("[1][a]", "bitand(a, 1)", "1..a", 'repeat("x", a)', "b * 1.5"):
        with pytest.raises(ExprEvalError):
            evaluate(text, {"a": 10**5000, "b": 10**5000})


def test_an_expression_reaches_nothing_of_python() -> None:
    """[GR-109] No attributes, and no calls but built-ins and methods of times."""

    class Open:
        secret = "s"

        def __call__(self) -> str:
            return "called"

    board = {"o": Open(), "f": len, "s": "x", "l": [1], "m": {"k": 1}}
    for text in (
        "o.secret",
        "o()",
        "f(s)",
        "s.upper()",
        "l.append(1)",
        "m.keys()",
        "m.__class__.x",
        "s.__class__",
        "o",
    ):
        with pytest.raises(ExprEvalError):
            evaluate(text, board)
    assert evaluate("m.__class__", board) is None
    assert board["l"] == [1]


def test_one_program_runs_in_many_threads() -> None:
    """[GR-110] It holds nothing of a run."""
    compiled = compile_value("let k = n; map(xs, {let y = #; reduce(xs, #acc + # * y, k)}) | sum()")
    wrong: list[Any] = []

    def work(n: int) -> None:
        wanted = sum(n + sum(x * y for x in range(20)) for y in range(20))
        # without a first value, 0 is where reduce starts
        for _ in range(100):
            got = compiled({"n": n, "xs": list(range(20))})
            if got != wanted:
                wrong.append((n, got, wanted))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
