"""Times, durations, zones: what the rows of the data do not say."""

from datetime import UTC, datetime

import pytest

from toolnexus.graph.expr import ExprEvalError, evaluate


def test_now_is_now() -> None:
    """[GR-112] In UTC, or in the zone that is given."""
    before = datetime.now(UTC)
    got = datetime.fromisoformat(evaluate("now()", {}))
    assert abs((got - before).total_seconds()) < 5
    assert evaluate('now(timezone("Asia/Tokyo")).Format("-07:00")', {}) == "+09:00"
    assert evaluate('now() > date("2020-01-01") and now() - now() <= duration("0s")', {}) is True


def test_zones_follow_their_rules_in_every_year() -> None:
    """[GR-112] Summer time, and years that Python's datetime does not have."""
    text = 'date("{}").In(timezone("Europe/Berlin")).Format("-07:00 MST")'
    assert evaluate(text.format("2026-01-15"), {}) == "+01:00 CET"
    assert evaluate(text.format("2026-07-15"), {}) == "+02:00 CEST"
    assert evaluate('date("2026-01-01").AddDate(100000, 0, 0).Year()', {}) == 102026
    assert evaluate('date("0001-01-01").AddDate(-3, 0, 0).Format("2006-01-02")', {}) == "-0002-01-01"
    gap = 'date("2026-03-29 02:30", "2006-01-02 15:04", "Europe/Berlin").UTC().Format("15:04")'
    assert evaluate(gap, {}) in ("00:30", "01:30")


@pytest.mark.parametrize(
    "name", ["Mars/Base", "../../etc/passwd", "/etc/passwd", "\x00", "Europe", "a" * 500]
)
def test_an_unknown_zone_is_an_error(name: str) -> None:
    """[GR-112] And no way to a file."""
    with pytest.raises(ExprEvalError, match="unknown time zone"):
        evaluate("timezone(name)", {"name": name})


def test_a_day_is_found_again_in_any_layout() -> None:
    """[GR-112] What one layout writes, the same layout reads."""
    layouts = (
        *(
            "2006-01-02 15:04:05",
            "Jan _2 2006 3:04:05PM",
            "Monday, 2 January 2006 15:04:05",
            "20060102150405",
        ),
        *(
            "02.01.06 15h04m05",
            "2006-002 15:04:05",
            "2006-01-02T15:04:05.000000000Z07:00",
            "06/1/2 03:04:05 pm",
        ),
    )
    for when in ("2026-01-31 00:00:00", "2024-02-29 12:30:59", "1999-12-31 23:59:59"):
        for layout in layouts:
            text = "date(date(when).Format(layout), layout) == date(when)"
            assert evaluate(text, {"when": when, "layout": layout}) is True, (when, layout)
