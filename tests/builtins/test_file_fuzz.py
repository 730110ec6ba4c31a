"""`edit` and `apply_patch` against a model that knows files as lists of bytes and lines, and nothing else."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.builtins.helpers import call
from toolnexus.errors import ToolError

pytestmark = pytest.mark.exhaustive
BOM = b"\xef\xbb\xbf"
LF, CRLF = b"\n", b"\r\n"
EXAMPLES = int(os.environ.get("TOOLNEXUS_EXAMPLES", "1000"))
"""For each property; more of them find more."""
EXACT = settings(derandomize=True, deadline=None, max_examples=EXAMPLES, database=None)
T = TypeVar("T")


class Piece(NamedTuple):
    """What a file may have at one place: a text, and one of some line ends behind it."""

    text: bytes
    ends: frozenset[bytes]


Lines = list[tuple[bytes, bytes]]
"""Texts and line ends; the last end may be missing."""


def parsed(data: bytes) -> Lines:
    """The lines of a file."""
    out: Lines = []
    at = 0
    while at < len(data):
        stop = data.find(LF, at)
        if stop < 0:
            out.append((data[at:], b""))
            break
        line = data[at : stop + 1]
        end = CRLF if line.endswith(CRLF) else LF
        out.append((line.removesuffix(end), end))
        at = stop + 1
    return out


def fits(data: bytes, pieces: Sequence[Piece]) -> bool:
    """Whether a file is one of those that the model allows."""
    lines = parsed(data)
    return len(lines) == len(pieces) and all(
        text == piece.text and end in piece.ends for (text, end), piece in zip(lines, pieces, strict=True)
    )


class Choices:
    """Choices made by some bytes: one draw for a whole case is what makes thousands of cases quick."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def number(self, smallest: int, largest: int) -> int:
        return smallest + next(self._data, 0) % (largest - smallest + 1)

    def one(self, among: Sequence[T]) -> T:
        return among[self.number(0, len(among) - 1)]

    def some(self, among: Sequence[T], most: int) -> list[T]:
        return [self.one(among) for _ in range(self.number(0, most))]


TEXTS = [b"", b"", b"a", b"a", b"b", b"ab", b"  a", b"a\rb", "é".encode(), b"\xe9"]
WORDS = ["", "a", "b", "ab", " ", "\n", "\n", "\r\n", "a\nb", "é", "x"]
choices = st.binary(min_size=64, max_size=64).map(Choices)


def a_file(choose: Choices) -> tuple[bytes, Lines]:
    """A byte order mark or none, and lines that end in one way or in two."""
    kinds = choose.one([[LF], [CRLF], [LF, CRLF]])
    lines = [(text, choose.one(kinds)) for text in choose.some(TEXTS, 7)]
    if lines and lines[-1][0] and choose.one([False, True]):
        lines[-1] = (lines[-1][0], b"")
    return choose.one([b"", b"", BOM]), lines


class Bench:
    """A folder with one file, and a loop to call tools in."""

    def __init__(self, folder: str, runner: asyncio.Runner) -> None:
        self._root = Path(folder)
        self._runner = runner

    def run(self, data: bytes, tool: str, **arguments: Any) -> bytes | None:
        """What the file holds after a call; None when it was refused, and so nothing changed."""
        file = self._root / "f"
        file.unlink(missing_ok=True)  # to cut a file short takes a file system longer than all the rest
        file.write_bytes(data)
        try:
            self._runner.run(call(tool, self._root, **arguments))
        except ToolError:
            assert file.read_bytes() == data
            return None
        finally:
            assert os.listdir(self._root) == ["f"]
        return file.read_bytes()


def not_to_disk(_: int) -> None:
    """In place of `fsync`: thousands of times to the disk and back would prove nothing more."""


@contextmanager
def bench() -> Generator[Bench]:
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner() as runner,
        mock.patch.object(os, "fsync", not_to_disk),
    ):
        yield Bench(folder, runner)


# --- edit: a file is a list of units, a byte or a line end each


class Unit(NamedTuple):
    raw: bytes
    seen: bytes


def units(data: bytes, literal: bool) -> list[Unit]:
    out: list[Unit] = []
    while data:
        raw = CRLF if data.startswith(CRLF) and not literal else data[:1]
        out.append(Unit(raw, LF if raw == CRLF else raw))
        data = data[len(raw) :]
    return out


def plain(text: bytes) -> bytes:
    return b"".join([unit.seen for unit in units(text, False)])


def edit_model(
    body: bytes, old: bytes, new: bytes, every: bool
) -> list[tuple[bytes, frozenset[bytes]]] | None:
    """The units of the new file, each with the ways in which it may be written; None: an error."""
    if not old or old == new:
        return None
    literal = plain(old) == plain(new)
    file, sought = units(body, literal), [unit.seen for unit in units(old, literal)]
    seen = [unit.seen for unit in file]
    places = [i for i in range(len(seen)) if seen[i : i + len(sought)] == sought]
    if not places or (len(places) > 1 and not every):
        return None
    out: list[tuple[bytes, frozenset[bytes]]] = []
    at = 0
    for place in places:
        if place < at:
            continue
        out += [(unit.seen, frozenset([unit.raw])) for unit in file[at:place]]
        at = place + len(sought)
        out += new_units(file, place, at, new, literal)
    return out + [(unit.seen, frozenset([unit.raw])) for unit in file[at:]]


def new_units(
    file: list[Unit], start: int, stop: int, new: bytes, literal: bool
) -> list[tuple[bytes, frozenset[bytes]]]:
    ends = [unit.raw for unit in file if unit.seen == LF]
    if literal or not ends:
        return [(unit.seen, frozenset([unit.raw])) for unit in units(new, literal)]
    region = [unit.raw for unit in file[start:stop] if unit.seen == LF]
    after = [unit.raw for unit in file[stop:] if unit.seen == LF]
    before = [unit.raw for unit in file[:start] if unit.seen == LF]
    allowed = frozenset(region or after[:1] or before[-1:])
    old_lines = b"".join([unit.seen for unit in file[start:stop]]).split(LF)
    new_lines = plain(new).split(LF)
    shorter = min(len(old_lines), len(new_lines))
    head = next((i for i in range(shorter) if old_lines[i] != new_lines[i]), shorter)
    tail = next((i for i in range(shorter - head) if old_lines[-1 - i] != new_lines[-1 - i]), shorter - head)
    out: list[tuple[bytes, frozenset[bytes]]] = []
    for i, line in enumerate(new_lines):
        out += [(bytes([byte]), frozenset([bytes([byte])])) for byte in line]
        left = len(new_lines) - 1 - i
        if left and i < min(head, len(region)):
            out.append((LF, frozenset([region[i]])))  # the same lines from the start on keep their ends
        elif 0 < left < tail:
            out.append((LF, frozenset([region[-left]])))  # and so do the same lines before the end
        elif left:
            out.append((LF, allowed))
    return out


def written(data: bytes, model: list[tuple[bytes, frozenset[bytes]]]) -> bool:
    """Whether a file is written as the model allows."""
    ways = {b""}
    for _, allowed in model:
        ways = {way + raw for way in ways for raw in allowed if data.startswith(way + raw)}
    return data in ways


def an_edit(choose: Choices) -> tuple[bytes, bytes, str, str, bool]:
    """A file, a text that is often in it, another text."""
    bom, lines = a_file(choose)
    body = b"".join([text + end for text, end in lines])
    seen = plain(body)
    start = choose.number(0, len(seen))
    piece = seen[start : choose.number(start, len(seen))].decode("utf-8", "ignore")
    old = choose.one([piece, piece, piece.replace("\n", "\r\n"), "".join(choose.some(WORDS, 3))])
    other = "".join(choose.some(WORDS, 4))
    head, tail = choose.number(0, len(old)), choose.number(0, len(old))
    new = choose.one([other, old[:head] + other + old[tail:], old.replace("\n", other)])
    return bom, body, old, new, choose.one([False, True])


def test_edit_agrees_with_the_model() -> None:
    """[BT-110] Whatever file and texts: the bytes that it promises, or an error and the same bytes."""
    counts = {"edited": 0, "refused": 0}
    with bench() as tool:

        @EXACT
        @given(choices)
        def check(choose: Choices) -> None:
            bom, body, old, new, every = an_edit(choose)
            note(f"{body=} {old=} {new=} {every=}")
            data = tool.run(bom + body, "edit", path="f", oldString=old, newString=new, replaceAll=every)
            model = edit_model(body, old.encode(), new.encode(), every)
            counts["refused" if model is None else "edited"] += 1
            if model is None:
                assert data is None
            else:
                assert data is not None and data.startswith(bom)
                assert written(data.removeprefix(bom), model)

        check()
    assert min(counts.values()) > EXAMPLES // 10, counts


# --- apply_patch: a file is a list of lines


class Cut(NamedTuple):
    """A hunk as the model sees it: signs and texts, and whether it ends the file."""

    lines: list[tuple[str, bytes]]
    at_end: bool

    def old(self) -> list[bytes]:
        return [text for sign, text in self.lines if sign != "+"]

    def new(self) -> list[bytes]:
        return [text for sign, text in self.lines if sign != "-"]


Change = tuple[int, int, list[bytes]]
"""First line, line behind the last one, new lines."""


def changes_of(cut: Cut, at: int) -> list[Change]:
    """What a hunk changes when it begins at a line."""
    out: list[Change] = []
    start, new = at, list[bytes]()
    for sign, text in [*cut.lines, (" ", b"")]:
        if sign == "+":
            new.append(text)
        elif sign == "-":
            at += 1
        else:
            if at > start or new:
                out.append((start, at, new))
            at += 1
            start, new = at, []
    return out


def patch_model(lines: Lines, cuts: Sequence[Cut]) -> list[Piece] | None:
    """The lines of the new file; None: an error."""
    made: list[Change] = []
    taken: list[tuple[int, int]] = []
    for cut in cuts:
        place = place_of(cut, [text for text, _ in lines], taken)
        if place is None:
            return None
        mine = changes_of(cut, place)
        taken.append((mine[0][0], mine[-1][1]))
        made += mine
    return rebuilt(lines, sorted(made, key=lambda change: change[:2]))


def place_of(cut: Cut, texts: list[bytes], taken: list[tuple[int, int]]) -> int | None:
    """The one line at which a hunk can begin; None: there is not exactly one, or it was applied already."""
    old, new = cut.old(), cut.new()
    if old == new or (not old and texts and not cut.at_end):
        return None
    places: list[int] = []
    for i in range(len(texts) + 1):
        if texts[i : i + len(old)] == old and (not (cut.at_end or not old) or i + len(old) == len(texts)):
            mine = changes_of(cut, i)
            span = mine[0][0], mine[-1][1]
            if span not in taken and not any(span[0] < stop and start < span[1] for start, stop in taken):
                places.append(i)
    if len(places) != 1:
        return None
    (at,) = places
    for k in range(min(at, len(new) - len(old)) + 1):
        if new[k : k + len(old)] == old and texts[at - k :][: len(new)] == new:
            return None
    return at


def rebuilt(lines: Lines, changes: list[Change]) -> list[Piece]:
    ends = [end for _, end in lines]
    is_open = bool(ends) and not ends[-1]
    if is_open:  # how the last line would end
        ends[-1] = ends[-2] if len(ends) > 1 else LF
    out: list[tuple[int | None, Piece]] = []
    """Pieces, and which of the old lines they are."""
    at = 0
    for start, stop, new in [*changes, (len(lines), len(lines), [])]:
        out += [(i, Piece(lines[i][0], frozenset([ends[i]]))) for i in range(at, start)]
        near = ends[start:stop] or ends[start : start + 1] or ends[-1:] or [LF]
        out += [(None, Piece(text, frozenset(near))) for text in new]
        at = stop
    if is_open and out and out[-1][0] in (None, len(lines) - 1) and out[-1][1].text:
        out[-1] = (None, Piece(out[-1][1].text, frozenset([b""])))
    return [piece for _, piece in out]


def a_patch(choose: Choices) -> tuple[bytes, Lines, list[Cut]]:
    """A file, and hunks made of its lines: some do not fit, some fit twice, some meet."""
    bom, lines = a_file(choose)
    found = [text for text, _ in lines]
    cuts: list[Cut] = []
    for _ in range(choose.number(1, 3)):
        start = choose.number(0, len(found))
        stop = min(len(found), start + choose.number(0, 2))
        before, after = max(0, start - choose.number(0, 3)), min(len(found), stop + choose.number(0, 3))
        middle = [("-", text) for text in found[start:stop]]
        middle += [("+", text) for text in choose.some([b"n", b"m", b"a", b""], 2)]
        signed = [(" ", text) for text in found[before:start]] + (middle or [("-", b"x")])
        signed += [(" ", text) for text in found[stop:after]]
        shown = [(sign, text.decode("utf-8", "replace").encode()) for sign, text in signed]
        cuts.append(Cut(shown, choose.one([False, False, after == len(found)])))
    return bom, lines, cuts


def test_apply_patch_agrees_with_the_model() -> None:
    """[BT-136] Whatever file and hunks: the lines that it promises, or an error and the same bytes."""
    counts = {"applied": 0, "refused": 0}
    with bench() as tool:

        @EXACT
        @given(choices)
        def check(choose: Choices) -> None:
            bom, lines, cuts = a_patch(choose)
            note(f"{lines=} {cuts=}")
            text = ["*** Begin Patch", "*** Update File: f"]
            for cut in cuts:
                text += ["@@", *[sign + line.decode() for sign, line in cut.lines]]
                text += ["*** End of File"] * cut.at_end
            data = b"".join([line + end for line, end in lines])
            found = tool.run(bom + data, "apply_patch", patchText="\n".join([*text, "*** End Patch"]))
            model = patch_model(parsed(data), cuts)
            counts["refused" if model is None else "applied"] += 1
            if model is None:
                assert found is None
            else:
                assert found is not None and found.startswith(bom)
                assert fits(found.removeprefix(bom), model)

        check()
    assert min(counts.values()) > EXAMPLES // 10, counts
