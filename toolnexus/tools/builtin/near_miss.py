"""Where a text comes nearest to lines that it should hold and does not: what an error may say of it."""

from __future__ import annotations

from bisect import bisect_right
from difflib import SequenceMatcher

from toolnexus.tools.builtin.bounded import Clock

_COMPARED = 20_000
_LONGEST = 300
_SHOWN = 8
_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()


def near_miss(text: bytes, wanted: bytes, clock: Clock, *, whole_lines: bool = False) -> str:
    """What to say of `wanted`, which is not in `text`; it begins with `"; "` or is empty.

    Both have `\\n` as line ends. `whole_lines`: only complete lines count.
    Raises `ToolError` when the clock runs out.
    """
    found = (
        _with_other_space(text, wanted, clock)
        or _first_difference(text, wanted, whole_lines)
        or _nearest_line(text, wanted, clock)
    )
    if _REPLACED in wanted:
        sign = "\N{REPLACEMENT CHARACTER}"
        found += f"; bytes that are no UTF-8 look like {sign} and cannot be given, so leave them out"
    return found


def quoted(line: bytes) -> str:
    """A line as a message may show it."""
    shown = line.decode("utf-8", "replace")
    return repr(shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…")


def _with_other_space(text: bytes, wanted: bytes, clock: Clock) -> str:
    sought = b" ".join(wanted.split())
    words: list[bytes] = []
    starts: list[int] = []
    numbers: list[int] = []
    size = 0
    lines = text.split(b"\n")
    for number, line in enumerate(lines):
        clock.check()
        if joined := b" ".join(line.split()):
            words.append(joined)
            starts.append(size)
            numbers.append(number)
            size += len(joined) + 1
    at = b" ".join(words).find(sought) if sought else -1
    if at < 0:
        return ""
    first = numbers[bisect_right(starts, at) - 1]
    last = numbers[bisect_right(starts, at + len(sought) - 1) - 1]
    shown = ", ".join([quoted(line) for line in lines[first : min(last + 1, first + _SHOWN)]])
    where = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
    return f"; with other spaces, tabs or line breaks it is at {where}: {shown}"


def _first_difference(text: bytes, wanted: bytes, whole_lines: bool) -> str:
    """Where `text` begins like `wanted` and then goes on in another way."""
    lines = wanted.split(b"\n")
    before = b"\n" if whole_lines else b""
    text = before + text + b"\n"

    def find(count: int) -> int:
        return text.find(before + b"\n".join(lines[:count]) + b"\n")

    known, unknown = 0, len(lines)
    while unknown - known > 1:
        middle = (known + unknown) // 2
        known, unknown = (middle, unknown) if find(middle) >= 0 else (known, middle)
    begun = b"\n".join(lines[:known])
    if not begun.strip():
        return ""
    start = find(known) + len(before)
    at = start + len(begun) + 1
    first = text.count(b"\n", len(before), start) + 1
    its = "first line is" if known == 1 else f"first {known} lines are"
    if at >= len(text) - 1:
        return f"; its {its} at line {first}, where the file ends"
    other = text[at : text.find(b"\n", at)]
    number = first + known
    return f"; its {its} at line {first}, but line {number} is {quoted(other)}, not {quoted(lines[known])}"


def _nearest_line(text: bytes, wanted: bytes, clock: Clock) -> str:
    sought = next((line.strip() for line in wanted.split(b"\n") if line.strip()), b"")[:_LONGEST]
    if not sought:
        return ""
    matcher = SequenceMatcher[int](None, b"", sought, autojunk=False)
    best, place = 0.6, (0, b"")
    for number, line in enumerate(text.split(b"\n")[:_COMPARED], 1):
        clock.check()
        matcher.set_seq1(line.strip()[:_LONGEST])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, place = matcher.ratio(), (number, line)
    return f"; the nearest line is line {place[0]}: {quoted(place[1])}" if place[0] else ""
