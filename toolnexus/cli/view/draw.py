"""The tree as lines of text: names, what each run does, and bars on one time axis."""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence
from dataclasses import dataclass

from toolnexus.cli.view.tree import RunNode, RunTree, Span, ToolNode
from toolnexus.cli.view.words import fit

Piece = tuple[str, str]
"""Text and the name of its style: a status, `model`, `tool`, `dim`, `name`, or ``."""
Line = list[Piece]

MOST_TOOLS = 8
NARROWEST, WIDEST = 48, 120
_SHORTEST_AXIS = 2.0


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters to draw with."""

    branch: str
    last: str
    down: str
    model: str
    tool: str
    single: str


UNICODE = Glyphs(branch="├ ", last="└ ", down="│ ", model="░", tool="█", single="▪")
ASCII = Glyphs(branch="|-", last="`-", down="| ", model=".", tool="#", single="+")


def glyphs_for(encoding: str | None) -> Glyphs:
    """What a stream of this encoding can show."""
    try:
        return UNICODE if codecs.lookup(encoding or "ascii").name.startswith("utf") else ASCII
    except LookupError:
        return ASCII


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of one drawing, and the stretch of time that the bars show."""

    name: int
    state: int
    bar: int
    began: float
    seconds: float
    now: float
    glyphs: Glyphs


def draw(tree: RunTree, *, width: int, now: float, glyphs: Glyphs, height: int | None = None) -> list[Line]:
    """The lines of the tree, the axis first. With `height` tools are left out until it fits."""
    if not tree.roots:
        return []
    layout = _layout(tree, width, now, glyphs)
    for most in (MOST_TOOLS, 4, 2, 1, 0):
        lines = [_axis(layout)]
        for root in tree.roots:
            _run_lines(lines, root, layout, "", "", most)
        if height is None or len(lines) <= height:
            return lines
    hidden = len(lines) - height + 1
    return [*lines[: height - 1], [(f"… {hidden} more lines", "dim")]]


def as_text(lines: Sequence[Line]) -> str:
    """The lines without styles."""
    return "\n".join(["".join([text for text, _ in line]).rstrip() for line in lines])


def _layout(tree: RunTree, width: int, now: float, glyphs: Glyphs) -> Layout:
    width = min(max(width - 1, NARROWEST), WIDEST)  # the last column stays free: some terminals wrap there
    deepest = max((run.depth for run in tree.walk()), default=0)
    name = min(24 + 2 * deepest, width // 3 + 4)
    state = 12
    ended = [run.ended for run in tree.roots]
    end = max([e for e in ended if e is not None]) if all(e is not None for e in ended) else now
    return Layout(
        name=name,
        state=state,
        bar=width - name - state - 7 - 2,
        began=tree.began,
        seconds=max(end - tree.began, _SHORTEST_AXIS),
        now=now,
        glyphs=glyphs,
    )


def _axis(layout: Layout) -> Line:
    g = layout.glyphs
    left = " " * (layout.name + layout.state + 2)
    words = f"{g.model} model {g.tool} tools"
    scale = f"0 s{words:^{max(layout.bar - 3, 0)}}"
    return [(left, ""), (fit(scale, layout.bar), "dim"), (f"{layout.seconds:5.1f} s", "dim")]


def _run_lines(lines: list[Line], run: RunNode, layout: Layout, first: str, rest: str, most: int) -> None:
    """The line of a run, then its tools, then its children. `first` stands before its own line."""
    style = run.status or "running"
    lines.append(
        [
            *_label(first, run.agent, "", "name", layout),
            (fit(run.current, layout.state) + " ", style),
            (_bar(run, layout), style),
            (_seconds(run.started, run.ended, layout), "dim"),
        ]
    )
    g, tools = layout.glyphs, run.shown_tools
    if run.limit:
        lines.append(_remark(rest, f"limit {run.limit}", layout))
    hidden = max(len(tools) - most, 0)
    below = len(tools) - hidden + len(run.children)
    if hidden and most:
        lines.append([(f"{rest}{g.down if below else '  '}", "dim"), (f"… {hidden} earlier calls", "dim")])
    for number, tool in enumerate(tools[hidden:], 1):
        lines.append(_tool_line(tool, layout, rest + (g.branch if number < below else g.last)))
        if tool.said:
            lines.append(_remark(rest + (g.down if number < below else "  "), tool.said, layout))
    for number, child in enumerate(run.children, 1):
        last = number == len(run.children)
        _run_lines(
            lines,
            child,
            layout,
            rest + (g.last if last else g.branch),
            rest + ("  " if last else g.down),
            most,
        )


def _tool_line(tool: ToolNode, layout: Layout, first: str) -> Line:
    style = "error" if tool.failed else "tool"
    state = "failed" if tool.failed else "" if tool.ended is not None else "…"
    return [
        *_label(first, tool.name, tool.about, "", layout),
        (fit(state, layout.state) + " ", style),
        (_cells_of([(tool.started, tool.ended)], layout, layout.glyphs.single), style),
        (_seconds(tool.started, tool.ended, layout), "dim"),
    ]


def _remark(first: str, text: str, layout: Layout) -> Line:
    room = layout.name + layout.state + layout.bar + 9 - len(first)
    return [(first, "dim"), (fit(text, room), "dim")]


def _label(first: str, name: str, about: str, style: str, layout: Layout) -> Line:
    room = layout.name - len(first)
    shown = f"{name} {about}".rstrip()
    text = fit(shown, room)
    return [(first, "dim"), (text[: len(name)], style), (text[len(name) :] + " ", "dim")]


def _bar(run: RunNode, layout: Layout) -> str:
    """One cell for each stretch of time: what the run did in most of it."""
    g = layout.glyphs
    whole = _cells_of([(run.started, run.ended)], layout, g.model)
    spans: list[Span] = [(tool.started, tool.ended) for tool in run.tools.values()]
    tools = _cells_of(spans, layout, g.tool)
    return "".join([t if t != " " else w for w, t in zip(whole, tools, strict=True)])


def _cells_of(spans: Sequence[Span], layout: Layout, mark: str) -> str:
    bar = [" "] * layout.bar
    per_cell = layout.seconds / layout.bar
    for start, end in spans:
        first = int((start - layout.began) / per_cell)
        last = math.ceil(((layout.now if end is None else end) - layout.began) / per_cell)
        first = min(max(first, 0), layout.bar - 1)
        for cell in range(first, min(max(last, first + 1), layout.bar)):
            bar[cell] = mark
    return "".join(bar)


def _seconds(start: float, end: float | None, layout: Layout) -> str:
    return f"{(layout.now if end is None else end) - start:5.1f} s"
