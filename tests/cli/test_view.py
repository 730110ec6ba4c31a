"""The tree of a run and its drawing, from events alone."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

import pytest

from toolnexus.cli.view.draw import ASCII, UNICODE, as_text, draw, glyphs_for
from toolnexus.cli.view.jsonl import JsonLines
from toolnexus.cli.view.plain import PlainLines
from toolnexus.cli.view.tree import RunTree
from toolnexus.cli.view.words import cells, fit, printable, telling
from toolnexus.core.events import (
    Event,
    LimitHit,
    Pending,
    Retrying,
    RunFinished,
    RunStarted,
    SubAgentStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    UsageReported,
)
from toolnexus.core.result import Limit, RunResult
from toolnexus.core.suspension import Request
from toolnexus.core.tools import ToolResult
from toolnexus.core.usage import Usage

MAIN, KID = ("main",), ("main", "explore.c1")


def timed(events: Iterable[Event], step: float = 1.0) -> list[Event]:
    """The events, one every `step` seconds from 100 on."""
    out = list(events)
    for number, event in enumerate(out):
        event.seq, event.time = number + 1, 100 + number * step
    return out


def story() -> list[Event]:
    """One child with one tool."""
    return timed(
        [
            RunStarted(path=MAIN, agent="main"),
            TurnStarted(path=MAIN, turn=1, model="m"),
            UsageReported(path=MAIN, model="m", usage=Usage()),
            ToolStarted(path=MAIN, name="task", call_id="c1", arguments={"agent": "explore", "prompt": "p"}),
            SubAgentStarted(path=MAIN, agent="explore", child=KID, call_id="c1"),
            RunStarted(path=KID, agent="explore"),
            ToolStarted(path=KID, name="grep", call_id="c1", arguments={"pattern": "needle"}),
            ToolFinished(path=KID, name="grep", call_id="c1", result=ToolResult(output="a\nb"), seconds=1.0),
            RunFinished(path=KID, result=RunResult(status="done", text="x", path=KID, turns=1, tool_calls=1)),
            ToolFinished(path=MAIN, name="task", call_id="c1", result=ToolResult(output="x"), seconds=5.0),
            RunFinished(
                path=MAIN, result=RunResult(status="done", text="y", path=MAIN, turns=2, tool_calls=1)
            ),
        ]
    )


def drawn(events: Iterable[Event], *, width: int = 80, height: int | None = None) -> list[str]:
    tree = RunTree()
    for event in events:
        tree.feed(event)
    return as_text(draw(tree, width=width, now=tree.now, glyphs=UNICODE, height=height)).splitlines()


def test_a_run_has_a_line_with_state_and_bar_and_its_tools_below() -> None:
    """[CLI-31] Each run: name, what it does, a bar on the common axis, seconds; `task` itself has no line."""
    axis, main, kid, tool = drawn(story())
    assert axis.split()[0] == "0"
    assert main.split()[:2] == ["main", "done"]
    assert kid.startswith("└ explore")
    assert tool.startswith("  └ grep needle")
    assert [line.split()[-2] for line in (main, kid, tool)] == ["10.0", "3.0", "1.0"]
    column = {name: line.index(mark) for name, line, mark in (("kid", kid, "░"), ("tool", tool, "▪"))}
    assert column["tool"] > column["kid"] > main.index("░")
    assert "task" not in "".join([main, kid, tool])


def test_while_it_runs_the_line_says_what_it_waits_for() -> None:
    """[CLI-32] Model, tool, retry and person are told apart; a refused call keeps its line and its reason."""
    start: list[Event] = [RunStarted(path=MAIN, agent="main"), TurnStarted(path=MAIN, turn=1, model="m")]
    tool = ToolStarted(path=MAIN, name="bash", call_id="c1", arguments={"command": "make"})
    retry = Retrying(path=MAIN, attempt=2, delay=1.0, reason="busy")
    asks = Pending(path=MAIN, request=Request(kind="question", prompt="Which?"))
    for more, state in (([], "model"), ([tool], "bash"), ([retry], "retry 2"), ([tool, asks], "asks you")):
        line = drawn(timed([*start, *more]))[1]
        assert line[4:].strip().startswith(state)
    refused = ToolResult(output="not run: limit tool_calls 1", is_error=True)
    lines = drawn(
        timed([*start, tool, ToolFinished(path=MAIN, name="bash", call_id="c1", result=refused, seconds=0.0)])
    )
    assert lines[2].startswith("└ bash make")
    assert "failed" in lines[2]
    assert lines[3].strip() == "not run: limit tool_calls 1"


def test_what_was_cut_off_is_shown_as_stopped() -> None:
    """[CLI-32] When no more events come, runs and calls without an end are stopped, not going on."""
    tree = RunTree()
    for event in story()[:7]:
        tree.feed(event)
    tree.stop()
    lines = as_text(draw(tree, width=80, now=tree.now + 50, glyphs=UNICODE)).splitlines()
    assert ["stopped" in line for line in lines[1:3]] == [True, True]
    assert lines[1].split()[-2] == "6.0"
    assert "failed" in lines[3]


def test_a_limit_is_shown_with_the_run_that_met_it() -> None:
    """[CLI-33] An incomplete run says which limit stopped it."""
    hit = Limit(limit="max_turns", value=2, path=MAIN, scope=MAIN)
    result = RunResult(status="incomplete", text="", limit="max_turns", limits_hit=(hit,), path=MAIN)
    lines = drawn(timed([RunStarted(path=MAIN, agent="main"), RunFinished(path=MAIN, result=result)]))
    assert "incomplete" in lines[1]
    assert lines[2] == "limit max_turns 2"


def test_the_drawing_fits_the_terminal() -> None:
    """[CLI-34] No line is wider than the terminal from 60 columns on; with many calls the earliest are left
    out, and what is too high is cut with a remark."""
    calls: list[Event] = [RunStarted(path=MAIN, agent="main " * 30)]
    for n in range(40):
        calls.append(ToolStarted(path=MAIN, name="read", call_id=f"c{n}", arguments={"path": "dir/" * 40}))
    for width in (60, 80, 200):
        lines = drawn(timed(calls), width=width)
        assert max(cells(line) for line in lines) <= width - 1
        assert sum("read dir" in line for line in lines) == 8
        assert any("32 earlier calls" in line for line in lines)
    assert len(drawn(timed(calls), height=5)) <= 5
    many = [RunStarted(path=("main", *[f"a.{n}"]), agent=f"a{n}") for n in range(30)]
    lines = drawn(timed([RunStarted(path=MAIN, agent="main"), *many]), height=10)
    assert len(lines) == 10
    assert lines[-1] == "… 23 more lines"


def test_a_terminal_without_utf8_gets_ascii() -> None:
    """[CLI-35] The characters fit the encoding of the stream."""
    assert glyphs_for("utf-8") is glyphs_for("UTF8") is UNICODE
    assert glyphs_for("latin-1") is glyphs_for(None) is glyphs_for("nonsense") is ASCII
    tree = RunTree()
    for event in story():
        tree.feed(event)
    assert as_text(draw(tree, width=80, now=tree.now, glyphs=ASCII)).isascii()


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    """[CLI-36] Control characters in names, arguments, answers and errors are shown as blanks."""
    evil = "\x1b]0;x\x07\x1b[2J\u202ename"
    assert printable(evil).isprintable()
    assert printable("a\u200cb 👩\u200d👧") == "a\u200cb 👩\u200d👧"
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb "
    out, answer = io.StringIO(), io.StringIO()
    view = PlainLines(out, answer)
    bad = ToolResult(output=evil, is_error=True)
    for event in timed(
        [
            RunStarted(path=MAIN, agent=evil),
            ToolStarted(path=MAIN, name="read", call_id="c", arguments={"path": evil}),
            ToolFinished(path=MAIN, name="read", call_id="c", result=bad, seconds=0.1),
            TextDelta(path=MAIN, text=evil),
        ]
    ):
        view.feed(event)
    assert "\x1b" not in out.getvalue() + answer.getvalue()
    assert "\u202e" not in out.getvalue() + answer.getvalue()


def test_plain_lines_keep_answer_and_progress_apart() -> None:
    """[CLI-37] Text of the top run goes to the answer as it comes, a line of progress never stands in the
    middle of it, text of children is not shown."""
    both = io.StringIO()
    view = PlainLines(both, both)
    hit = LimitHit(path=MAIN, hit=Limit(limit="requests", value=3, path=MAIN, scope=MAIN))
    for event in timed([RunStarted(path=MAIN, agent="main"), TextDelta(path=MAIN, text="Hel"), hit]):
        view.feed(event)
    view.feed(TextDelta(path=MAIN, text="lo"))
    view.feed(TextDelta(path=KID, text="whisper"))
    view.close()
    assert both.getvalue() == "  0.00 s  main  starts\nHel\n  2.00 s  main  limit requests 3\nlo\n"
    assert view.answered


def test_a_json_line_is_valid_whatever_it_holds() -> None:
    """[CLI-38] Lone surrogates, line separators and values that are not JSON stay on one valid line."""
    out = io.StringIO()
    view = JsonLines(out)
    odd = ToolResult(output="\ud800\u2028\n", metadata={"where": object()})
    for event in [*story(), ToolFinished(path=MAIN, name="x", call_id="c", result=odd, seconds=0.0)]:
        view.feed(event)
    lines = out.getvalue().splitlines()
    assert len(lines) == len(story()) + 1
    assert json.loads(lines[-1])["output"] == "\ud800\u2028\n"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 4, "abc~"),
        ("日本語", 5, "日本~"),
        ("e\u0301a", 3, "e\u0301a "),
        ("ab", 0, ""),
    ],
)
def test_text_is_fitted_by_columns(text: str, width: int, shown: str) -> None:
    """[CLI-39] Wide and combining characters count as the columns that they take."""
    assert fit(text, width) == shown
    assert cells(shown) == width


def test_a_call_is_told_by_its_telling_argument() -> None:
    """[CLI-39] The path, the pattern or the command says what a call is about, in one line."""
    assert telling({"limit": 3, "path": "a.py", "pattern": "x"}) == "a.py"
    assert telling({"other": "\n first\nsecond"}) == "first"
    assert telling({"n": 1}) == telling({}) == telling(None) == ""
