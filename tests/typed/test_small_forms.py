"""What a form asks for, in small: wrapping, references, names, nulls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from toolnexus import Client, ConfigError, FunctionModel, OutputError
from toolnexus.core.model import ModelRequest, OutputSpec

pytestmark = pytest.mark.anyio

TREE = {"type": "array", "items": {"$ref": "#/$defs/tree"}}


async def answered(form: Any, *texts: str) -> tuple[Any, OutputSpec, list[str]]:
    """The value of an answer of `texts`, one a turn, the form that was asked for, and what repairs said."""
    asked: list[ModelRequest] = []
    said: list[str] = []

    async def model(request: ModelRequest) -> str:
        asked.append(request)
        if request.turn > 1:
            said.append(request.messages[-1].text)
        return texts[request.turn - 1]

    async with Client(model=FunctionModel(model), builtins=False) as client:
        result = await client.ask("q", output_type=form)
    spec = asked[0].output
    assert spec is not None
    return result.output, spec, said


async def test_a_form_that_refers_to_itself_is_wrapped_with_its_references() -> None:
    """[TY-03] From the root and from its definitions: what is wrapped moves, and references move with it."""
    for form, inner in (
        (
            {"type": "array", "items": {"$ref": "#"}},
            {"type": "array", "items": {"$ref": "#/properties/value"}},
        ),
        (
            {"$defs": {"tree": TREE}, "$ref": "#/$defs/tree"},
            {
                "$defs": {"tree": {"type": "array", "items": {"$ref": "#/properties/value/$defs/tree"}}},
                "type": "array",
                "items": {"$ref": "#/properties/value/$defs/tree"},
            },
        ),
    ):
        value, spec, _ = await answered(form, "[[], [[]]]")
        assert value == [[], [[]]]
        assert spec.schema["properties"] == {"value": inner}
        assert (spec.schema["type"], spec.schema["required"]) == ("object", ["value"])
        assert spec.schema["additionalProperties"] is False
        with pytest.raises(OutputError):
            await answered(form, "[[], [1]]", '{"value": [[], [1]]}')


async def test_the_root_may_be_a_reference_to_an_object() -> None:
    """[TY-02] Through several steps; what stands beside a reference holds; a circle ends."""
    form = {
        "$defs": {
            "a": {"$ref": "#/$defs/b"},
            "b": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "$ref": "#/$defs/a",
        "required": ["n"],
        "title": "Count",
    }
    value, spec, _ = await answered(form, '{"n": 3}')
    assert value == {"n": 3} and spec.name == "Count" and spec.schema["type"] == "object"
    assert spec.schema["required"] == ["n"] and "$ref" not in spec.schema
    with pytest.raises(OutputError):
        await answered(form, "{}", "{}")
    circle = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    with pytest.raises((OutputError, ConfigError)):
        await answered(circle, "1", "2")


async def test_names_and_descriptions_are_those_of_the_form() -> None:
    """[TY-30] Of a schema its title, of a type its name; 64 characters at most; else `answer`."""

    @dataclass
    class Risk:
        """How bad it is."""

        level: int

    for form, name, about, text in (
        ({"type": "integer"}, "answer", "", "1"),
        ({"type": "integer", "title": "How many?", "description": "A count."}, "How_many_", "A count.", "1"),
        ({"type": "integer", "title": "n" * 80}, "n" * 64, "", "1"),
        ({"const": 3}, "answer", "", "3"),
        ({"enum": ["a"]}, "answer", "", '"a"'),
        ({"format": "date"}, "answer", "", '"x"'),
        ({"pattern": "^a"}, "answer", "", '"a"'),
        (Risk, "Risk", "How bad it is.", '{"level": 1}'),
        (list[int], "list", "", "[1]"),
        (int | str, "answer", "", "1"),
    ):
        _, spec, _ = await answered(form, text)
        assert (spec.name, spec.description) == (name, about)


async def test_a_type_that_is_no_object_takes_its_member_alone() -> None:
    """[TY-03] Other members beside `value` do not fit; objects of such answers are taken unwrapped, too."""
    value, spec, said = await answered(list[int], '{"value": [1], "other": 2}', '{"value": [1, 2]}')
    assert value == [1, 2] and len(said) == 1 and "other" in said[0]
    assert spec.schema["additionalProperties"] is False and spec.schema["required"] == ["value"]
    assert (await answered(list[int], "[3]"))[0] == [3]


async def test_nulls_that_are_not_allowed_are_left_out_and_nothing_else() -> None:
    """[TY-07] In members that may be left out, at any depth; elsewhere they are misfits."""
    form = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "in": {"type": "object", "properties": {"b": {"type": "string"}}},
            "n": {"type": ["integer", "null"]},
            "all": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["n"],
    }
    value, _, _ = await answered(form, '{"a": null, "in": {"b": null}, "n": null, "all": [1]}')
    assert value == {"in": {}, "n": None, "all": [1]}
    value, _, _ = await answered(form, '{"a": 0, "in": {"b": ""}, "n": null}')
    assert value == {"a": 0, "in": {"b": ""}, "n": None}
    _, _, said = await answered(form, '{"n": 1, "all": [null]}', '{"n": 1}')
    assert "all" in said[0]
    _, _, said = await answered({**form, "required": ["a"]}, '{"a": null}', '{"a": 1}')
    assert "a" in said[0]
    # a wrong member beside the null: the null is not what is told alone, and the value is not changed
    with pytest.raises(OutputError) as caught:
        await answered(form, '{"a": "x", "in": {"b": null}}', '{"a": "x", "in": {"b": null}}')
    assert any("a" in line for line in caught.value.problems)


async def test_an_empty_answer_is_none() -> None:
    """[TY-12] Blanks hold no JSON; the repair tells the schema in words."""
    value, _, said = await answered({"type": "integer"}, "  \n", "7")
    assert value == 7 and json.dumps("integer") in said[0]
    assert "empty" in said[0]


async def test_a_text_that_is_asked_for_is_given_as_it_is() -> None:
    """[TY-08] In JSON with its letters, where the model wrote more than the value."""
    value, _, _ = await answered({"type": "object", "properties": {"ö": {}}}, 'so: {"ö": "ü"} it is')
    assert value == {"ö": "ü"}
    async with Client(model=FunctionModel(lambda request: 'so: {"ö": "ü"} it is'), builtins=False) as client:
        result = await client.ask("q", output_type={"type": "object"})
    assert json.loads(result.text) == {"ö": "ü"} and result.text == '{"ö": "ü"}'


async def test_a_value_that_cannot_be_written_is_shown() -> None:
    """[TY-08] Serialisers of types are foreign code: where they fail, the text says what the value is."""

    class Odd(BaseModel):
        level: int

        @field_serializer("level")
        def broken(self, _: int) -> int:
            raise ValueError("no")

        def __repr__(self) -> str:
            return "Odd!"

    async with Client(model=FunctionModel(lambda request: 'it is {"level": 1}'), builtins=False) as client:
        result = await client.ask("q", output_type=Odd)
    assert result.output.level == 1 and result.text == '"Odd!"'
