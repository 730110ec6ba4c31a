"""Every row of conformance/graph/expr.json."""

import pytest

from tests.graph.expr.rows import DATA, TOPICS, outcome, typed


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if not topic.startswith("deliberately")])
def test_every_row_gives_what_expr_lang_gives(topic: str) -> None:
    """[GR-100] Values with their types; an error at the stage at which expr-lang has it."""
    group = TOPICS[topic]
    board = DATA["boards"][group["board"]]
    wrong = [
        (row, got)
        for row in group["rows"]
        if typed(got := outcome(row, board)) != typed({k: row[k] for k in row if k in ("gives", "fails")})
    ]
    assert wrong == []


def test_the_rows_that_differ_from_expr_lang_are_a_short_list() -> None:
    """[GR-111] They are stated in the data, and hold."""
    group = next(group for topic, group in TOPICS.items() if topic.startswith("deliberately"))
    board = DATA["boards"][group["board"]]
    assert len(group["rows"]) < 20
    for row in group["rows"]:
        assert typed(outcome(row, board)) == typed({k: row[k] for k in row if k in ("gives", "fails")})


def test_there_are_many_rows_of_both_kinds_and_all_outcomes() -> None:
    """[GR-100] The data is not thinned out unnoticed."""
    rows = [row for group in TOPICS.values() for row in group["rows"]]
    assert sum("condition" in row for row in rows) > 200
    assert sum("value" in row for row in rows) > 1200
    assert {row.get("fails") for row in rows} == {None, "compile", "run"}
