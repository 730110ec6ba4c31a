"""`matches`."""

import random
import time
from typing import Any

import pytest

from toolnexus.graph.expr import ExprEvalError, ExprSyntaxError, evaluate, regex

ATOMS = (
    *("a", "b", "é", ".", r"\d", r"\w", r"\s", r"\b", r"\B", "^", "$", r"\A", r"\z", "[ab]", "[^a]", "[a-c]"),
    *(r"[\d-]", "[[:alpha:]x]", r"\pL", r"\n", r"\.", "(?:", "(", "(?i:", ")", ")", "|", "*", "+", "?", "*?"),
    *(
        "{2}",
        "{1,2}",
        "{0}",
        "{2,}",
        "-",
        " ",
        r"\x41",
        r"\Qa.\E",
        r"\W",
        r"[^\w]",
        "A",
        "_",
        r"\p{Lu}",
        "(?m:",
    ),
)


@pytest.fixture(params=["re2", "own"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With google-re2, and as where it is not installed."""
    if request.param == "re2":
        pytest.importorskip("re2")
    else:
        monkeypatch.setattr(regex, "_re2", lambda: None)
    regex.matcher.cache_clear()
    yield request.param
    regex.matcher.cache_clear()


def nothing(steps: int) -> None:
    pass


def matches(pattern: str, text: str) -> bool | None:
    try:
        return regex.matcher(pattern)(text, nothing)
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 60 + "!"),
        ("(a|aa)+$", "a" * 5_000 + "!"),
        ("(a*)*b", "a" * 5_000),
        ("(x+x+)+y", "x" * 5_000),
        ("(.*)(.*)(.*)(.*)(.*)b", "a" * 5_000),
        ("(a?){60}a{60}", "a" * 59),
        ("a.*a.*a.*a.*a.*b", "a" * 5_000),
    ],
)
def test_a_pattern_that_hangs_other_engines_does_not_hang(engine: str, pattern: str, text: str) -> None:
    """[GR-107] The time is linear in the text."""
    start = time.thread_time()
    assert evaluate("text matches pattern", {"text": text, "pattern": pattern}) is False
    assert time.thread_time() - start < 2


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "a(?=b)",
            "a(?!b)",
            "(?<=a)b",
            "(?<!a)b",
            r"(a)\1",
            "(?P=x)",
            "(?>a)",
            "a++",
            "a**",
            r"a\Z",
            "(?x)a",
        ),
        *(
            "(",
            ")",
            "[",
            "*",
            "a{1001}",
            "a{2,1}",
            "((a{10}){11}){12}",
            "[b-a]",
            r"\8",
            r"\q",
            "\\",
            r"\p{Foo}",
        ),
        *(
            "[[:foo:]]",
            "(?P<a>x)(?P<a>y)",
            "(?<>x)",
            r"\x{110000}",
            "(?",
            "(?i",
            "(?-)",
            "[[:alpha:]",
            r"\pé",
        ),
    ],
)
def test_what_re2_does_not_have_is_refused(engine: str, pattern: str) -> None:
    """[GR-107] Look-around, back references and the like: when it is compiled if it stands in the text."""
    quoted = pattern.replace("\\", "\\\\")
    with pytest.raises(ExprSyntaxError, match="regular expression"):
        evaluate(f'"x" matches "{quoted}"', {})
    with pytest.raises(ExprEvalError, match="regular expression"):
        evaluate("'x' matches pattern", {"pattern": pattern})


def test_patterns_have_a_longest_size() -> None:
    """[GR-107] In characters, and in what repetitions make of them."""
    with pytest.raises(ExprEvalError, match="1001 characters; at most 1000"):
        evaluate("'x' matches pattern", {"pattern": "a" * 1_001})
    regex.matcher.cache_clear()
    for pattern in ("(" * 400 + ")" * 400, "(.{500}|.{499}){2}" * 40):
        with pytest.raises(ExprEvalError):
            evaluate("'x' matches pattern", {"pattern": pattern})


def test_both_engines_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """[GR-107] Over patterns and texts by chance."""
    pytest.importorskip("re2")
    rnd = random.Random(11)
    found: dict[bool | None, int] = {}
    for _ in range(600):
        pattern = "".join(rnd.choice(ATOMS) for _ in range(rnd.randint(1, 7)))
        text = "".join(rnd.choice("aabbcé1 _A\n.-") for _ in range(rnd.randint(0, 6)))
        answers: list[bool | None] = []
        for own in (False, True):
            with monkeypatch.context() as patch:
                if own:
                    patch.setattr(regex, "_re2", lambda: None)
                regex.matcher.cache_clear()
                answers.append(matches(pattern, text))
        assert answers[0] == answers[1], (pattern, text)
        found[answers[0]] = found.get(answers[0], 0) + 1
    assert min(found.get(True, 0), found.get(False, 0), found.get(None, 0)) > 50


def test_letters_of_other_scripts_and_both_cases(engine: str) -> None:
    r"""[GR-107] `\w`, `\d`, `\b` are ASCII; `\p{…}` is not; `(?i)` folds letters of any script."""
    yes = (
        *(
            (r"^\p{Han}+$", "日本"),
            (r"\p{Greek}", "λ"),
            (r"^\p{L}\p{Lu}\PL$", "éÉ1"),
            ("(?i)straße", "STRAßE"),
        ),
        *(
            ("(?i)é", "É"),
            ("(?i)k", "\u212a"),
            ("(?i)[a-c]+$", "ABC"),
            (r"(?i)^[^x]$", "y"),
            (r"\p{^L}", "1"),
        ),
        *(
            ("(?s)a.b", "a\nb"),
            ("(?m)^b$", "a\nb"),
            (r"\x{1F600}", "😀"),
            (r"[[:word:]]", "_"),
            (r"\101", "A"),
        ),
    )
    no = ((r"\w", "é"), (r"\d", "٣"), ("a.b", "a\nb"), ("a$", "a\n"), ("(?i)^[^x]$", "X"), (r"\bé", "é"))
    assert [pair for pair in yes if matches(*pair) is not True] == []
    assert [pair for pair in no if matches(*pair) is not False] == []


def test_work_on_long_texts_is_paid_for() -> None:
    """[GR-107] A loop over many long texts ends at the limit of steps."""
    with pytest.raises(ExprEvalError, match="more than 1,000,000 steps"):
        evaluate('all(1..900000, !(text matches "(a+)+b"))', {"text": "a" * 10_000})
