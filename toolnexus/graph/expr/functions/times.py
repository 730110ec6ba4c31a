"""Functions that make times, durations and time zones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from toolnexus.graph.expr.dates import Date, Duration, Zone, find_zone, parse_duration
from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.functions.base import builtin, needs_text, of_texts, takes
from toolnexus.graph.expr.layouts import LAYOUTS, parse_time
from toolnexus.graph.expr.natures import DURATION, STRING, TIME, ZONE, Nature
from toolnexus.graph.expr.values import Frame


def _now_rule(given: Sequence[Nature]) -> Nature:
    if given and not (len(given) == 1 and given[0] is ZONE):
        raise TypeError("takes nothing, or one timezone(…)")
    return TIME


def _date_rule(given: Sequence[Nature]) -> Nature:
    rest = given[1:] if given and given[0] is ZONE else given
    if not given or len(rest) > 3:
        raise TypeError(f"takes 1 to 3 arguments after an optional timezone, got {len(rest)}")
    return TIME


def _now(frame: Frame, zone: Any = None) -> Date:
    return Date(time.time_ns(), zone) if isinstance(zone, Zone) else Date(time.time_ns())


def _parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def run(value: str) -> Duration | Zone:
        try:
            return parse(value)
        except ValueError as error:
            raise ExprEvalError(str(error)) from None

    return run


_timezone = _parsed(find_zone)


def _date(frame: Frame, *arguments: Any) -> Date:
    zone = arguments[0] if arguments and isinstance(arguments[0], Zone) else None
    given = [needs_text(argument, "date") for argument in (arguments[1:] if zone else arguments)]
    if not given:
        raise ExprEvalError("date needs a string")
    if len(given) == 3:
        zone = _timezone(given[2])
    for layout in given[1:2] or LAYOUTS:
        found = parse_time(given[0], layout, zone)
        if found is not None:
            return found
    wanted = f" in the layout {given[1][:80]!r}" if given[1:] else ""
    raise ExprEvalError(f"{given[0][:80]!r} is no date{wanted}")


FUNCTIONS = dict(
    (
        builtin("now", _now, rule=_now_rule),
        builtin("date", _date, rule=_date_rule),
        builtin("duration", of_texts("duration", _parsed(parse_duration)), takes(STRING, gives=DURATION)),
        builtin("timezone", of_texts("timezone", _timezone), takes(STRING, gives=ZONE)),
    )
)
