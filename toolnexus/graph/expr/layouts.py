"""Times as text, by layouts that show the reference time `Mon Jan 2 15:04:05 MST 2006`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from toolnexus.graph.expr.dates import MONTHS, UTC_ZONE, WEEKDAYS, Date, Fields, Zone, days_before

RFC3339 = "2006-01-02T15:04:05Z07:00"
LAYOUTS = (
    "2006-01-02",
    "15:04:05",
    "2006-01-02 15:04:05",
    RFC3339,
    "02 Jan 06 15:04 MST",
    "Monday, 02-Jan-06 15:04:05 MST",
    "Mon, 02 Jan 2006 15:04:05 MST",
)
_ELEMENT = re.compile(
    r"""January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|002|01|02|03|04|05|06|2006|_2006|__2|_2|15
      | Z070000|Z07:00:00|Z0700|Z07:00|Z07|-070000|-07:00:00|-0700|-07:00|-07|PM|pm
      | [.,]0+(?!\d)|[.,]9+(?!\d)|1|2|3|4|5""",
    re.VERBOSE,
)
_NUMBERS = {
    **{"01": ("month", "02d"), "1": ("month", "d"), "02": ("day", "02d"), "2": ("day", "d")},
    **{"_2": ("day", "2d"), "15": ("hour", "02d"), "04": ("minute", "02d"), "4": ("minute", "d")},
    **{"05": ("second", "02d"), "5": ("second", "d"), "002": ("year_day", "03d"), "__2": ("year_day", "3d")},
}


def show(value: Any) -> str:
    """A time, a duration, a zone, a month or a weekday as `string(x)` shows it."""
    if isinstance(value, Date):
        return format_time(value.fields(), "2006-01-02 15:04:05.999999999 -0700 MST")
    return str(value)


def format_time(time: Fields, layout: str) -> str:
    """`time` as `layout` shows it."""
    return _ELEMENT.sub(lambda element: _shown(time, element.group()), layout)


def _shown(time: Fields, element: str) -> str:
    if element in _NUMBERS:
        name, form = _NUMBERS[element]
        return format(getattr(time, name), form)
    match element:
        case "2006" | "_2006":
            sign = "-" if time.year < 0 else ""
            return f"{'_' if element[0] == '_' else ''}{sign}{abs(time.year):04d}"
        case "06":
            return f"{time.year % 100:02d}"
        case "03" | "3":
            return format(time.hour % 12 or 12, "02d" if element == "03" else "d")
        case "PM" | "pm":
            text = "PM" if time.hour >= 12 else "AM"
            return text if element == "PM" else text.lower()
        case "January" | "Jan":
            return MONTHS[time.month - 1][: None if element == "January" else 3]
        case "Monday" | "Mon":
            return WEEKDAYS[time.weekday][: None if element == "Monday" else 3]
        case "MST":
            return time.abbreviation or _offset(time.offset, "-0700")
        case _ if element[0] in ".,":
            return _fraction(time.nanosecond, element)
        case _:
            return _offset(time.offset, element)


def _fraction(nanosecond: int, element: str) -> str:
    digits = f"{nanosecond:09d}"[: len(element) - 1].ljust(len(element) - 1, "0")
    if element[1] == "9":
        digits = digits.rstrip("0")
    return element[0] + digits if digits else ""


def _offset(offset: int, element: str) -> str:
    if element[0] == "Z" and not offset:
        return "Z"
    size = abs(offset)
    parts = (f"{size // 3600:02d}", f"{size // 60 % 60:02d}", f"{size % 60:02d}")
    count = (len(element.replace(":", "")) - 1) // 2
    return ("-" if offset < 0 else "+") + (":" if ":" in element else "").join(parts[:count])


_MOST_LAYOUT = 500
_PATTERNS = {
    **{"2006": r"(?P<year>\d{4})", "06": r"(?P<short_year>\d\d)", "01": r"(?P<month>\d\d)"},
    **{"1": r"(?P<month>\d\d?)", "02": r"(?P<day>\d\d)", "2": r"(?P<day>\d\d?)", "_2": r" ?(?P<day>\d\d?)"},
    **{"002": r"(?P<year_day>\d{3})", "__2": r" {0,2}(?P<year_day>\d{1,3})", "15": r"(?P<hour>\d\d)"},
    **{"03": r"(?P<half>\d\d)", "3": r"(?P<half>\d\d?)", "04": r"(?P<minute>\d\d)"},
    **{"4": r"(?P<minute>\d\d?)", "05": r"(?P<second>\d\d)", "5": r"(?P<second>\d\d?)"},
    **{"PM": r"(?P<noon>AM|PM)", "pm": r"(?P<noon>am|pm)", "MST": r"(?P<abbreviation>[A-Z]{3,4}|[+-]\d\d)"},
    "January": f"(?i:(?P<month_name>{'|'.join(MONTHS)}))",
    "Jan": f"(?i:(?P<month_name>{'|'.join(name[:3] for name in MONTHS)}))",
    "Monday": f"(?i:{'|'.join(WEEKDAYS)})",
    "Mon": f"(?i:{'|'.join(name[:3] for name in WEEKDAYS)})",
}
_LIMITS = {"hour": 23, "half": 12, "minute": 59, "second": 59}


def parse_time(text: str, layout: str, zone: Zone | None = None) -> Date | None:
    """The time that `text` shows in `layout`, or None. `zone` holds where the text names none."""
    found = _pattern(layout).fullmatch(text) if len(layout) <= _MOST_LAYOUT else None
    if found is None:
        return None
    given: dict[str, str] = {key: value for key, value in found.groupdict().items() if value is not None}
    read = {key: int(value) for key, value in given.items() if value.isdecimal() and len(value) < 9}
    if any(read.get(key, 0) > most for key, most in _LIMITS.items()):
        return None
    day = _day(given, read)
    if day is None:
        return None
    hour, noon = read.get("hour", read.get("half", 0)), given.get("noon", "").upper()
    if noon == "PM" and hour < 12:
        hour += 12
    elif noon == "AM" and hour == 12:
        hour = 0
    seconds = hour * 3600 + read.get("minute", 0) * 60 + read.get("second", 0)
    return Date.of(day, seconds, int(given.get("fraction", "")[:9].ljust(9, "0")), _zone(given, zone))


@lru_cache(64)
def _pattern(layout: str) -> re.Pattern[str]:
    """Every element takes what it can and gives nothing back: a layout cannot make this slow."""
    parts: list[str] = []
    names: set[str] = set()
    position = 0
    for element in _ELEMENT.finditer(layout):
        part = _element(element.group(), layout[element.end() : element.end() + 2])
        for name in re.findall(r"\?P<(\w+)>", part):
            if name in names:
                part = part.replace(f"?P<{name}>", "?:")
            names.add(name)
        parts += (re.escape(layout[position : element.start()]), f"(?>{part})")
        position = element.end()
    return re.compile("".join(parts) + re.escape(layout[position:]), re.ASCII)


def _element(text: str, following: str) -> str:
    if text[0] in ".,":
        digits = rf"[.,](?P<fraction>\d{{{len(text) - 1}}})"
        return digits if text[1] == "0" else r"(?:[.,](?P<fraction>\d+))?"
    if text[:2] in ("-0", "Z0"):
        colon = ":" if ":" in text else ""
        part = r"[+-]\d\d" + rf"{colon}\d\d" * ((len(text.replace(":", "")) - 3) // 2)
        return f"(?P<offset>Z|{part})" if text[0] == "Z" else f"(?P<offset>{part})"
    part = _PATTERNS.get(text, re.escape(text))
    if text in ("05", "5") and re.match("[.,][09]", following) is None:
        part += r"(?:[.,](?P<fraction>\d+))?"  # a fraction may follow the seconds though the layout has none
    return part


def _day(given: dict[str, str], read: dict[str, int]) -> int | None:
    year = read.get("year", 0)
    if "short_year" in read:
        year = read["short_year"] + (1900 if read["short_year"] >= 69 else 2000)
    if "year_day" in read and "month" not in read:
        most = days_before(year + 1, 1, 1) - days_before(year, 1, 1)
        return days_before(year, 1, read["year_day"]) if 1 <= read["year_day"] <= most else None
    month = read.get("month", 1)
    if "month_name" in given:
        short = given["month_name"][:3].capitalize()
        month = next(number for number, name in enumerate(MONTHS, 1) if name.startswith(short))
    day = read.get("day", 1)
    if not 1 <= month <= 12:
        return None
    length = days_before(year, month + 1, 1) - days_before(year, month, 1)
    return days_before(year, month, day) if 1 <= day <= length else None


def _zone(given: dict[str, str], zone: Zone | None) -> Zone:
    offset = given.get("offset")
    if offset == "Z":
        return UTC_ZONE
    if offset:
        digits = offset[1:].replace(":", "").ljust(6, "0")
        seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
        seconds = -seconds if offset[0] == "-" else seconds
        return Zone("", seconds) if seconds else UTC_ZONE
    abbreviation = given.get("abbreviation")
    if abbreviation and abbreviation != "UTC" and zone is None:
        return Zone(abbreviation)
    return zone or UTC_ZONE
