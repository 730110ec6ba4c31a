"""References to the board."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.graph.expr.rows import typed
from toolnexus.graph.refs import RefError, references, resolve_config, resolve_string, resolve_text

DATA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "conformance/graph/refs.json").read_text())
BOARD: dict[str, Any] = DATA["board"]


def outcome(text: str) -> dict[str, Any]:
    try:
        return {"text": text, "gives": resolve_text(text, BOARD)}
    except RefError:
        return {"text": text, "fails": True}


def test_every_row_of_the_data_resolves_as_it_says() -> None:
    """[GR-120] Values with their types."""
    assert len(DATA["rows"]) > 100
    assert [row for row in DATA["rows"] if typed(outcome(row["text"])) != typed(row)] == []


def test_a_text_can_be_demanded() -> None:
    """[GR-121] `resolve_string` gives a text, also where one reference stands alone."""
    assert resolve_string("${board:x}", BOARD) == "42"
    assert resolve_string("${board:user.tags}", BOARD) == '["a",1]'
    assert resolve_string("${board:n}", BOARD) == "null"
    assert resolve_string("${board:zz:[1, 2]}", BOARD) == "[1, 2]"
    assert resolve_string("${board:s}", BOARD) == "hi"
    assert resolve_string("plain", BOARD) == "plain"


def test_a_config_is_resolved_at_every_depth() -> None:
    """[GR-122] Texts only; the config itself stays as it is."""
    config: dict[str, Any] = {
        "model": {"name": "${board:s}"},
        "list": ["${board:x}", ["a ${board:x}"], 1, None, True],
        "source": "`${board:x}`",
        "n": 3,
    }
    before = json.dumps(config)
    assert resolve_config(config, BOARD, frozenset({"source"})) == {
        "model": {"name": "hi"},
        "list": [42, ["a 42"], 1, None, True],
        "source": "`${board:x}`",
        "n": 3,
    }
    assert json.dumps(config) == before


@pytest.mark.parametrize(
    ("config", "place", "path"),
    [
        ({"a": {"b": [1, "${board:no.such}"]}}, "a.b[1]", "no.such"),
        ({"a": "${board:no}"}, "a", "no"),
        ({"a": [{"${board:x}": 1}]}, "a[0].${board:x}", ""),
        ({"${board:x}": 1}, "${board:x}", ""),
        ({"a": "x ${board.user}"}, "a", ""),
    ],
)
def test_an_error_names_the_place_and_what_is_missing(config: dict[str, Any], place: str, path: str) -> None:
    """[GR-122] Also for a reference in a key, which is refused."""
    with pytest.raises(RefError) as caught:
        resolve_config(config, BOARD)
    assert (caught.value.place, caught.value.path) == (place, path)
    assert str(caught.value).startswith(f"{place}: ")
    assert path in str(caught.value)


def test_the_old_form_is_told_the_new_one() -> None:
    """[GR-120] With what to write."""
    with pytest.raises(RefError, match=r"write \$\{board:name\}"):
        resolve_text("${board.user}", BOARD)
    with pytest.raises(RefError, match=r"give a default: \$\{board:nope:…\}"):
        resolve_text("${board:nope}", BOARD)


def test_an_escaped_reference_in_a_key_is_a_plain_key() -> None:
    """[GR-122] The backslash stays there: keys are never changed."""
    assert resolve_config({"\\${board:x}": "v"}, BOARD) == {"\\${board:x}": "v"}


def test_the_references_of_a_config_are_listed() -> None:
    """[GR-123] With whether they have a default; malformed ones and verbatim fields are left out."""
    config = {
        "a": "${board:x} and ${board:user.name:anon}",
        "b": [{"c": "${board:y:}"}, "\\${board:no}", "${board:", "${env:HOME}", 5],
        "source": "${board:hidden}",
    }
    assert references(config, frozenset({"source"})) == [("x", False), ("user.name", True), ("y", True)]
    assert references({}) == []


def test_a_value_is_a_detached_copy() -> None:
    """[GR-124] Changing it changes neither the board nor the next value."""
    board: dict[str, Any] = {"user": {"tags": ["a"]}}
    got = resolve_text("${board:user}", board)
    got["tags"].append("b")
    assert board == {"user": {"tags": ["a"]}}
    assert resolve_text("${board:user}", board) == {"tags": ["a"]}


def test_a_text_without_references_is_handed_back() -> None:
    """[GR-125] The same object, without a look at the board."""
    text = "nothing to see here, ${env:HOME}"
    assert resolve_text(text, None) is text  # pyright: ignore[reportArgumentType]
    assert resolve_string(text, None) is text  # pyright: ignore[reportArgumentType]


def test_odd_texts_take_no_time() -> None:
    """[GR-125] Linear in the text: what is quadratic does not come to its end here."""
    x = str(BOARD["x"])
    assert resolve_text("\\" * 200_000 + "${board:x}", BOARD) == "\\" * 200_000 + x
    with pytest.raises(RefError, match="has no closing brace"):
        resolve_text("${board:zz:" + "\\}" * 100_000, BOARD)
    assert resolve_text("$" * 200_000 + "${board:x}", BOARD) == "$" * 200_000 + x
