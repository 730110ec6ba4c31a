"""Server-sent events are split the same however their bytes arrive."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolnexus.models.sse import EventSplitter

EVENTS = [b'{"a": 1}', "{'ä': '🌍'}".encode(), b"[DONE]", b"x" * 300, b"one\ntwo"]


def framed(end: bytes) -> bytes:
    """The events with comments, other fields, and `end` as line end."""
    lines = [b": a comment", b""]
    for number, event in enumerate(EVENTS):
        lines += [b"event: e", b"id: %d" % number, b"retry: 5"]
        lines += [b"data: " + part if number % 2 else b"data:" + part for part in event.split(b"\n")]
        lines += [b"", b""] if number == 1 else [b""]
    return end.join(lines) + end


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    splitter = EventSplitter()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    out: list[bytes] = []
    for start, stop in pairwise(edges):
        if start < stop:
            out += splitter.feed(data[start:stop])
    return out + splitter.end()


@given(st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 5000), max_size=12))
def test_any_line_end_and_any_cut_gives_the_events(end: bytes, cuts: list[int]) -> None:
    """[WIRE-29] LF, CRLF and CR, comments, other fields, several data lines, any pieces."""
    assert split(framed(end), cuts) == EVENTS


@given(st.lists(st.integers(0, 5000), max_size=12))
def test_a_byte_order_mark_and_a_missing_last_blank_line_do_no_harm(cuts: list[int]) -> None:
    """[WIRE-29] A mark in front is skipped; the last event counts without a blank line behind it."""
    first = 3 + 1000 if not cuts else min([cut for cut in cuts if cut > 3], default=1000)
    data = b"\xef\xbb\xbf" + framed(b"\n").rstrip(b"\n")
    assert split(data, [cut for cut in cuts if cut >= first]) == EVENTS


def test_one_byte_at_a_time() -> None:
    """[WIRE-29] Every event comes out as soon as its last byte is in."""
    splitter = EventSplitter()
    data = b"data: a\r\n\r\ndata: b\n\n"
    got = [(i, event) for i in range(len(data)) for event in splitter.feed(data[i : i + 1])]
    assert [event for _, event in got] == [b"a", b"b"]
    assert got[1][0] == len(data) - 1


def test_fields_without_data_are_no_event() -> None:
    """[WIRE-29] A block that holds only comments or other fields gives nothing."""
    splitter = EventSplitter()
    assert splitter.feed(b": ping\n\nevent: ping\n\ndata\n\n") == []
    assert splitter.end() == []
