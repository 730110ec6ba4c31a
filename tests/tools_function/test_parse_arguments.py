"""What a model writes as arguments, read."""

import json

import pytest

from toolnexus.errors import ToolError
from toolnexus.tools.arguments import parse_arguments


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_an_empty_text_is_no_arguments(text: str) -> None:
    """[FN-16] Empty or blank arguments are `{}`."""
    assert parse_arguments(text) == {}


def test_an_object_is_read_whole() -> None:
    """[FN-16] Nested values, a lone surrogate, a huge integer and repeated keys survive; the last wins."""
    text = '{"a": {"b": [1, 2.5, null, true]}, "s": "\\ud83d", "n": 123456789012345678901234567890, "a": 1}'
    assert parse_arguments(text) == {"s": "\ud83d", "n": 123456789012345678901234567890, "a": 1}


def test_malformed_json_says_where_and_shows_it() -> None:
    """[FN-16] Malformed JSON is an error with line, column, position and the text around it."""
    with pytest.raises(ToolError) as caught:
        parse_arguments('{"q": "a",\n "limit": }')
    text = str(caught.value)
    assert "line 2, column 11 (character 21)" in text
    assert "limit" in text


def test_cut_off_json_is_malformed() -> None:
    """[FN-16] Arguments that stop in the middle are never completed by guessing."""
    with pytest.raises(ToolError, match=r"line 1, column 7 \(character 6\)"):
        parse_arguments('{"q": "a')


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[1]", "array: [1]"),
        ('"x"', 'string: "x"'),
        ("3", "integer: 3"),
        ("null", "null: null"),
        ("true", "boolean: true"),
    ],
)
def test_something_else_than_an_object_is_named(text: str, what: str) -> None:
    """[FN-16] What is JSON but no object is an error that says what came."""
    with pytest.raises(ToolError) as caught:
        parse_arguments(text)
    assert what in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_outside_json_are_refused(number: str) -> None:
    """[FN-16] NaN and infinities are refused."""
    with pytest.raises(ToolError, match="not valid JSON"):
        parse_arguments(f'{{"x": {number}}}')


def test_a_number_with_too_many_digits_is_refused_without_advice_about_python() -> None:
    """[FN-16] A number beyond the interpreter's limit is an error result, not a crash."""
    with pytest.raises(ToolError) as caught:
        parse_arguments('{"x": ' + "9" * 5000 + "}")
    assert "sys." not in str(caught.value)


def test_very_deep_nesting_is_refused() -> None:
    """[FN-16] Nesting beyond what the interpreter can hold is an error result."""
    with pytest.raises(ToolError, match="nested too deeply"):
        parse_arguments('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}")


def test_what_was_written_by_json_comes_back() -> None:
    """[FN-16] Any text keeps its characters."""
    value = {"text": "\x00\u2028\ud800\U0001f600 ümlaut"}
    assert parse_arguments(json.dumps(value)) == value
    assert parse_arguments(json.dumps(value, ensure_ascii=False)) == value
