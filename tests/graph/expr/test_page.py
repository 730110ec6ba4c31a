"""docs/graph-expr.md."""

import re
from pathlib import Path
from typing import Any

from toolnexus.graph.expr import Condition, ExprError, evaluate

PAGE = (Path(__file__).parents[3] / "docs/graph-expr.md").read_text()


def test_the_programs_of_the_page_run() -> None:
    """[GR-104] As they stand."""
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(programs) == 2
    for program in programs:
        exec(program, {})


def test_what_the_page_says_of_surprises_is_so() -> None:
    """[GR-111] Each row of its table."""
    board: dict[str, Any] = {"n": 3, "xs": [1], "count": 5}

    def fails(text: str) -> bool:
        try:
            evaluate(text, board)
        except ExprError:
            return True
        return False

    assert evaluate("missing == true", board) is False
    assert Condition("missing")(board) is False
    assert all(map(fails, ("!missing", "missing > 1", "missing.a", "count > 3", 'n in ["a", "b"]')))
    assert evaluate("[missing ?? false, missing?.a, True, null]", board) == [False, None, None, None]
    assert evaluate("[n && true, $env.count > 3, 7 / 2, 2 ** 3]", board) == [3, True, 3.5, 8.0]
    assert evaluate("[1 == 1.0, [1] == [1.0], {a: 1} == {a: 1.0}]", board) == [True, True, False]
    assert evaluate("9223372036854775807 + 1 < 0", board) is True
    assert evaluate('[len("é"), len("é"[0:1]), indexOf("éa", "a")]', board) == [1, 1, 2]
    assert fails("findIndex(xs, # > 9) == 1")
    assert evaluate('[toPairs({a: 1}) == [["a", 1]], type(fromJSON("1"))]', board) == [False, "float"]
    assert fails('user?.plan ?? "free" == "pro"')
    assert evaluate('(user?.plan ?? "free") == "pro"', board) is False
