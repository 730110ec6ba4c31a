"""Foreign schemas as endpoints take them."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolnexus.core.schema import CUT, MAX_INLINED, MAX_LEVELS, normalise

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def root(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"type": "string"}, {"$schema": "x", "$id": "y", "$comment": "z"}]
)
def test_the_root_is_always_an_object_with_properties(schema: dict[str, Any]) -> None:
    """[FN-19] Whatever came, `type: object` and `properties` are there."""
    assert normalise(schema) == root()


def test_a_plain_schema_stays_as_it_is() -> None:
    """[FN-19] What endpoints take already is not changed, key order included."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": STRING, "description": "d"}, "b": {"enum": [1, None]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert json.dumps(normalise(schema)) == json.dumps(schema)


def test_definitions_are_inlined() -> None:
    """[FN-20] `$defs`, `definitions` and pointers into properties are put in place; escapes count."""
    schema = {
        "properties": {
            "a": {"$ref": "#/$defs/n"},
            "b": {"$ref": "#/definitions/odd~1na%20me~0"},
            "c": {"$ref": "#/properties/a"},
            "d": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
            "e": {"type": "array", "items": {"$ref": "#/properties/d/anyOf/0"}},
        },
        "$defs": {"n": INTEGER},
        "definitions": {"odd/na me~": STRING},
    }
    assert normalise(schema) == root(
        a=INTEGER,
        b=STRING,
        c=INTEGER,
        d={"anyOf": [INTEGER, {"type": "null"}]},
        e={"type": "array", "items": INTEGER},
    )


def test_what_stands_beside_a_reference_is_kept_and_wins() -> None:
    """[FN-20] Sibling keys of a `$ref` are added to its target; members and duties add up."""
    schema = {
        "properties": {
            "p": {"$ref": "#/$defs/p", "description": "own", "properties": {"y": INTEGER}, "required": ["y"]}
        },
        "$defs": {
            "p": {"type": "object", "description": "theirs", "properties": {"x": INTEGER}, "required": ["x"]}
        },
    }
    assert normalise(schema)["properties"]["p"] == {
        "type": "object",
        "description": "own",
        "properties": {"x": INTEGER, "y": INTEGER},
        "required": ["x", "y"],
    }


@pytest.mark.parametrize(
    "ref", ["#/$defs/gone", "#anchor", "other.json", "https://example.com/s.json#/a", "#/properties/0"]
)
def test_a_reference_to_nowhere_allows_anything(ref: str) -> None:
    """[FN-20] A dangling or remote `$ref` becomes `{}`; what stands beside it stays."""
    schema = {"properties": {"a": {"$ref": ref}, "b": {"$ref": ref, "description": "d"}}}
    assert normalise(schema) == root(a={}, b={"description": "d"})


def test_a_property_may_be_called_like_a_keyword() -> None:
    """[FN-20] Names of members, defaults and enum values are data, not keywords."""
    schema = {
        "properties": {
            "$ref": STRING,
            "$defs": STRING,
            "properties": {"default": {"$ref": "x"}},
            "$schema": {},
        },
        "required": ["$ref"],
    }
    assert normalise(schema) == {"type": "object", **schema}


def levels(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    while "properties" in node:
        yield node
        node = node["properties"]["child"]
    yield node


def test_recursion_is_cut_after_the_stated_number_of_levels() -> None:
    """[FN-21] A form inside itself is inlined `MAX_LEVELS` times; siblings stay full, the cut says so."""
    node = {
        "type": "object",
        "properties": {"child": {"$ref": "#/$defs/Node"}, "name": {"$ref": "#/$defs/Name"}},
    }
    schema = {"properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node, "Name": STRING}}
    *full, cut = levels(normalise(schema)["properties"]["tree"])
    assert len(full) == MAX_LEVELS
    assert all(level["properties"]["name"] == STRING for level in full)
    assert cut == {"description": CUT}


def test_mutual_recursion_and_a_reference_to_the_root_are_cut() -> None:
    """[FN-21] Two forms inside each other, and a schema inside itself, end."""
    a = {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}
    b = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
    mutual = normalise({"properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": {"A": a, "B": b}})
    assert json.dumps(mutual).count('"b"') == MAX_LEVELS
    itself = normalise({"properties": {"child": {"$ref": "#"}}})
    assert json.dumps(itself).count('"child"') == MAX_LEVELS + 1
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert normalise(circle) == {**root(), "description": CUT}


def clique(size: int) -> dict[str, Any]:
    """Every form holds every form: inlined without a bound it would have `size!` places."""
    names = [f"T{n}" for n in range(size)]
    form = {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    return {"$defs": dict.fromkeys(names, form), **form}


def test_many_forms_that_hold_each_other_stay_bounded_and_are_whole_near_the_root() -> None:
    """[FN-21] Size is bounded too, and the bound takes from the deepest places first."""
    out = normalise(clique(20))
    assert json.dumps(out).count('"type"') <= MAX_INLINED + 1
    for level in out["properties"].values():
        assert len(level["properties"]) == 20


def test_boolean_schemas_become_objects() -> None:
    """[FN-22] `true` is `{}`, `false` is `{"not": {}}`; `additionalProperties` stays a flag."""
    schema = {
        "properties": {"a": True, "b": False, "c": {"type": "array", "items": True}},
        "additionalProperties": False,
    }
    assert normalise(schema) == {
        **root(a={}, b={"not": {}}, c={"type": "array", "items": {}}),
        "additionalProperties": False,
    }


def test_older_drafts_become_2020_12() -> None:
    """[FN-22] Tuples, flags as bounds and `required: true` are said in today's words."""
    schema = {
        "properties": {
            "pair": {"type": "array", "items": [STRING, INTEGER], "additionalItems": False},
            "above": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "below": {"type": "number", "maximum": 9, "exclusiveMaximum": False},
            "name": {"type": "string", "required": True},
            "list": {"type": ["array", "null"]},
        }
    }
    out = normalise(schema)
    assert out == root(
        pair={"type": "array", "prefixItems": [STRING, INTEGER], "items": {"not": {}}},
        above={"type": "number", "exclusiveMinimum": 0},
        below={"type": "number", "maximum": 9},
        name=STRING,
        list={"type": ["array", "null"], "items": {}},
    )
    Draft202012Validator.check_schema(out)


def test_a_union_at_the_root_becomes_one_object() -> None:
    """[FN-19] Endpoints refuse unions at the root: members add up, only shared duties stay."""
    schema = {
        "type": "object",
        "properties": {"id": STRING},
        "required": ["id"],
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": INTEGER}, "required": ["kind", "x"]},
            {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
            {"type": "null"},
        ],
    }
    assert normalise(schema) == {
        "type": "object",
        "properties": {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": INTEGER, "id": STRING},
        "required": ["kind", "id"],
    }
    assert normalise(
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], **root(a=INTEGER, b=INTEGER)}
    ) == root(a=INTEGER, b=INTEGER)
    parts = {
        "allOf": [{"$ref": "#/$defs/p"}, root(y=INTEGER)],
        "$defs": {"p": {**root(x=INTEGER), "required": ["x"]}},
    }
    assert normalise(parts) == {**root(x=INTEGER, y=INTEGER), "required": ["x"]}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": [1]},
        {"properties": {"a": 5}},
        {"anyOf": 3},
        {"required": "a"},
        {"type": 7},
        {"$ref": 3},
    ],
)
def test_a_broken_schema_is_shown_as_far_as_it_goes(schema: dict[str, Any]) -> None:
    """[FN-22] Nothing that a server sends makes the declarations fail."""
    assert normalise(schema)["type"] == "object"


REFS = st.sampled_from(["#", "#/$defs/A", "#/$defs/B", "#/$defs/C", "#/properties/a", "#/$defs/gone"])
NODES = st.recursive(
    st.sampled_from([STRING, INTEGER, {}, True, False, {"type": "array"}])
    | st.fixed_dictionaries({"$ref": REFS}, optional={"description": st.just("d")}),
    lambda children: st.one_of(
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), children, max_size=3)}),
        st.fixed_dictionaries({"items": children | st.lists(children, max_size=2)}),
        st.fixed_dictionaries({"anyOf": st.lists(children, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(children, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"additionalProperties": children}),
    ),
    max_leaves=5,
)


def references(node: Any) -> list[Any]:
    found: list[Any] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.extend(value for key, value in pairs if key == "$ref")
        return dict(pairs)

    json.loads(json.dumps(node), object_pairs_hook=keep)
    return found


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(st.sampled_from("abc"), NODES, max_size=3), NODES, NODES, NODES)
def test_no_reference_is_left_and_nothing_is_mutated(properties: Any, a: Any, b: Any, c: Any) -> None:
    """[FN-22] Any graph of forms ends, is free of `$ref`, valid, the same each time, and a fixed point."""
    schema = {"properties": properties, "$defs": {"A": a, "B": b, "C": c}}
    before = copy.deepcopy(schema)
    out = normalise(schema)
    assert schema == before
    assert not references(out)
    assert json.dumps(out) == json.dumps(normalise(copy.deepcopy(schema)))
    Draft202012Validator.check_schema(out)
    assert normalise(out) == out
