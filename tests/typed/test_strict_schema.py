"""Closed schemas: what endpoints take that hold a model to every word."""

from __future__ import annotations

import copy
import datetime
import enum
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from tests.typed.forms import Finding, Tree
from toolnexus.core.model import OutputSpec
from toolnexus.engine.output import output_type_of
from toolnexus.models.strict_schema import ANTHROPIC, OPENAI, Dialect, strict_schema


class Level(enum.Enum):
    LOW = 1
    HIGH = "high"


class Place(BaseModel):
    street: str
    number: int | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


class Person(BaseModel):
    """Somebody."""

    name: str = Field(min_length=1, max_length=80, pattern="^[A-Z]")
    born: datetime.date
    home: Place = Field(description="where the letters go")
    second: Place
    level: Level = Level.LOW
    mood: Literal["good", "bad"] | None = None
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(default=[], max_length=3)
    price: Decimal = Decimal(1)


@dataclass
class Pair:
    left: int
    right: Pair | None = None


def spec(form: Any) -> OutputSpec:
    kind = output_type_of(form)
    assert kind is not None
    return kind.spec


def closed(form: Any, dialect: Dialect = OPENAI) -> dict[str, Any] | None:
    return strict_schema(spec(form), dialect)


def nodes(value: Any) -> list[dict[str, Any]]:
    """Every schema in a closed one."""
    if isinstance(value, list):
        return [node for item in cast("list[Any]", value) for node in nodes(item)]
    if not isinstance(value, dict):
        return []
    inner = cast("dict[str, Any]", value)
    parts = [*inner.get("properties", {}).values(), *inner.get("$defs", {}).values()]
    parts += [inner[word] for word in ("items", "anyOf") if word in inner]
    return [inner, *nodes(parts)]


FORMS = [Finding, Person, Tree, Pair, list[Person], Literal["a", 2, None], Cat | Dog, int, Place | None]
KNOWN = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "description"),
    *("$ref", "$defs", "pattern", "format", "minItems", "maxItems", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_closed_schema_has_no_open_end(form: Any) -> None:
    """[TY-27] Only words that OpenAI takes, each object with all its members and no others."""
    schema = closed(form)
    assert schema is not None and schema["type"] == "object"
    for node in nodes(schema):
        assert node.keys() <= KNOWN
        assert "$ref" not in node or node.keys() == {"$ref"}
        if node.get("type") == "object":
            assert node["additionalProperties"] is False and node["required"] == list(node["properties"])
        if ref := node.get("$ref"):
            assert ref.removeprefix("#/$defs/") in schema["$defs"]
        assert node.keys() & {"type", "anyOf", "$ref"}


@pytest.mark.parametrize("form", [f for f in FORMS if f not in (Tree, Pair)], ids=str)
def test_for_anthropic_members_may_be_left_out(form: Any) -> None:
    """[TY-27] Duties stay duties, numbers and lists have no bounds but in words."""
    schema = closed(form, ANTHROPIC)
    assert schema is not None
    for node in nodes(schema):
        assert not node.keys() & {"minimum", "maximum", "maxItems", "pattern", "multipleOf"}
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
    assert closed(Finding, ANTHROPIC)["required"] == ["risk"]  # type: ignore[index]


def test_what_may_be_left_out_may_be_null_and_says_what_that_means() -> None:
    """[TY-27] Null stands for the default; what could be null already stays as it is."""
    schema = closed(Person)
    assert schema is not None
    members = schema["properties"]
    assert members["level"] == {
        "description": "Null stands for 1.",
        "type": ["integer", "string", "null"],
        "enum": [1, "high", None],
    }
    assert members["mood"]["anyOf"] == [{"type": "string", "enum": ["good", "bad"]}, {"type": "null"}]
    assert {"type": "null"} in members["pets"]["anyOf"] and "null" not in json.dumps(members["born"])


def test_what_is_not_enforced_is_told() -> None:
    """[TY-27] Lengths everywhere; at Anthropic's also patterns and bounds. Descriptions stay."""
    schema, other = closed(Person), closed(Person, ANTHROPIC)
    assert schema is not None and other is not None
    name = schema["properties"]["name"]
    assert name["pattern"] == "^[A-Z]" and name["description"] == "(minLength 1, maxLength 80)"
    assert other["properties"]["name"]["description"] == '(pattern "^[A-Z]", minLength 1, maxLength 80)'
    assert schema["properties"]["born"]["format"] == other["properties"]["born"]["format"] == "date"
    assert schema["properties"]["home"]["description"] == "where the letters go"
    risk = closed(Finding, ANTHROPIC)["properties"]["risk"]  # type: ignore[index]
    assert risk == {"description": "how bad it is (minimum 0, maximum 9)", "type": "integer"}


def test_a_pattern_that_looks_around_is_told_only() -> None:
    """[TY-27] No endpoint takes those."""
    form = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}, "required": ["a"]}
    schema = closed(form)
    assert schema is not None
    assert schema["properties"]["a"] == {"type": "string", "description": '(pattern "^(?!x)")'}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object"}, "the root may have members of any name"),
        ({"type": "object", "properties": {"a": {}}}, "a may be anything"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "the items of a may be anything"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "a may have members of any name"),
        (
            {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}]}}},
            "a uses prefixItems",
        ),
        ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, "a uses not"),
        ({"type": "object", "properties": {"a": {"enum": [[1]]}}}, "a chooses from values"),
        ({"type": "object", "properties": {"a": {"$ref": "#/gone"}}}, "'#/gone', which is not there"),
        (
            {"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "string"}}},
            "the root uses patternProperties",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
            "any name",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_closed_says_where_and_why(
    schema: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """[TY-28] None, with one line in the log however often it is asked for."""
    form = OutputSpec(name="form", schema=schema)
    assert [strict_schema(form, OPENAI), strict_schema(form, OPENAI)] == [None, None]
    (line,) = [record.getMessage() for record in caplog.records]
    assert "'form'" in line and why in line


def test_closing_changes_nothing_of_the_original_and_is_done_once() -> None:
    """[TY-27] The same object for the same form."""
    schema = TypeAdapter(Person).json_schema()
    before = copy.deepcopy(schema)
    form = OutputSpec(name="person", schema=schema)
    assert strict_schema(form, OPENAI) is strict_schema(form, OPENAI)
    assert schema == before


def test_a_schema_in_circles_ends() -> None:
    """[TY-28] References to itself with words beside them, through two definitions, and to the root."""
    circle: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a", "description": "one"}, "root": {"$ref": "#"}},
        "$defs": {
            "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b", "description": "two"}}},
            "b": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a", "description": "three"}}},
        },
    }
    schema = strict_schema(OutputSpec(name="circle", schema=circle), OPENAI)
    assert schema is not None and schema["$defs"].keys() == {"a", "root"}
    assert strict_schema(OutputSpec(name="circle", schema=circle), ANTHROPIC) is None
    endless = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"$ref": "#/$defs/x"}},
    }
    strict_schema(OutputSpec(name="endless", schema=endless), OPENAI)
