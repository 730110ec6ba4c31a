"""Where the hunks of a patch belong in a file: at the one place that fits exactly, or nowhere.

All hunks are compared with the file as it was. An anchor names a line that the place lies below: in
the block that this line opens by indentation, or else from there on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from toolnexus.errors import ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.near_miss import near_miss, quoted
from toolnexus.tools.builtin.patch_grammar import Hunk
from toolnexus.tools.builtin.text_file import BOM, CRLF, LF, Edit, Text

_SCOPES = 50
_NAMED = 20
_SHOWN = 6


def patched(data: bytes, hunks: Sequence[Hunk], path: str, clock: Clock) -> bytes:
    """A file with the hunks applied. A missing last line end stays missing.

    Raises `ToolError` that names `path` and the hunk which fits nowhere or in several places.
    """
    open_end = data.removeprefix(BOM)[-1:] not in (b"", LF)
    virtual = (CRLF if data[: data.rfind(LF) + 1].endswith(CRLF) else LF) if open_end else b""
    text = Text(data + virtual)
    edits = _File(text, path, clock).edits(hunks)
    if not virtual:
        return text.edited(edits)
    end = len(text.text)
    if edits[-1][1] < end:
        return text.edited(edits).removesuffix(virtual)
    for i, (start, stop, new) in reversed(list(enumerate(edits))):
        if stop < end:
            break
        if new:  # the new last line is open as the old one was; a blank one would be none
            edits[i] = (start, stop, new if (LF + new).endswith(LF + LF) else new.removesuffix(LF))
            break
        end = start
    return text.edited(edits)


class _Scope(NamedTuple):
    """A part of the file in which a hunk may begin."""

    start: int
    below: int
    """Where the line ends that is the anchor."""
    stop: int
    first: bool
    """Nothing says where it ends: only the first place in it counts."""


class _File:
    """One file whose lines are complete, while the places of hunks are found."""

    def __init__(self, text: Text, path: str, clock: Clock) -> None:
        self._file = text
        self._text = text.text
        self._lines = LF + text.text
        """With a line end before each line: an offset here is that of a line in the text."""
        self._path = path
        self._clock = clock
        self._taken: list[tuple[int, int]] = []

    def edits(self, hunks: Sequence[Hunk]) -> list[Edit]:
        """What the hunks change, in the order of the file. Raises `ToolError`."""
        edits: list[Edit] = []
        for hunk in hunks:
            self._clock.check()
            mine = _edits(hunk, self._place(hunk))
            self._taken.append((mine[0][0], mine[-1][1]))
            edits += mine
        return sorted(edits, key=lambda edit: edit[:2])

    def _place(self, hunk: Hunk) -> int:
        """The offset of the first line of the hunk."""
        scopes = self._scopes(hunk)
        places = sorted({place for scope in scopes for place in self._places(hunk, scope)})
        if not places:
            raise self._error(hunk, f"does not match{self._why_not(hunk)}")
        if len(places) > 1:
            more = " and more" if len(places) > _NAMED else ""
            raise self._error(
                hunk,
                f"is not unique: it matches at lines {self._numbers(places[:_NAMED])}{more}; add lines "
                "around it or an '@@ LINE' above it that only the right place has",
            )
        self._check_not_applied(hunk, places[0])
        return places[0]

    def _scopes(self, hunk: Hunk) -> list[_Scope]:
        scopes = [_Scope(0, 0, len(self._text) + 1, False)]
        for anchor in hunk.anchors:
            inner: list[_Scope] = []
            for scope in scopes:
                starts = self._anchored(anchor, scope)
                inner += [self._block(start, scope.stop) for start in (starts[:1] if scope.first else starts)]
            if not inner:
                hint = near_miss(self._text, anchor, self._clock, whole_lines=True)
                raise self._error(hunk, f"does not match: its anchor {quoted(anchor)} was not found{hint}")
            if len(inner) > _SCOPES:
                raise self._error(hunk, f"is not unique: more than {_SCOPES} lines are like {quoted(anchor)}")
            scopes = inner
        return scopes

    def _anchored(self, anchor: bytes, scope: _Scope) -> list[int]:
        """The lines in a scope that are the anchor; else those but for white space; else that begin so."""
        sought = anchor.strip()
        same: list[int] = []
        alike: list[int] = []
        begun: list[int] = []
        at = self._text.find(sought, scope.below, scope.stop)
        while at >= 0:
            self._clock.check()
            start = self._text.rfind(LF, 0, at) + 1
            end = self._text.find(LF, at)
            line = self._text[start:end]
            if line == anchor:
                same.append(start)
            elif line.strip() == sought:
                alike.append(start)
            elif line.lstrip().startswith(sought):
                begun.append(start)
            at = self._text.find(sought, end + 1, scope.stop)
        return same or alike or begun

    def _block(self, start: int, stop: int) -> _Scope:
        """What lies below the line at `start`: the lines that are indented deeper, if it has such."""
        end = self._text.find(LF, start) + 1
        indent = _indent(self._text[start:end])
        at, opened = end, False
        while at < min(stop, len(self._text)):
            self._clock.check()
            after = self._text.find(LF, at) + 1
            line = self._text[at:after]
            if line.strip() and not _is_bracket(line, opened):
                if _indent(line) <= indent:
                    return _Scope(start, end, at, False) if opened else _Scope(start, end, stop, True)
                opened = True
            at = after
        return _Scope(start, end, stop, not opened)

    def _places(self, hunk: Hunk, scope: _Scope) -> list[int]:
        """Where the hunk fits in a scope; a few too many when there are many."""
        old, new = hunk.old(), hunk.new()
        if not old:
            return [at for at in self._empty_place(hunk, scope) if self._is_free(hunk, at)]
        fitting = (at for at in self._matches(old, scope, hunk.at_end) if self._is_free(hunk, at))
        if not scope.first:
            return list(islice(fitting, _NAMED + 1))
        result = _block(new)
        if LF + result in LF + _block(old):
            # once these lines are gone, nothing would tell equal ones further down from them
            return list(_adjoining(fitting, scope.below, len(_block(old))))
        found = list(islice(fitting, 1))
        if found and 0 <= (done := self._lines.find(LF + result, scope.start)) < found[0]:
            raise self._error(
                hunk, f"stands already at line {self._file.line(done)}, where it would match first"
            )
        return found

    def _empty_place(self, hunk: Hunk, scope: _Scope) -> list[int]:
        """The place of a hunk that has only new lines."""
        if hunk.at_end or not self._text:
            return [len(self._text)]
        if hunk.anchors:
            return [scope.below]
        raise self._error(
            hunk,
            "has only new lines and does not say where; give a line before or after them with ' ' before it, "
            "an '@@ LINE' above them, or '*** End of File' below them",
        )

    def _matches(self, lines: Sequence[bytes], scope: _Scope, at_end: bool = False) -> Iterator[int]:
        """The offsets at which these lines stand."""
        block = _block(lines)
        at = self._lines.find(LF + block, scope.start)
        while 0 <= at < scope.stop:
            self._clock.check()
            if not at_end or at + len(block) == len(self._text):
                yield at
            at = self._lines.find(LF + block, at + 1)

    def _is_free(self, hunk: Hunk, at: int) -> bool:
        """Whether no earlier hunk changes what this one would change at an offset."""
        edits = _edits(hunk, at)
        mine = edits[0][0], edits[-1][1]
        # of two hunks with new lines at the very same place nobody knows which ones come first
        return not any(mine == taken or (mine[0] < taken[1] and taken[0] < mine[1]) for taken in self._taken)

    def _check_not_applied(self, hunk: Hunk, at: int) -> None:
        """Raise when the file has the new lines already, though the old ones are still to be found."""
        old, new = LF + _block(hunk.old()), LF + _block(hunk.new())
        before = new.find(old)
        while before >= 0:
            self._clock.check()
            if at >= before and self._lines.startswith(new, at - before):
                number = self._file.line(at - before)
                raise self._error(
                    hunk, f"stands already at line {number}; to have it once more, add lines around it"
                )
            before = new.find(old, before + 1)

    def _why_not(self, hunk: Hunk) -> str:
        old, whole = hunk.old(), _Scope(0, 0, len(self._text) + 1, False)
        if not old:
            return ": an earlier hunk has new lines for the same place"
        shown = ", ".join([quoted(line) for line in old[:_SHOWN]]) + (", …" if len(old) > _SHOWN else "")
        elsewhere = list(islice(self._matches(old, whole), _NAMED))
        if not elsewhere:
            grown = LF + _block(hunk.new()) not in LF + _block(old)
            done = list(islice(self._matches(hunk.new(), whole), 1)) if grown else []
            applied = f"; but its result stands at line {self._numbers(done)} already" if done else ""
            hint = applied or near_miss(self._text, LF.join(old), self._clock, whole_lines=True)
            return f": the file does not have the lines {shown}{hint}"
        numbers = self._numbers(elsewhere)
        if any(not self._is_free(hunk, at) for at in elsewhere):
            return f": the lines {shown} are at line {numbers}, where an earlier hunk changes them"
        if hunk.at_end:
            return f": the lines {shown} are at line {numbers}, which is not the end of the file"
        anchors = ", ".join([quoted(anchor) for anchor in hunk.anchors])
        return f" below {anchors}: the lines {shown} are only at line {numbers}"

    def _numbers(self, places: Sequence[int]) -> str:
        return ", ".join([str(self._file.line(place)) for place in places])

    def _error(self, hunk: Hunk, what: str) -> ToolError:
        return ToolError(f"hunk {hunk.number} of {self._path!r} (line {hunk.line} of the patch) {what}")


def _block(lines: Sequence[bytes]) -> bytes:
    return b"".join([line + LF for line in lines])


def _adjoining(places: Iterator[int], below: int, size: int) -> Iterator[int]:
    """The places that follow each other, the first at most at `below`."""
    for place in places:
        if place > below:
            return
        yield place
        below = place + size


def _is_bracket(line: bytes, opened: bool) -> bool:
    """Whether a line closes a bracket, or opens one and does nothing else: a block has both beside it."""
    return line.lstrip()[:1] in (b")", b"]", b"}") if opened else line.strip() in (b"(", b"[", b"{")


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))


def _edits(hunk: Hunk, at: int) -> list[Edit]:
    """What a hunk changes when its first line stands at an offset; context lines are no part of it."""
    edits: list[Edit] = []
    start, new = at, list[bytes]()

    def close() -> None:
        if at > start or new:
            edits.append((start, at, _block(new)))

    for sign, line in hunk.lines:
        if sign == "+":
            new.append(line)
        elif sign == "-":
            at += len(line) + 1
        else:
            close()
            at += len(line) + 1
            start, new = at, []
    close()
    return edits
