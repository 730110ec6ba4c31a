"""Blocks of text below each other: paragraphs, headings, lists, quotes, tables, code.

Above: `html_text` says what begins and ends, in any order. Below: nothing. Inline text gathers in a
line until something breaks it; an open list item or quote is a prefix of every line inside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MOST_PREFIXES = 12
_TICKS = re.compile("`+")
_MANY_COLUMNS = 200


@dataclass(slots=True, eq=False)
class _Box:
    """An open list, item, quote or table."""

    tag: str
    first: str = ""
    rest: str = ""
    number: int = 1
    cells: list[str] = field(default_factory=list[str])
    in_cell: bool = False
    rows: int = 0
    loose: bool = False
    """A table that arranges blocks instead of holding data: its cells are blocks."""


class Layout:
    """What was put on the page so far. Anything may be ended that was not begun, and the other way round."""

    def __init__(self, marked: bool) -> None:
        self._marked = marked
        self._out: list[str] = []
        self._line: list[str] = []
        self._lead = ""
        self._boxes: list[_Box] = []
        self._open: dict[str, int] = {}
        self._prefixes: list[_Box] = []
        self._last: object = None
        self._prefix = ""
        self._link: tuple[str, int] | None = None
        self._code: int | None = None
        self._language: str | None = None
        self.has_top_heading = False

    @property
    def in_pre(self) -> bool:
        """Whether text is kept as it is."""
        return self._language is not None

    def text(self) -> str:
        """The whole page."""
        if self.in_pre:
            self.end_pre()
        while self._boxes:
            self._pop()
        self._flush()
        return "".join(self._out)

    def put(self, text: str) -> None:
        """Inline text; a line feed is a line break."""
        if text:
            self._line.append(text)

    def soft_break(self) -> None:
        """The edge of a section; inside a cell of a table a space."""
        if self._cell() is not None:
            self.put(" ")
        else:
            self._flush()

    def paragraph(self) -> None:
        """A paragraph begins; a cell of a table holds one of them at most."""
        if "".join(self._line).strip():
            self._hard_break()
        else:
            self.soft_break()

    def begin_heading(self, lead: str) -> None:
        self._hard_break()
        self._lead = lead if self._marked else ""
        self.has_top_heading |= lead == "# "

    def rule(self) -> None:
        self._hard_break()
        if self._marked:
            self._block(["---"])

    def begin_code(self) -> None:
        if self._code is None:
            self._code = len(self._line)

    def end_code(self) -> None:
        start, self._code = self._code, None
        if start is None:
            return
        if self._link is not None and self._link[1] > start:
            self.end_link()
        inner = " ".join("".join(self._line[start:]).split())
        if self._marked and inner:
            fence = _fence(inner, 1)
            pad = " " if "`" in inner else ""
            self._line[start:] = [f"{fence}{pad}{inner}{pad}{fence}"]

    def begin_link(self, target: str) -> None:
        self.end_link()
        if target and self._marked:
            self._link = (target, len(self._line))

    def end_link(self) -> None:
        if self._link is None:
            return
        target, start = self._link
        if self._code is not None and self._code > start:
            self.end_code()
        self._link = None
        inner = "".join(self._line[start:])
        if shown := " ".join(inner.split()):
            before, after = " " * inner[0].isspace(), " " * inner[-1].isspace()
            self._line[start:] = [f"{before}[{shown}]({target}){after}"]

    def begin_pre(self, language: str) -> None:
        self._hard_break()
        self._language = language

    def language(self, name: str) -> None:
        """What the code inside `pre` says of itself."""
        self._language = self._language or name

    def end_pre(self) -> None:
        name, self._language = self._language, None
        text = "".join(self._line).replace("\r\n", "\n").replace("\r", "\n")
        self._line.clear()
        text = text.removeprefix("\n").rstrip()
        if text and self._marked:
            fence = _fence(text, 3)
            text = f"{fence}{name}\n{text}\n{fence}"
        if text:
            self._block(text.split("\n"))

    def begin(self, tag: str) -> None:
        """A list, a quote or a table."""
        self._hard_break()
        quote = "> " if tag == "blockquote" and self._marked else ""
        self._push(_Box(tag, quote, quote))

    def end(self, tag: str) -> None:
        """The innermost one of that kind, and whatever is still open in it."""
        if not self._open.get(tag):
            self._flush()
            return
        while self._pop() != tag:
            pass

    def begin_item(self, value: str | None) -> None:
        self._hard_break()
        while self._boxes and self._boxes[-1].tag == "li":
            self._pop()
        bullet = "- "
        if self._boxes and self._boxes[-1].tag == "ol":
            around = self._boxes[-1]
            if value and value.isascii() and value.isdigit() and len(value) < 9:
                around.number = int(value)
            bullet = f"{around.number}. "
            around.number += 1
        self._push(_Box("li", bullet, " " * len(bullet)))

    def begin_cell(self) -> None:
        self.end_cell()
        table = self._table()
        if table is not None and not table.loose and len(table.cells) < _MANY_COLUMNS:
            self._flush()
            table.in_cell = True

    def end_cell(self) -> None:
        table = self._table()
        if table is None or not table.in_cell:
            self._flush()
            return
        table.in_cell = False
        table.cells.append(self._taken().replace("\n", " "))

    def end_row(self) -> None:
        self.end_cell()
        table = self._table()
        if table is None:
            return
        cells, table.cells = table.cells, []
        if len(cells) < 2:
            self._plain(cells)
        elif any(cells):
            table.rows += 1
            self._row(table, cells)

    def _row(self, table: _Box, cells: list[str]) -> None:
        if not self._marked:
            self._block([" | ".join(cells)], table)
            return
        lines = [f"| {' | '.join([cell.replace('|', chr(92) + '|') for cell in cells])} |"]
        if table.rows == 1:
            lines.append("|" + " --- |" * len(cells))
        self._block(lines, table)

    def _plain(self, cells: list[str]) -> None:
        for cell in cells:
            if cell:
                self._block([cell])

    def _table(self) -> _Box | None:
        """The table that is open and has nothing open in it."""
        return self._boxes[-1] if self._boxes and self._boxes[-1].tag == "table" else None

    def _cell(self) -> _Box | None:
        table = self._table()
        return table if table is not None and table.in_cell else None

    def _loosen(self, table: _Box) -> None:
        """A block in a cell: it, and all others of this table, cannot be a row of Markdown."""
        table.loose, table.in_cell = True, False
        cells, table.cells = table.cells, []
        self._plain(cells)

    def _hard_break(self) -> None:
        """Something begins that a cell of a table cannot hold."""
        table = self._cell()
        if table is not None:
            self._loosen(table)
        self._flush()

    def _push(self, box: _Box) -> None:
        self._boxes.append(box)
        self._open[box.tag] = self._open.get(box.tag, 0) + 1
        if box.rest and len(self._prefixes) < _MOST_PREFIXES:
            self._prefixes.append(box)

    def _pop(self) -> str:
        """Close the innermost box and say what it was."""
        if self._table() is not None:
            self.end_row()
        else:
            self._flush()
        box = self._boxes.pop()
        self._open[box.tag] -= 1
        if self._prefixes and self._prefixes[-1] is box:
            self._prefixes.pop()
        return box.tag

    def _flush(self) -> None:
        """The line so far is a block. A link whose text has not begun goes on in the next one."""
        waiting = self._link
        text = self._taken()
        lead, self._lead = self._lead, ""
        if text:
            self._block([lead + text.replace("\n", " ")] if lead else text.split("\n"))
        elif waiting is not None:
            self._link = (waiting[0], 0)

    def _taken(self) -> str:
        """The line so far, without needless space."""
        self.end_link()
        self.end_code()
        lines = [" ".join(line.split()) for line in "".join(self._line).split("\n")]
        self._line.clear()
        return "\n".join(lines).strip("\n")

    def _block(self, lines: list[str], table: _Box | None = None) -> None:
        """Put a block below the others; items of a list and rows of a table follow without a gap."""
        item = any(box.tag == "li" and box.first != box.rest for box in self._prefixes)
        first = "".join([box.first for box in self._prefixes])
        rest = "".join([box.rest for box in self._prefixes])
        for box in self._prefixes:
            box.first = box.rest
        if self._out:
            tight = (item and self._last == "list") or (table is not None and self._last is table)
            shared = min(self._prefix, rest, key=len)
            gap = shared.rstrip() if self._prefix.startswith(shared) and rest.startswith(shared) else ""
            self._out.append("\n" if tight else f"\n{gap}\n")
        self._prefix = rest
        self._out.append(first + lines[0])
        self._out += [f"\n{rest}{line}".rstrip(" ") for line in lines[1:]]
        in_list = any(box.tag == "li" for box in self._prefixes)
        self._last = table if table is not None else "list" if in_list else None


def _fence(text: str, least: int) -> str:
    """A run of backticks longer than any in `text`."""
    longest = max([len(found) for found in _TICKS.findall(text)], default=0)
    return "`" * max(least, longest + 1)
