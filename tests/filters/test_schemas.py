"""Schemas of any origin: declared so that no endpoint refuses them, held against what they say."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.models.support import ANTHROPIC, OPENAI
from tests.models.test_types import accepted
from toolnexus import Tool, ToolError, Toolkit
from toolnexus.core.schema import MAX_DEPTH, MAX_SIZE, MIN_SIZE, declared
from toolnexus.core.schema_words import MAX_OPTIONS
from toolnexus.tools.arguments import check_arguments
from toolnexus.tools.validator import Validator, checkable

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NODE = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Node"}, "n": INTEGER}}


def make(schema: dict[str, Any], source: Any = "mcp") -> Tool:
    async def execute(arguments: dict[str, Any], ctx: Any) -> str:
        return "ran"

    return Tool("find", "Finds.", schema, execute, source=source)


def props(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def refused(schema: dict[str, Any] | Tool, arguments: dict[str, Any]) -> list[str]:
    try:
        check_arguments(schema if isinstance(schema, Tool) else make(schema), arguments)
    except ToolError as error:
        return str(error).split("\n- ")[1:]
    return []


def shown(schema: dict[str, Any]) -> dict[str, Any]:
    """What is declared, once it is sure that both styles take it."""
    toolkit = Toolkit([make(schema)])
    openai, anthropic = toolkit.to_openai(), toolkit.to_anthropic()
    message = {"role": "user", "content": "hi"}
    accepted(OPENAI, False, {"model": "m", "messages": [message], "tools": openai})
    accepted(ANTHROPIC, False, {"model": "m", "max_tokens": 9, "messages": [message], "tools": anthropic})
    out: dict[str, Any] = anthropic[0]["input_schema"]
    assert openai[0]["function"]["parameters"] == out
    if len(json.dumps(out)) < MIN_SIZE:  # the validator itself takes long for more
        Draft202012Validator.check_schema(out)
    assert out["type"] == "object" and not out.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}
    for node in places(out):
        assert not [word for word in node if word.startswith("$")]
        assert "array" not in node.get("type", ()) or "items" in node
    json.dumps(out, allow_nan=False)
    return out


def places(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every schema in `node`."""
    yield node
    inner: list[Any] = [*node.get("properties", {}).values(), node.get("items"), node.get("not")]
    for word in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner += node.get(word, ())
    for part in inner:
        if isinstance(part, dict):
            yield from places(cast("dict[str, Any]", part))


def chain(length: int) -> dict[str, Any]:
    forms: dict[str, Any] = {f"d{n}": props(n={"$ref": f"#/$defs/d{n + 1}"}) for n in range(length)}
    return {**props(x={"$ref": "#/$defs/d0"}), "$defs": {**forms, f"d{length}": STRING}}


def layers(length: int, word: str) -> dict[str, Any]:
    """Forms that each hold the next one twice: 2 to the power of `length` ways through them."""
    forms = {f"L{n}": {word: [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(length)}
    last = {**props(k={"const": 1}), "required": ["k"]}
    return {**props(x={"$ref": "#/$defs/L0"}), "$defs": {**forms, f"L{length}": last}}


def clique(size: int, word: str) -> dict[str, Any]:
    names = [f"T{n}" for n in range(size)]
    refs = [{"$ref": f"#/$defs/{name}"} for name in names]
    form: Any = props(**dict(zip(names, refs, strict=True))) if word == "properties" else {word: refs}
    return {**props(x=refs[0]), "$defs": dict.fromkeys(names, form)}


def deep(levels: int, word: str) -> dict[str, Any]:
    node: dict[str, Any] = STRING
    for _ in range(levels):
        node = props(a=node) if word == "properties" else {word: [node]}
    return node


def itself() -> dict[str, Any]:
    """A Python mapping that holds itself, twice; no JSON, but hosts build such things."""
    node: dict[str, Any] = props()
    node["properties"] |= {"left": node, "right": node}
    return node


LARGE = props(**{f"p{n}": {**STRING, "description": "x" * 80} for n in range(200)})
ENDLESS: dict[str, dict[str, Any]] = {
    "itself": {**props(tree={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}},
    "root": props(child={"$ref": "#"}),
    "each other": {
        **props(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": props(b={"$ref": "#/$defs/B"}), "B": props(a={"$ref": "#/$defs/A"}, n=INTEGER)},
    },
    "nothing but itself": {**props(x={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "a long chain": chain(900),
    **{f"all in all ({word})": clique(16, word) for word in ("properties", "anyOf", "allOf", "oneOf")},
    **{f"two ways ({word})": layers(40, word) for word in ("anyOf", "allOf", "oneOf")},
    **{f"deep ({word})": deep(5000, word) for word in ("properties", "anyOf", "allOf")},
    "python": itself(),
    "a large form, often": {
        **props(**{f"r{n}": {"$ref": "#/$defs/Large"} for n in range(500)}),
        "$defs": {"Large": LARGE},
    },
    "a union of many": {"oneOf": [{**props(k={"const": n}), "required": ["k"]} for n in range(500)]},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_recursive_and_huge_schemas_end(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """[FIL-30] [FIL-31] Declared in bounded size for both styles, checked in bounded time, never an
    exception; a check that cannot end is one warning."""
    value: Any = {"k": 1, "b": {"a": {}}, "child": {"child": {}}, "left": {"right": {}}}
    tool = make(ENDLESS[name])
    began = time.process_time()
    declared(tool)
    given: dict[str, Any] = {"x": value, "tree": value, "a": value, "child": value, "r1": {}, "k": 1}
    assert refused(tool, given) == []
    assert refused(tool, {}) in ([], ["k: required, but missing"])
    assert time.process_time() - began < 5
    assert len(json.dumps(shown(ENDLESS[name]))) < 2 * MAX_SIZE
    assert len(caplog.records) <= 1


def test_a_small_schema_does_not_grow_large() -> None:
    """[FIL-31] Inlining may make a few times as much of it, not more, whatever holds what."""
    schema = clique(6, "properties")
    assert MIN_SIZE / 2 < len(json.dumps(shown(schema))) < 2 * MIN_SIZE


def test_what_is_deeper_than_the_limit_is_anything() -> None:
    """[FIL-31] `MAX_DEPTH` schemas inside each other are shown."""
    node, levels = shown(deep(500, "properties")), 0
    while "properties" in node and "a" in node["properties"]:
        node, levels = node["properties"]["a"], levels + 1
    assert levels == MAX_DEPTH + 1 and node == {}


def expression(kinds: int) -> dict[str, Any]:
    """A syntax tree: forms told apart by a tag that stands behind everything else."""
    names = [f"k{n}" for n in range(kinds)]
    side = {"$ref": "#/$defs/E"}
    forms = {
        name: {**props(left=side, right=side, kind={"const": name}), "required": ["kind"]} for name in names
    }
    either = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    return {**props(e=side), "$defs": {"E": either, **forms}}


def tree(depth: int, leaf: str) -> dict[str, Any]:
    side = tree(depth - 1, leaf) if depth else None
    return {"kind": "k7", "left": side, "right": side} if side else {"kind": leaf}


def test_tagged_forms_inside_each_other_are_checked_one_by_one() -> None:
    """[FIL-32] A tree of nine tagged forms, six levels deep, is checked whole: only the form that its tag
    names is looked into, and a wrong leaf is told with its path."""
    assert refused(expression(9), {"e": tree(6, "k8")}) == []
    (line,) = refused(expression(9), {"e": {"kind": "k7", "left": tree(1, "nil")}})[:1]
    assert line.startswith('e.left.left.kind: expected "k0", got "nil"')
    assert check_arguments(make(expression(2)), {"e": '{"kind": "k1"}'}) == {"e": {"kind": "k1"}}


LEAVES: list[Any] = [
    *(INTEGER, STRING, {"type": "number"}, {"const": 1}, {"enum": ["a", 2]}),
    *({"$ref": "#/$defs/A"}, {}, False, {"type": "object", "required": ["k"]}),
]


def nested(inner: st.SearchStrategy[Any]) -> Any:
    """Schemas around `inner` ones."""
    members = st.dictionaries(st.sampled_from("kv"), inner, max_size=2)
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        some.map(lambda forms: {"anyOf": forms}),
        some.map(lambda forms: {"oneOf": forms}),
        some.map(lambda forms: {"allOf": forms[:2]}),
        members.map(lambda known: {"properties": known}),
        members.map(lambda known: {"properties": known, "required": ["k"], "type": "object"}),
        members.map(lambda known: {"properties": known, "additionalProperties": False}),
        inner.map(lambda item: {"type": "array", "items": item}),
    )


FORMS: Any = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=8)
VALUES: Any = st.recursive(
    st.sampled_from(["a", "b", 1, 2, 1.0, True, None]),
    lambda inner: st.dictionaries(st.sampled_from("kv"), inner, max_size=2) | st.lists(inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(FORMS, FORMS, VALUES)
def test_the_verdict_is_that_of_a_plain_validator(form: Any, a: Any, value: Any) -> None:
    """[FIL-32] Looking only into forms that a value can be of changes no verdict."""
    schema: dict[str, Any] = {**props(x=form), "$defs": {"A": {} if "$ref" in json.dumps(a) else a}}
    ours = Validator(checkable(schema, foreign=True)[0]).read({"x": value}, lambda errors: not list(errors))
    plain: Any = Draft202012Validator(schema)
    assert ours == plain.is_valid({"x": value})


REFERENCES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({**props(a={"$ref": "#/$defs/List[int]"}), "$defs": {"List[int]": INTEGER}}, INTEGER),
    ({**props(a={"$ref": "#/$defs/a%20b"}), "$defs": {"a b": INTEGER}}, INTEGER),
    ({**props(a={"$ref": "#/$defs/x~1y~0z"}), "$defs": {"x/y~z": INTEGER}}, INTEGER),
    ({**props(a={"$ref": "#/$defs/100%25"}), "$defs": {"100%": INTEGER}}, INTEGER),
    ({**props(a={"$ref": "#/$defs/größe"}), "$defs": {"größe": INTEGER}}, INTEGER),
    ({**props(a={"$ref": "#here"}), "$defs": {"x": {"$anchor": "here", **INTEGER}}}, INTEGER),
    ({**props(a={"$ref": "T0"}), "$defs": {"x": {"$id": "T0", **INTEGER}}}, INTEGER),
    (
        {"$id": "https://x.y/z", **props(a={"$ref": "https://x.y/z#/$defs/n"}), "$defs": {"n": INTEGER}},
        INTEGER,
    ),
    ({**props(a={"$ref": "https://far.away/schema.json"})}, {}),
    ({**props(a={"$ref": "#/$defs/gone"})}, {}),
]


@pytest.mark.parametrize(("schema", "a"), REFERENCES, ids=[str(s["properties"]["a"]) for s, _ in REFERENCES])
def test_references_of_every_kind(schema: dict[str, Any], a: dict[str, Any]) -> None:
    """[FIL-33] Odd names, anchors and ids lead to what they name, for the endpoint and for the check; what is
    elsewhere allows anything, and what stands beside it is still checked."""
    schema["properties"]["b"] = INTEGER
    assert shown(schema)["properties"] == {"a": a, "b": INTEGER}
    assert check_arguments(make(schema), {"a": "3", "b": "4"})["b"] == 4
    wrong = refused(schema, {"a": "x", "b": "y"})
    told = ['a: expected integer, got "x"'] if a else []
    assert wrong == [*told, 'b: expected integer, got "y"']


def test_a_form_that_names_itself_by_id_is_shown_level_by_level() -> None:
    """[FIL-33] As some generators write recursion."""
    node = {"$id": "T0", **props(kids={"type": "array", "items": {"$ref": "T0"}})}
    first = shown(props(root=node))["properties"]["root"]
    assert first["properties"]["kids"]["items"]["properties"]["kids"]["type"] == "array"


def test_members_that_endpoints_refuse_have_other_names(caplog: pytest.LogCaptureFixture) -> None:
    """[FIL-34] Shown safe, short and unique; what comes back under such a name is called as before, and the
    original name is understood as well."""
    members = ["filter[name]", "a b", "a_b", "$top", "größe", "x" * 80, "", "ok.name-1"]
    schema = {**props(**dict.fromkeys(members, INTEGER)), "required": ["$top"], "additionalProperties": False}
    out = shown(schema)
    names = list(out["properties"])
    assert len(set(names)) == len(members) and all(len(name) <= 64 for name in names)
    assert names[0] == "filter_name_" and names[2:5] == ["a_b", "_top", "gr__e"] and names[-1] == "ok.name-1"
    assert out["required"] == ["_top"] and out["additionalProperties"] is False
    got = check_arguments(make(schema), {name: str(n) for n, name in enumerate(names)})
    assert got == {member: n for n, member in enumerate(members)}
    assert check_arguments(make(schema), {"$top": 1, "filter[name]": 2}) == {"$top": 1, "filter[name]": 2}
    assert refused(schema, {"_top": "x"}) == ['$top: expected integer, got "x"']


def test_a_long_list_of_choices_is_described() -> None:
    """[FIL-35] Up to `MAX_OPTIONS` values are listed, of more only some; the check knows them all."""
    for count, listed in ((MAX_OPTIONS, True), (MAX_OPTIONS + 1, False)):
        schema = props(zone={"enum": [f"zone-{n}" for n in range(count)], "description": "Where."})
        zone = shown(schema)["properties"]["zone"]
        assert ("enum" in zone) == listed
        if not listed:
            text = f'Where. One of {count} values, such as "zone-0", "zone-1"'
            assert zone["type"] == ["string"] and zone["description"].startswith(text)
            assert len(json.dumps(zone)) < 300
        assert refused(schema, {"zone": "zone-999"}) == []
        assert len(refused(schema, {"zone": "zone-x"})) == 1


NULLABLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    ({"enum": ["x"], "nullable": True}, {"enum": ["x", None]}),
    ({"anyOf": [STRING], "nullable": True}, {"anyOf": [STRING, {"type": "null"}]}),
    ({"oneOf": [STRING], "nullable": True}, {"oneOf": [STRING, {"type": "null"}]}),
    ({"allOf": [STRING], "nullable": True}, {"anyOf": [{"allOf": [STRING]}, {"type": "null"}]}),
    ({"$ref": "#/$defs/s", "nullable": True}, {"anyOf": [STRING, {"type": "null"}]}),
    ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
    ({"anyOf": [STRING, {"type": "null"}]}, {"anyOf": [STRING, {"type": "null"}]}),
]


@pytest.mark.parametrize(("schema", "expected"), NULLABLE, ids=[str(s) for s, _ in NULLABLE])
def test_every_way_to_say_nullable(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """[FIL-36] OpenAPI's `nullable` beside whatever it stands; null passes the check, a number does not."""
    whole = {**props(a=schema), "$defs": {"s": STRING}}
    assert shown(whole)["properties"]["a"] == expected
    assert refused(whole, {"a": None}) == [] and len(refused(whole, {"a": 5})) == 1


@pytest.mark.parametrize("word", ["true", "false", "none", "list"])
def test_a_place_without_a_type_is_anything_and_a_false_one_nothing(word: str) -> None:
    """[FIL-30] Boolean schemas, missing types, bare arrays: shown in full, checked as they are."""
    place: Any = {"true": True, "false": False, "none": {}, "list": {"type": "array"}}[word]
    out = shown(props(a=place))["properties"]["a"]
    assert out == {"true": {}, "false": {"not": {}}, "none": {}, "list": {"type": "array", "items": {}}}[word]
    assert (refused(props(a=place), {"a": [1]}) == []) == (word != "false")
    assert shown({"properties": {"a": STRING}})["type"] == "object"


LEFTOVERS: list[tuple[dict[str, Any], dict[str, Any], Any, Any]] = [
    ({**INTEGER, "minimum": 0, "exclusiveMinimum": True}, {**INTEGER, "exclusiveMinimum": 0}, 1, 0),
    ({**INTEGER, "maximum": 9, "exclusiveMaximum": False}, {**INTEGER, "maximum": 9}, 9, 10),
    (
        {"type": "array", "items": [INTEGER, STRING], "additionalItems": False},
        {"type": "array", "prefixItems": [INTEGER, STRING], "items": {"not": {}}},
        [1, "x"],
        [1, "x", 2],
    ),
    ({**INTEGER, "required": True, "id": "http://x.y/z"}, INTEGER, 1, "x"),
    ({"type": "any"}, {}, 1, None),
]


@pytest.mark.parametrize(
    ("schema", "expected", "good", "bad"), LEFTOVERS, ids=[str(s) for s, *_ in LEFTOVERS]
)
def test_leftovers_of_older_drafts_mean_what_they_meant(
    schema: dict[str, Any], expected: dict[str, Any], good: Any, bad: Any
) -> None:
    """[FIL-37] In a schema that does not name its draft: said in today's words, and checked so."""
    assert shown(props(a=schema))["properties"]["a"] == expected
    assert refused(props(a=schema), {"a": good}) == []
    assert bad is None or len(refused(props(a=schema), {"a": bad})) == 1


@pytest.mark.parametrize("draft", ["draft-04", "draft-07"])
def test_a_schema_that_names_its_draft_is_checked_by_it(draft: str) -> None:
    """[FIL-37] And declared in today's words all the same."""
    tuple_items = {"type": "array", "items": [INTEGER, STRING], "additionalItems": False}
    bound = {**INTEGER, "minimum": 0, "exclusiveMinimum": True} if draft == "draft-04" else INTEGER
    loop = {"$ref": "#", "required": ["nothing"]}  # what stands beside a reference counts for nothing there
    schema = {
        "$schema": f"http://json-schema.org/{draft}/schema#",
        **props(t=tuple_items, n=bound, loop=loop),
    }
    assert shown(schema)["properties"]["t"]["prefixItems"] == [INTEGER, STRING]
    assert refused(schema, {"t": [1, "x"], "n": 1, "loop": {"loop": {}}}) == []
    assert len(refused(schema, {"t": [1, "x", 2], "n": "x"})) == 2
    assert len(refused(schema, {"n": 0})) == (draft == "draft-04")


def test_what_is_broken_is_not_checked_and_the_rest_is(caplog: pytest.LogCaptureFixture) -> None:
    """[FIL-38] Words with values that they cannot have are left out of declaration and check, with one
    warning that names them."""
    broken: dict[Any, Any] = {
        "type": ["integer", "objekt", 5],
        "title": 5,
        "description": None,
        "minimum": "3",
        "enum": {},
        "examples": "x",
        "pattern": 5,
        "minLength": -1,
        "multipleOf": 0,
        "uniqueItems": "yes",
        "items": None,
        "not": None,
        "anyOf": [],
        "additionalProperties": "false",
        "default": float("nan"),
        "maximum": 7,
        3: 4,
        "$ref": 5,
    }
    schema = props(a=broken, b=INTEGER)
    out = shown(schema)["properties"]["a"]
    assert out == {"type": ["integer"], "maximum": 7}
    tool = make(schema)
    with caplog.at_level(logging.WARNING):
        assert check_arguments(tool, {"a": "5", "b": "1"}) == {"a": 5, "b": 1}
        for wrong in ({"a": 8}, {"a": "x"}, {"b": "x"}):
            with pytest.raises(ToolError):
                check_arguments(tool, wrong)
    (record,) = caplog.records
    assert "'find' is broken: " in record.getMessage() and '"minimum"' in record.getMessage()


def test_words_of_openapi_that_point_elsewhere_are_left_out() -> None:
    """[FIL-30] A discriminator maps to definitions that are not there any more once they are inlined."""
    pets = {"oneOf": [{"$ref": "#/$defs/Cat"}], "discriminator": {"mapping": {"cat": "#/$defs/Cat"}}}
    out = shown({**props(pet=pets), "$defs": {"Cat": props(kind={"const": "cat"})}})
    assert "#/" not in json.dumps(out)


def test_a_tuple_says_what_its_items_are() -> None:
    """[FIL-30] One endpoint refuses an array without `items`, also beside `prefixItems`."""
    out = shown(props(pair={"prefixItems": [INTEGER, STRING], "minItems": 2}))["properties"]["pair"]
    assert out == {"prefixItems": [INTEGER, STRING], "minItems": 2, "items": {}}


WORDS = """type properties items anyOf allOf oneOf required enum const $ref $defs $id nullable not default
    minimum exclusiveMinimum additionalProperties prefixItems patternProperties description a""".split()
SCRAPS: list[Any] = [None, True, 5, -1.5, "x", "string", "array", "#/properties/a", "#", [], {}]
JUNK: Any = st.recursive(
    st.sampled_from(SCRAPS),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(WORDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "a b"]), JUNK, max_size=3), JUNK, JUNK)
def test_no_junk_makes_a_declaration_or_a_check_fail(members: Any, more: Any, arguments: Any) -> None:
    """[FIL-30] [FIL-38] Whatever stands where a schema should: valid declarations, and a check that passes
    or refuses."""
    schema: dict[str, Any] = {"properties": members, "anyOf": more, "$defs": {"a": more}}
    shown(schema)
    refused(schema, cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {"a": arguments})
