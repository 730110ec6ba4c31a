"""Strings that stand for something else."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolnexus.tools.coerce import coerce

INTEGER = {"type": "integer"}
POINT = {"type": "object", "properties": {"x": INTEGER}, "required": ["x"], "additionalProperties": False}
CIRCLE = {"properties": {"kind": {"const": "circle"}, "r": INTEGER}, "required": ["kind", "r"]}
SQUARE = {
    "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
    "required": ["kind", "side"],
}

CASES: list[tuple[Any, Any, Any]] = [
    ("3", INTEGER, 3),
    (" 3 ", INTEGER, 3),
    ("3.0", INTEGER, 3),
    ("3", {"type": "number"}, 3),
    ("1e3", {"type": "number"}, 1000.0),
    ("true", {"type": "boolean"}, True),
    ("False", {"type": "boolean"}, False),
    ("null", {"type": ["integer", "null"]}, None),
    ("None", {"anyOf": [INTEGER, {"type": "null"}]}, None),
    ("[1, 2]", {"type": "array"}, [1, 2]),
    ('["1"]', {"type": "array", "items": INTEGER}, [1]),
    ('{"x": "1"}', POINT, {"x": 1}),
    ("2", {"enum": [1, 2]}, 2),
    ("2", {"const": 2}, 2),
    ("7", {"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, 7),
    ("7", {"allOf": [{"type": ["integer", "string"]}, INTEGER]}, 7),
    ({"x": "1"}, {"anyOf": [POINT, {"type": "null"}]}, {"x": 1}),
    ({"a": "1"}, {"additionalProperties": INTEGER}, {"a": 1}),
    (
        {"n_a": "1", "s_a": "1"},
        {"patternProperties": {"^n_": INTEGER, "^s_": {"type": "string"}}},
        {"n_a": 1, "s_a": "1"},
    ),
    (["1", "1"], {"prefixItems": [INTEGER], "items": {"type": "string"}}, [1, "1"]),
    (["1", "1"], {"items": [INTEGER], "additionalItems": {"type": "boolean"}}, [1, "1"]),
    ({"kind": "circle", "r": "1"}, {"oneOf": [CIRCLE, SQUARE]}, {"kind": "circle", "r": 1}),
    (
        {"op": "set", "n": "1"},
        {
            "anyOf": [
                {"properties": {"op": {"enum": ["set", "add"]}, "n": INTEGER}},
                {"properties": {"op": {"enum": ["get"]}}},
            ]
        },
        {"op": "set", "n": 1},
    ),
    (3.0, INTEGER, 3),
]


@pytest.mark.parametrize(("value", "schema", "expected"), CASES)
def test_a_string_becomes_what_it_says_where_no_string_may_stand(
    value: Any, schema: Any, expected: Any
) -> None:
    """[FN-11] A string is read as JSON exactly where the schema allows its value but no string."""
    result = coerce(value, schema)
    assert result == expected
    assert type(result) is type(expected)


LEFT: list[tuple[Any, Any]] = [
    ("3", {"type": "string"}),
    ("3", {"type": ["string", "integer"]}),
    ("3", {"anyOf": [INTEGER, {"type": "string"}]}),
    ("3", {}),
    ("3", True),
    ("3", {"enum": ["3", 3]}),
    ("3", {"$ref": "https://example.com/other.json"}),
    ("abc", INTEGER),
    ("3.5", INTEGER),
    ("03", INTEGER),
    ("", INTEGER),
    ("yes", {"type": "boolean"}),
    ("1", {"type": "boolean"}),
    ("NaN", {"type": "number"}),
    ('"3"', INTEGER),
    ("{broken", {"type": "object"}),
    (True, INTEGER),
    (1, {"type": "boolean"}),
    (3, {"type": "string"}),
    (3.5, INTEGER),
    (3.0, {"type": "number"}),
    (None, INTEGER),
    ({"x": "1"}, {"anyOf": [POINT, {"type": "object"}]}),
    ({"x": "1"}, {"anyOf": [POINT, POINT]}),
]


@pytest.mark.parametrize(("value", "schema"), LEFT)
def test_everything_else_stays_as_it_came(value: Any, schema: Any) -> None:
    """[FN-11] What has no single reading, and what is no string, is left for the check."""
    result = coerce(value, schema)
    assert result == value
    assert type(result) is type(value)


def test_a_recursive_schema_coerces_at_every_level() -> None:
    """[FN-11] References into the schema are followed, also to itself."""
    tree: dict[str, Any] = {"type": "object", "properties": {"n": INTEGER, "child": {"$ref": "#"}}}
    assert coerce({"n": "1", "child": '{"n": "2", "child": {"n": "3"}}'}, tree) == {
        "n": 1,
        "child": {"n": 2, "child": {"n": 3}},
    }


def test_references_that_go_round_in_a_circle_end() -> None:
    """[FN-11] `$ref`s that only point at each other are no endless loop."""
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert coerce({"x": "1"}, schema) == {"x": "1"}


SCALARS = st.sampled_from(
    [
        INTEGER,
        *({"type": name} for name in ("string", "number", "boolean", "null")),
        {"type": ["integer", "null"]},
        {"enum": [1, "1", None]},
        {"enum": [1, 2.0, True]},
        {"const": "3"},
        {"$ref": "#/$defs/n"},
        {},
    ]
)


def objects(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from("abc"), children, max_size=3),
            "required": st.lists(st.sampled_from("abc"), max_size=1),
            "additionalProperties": st.booleans() | children,
        }
    )


SCHEMAS = st.recursive(
    SCALARS,
    lambda children: st.one_of(
        objects(children),
        st.fixed_dictionaries({"type": st.just("array"), "items": children}),
        st.fixed_dictionaries({"prefixItems": st.lists(children, min_size=1, max_size=2), "items": children}),
        st.fixed_dictionaries({"anyOf": st.lists(children, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(children, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"oneOf": st.lists(children, min_size=1, max_size=2)}),
    ),
    max_leaves=6,
)
TEXTS = st.sampled_from(
    ["3", "1", "1.0", "true", "null", "x", "", "[1]", '["1"]', '{"a": "1"}', '{"a": {"b": "2"}}']
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 2.5, 3.0]) | TEXTS,
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.sampled_from("abcd"), children, max_size=3)
    ),
    max_leaves=6,
)
fixed = settings(max_examples=400, deadline=None, derandomize=True, database=None)


def with_defs(schema: Any) -> Any:
    return {**schema, "$defs": {"n": INTEGER}}


@pytest.mark.exhaustive
@fixed
@given(SCHEMAS, VALUES)
def test_coercion_never_changes_a_valid_value(schema: Any, value: Any) -> None:
    """[FN-12] A value that is valid comes back equal, whatever the schema."""
    schema = with_defs(schema)
    validator: Any = Draft202012Validator(schema)
    if validator.is_valid(value):
        assert coerce(value, schema) == value


@pytest.mark.exhaustive
@fixed
@given(SCHEMAS, VALUES)
def test_coercion_is_idempotent_and_mutates_nothing(schema: Any, value: Any) -> None:
    """[FN-12] Coercing twice is coercing once; neither value nor schema is touched."""
    schema = with_defs(schema)
    before = copy.deepcopy((schema, value))
    once = coerce(value, schema)
    assert (schema, value) == before
    assert coerce(once, schema) == once
