"""Text files as bytes: what is not asked for never changes, be it a line end or no UTF-8 at all."""

from __future__ import annotations

import codecs
import os
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from toolnexus.errors import ToolError
from toolnexus.tools.builtin.paths import open_file

LF, CRLF = b"\n", b"\r\n"
BOM = codecs.BOM_UTF8
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # UTF-32 begins like one of them, or with a NUL
_SNIFFED = 8192
_COMPARED = 250_000
"""Pairs of lines that may be compared to find out which ones are the same."""

Edit = tuple[int, int, bytes]
"""Start and stop in `Text.text`, and what comes there instead."""


def read_text(target: Path, path: str, largest: int) -> tuple[bytes, os.stat_result]:
    """The content of the text file at a resolved place, and what it was when it was read.

    Raises `ToolError`, naming it by `path`, for a file that cannot be opened, is binary, is UTF-16,
    or has more than `largest` bytes. Blocks.
    """
    with open_file(target, path) as file:
        found = os.fstat(file.fileno())
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ToolError(f"{path!r} has more than {largest} bytes; that is too large to be changed here")
    if data.startswith(_WIDE):
        raise ToolError(f"{path!r} is UTF-16 or UTF-32 text; convert it to UTF-8 before changing it")
    if b"\0" in data[:_SNIFFED]:
        raise ToolError(f"{path!r} is a binary file; only text can be changed")
    return data, found


def encoded(text: str, name: str) -> bytes:
    """An argument as UTF-8. Raises `ToolError` that says what in it is no Unicode text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        at = f"character {error.start + 1} ({text[error.start]!r})"
        raise ToolError(f"no file was changed: {at} of {name} cannot be written as UTF-8") from error


class Text:
    """The bytes of a text file, seen in `text` without byte order mark and with `\\n` at all line ends.

    `literal`: line ends are seen as they are.
    """

    __slots__ = ("_crlf", "_ends", "_raw", "bom", "text")

    def __init__(self, data: bytes, *, literal: bool = False) -> None:
        self.bom = BOM if data.startswith(BOM) else b""
        self._raw = data[len(self.bom) :]
        self.text = self._raw if literal else self._raw.replace(CRLF, LF)
        # where in `text` a line end is two bytes in the file
        found = () if literal else re.finditer(CRLF, self._raw)
        self._crlf = array("Q", (match.start() - before for before, match in enumerate(found)))
        kinds = {CRLF} if self._crlf else set[bytes]()
        if not literal and self.text.count(LF) > len(self._crlf):
            kinds.add(LF)
        self._ends = kinds
        """The kinds of line ends there are; a literal view knows of none."""

    def line(self, offset: int) -> int:
        """The number of the line that an offset in `text` lies in, counted from 1."""
        return self.text.count(LF, 0, offset) + 1

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """The file with `edits` made, given in order. New lines end as those do that they replace."""
        out = bytearray(self.bom)
        at = 0
        for start, stop, new in edits:
            out += self._raw[at : self._place(start)]
            out += self._fitted(start, stop, new)
            at = self._place(stop)
        out += self._raw[at:]
        return bytes(out)

    def _place(self, offset: int) -> int:
        """Where in the file an offset in `text` lies."""
        return offset + bisect_left(self._crlf, offset)

    def _fitted(self, start: int, stop: int, new: bytes) -> bytes:
        if not self._ends:  # the file does not say how its lines end
            return new
        new = new.replace(CRLF, LF)
        if LF not in new:
            return new
        if len(self._ends) == 1:
            return new.replace(LF, CRLF) if self._crlf else new
        ends = list(self._ends_in(start, stop)) or [self._end_near(start, stop)]
        if len(set(ends)) == 1:
            return new.replace(LF, ends[0])
        lines = new.split(LF)
        chosen = _paired(self.text[start:stop].split(LF), lines, ends)
        return b"".join([line + end for line, end in zip(lines, [*chosen, b""], strict=True)])

    def _ends_in(self, start: int, stop: int) -> Iterator[bytes]:
        at = self.text.find(LF, start, stop)
        while at >= 0:
            yield self._end_at(at)
            at = self.text.find(LF, at + 1, stop)

    def _end_near(self, start: int, stop: int) -> bytes:
        """The end of the line that the place lies in, or of the line before."""
        at = self.text.find(LF, stop)
        return self._end_at(at if at >= 0 else self.text.rfind(LF, 0, start))

    def _end_at(self, offset: int) -> bytes:
        i = bisect_left(self._crlf, offset)
        return CRLF if i < len(self._crlf) and self._crlf[i] == offset else LF


def _paired(old: Sequence[bytes], new: Sequence[bytes], ends: Sequence[bytes]) -> list[bytes]:
    """An end for each of the `new` lines but the last: that of the same line, or of the one it replaces."""
    out: list[bytes] = []
    for i1, i2, j1, j2 in _blocks(old, new):
        for j in range(j1, j2):
            i = min(
                i1 + j - j1, i2 - 1
            )  # beyond the replaced lines, and where there are none: the line before
            out.append(ends[min(max(i, 0), len(ends) - 1)])
    return out[: len(new) - 1]


def _blocks(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """Which lines became which, as ranges of old and new lines."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    old_end, new_end = len(old) - tail, len(new) - tail
    yield 0, head, 0, head
    if (old_end - head) * (new_end - head) > _COMPARED:
        yield head, old_end, head, new_end
    else:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        for _, i1, i2, j1, j2 in matcher.get_opcodes():
            yield head + i1, head + i2, head + j1, head + j2
    yield old_end, len(old), new_end, len(new)
