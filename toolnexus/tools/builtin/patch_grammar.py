"""The text of a patch, read line by line into operations on files. No file is touched here.

patch      = "*** Begin Patch", operation+, "*** End Patch"
operation  = "*** Add File: " path, ("+" text)*
           | "*** Delete File: " path
           | "*** Update File: " path, ["*** Move to: " path], hunk*
hunk       = ("@@" | "@@ " anchor)*, ((" " | "-" | "+") text)+, ["*** End of File"]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from toolnexus.core.values import frozen
from toolnexus.errors import ToolError

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_HEADERS = {"*** Add File:": "add", "*** Delete File:": "delete", "*** Update File:": "update"}
_MOVE = "*** Move to:"
_END_OF_FILE = "*** End of File"
_NEXT = ", ".join([*(repr(f"{header} PATH") for header in _HEADERS), repr(_END)])
_FENCE = re.compile(r"(```+|~~~+)[\w+.-]*")
_HERE_DOCUMENT = re.compile(r"(?:(?:apply_patch|cat)\s*)?<<-?\s*(['\"]?)(\w+)\1")
_LINE_NUMBERS = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@.*")


class Line(NamedTuple):
    """A line of a patch and its number, counted from 1."""

    number: int
    text: str

    @property
    def mark(self) -> str:
        """The line as a marker: white space at its end has no meaning."""
        return self.text.rstrip()


@frozen()
class Hunk:
    """One place in a file, and what changes there."""

    number: int
    """Counted from 1 in its operation."""
    line: int
    anchors: tuple[bytes, ...]
    lines: tuple[tuple[str, bytes], ...]
    """Sign (`" "`, `"-"` or `"+"`) and text."""
    at_end: bool
    """It stands at the end of the file."""

    def old(self) -> list[bytes]:
        """The lines that the file has."""
        return [text for sign, text in self.lines if sign != "+"]

    def new(self) -> list[bytes]:
        """The lines that it shall have."""
        return [text for sign, text in self.lines if sign != "-"]


@frozen()
class Operation:
    """What a patch does with one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    line: int
    move_to: str | None = None
    content: bytes = b""
    """Of an added file."""
    hunks: tuple[Hunk, ...] = ()


def parse(text: str) -> list[Operation]:
    """The operations of a patch, in its order.

    A Markdown fence or a shell here-document around it is taken off. Raises `ToolError` with the
    number of the line that is wrong, and what may stand there.
    """
    lines = [Line(number, line) for number, line in enumerate(text.split("\n"), 1)]
    body = _inside(_unwrapped(_trimmed(lines)))
    if not body:
        raise ToolError(f"the patch is empty; between its first and last line may stand: {_NEXT}")
    starts = [i for i, line in enumerate(body) if _kind(line) is not None]
    return [_operation(part[0], _without_blanks(part[1:])) for part in _split(body, starts)]


def _wrong(line: Line, allowed: str) -> ToolError:
    shown = line.text if len(line.text) <= 200 else line.text[:200] + "…"
    return ToolError(f"line {line.number} of the patch is {shown!r}; {allowed}")


def _trimmed(lines: Sequence[Line]) -> Sequence[Line]:
    """Without blank lines at both ends."""
    start = next((i for i, line in enumerate(lines) if line.mark), len(lines))
    return _without_blanks(lines[start:])


def _without_blanks(lines: Sequence[Line]) -> Sequence[Line]:
    """Without the blank lines at the end; a blank context line has its leading space."""
    stop = len(lines)
    while stop and lines[stop - 1].text in ("", "\r"):
        stop -= 1
    return lines[:stop]


def _unwrapped(lines: Sequence[Line]) -> Sequence[Line]:
    while len(lines) > 2:
        first, last = lines[0].mark.strip(), lines[-1].mark.strip()
        fence, document = _FENCE.fullmatch(first), _HERE_DOCUMENT.fullmatch(first)
        if not ((fence and last == fence[1]) or (document and last == document[2])):
            break
        lines = _trimmed(lines[1:-1])
    return lines


def _inside(lines: Sequence[Line]) -> Sequence[Line]:
    """What lies between the first and the last line."""
    if not lines:
        raise ToolError(f"the patch is empty; it starts with {_BEGIN!r} and ends with {_END!r}")
    if lines[0].mark != _BEGIN:
        raise _wrong(lines[0], f"a patch starts with the line {_BEGIN!r}")
    if lines[0].text.endswith("\r"):  # the line ends are those of the transport, not of the files
        lines = [Line(line.number, line.text.removesuffix("\r")) for line in lines]
    end = next((i for i, line in enumerate(lines) if line.mark == _END), None)
    if end is None:
        raise _wrong(lines[-1], f"a patch ends with the line {_END!r}; was it cut off?")
    if end != len(lines) - 1:
        raise _wrong(lines[end + 1], f"nothing follows {_END!r}; put all files into one patch")
    return lines[1:end]


def _split(lines: Sequence[Line], starts: Sequence[int]) -> Iterator[Sequence[Line]]:
    """The parts that begin at `starts`; what lies before the first one is a part, too."""
    bounds = [0, *[start for start in starts if start], len(lines)]
    return (lines[start:stop] for start, stop in pairwise(bounds))


def _kind(line: Line) -> str | None:
    """What a line begins: an operation, or nothing."""
    return next((kind for header, kind in _HEADERS.items() if line.text.startswith(header)), None)


def _operation(header: Line, lines: Sequence[Line]) -> Operation:
    kind = _kind(header)
    if kind is None:
        raise _wrong(header, f"here may stand: {_NEXT}")
    path = _path(header)
    if kind == "add":
        return Operation("add", path, header.number, content=_content(lines))
    if kind == "delete":
        if lines:
            raise _wrong(lines[0], f"a deleted file has no lines; here may stand: {_NEXT}")
        return Operation("delete", path, header.number)
    move_to = None
    if lines and lines[0].text.startswith(_MOVE):
        move_to, lines = _path(lines[0]), lines[1:]
    hunks = _hunks(lines)
    if not hunks and move_to is None:
        raise _wrong(header, f"nothing is to be done there; below it stands {f'{_MOVE} PATH'!r} or a hunk")
    return Operation("update", path, header.number, move_to=move_to, hunks=hunks)


def _path(line: Line) -> str:
    path = line.text.partition(":")[2].strip()
    if not path:
        raise _wrong(line, "a path must follow the colon")
    return path


def _content(lines: Sequence[Line]) -> bytes:
    """What an added file holds; a blank line in it may lack its sign."""
    for line in lines:
        if line.text.strip("\r") and not line.text.startswith("+"):
            raise _wrong(line, f"each line of an added file starts with '+'; behind it may stand: {_NEXT}")
    return "".join([line.text.removeprefix("+") + "\n" for line in lines]).encode()


def _hunks(lines: Sequence[Line]) -> tuple[Hunk, ...]:
    heads = [False, *[line.text.startswith("@@") for line in lines]]
    starts = [i for i, (before, head) in enumerate(pairwise(heads)) if head and not before]
    hunks: list[Hunk] = []
    for part in _split(lines, starts):
        count = next((i for i, line in enumerate(part) if not line.text.startswith("@@")), len(part))
        if _without_blanks(part[count:]):
            hunks.append(_hunk(len(hunks) + 1, part[:count], part[count:]))
        elif count:
            raise _wrong(
                part[-1], "below it stand the lines of the hunk, each with ' ', '-' or '+' before it"
            )
    return tuple(hunks)


def _hunk(number: int, heads: Sequence[Line], lines: Sequence[Line]) -> Hunk:
    lines = _without_blanks(lines)
    at_end = lines[-1].mark == _END_OF_FILE
    body = _without_blanks(lines[:-1] if at_end else lines)
    signed = tuple([_signed(line) for line in body])
    first = (heads or lines)[0]
    hunk = Hunk(number, first.number, _anchors(heads), signed, at_end)
    if hunk.old() == hunk.new():
        raise _wrong(
            first, f"hunk {number}, which begins here, changes nothing: '-' and '+' lines must differ"
        )
    return hunk


def _signed(line: Line) -> tuple[str, bytes]:
    text = line.text.removesuffix("\r")
    if not text:  # a blank line, sent without the space before it
        return " ", b""
    if text[0] not in " -+":
        raise _wrong(line, f"here may stand: a line of a hunk with ' ', '-' or '+' before it, '@@', {_NEXT}")
    return text[0], text[1:].encode()


def _anchors(heads: Sequence[Line]) -> tuple[bytes, ...]:
    """The lines that a hunk lies below. The line numbers of other formats say nothing here."""
    texts = [line.text.removeprefix("@@").removeprefix(" ").rstrip() for line in heads]
    return tuple([text.encode() for text in texts if text.strip() and not _LINE_NUMBERS.fullmatch(text)])
