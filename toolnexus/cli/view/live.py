"""The tree, redrawn in place while the run goes on. Needs `rich`."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from toolnexus.cli.view.draw import Line, draw, glyphs_for
from toolnexus.cli.view.tree import RunTree
from toolnexus.cli.view.words import printable
from toolnexus.core.events import Event, Retrying, TextDelta, TurnStarted

STYLES = {
    "name": "bold",
    "dim": "bright_black",
    "tool": "cyan",
    "running": "cyan",
    "done": "green",
    "incomplete": "yellow",
    "pending": "magenta",
    "error": "red",
}
TAIL = 6
"""Lines of the text being written that are shown below the tree."""
_KEPT = 4_000


class LiveTree:
    """Draws on the terminal `out`. What stays at the end is the tree as it was then, without text."""

    moves = True
    answered = False

    def __init__(self, out: TextIO) -> None:
        self._tree = RunTree()
        self._console = Console(file=out, highlight=False, emoji=False, markup=False)
        self._glyphs = glyphs_for(out.encoding)
        self._text = ""
        self._live: Live | None = self._start()

    def feed(self, event: Event) -> None:
        self._tree.feed(event)
        if len(event.path) == 1:
            if isinstance(event, TextDelta):
                self._text = (self._text + event.text)[-_KEPT:]
            elif isinstance(event, TurnStarted) or (isinstance(event, Retrying) and event.restarted):
                self._text = ""

    def tick(self) -> None:
        if self._live is not None:
            self._live.update(self._frame(), refresh=True)

    @contextmanager
    def aside(self) -> Generator[None]:
        self._stop()
        try:
            yield
        finally:
            self._live = self._start()

    def close(self) -> None:
        if self._live is None:
            return
        self._stop()
        self._tree.stop()
        if len(self._tree.runs) > 1 or any(run.tools for run in self._tree.walk()):
            self._console.print(Group(*self._lines(self._tree.now, None)))

    def _start(self) -> Live:
        live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        live.start()
        return live

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _frame(self) -> Group:
        tail = _tail(self._text, self._console.width - 1)
        lines = self._lines(max(time.time(), self._tree.now), self._console.height - len(tail) - 1)
        return Group(*lines, *[Text(line, no_wrap=True, overflow="crop") for line in tail])

    def _lines(self, now: float, height: int | None) -> list[Text]:
        width = self._console.width
        return [
            _styled(line)
            for line in draw(self._tree, width=width, now=now, glyphs=self._glyphs, height=height)
        ]


def _styled(line: Line) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for words, style in line:
        text.append(words, style=STYLES.get(style, ""))
    return text


def _tail(text: str, width: int) -> list[str]:
    """The last lines of `text`, no line wider than the terminal."""
    out: list[str] = []
    for line in printable(text, keep="\n").split("\n"):
        out += [line[at : at + width] for at in range(0, len(line), width)] or [""]
    return ["", *out[-TAIL:]] if text.strip() else []
