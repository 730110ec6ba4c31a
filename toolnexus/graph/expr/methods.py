"""What an expression can call on times, durations and their parts: `date("2026-01-31").Year()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from toolnexus.graph.expr.dates import SECOND, UNITS, YEAR_1, Date, Duration, Month, Weekday, Zone
from toolnexus.graph.expr.layouts import format_time, show
from toolnexus.graph.expr.natures import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    MONTH,
    STRING,
    TIME,
    WEEKDAY,
    ZONE,
    Nature,
)

_CLASSES: dict[Nature, type] = {INT: int, STRING: str, TIME: Date, DURATION: Duration, ZONE: Zone}


class Method(NamedTuple):
    """A method: the natures of what it takes and gives, and how it is done."""

    parameters: tuple[Nature, ...]
    result: Nature
    run: Callable[..., Any]


class Bound:
    """A method and the value it belongs to: the only thing that an expression can call by value."""

    __slots__ = ("_method", "_this")

    def __init__(self, this: Any, method: Method) -> None:
        self._this = this
        self._method = method

    def __call__(self, *arguments: Any) -> Any:
        """Call it. Raises `TypeError` for arguments of another number or type."""
        wanted = self._method.parameters
        fits = len(arguments) == len(wanted) and all(
            type(argument) is _CLASSES[nature] for argument, nature in zip(arguments, wanted, strict=True)
        )
        if not fits:
            raise TypeError(f"the method takes ({', '.join(nature.name for nature in wanted)})")
        return self._method.run(self._this, *arguments)


def method_of(value: Any, name: str) -> Bound | None:
    """The method `name` of `value`, or None."""
    method = _METHODS.get(value.__class__, {}).get(name)
    return None if method is None else Bound(value, method)


def _time(result: Nature, run: Callable[[Date], Any]) -> Method:
    return Method((), result, run)


def _time_and(other: Nature, result: Nature, run: Callable[[Date, Any], Any]) -> Method:
    return Method((other,), result, run)


def _span(result: Nature, run: Callable[[Duration], Any]) -> Method:
    return Method((), result, run)


def _span_and(other: Nature, result: Nature, run: Callable[[Duration, Any], Any]) -> Method:
    return Method((other,), result, run)


def _whole(unit: str) -> Method:
    def run(span: Duration) -> int:
        count = abs(span.nanoseconds) // UNITS[unit]
        return -count if span.nanoseconds < 0 else count

    return _span(INT, run)


_STRING = Method((), STRING, show)
_DURATION = {
    "String": _STRING,
    "Hours": _span(FLOAT, lambda span: span.nanoseconds / UNITS["h"]),
    "Minutes": _span(FLOAT, lambda span: span.nanoseconds / UNITS["m"]),
    "Seconds": _span(FLOAT, lambda span: span.nanoseconds / UNITS["s"]),
    "Milliseconds": _whole("ms"),
    "Microseconds": _whole("us"),
    "Nanoseconds": _whole("ns"),
    "Abs": _span(DURATION, lambda span: Duration(min(abs(span.nanoseconds), (1 << 63) - 1))),
    "Round": _span_and(DURATION, DURATION, lambda span, unit: span.rounded(unit, down=False)),
    "Truncate": _span_and(DURATION, DURATION, lambda span, unit: span.rounded(unit, down=True)),
}
_TIME = {
    "String": _STRING,
    "Year": _time(INT, lambda time: time.fields().year),
    "Month": _time(MONTH, lambda time: Month(time.fields().month)),
    "Day": _time(INT, lambda time: time.fields().day),
    "Hour": _time(INT, lambda time: time.fields().hour),
    "Minute": _time(INT, lambda time: time.fields().minute),
    "Second": _time(INT, lambda time: time.fields().second),
    "Nanosecond": _time(INT, lambda time: time.fields().nanosecond),
    "YearDay": _time(INT, lambda time: time.fields().year_day),
    "Weekday": _time(WEEKDAY, lambda time: Weekday(time.fields().weekday)),
    "ISOWeek": _time(INT, Date.iso_week),
    "Unix": _time(INT, lambda time: time.instant // SECOND),
    "UnixMilli": _time(INT, lambda time: time.instant // UNITS["ms"]),
    "UnixMicro": _time(INT, lambda time: time.instant // UNITS["us"]),
    "UnixNano": _time(INT, lambda time: time.instant),
    "IsZero": _time(BOOL, lambda time: time.instant == -YEAR_1 * SECOND),
    "IsDST": _time(BOOL, lambda time: time.zone.at(time.instant // SECOND)[2]),
    "UTC": _time(TIME, lambda time: Date(time.instant)),
    "Local": _time(TIME, lambda time: Date(time.instant, Zone("Local"))),
    "Location": _time(ZONE, lambda time: time.zone),
    "Zone": _time(STRING, lambda time: time.fields().abbreviation),
    "Add": _time_and(DURATION, TIME, Date.add),
    "AddDate": Method((INT, INT, INT), TIME, Date.add_date),
    "Sub": _time_and(TIME, DURATION, Date.since),
    "After": _time_and(TIME, BOOL, lambda time, other: time > other),
    "Before": _time_and(TIME, BOOL, lambda time, other: time < other),
    "Equal": _time_and(TIME, BOOL, lambda time, other: time == other),
    "Compare": _time_and(TIME, INT, lambda time, other: (time > other) - (time < other)),
    "In": _time_and(ZONE, TIME, lambda time, zone: Date(time.instant, zone)),
    "Format": _time_and(STRING, STRING, lambda time, layout: format_time(time.fields(), layout)),
    "Round": _time_and(DURATION, TIME, lambda time, unit: time.rounded(unit, down=False)),
    "Truncate": _time_and(DURATION, TIME, lambda time, unit: time.rounded(unit, down=True)),
}
_NAMED = {"String": _STRING}
_METHODS: dict[Any, dict[str, Method]] = {
    Date: _TIME,
    Duration: _DURATION,
    Zone: _NAMED,
    Month: _NAMED,
    Weekday: _NAMED,
}
BY_NATURE: dict[Nature, dict[str, Method]] = {
    TIME: _TIME,
    DURATION: _DURATION,
    ZONE: _NAMED,
    MONTH: _NAMED,
    WEEKDAY: _NAMED,
}
"""The methods of a value whose nature is known."""
