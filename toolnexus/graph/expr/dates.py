"""Times, durations and time zones while an expression runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import total_ordering
from typing import NamedTuple
from zoneinfo import ZoneInfo

SECOND = 1_000_000_000
DAY = 86_400
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
UNITS = {
    **{"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000},
    **{"s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND},
}
"""The nanoseconds in each unit of a duration."""
_PIECE = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
YEAR_1 = 62_135_596_800
_EDGES = (-YEAR_1 + DAY, 253_402_300_799 - DAY)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Counted:
    """A member of a fixed list, told by its number."""

    __slots__ = ("number",)
    names: tuple[str, ...] = ()
    first = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __str__(self) -> str:
        return self.names[self.number - self.first]


class Month(Counted):
    """January (1) to December (12)."""

    __slots__ = ()
    names = MONTHS
    first = 1


class Weekday(Counted):
    """Sunday (0) to Saturday (6)."""

    __slots__ = ()
    names = WEEKDAYS


@total_ordering
class Duration:
    """A span of time in nanoseconds."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and other.nanoseconds == self.nanoseconds

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __str__(self) -> str:
        left = abs(self.nanoseconds)
        if not left:
            return "0s"
        sign = "-" if self.nanoseconds < 0 else ""
        for unit in ("ns", "µs", "ms"):
            if left < UNITS[unit] * 1_000:
                return f"{sign}{_decimal(left, UNITS[unit])}{unit}"
        minutes, rest = divmod(left, UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        text = f"{_decimal(rest, SECOND)}s"
        if hours:
            text = f"{hours}h{minutes}m{text}"
        elif minutes:
            text = f"{minutes}m{text}"
        return sign + text

    def rounded(self, unit: Duration, *, down: bool) -> Duration:
        """The nearest multiple of `unit`, or the one nearer to zero."""
        if unit.nanoseconds <= 0:
            return self
        size = abs(self.nanoseconds)
        whole = size - size % unit.nanoseconds
        if not down and 2 * (size - whole) >= unit.nanoseconds:
            whole += unit.nanoseconds
        return Duration(-whole if self.nanoseconds < 0 else whole)


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".") if rest else str(whole)


def parse_duration(text: str) -> Duration:
    """`1h30m`, `1.5s`, `-2ms`, `0`. Raises `ValueError`."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        piece = _PIECE.match(rest, position)
        if piece is None or not (piece[1] or piece[2]):
            break
        unit = UNITS[piece[3]]
        fraction = piece[2] or ""
        total += int(piece[1] or 0) * unit
        total += int(fraction or 0) * unit // 10 ** len(fraction)
        position = piece.end()
    if position != len(rest) or not rest or total > (1 << 63) - (sign > 0):
        raise ValueError(f"{text!r} is no duration; write for example 1h30m, 1.5s or 200ms")
    return Duration(sign * total)


class Zone:
    """A time zone: an IANA one, or a fixed offset in seconds."""

    __slots__ = ("fixed", "name", "rules")

    def __init__(self, name: str, fixed: int = 0, rules: tzinfo | None = None) -> None:
        self.name = name
        self.fixed = fixed
        self.rules = rules

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Zone) and (self.name, self.fixed) == (other.name, other.fixed)

    def __hash__(self) -> int:
        return hash((self.name, self.fixed))

    def __str__(self) -> str:
        return self.name

    def at(self, instant: int) -> tuple[int, str, bool]:
        """Offset in seconds, abbreviation, and whether summer time holds, at `instant` (Unix seconds)."""
        if self.rules is None:
            return self.fixed, self.name, False
        local = (_EPOCH + timedelta(seconds=min(max(instant, _EDGES[0]), _EDGES[1]))).astimezone(self.rules)
        offset = local.utcoffset() or timedelta()
        return int(offset.total_seconds()), local.tzname() or "", bool(local.dst())


UTC_ZONE = Zone("UTC")


def find_zone(name: str) -> Zone:
    """The zone of an IANA name. Raises `ValueError` for one that this machine does not know."""
    if name in ("", "UTC"):
        return UTC_ZONE
    if name == "Local":
        return Zone("Local")
    try:
        return Zone(name, rules=ZoneInfo(name))
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(f"unknown time zone {name[:80]!r}") from None


class Fields(NamedTuple):
    """A time as people write it."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int
    weekday: int
    year_day: int
    offset: int
    abbreviation: str


def days_before(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a day of the Gregorian calendar; `month` and `day` may overflow."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _calendar(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    years = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return years + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


@total_ordering
class Date:
    """An instant in nanoseconds since 1970 in UTC, seen in a zone. Equal when the instants are."""

    __slots__ = ("instant", "zone")

    def __init__(self, instant: int, zone: Zone = UTC_ZONE) -> None:
        self.instant = instant
        self.zone = zone

    @staticmethod
    def of(day: int, seconds: int, nanosecond: int, zone: Zone) -> Date:
        """The instant at which clocks in `zone` show `seconds` of the day `day` (days since 1970)."""
        local = day * DAY + seconds
        guess = local - zone.at(local)[0]
        return Date((local - zone.at(guess)[0]) * SECOND + nanosecond, zone)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Date) and other.instant == self.instant

    def __lt__(self, other: Date) -> bool:
        return self.instant < other.instant

    def __hash__(self) -> int:
        return hash(self.instant)

    def fields(self) -> Fields:
        """Year, month and so on in its zone."""
        seconds, nanosecond = divmod(self.instant, SECOND)
        offset, abbreviation, _ = self.zone.at(seconds)
        days, rest = divmod(seconds + offset, DAY)
        year, month, day = _calendar(days)
        weekday = (days + 4) % 7
        year_day = days - days_before(year, 1, 1) + 1
        hour, rest = divmod(rest, 3600)
        clock = (hour, *divmod(rest, 60))
        return Fields(year, month, day, *clock, nanosecond, weekday, year_day, offset, abbreviation)

    def add(self, span: Duration) -> Date:
        """The instant `span` later."""
        return Date(self.instant + span.nanoseconds, self.zone)

    def since(self, earlier: Date) -> Duration:
        """The time from `earlier` to this, at most what 64 bits hold."""
        span = self.instant - earlier.instant
        return Duration(max(-(1 << 63), min(span, (1 << 63) - 1)))

    def add_date(self, years: int, months: int, days: int) -> Date:
        """So many years, months and days later, at the same time of day."""
        now = self.fields()
        day = days_before(now.year + years, now.month + months, now.day + days)
        seconds = now.hour * 3600 + now.minute * 60 + now.second
        return Date.of(day, seconds, now.nanosecond, self.zone)

    def rounded(self, unit: Duration, *, down: bool) -> Date:
        """The nearest multiple of `unit` since the year 1, or the one before."""
        if unit.nanoseconds <= 0:
            return self
        over = (self.instant + YEAR_1 * SECOND) % unit.nanoseconds
        up = not down and 2 * over >= unit.nanoseconds
        return Date(self.instant - over + (unit.nanoseconds if up else 0), self.zone)

    def iso_week(self) -> int:
        """The year to which the ISO week of this day belongs."""
        now = self.fields()
        thursday = days_before(now.year, now.month, now.day) - (now.weekday + 6) % 7 + 3
        return _calendar(thursday)[0]
