"""The board."""

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus import Message
from toolnexus.graph import Board, BoardSnapshot, GraphRunError
from toolnexus.graph.board import same
from toolnexus.graph.parallel import merge

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
names = st.sampled_from(["a", "b", "c"])
tables = st.dictionaries(names, json_values, max_size=3)


def said(text: str, role: str = "assistant") -> Message:
    return Message.from_wire({"role": role, "content": {"parts": [{"type": "text", "text": text}]}})


def test_values_are_copied_in_and_out() -> None:
    """[GR-011] Nobody changes a board by changing what it was given, or what it gave."""
    value: dict[str, Any] = {"list": [1]}
    board = Board({"x": value})
    value["list"].append(2)
    board["x"]["list"].append(3)
    board.vars()["x"]["list"].append(4)
    board.channel().append(said("no"))
    assert board["x"] == {"list": [1]}
    assert board.main == []
    assert "missing" not in board
    assert board.get("missing") is None


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (datetime.date(2020, 1, 1), "vars.x: date is not JSON"),
        ({"a": [1, {2}]}, r"vars.x.a\[1\]: set is not JSON"),
        (float("nan"), "vars.x: nan is not JSON"),
        ({1: 2}, "vars.x: the key 1 is not JSON"),
        (object(), "vars.x: object is not JSON"),
    ],
)
def test_what_is_no_json_is_refused_where_it_is_set(value: Any, where: str) -> None:
    """[GR-012] The error comes at once, not at the checkpoint, and names the place."""
    board = Board({"x": 1})
    with pytest.raises(GraphRunError, match=where) as caught:
        board["x"] = value
    assert caught.value.kind == "validation"
    assert board["x"] == 1


def test_a_value_that_holds_itself_is_refused() -> None:
    """[GR-012] Nesting has an end."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(GraphRunError, match="deep"):
        Board({"x": loop})


def test_lists_grow_and_other_values_do_not() -> None:
    """[GR-013] Appending makes a list of what is missing, and refuses what is no list."""
    board = Board()
    board.append_var("l", 1)
    board.append_var("l", 2, 3)
    assert board["l"] == [1, 2, 3]
    board["s"] = "text"
    with pytest.raises(GraphRunError, match="not a list"):
        board.append_var("s", 1)


def test_a_batch_of_messages_lands_whole_or_not_at_all() -> None:
    """[GR-014] What is no message is refused before anything is appended."""
    board = Board()
    bad: Any = {"role": "user"}
    with pytest.raises(GraphRunError, match="holds messages"):
        board.append("", said("one"), bad)
    assert board.main == []
    board.append("side", said("one"), said("two"))
    assert [m.text for m in board.tail("side", 1)] == ["two"]
    board.replace("side", [])
    assert board.channel_length("side") == 0


@settings(max_examples=60, deadline=None)
@given(tables, tables)
def test_a_snapshot_is_never_changed_by_what_comes_after(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """[GR-015] Restoring gives what was there, whatever was written since."""
    board = Board(before, {"c": [said("one")]})
    kept = board.snapshot()
    wire = kept.to_json()
    board.update(after)
    board.append("c", said("two"))
    board.append_var("list", 1)
    other = Board.of(kept)
    other.append("c", said("three"))
    board.restore(kept)
    assert board.snapshot().to_json() == wire
    assert [m.text for m in other.channel("c")] == ["one", "three"]
    assert BoardSnapshot.from_json(wire).to_json() == wire


WRONG: list[Any] = [
    {"role": "robot", "content": {"parts": [{"type": "text", "text": "x"}]}},
    {"role": "user", "content": {"parts": []}},
    {"role": "user", "content": {"parts": [{"type": "txt", "text": "x"}]}},
    {"role": "user", "content": {"parts": [{"type": "text", "text": "x", "more": 1}]}},
    {"role": "user", "content": {"parts": [{"type": "text"}]}},
    {"role": "user", "content": "x"},
    {"role": "user", "content": {"parts": [{"type": "text", "text": "x"}]}, "name": "n"},
    {"role": "user", "content": {"parts": [{"type": "image", "source": {}}]}},
    {"role": "assistant", "content": {"parts": [{"type": "tool_call", "call": {"id": "", "name": "x"}}]}},
    [],
]


@pytest.mark.parametrize("wire", WRONG)
def test_messages_are_read_strictly(wire: Any) -> None:
    """[GR-016] Typos in the wire form are errors, not lost fields."""
    with pytest.raises(ValueError):
        Message.from_wire(wire)


def test_messages_keep_their_parts_in_the_wire_form() -> None:
    """[GR-016] Every kind of part goes both ways."""
    three = {"parts": [{"type": "text", "text": "3"}]}
    wire = {
        "role": "assistant",
        "content": {
            "parts": [
                {"type": "text", "text": "hi"},
                {"type": "reasoning", "text": "hm", "origin": "openai:host"},
                {"type": "data", "data": {"a": [1, None]}},
                {"type": "image", "source": {"url": "https://example.com/a.png", "mime_type": "image/png"}},
                {"type": "tool_call", "call": {"id": "c", "name": "add", "arguments": '{"a": 1}'}},
                {"type": "tool_result", "result": {"call_id": "c", "content": three, "is_error": True}},
            ]
        },
    }  # fmt: skip
    assert Message.from_wire(wire).to_wire() == wire


@settings(max_examples=100, deadline=None)
@given(tables, st.lists(tables, min_size=1, max_size=4), st.booleans())
def test_a_merge_follows_the_order_of_the_wave(
    before: dict[str, Any], after: list[dict[str, Any]], last: bool
) -> None:
    """[GR-017] Per variable the first, or the last, branch that changed it wins; a deletion is a change."""
    pre = Board(before).snapshot()
    board = Board.of(pre)
    merge(board, pre, [Board(table).snapshot() for table in after], last=last)
    for name in {*before, *[name for table in after for name in table]}:
        missing: Any = object()
        writers = [t for t in after if not same(t.get(name, missing), before.get(name, missing))]
        winner = (writers[-1] if last else writers[0]) if writers else before
        assert same(board.get(name, missing), winner.get(name, missing))


def test_messages_of_branches_are_appended_in_the_order_of_the_wave() -> None:
    """[GR-018] A rewritten beginning changes the whole channel; what others appended comes behind it."""
    pre = Board(channels={"c": [said("0")]}).snapshot()
    a, b, c = Board.of(pre), Board.of(pre), Board.of(pre)
    a.append("c", said("a"))
    b.replace("c", [said("new")])
    c.append("c", said("c"))
    board = Board.of(pre)
    merge(board, pre, [a.snapshot(), b.snapshot(), c.snapshot()], last=False)
    assert [m.text for m in board.channel("c")] == ["new", "a", "c"]
    board = Board.of(pre)
    merge(board, pre, [a.snapshot(), c.snapshot()], last=True)
    assert [m.text for m in board.channel("c")] == ["0", "a", "c"]
