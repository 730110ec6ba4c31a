"""Arguments against the JSON Schema of a tool."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from toolnexus.core.tools import Tool
from toolnexus.errors import ToolError
from toolnexus.tools.arguments import check_arguments


def make(schema: dict[str, Any], name: str = "search") -> Tool:
    async def execute(arguments: dict[str, Any], ctx: Any) -> str:
        return "ran"

    return Tool(name, "", schema, execute)


def problems(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    with pytest.raises(ToolError) as caught:
        check_arguments(make(schema), arguments)
    head, *lines = str(caught.value).split("\n- ")
    assert head == "'search' was not run, its arguments are wrong:"
    return lines


SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 2},
        "limit": {"type": "integer", "maximum": 50},
        "order": {"enum": ["asc", "desc"]},
        "filters": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field name": {"type": "string"}, "value": {"type": ["string", "null"]}},
                "required": ["field name"],
            },
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


def test_valid_arguments_pass_coerced() -> None:
    """[FN-17] Valid arguments come back, strings coerced as everywhere."""
    assert check_arguments(make(SEARCH), {"query": "12", "limit": "5", "filters": "[]"}) == {
        "query": "12",
        "limit": 5,
        "filters": [],
    }


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "query: required, but missing"),
    ({"query": 3}, "query: expected string, got 3"),
    ({"query": "ab", "limit": "abc"}, 'limit: expected integer, got "abc"'),
    ({"query": "ab", "limit": True}, "limit: expected integer, got true"),
    ({"query": "ab", "limit": 51}, "limit: 51 does not meet maximum 50"),
    ({"query": "a"}, 'query: "a" does not meet minLength 2'),
    ({"query": "ab", "order": "up"}, 'order: expected one of "asc", "desc", got "up"'),
    (
        {"query": "ab", "limt": 1},
        "limt: unknown; allowed: query, limit, order, filters; did you mean 'limit'?",
    ),
    ({"query": "ab", "filters": [{}]}, "filters[0]['field name']: required, but missing"),
    (
        {"query": "ab", "filters": [{"field name": "x", "value": 1}]},
        "filters[0].value: expected string or null, got 1",
    ),
]


@pytest.mark.parametrize(("arguments", "line"), WRONG)
def test_each_wrong_field_is_named_with_what_came_and_what_is_allowed(
    arguments: dict[str, Any], line: str
) -> None:
    """[FN-14] One line for a wrong field: its path, what came, what is allowed."""
    assert problems(SEARCH, arguments) == [line]


def test_at_most_five_problems_are_named() -> None:
    """[FN-14] A refusal stays short, however wrong the arguments are."""
    schema = {"properties": {f"p{n}": {"type": "integer"} for n in range(50)}}
    lines = problems(schema, {f"p{n}": "x" * 10_000 for n in range(50)})
    assert len(lines) == 6
    assert lines[-1] == "… and more"
    assert sum(map(len, lines)) < 1000


CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": {"type": "integer"}},
    "required": ["r"],
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "a": {"type": "integer"}},
    "required": ["a"],
}


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"kind": "square", "a": [1]}, "shape.a: expected integer, got [1]"),
        ({"kind": "circle"}, "shape.r: required, but missing"),
        (7, "shape: expected object or null, got 7"),
        ({}, "shape.r: required, but missing or else shape.a: required, but missing"),
    ],
)
def test_a_union_is_explained_by_the_form_that_is_nearest(value: Any, line: str) -> None:
    """[FN-14] For a union the text says what keeps the value from the form it is nearest to."""
    schema = {"properties": {"shape": {"anyOf": [CIRCLE, SQUARE, {"type": "null"}]}}}
    assert problems(schema, {"shape": value}) == [line]


def test_no_value_is_allowed_where_the_schema_is_false() -> None:
    """[FN-14] The schema `false` has words too."""
    assert problems({"properties": {"old": False}}, {"old": 1}) == ["the arguments: 1 is not allowed"]


def test_the_schema_names_its_draft() -> None:
    """[FN-17] `$schema` chooses the draft; without it 2020-12 holds."""
    tuple_items = {"properties": {"pair": {"items": [{"type": "integer"}]}}}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **tuple_items}
    assert problems(old, {"pair": ["x"]}) == ['pair[0]: expected integer, got "x"']
    new = {"properties": {"pair": {"prefixItems": [{"type": "integer"}]}}}
    assert problems(new, {"pair": ["x"]}) == ['pair[0]: expected integer, got "x"']


def test_a_changed_schema_is_checked_anew() -> None:
    """[FN-17] The compiled check belongs to one schema, not for ever to the tool."""
    tool = make({"properties": {"n": {"type": "integer"}}})
    check_arguments(tool, {"n": 1})
    tool._input_schema = {"properties": {"n": {"type": "boolean"}}}
    with pytest.raises(ToolError, match="expected boolean"):
        check_arguments(tool, {"n": 1})


BROKEN: list[dict[str, Any]] = [
    {"type": "objekt"},
    {"properties": [1]},
    {"properties": {"a": {"type": "string", "required": True}}},
    {"properties": {"a": {"pattern": "["}}},
    {"properties": {"a": {"$ref": "#/nowhere"}}},
    {"properties": {"a": {"$ref": "https://unreachable.invalid/schema.json"}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    {"anyOf": 5},
]


@pytest.mark.parametrize("schema", BROKEN)
def test_a_broken_schema_checks_nothing_and_says_so_once(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """[FN-18] A schema that cannot be used lets the arguments pass, with one warning, never a crash."""
    tool = make(schema, name="foreign")
    with caplog.at_level(logging.WARNING, logger="toolnexus.tools"):
        assert check_arguments(tool, {"a": "3"}) == {"a": "3"}
    assert len(caplog.records) == 1
    assert "'foreign'" in caplog.text
    if "$defs" not in schema:
        assert check_arguments(tool, {"a": "3"}) == {"a": "3"}
        assert len(caplog.records) == 1


def test_a_remote_reference_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """[FN-18] Checking arguments opens no connection, whatever a `$ref` says."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    tool = make({"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}})
    assert check_arguments(tool, {"a": 1}) == {"a": 1}


def test_the_metaschema_is_known_without_fetching() -> None:
    """[FN-18] A reference to the published metaschema is checked from the local copy."""
    schema = {"properties": {"s": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}
    assert check_arguments(make(schema), {"s": {"type": "string"}}) == {"s": {"type": "string"}}
    assert problems(schema, {"s": {"minLength": "x"}}) == ['s.minLength: expected integer, got "x"']


def test_a_schema_that_says_nothing_needs_no_validator(run_python: Callable[..., str]) -> None:
    """[FN-17] Tools without parameters never load jsonschema; the first real check does."""
    program = (
        "import sys\n"
        "from toolnexus.core.tools import Tool\n"
        "from toolnexus.tools.arguments import check_arguments\n"
        "for schema in ({}, {'type': 'object'}, {'type': 'object', 'properties': {}, 'required': [],"
        " 'additionalProperties': True, '$schema': 'x', 'description': 'd'}):\n"
        "    assert check_arguments(Tool('t', '', schema, None), {'a': 1}) == {'a': 1}\n"
        "closed = {'type': 'object', 'additionalProperties': False}\n"
        "assert check_arguments(Tool('t', '', closed, None), {}) == {}\n"
        "assert 'jsonschema' not in sys.modules\n"
        "check_arguments(Tool('t', '', {'required': ['a']}, None), {'a': 1})\n"
        "assert 'jsonschema' in sys.modules\n"
    )
    run_python(program)
