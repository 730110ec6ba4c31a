"""Tools in the form of each vendor."""

from typing import Any

import pytest

from toolnexus.core.schema import declared
from toolnexus.core.tools import Tool
from toolnexus.tools.declarations import to_anthropic, to_gemini, to_openai


def make(schema: dict[str, Any], name: str = "find") -> Tool:
    async def execute(arguments: dict[str, Any], ctx: Any) -> str:
        return ""

    return Tool(name, "Finds.", schema, execute)


def test_openai_and_anthropic_get_their_envelopes() -> None:
    """[FN-23] One declaration per tool, in order, in the vendor's form, with the normalised schema."""
    tools = [
        make({"properties": {"q": {"$ref": "#/$defs/q"}}, "$defs": {"q": {"type": "string"}}}),
        make({}, "all"),
    ]
    shown = {"type": "object", "properties": {"q": {"type": "string"}}}
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    assert to_openai(tools) == [
        {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": shown}},
        {"type": "function", "function": {"name": "all", "description": "Finds.", "parameters": empty}},
    ]
    assert to_anthropic(tools) == [
        {"name": "find", "description": "Finds.", "input_schema": shown},
        {"name": "all", "description": "Finds.", "input_schema": empty},
    ]


def test_a_schema_is_normalised_once_per_tool() -> None:
    """[FN-23] Declaring again costs nothing; a tool whose schema changed is read anew."""
    tool = make({"type": "object"})
    first = declared(tool)
    assert declared(tool) is first
    tool._input_schema = {"properties": {"a": {}}}
    assert declared(tool) == {"type": "object", "properties": {"a": {}}}


def gemini(schema: Any) -> Any:
    [entry] = to_gemini([make({"properties": {"p": schema}})])
    [function] = entry["functionDeclarations"]
    return function["parameters"]["properties"]["p"]


def test_gemini_gets_one_list_of_functions() -> None:
    """[FN-24] All functions are in one entry; one without members has no `parameters`."""
    assert to_gemini([]) == []
    assert to_gemini(
        [make({}, "a"), make({"properties": {"x": {"type": "string"}}, "required": ["x", "y"]}, "b")]
    ) == [
        {
            "functionDeclarations": [
                {"name": "a", "description": "Finds."},
                {
                    "name": "b",
                    "description": "Finds.",
                    "parameters": {
                        "type": "object",
                        "properties": {"x": {"type": "string"}},
                        "required": ["x"],
                    },
                },
            ]
        }
    ]


STRING = {"type": "string"}
GEMINI: list[tuple[Any, Any]] = [
    (
        {"type": "string", "default": "x", "examples": [1], "format": "uri", "minLength": 1},
        {**STRING, "minLength": 1},
    ),
    ({"type": "string", "format": "date-time"}, {**STRING, "format": "date-time"}),
    (
        {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2, "minimum": 1},
        {"type": "integer", "minimum": 1},
    ),
    ({"const": "a"}, {**STRING, "enum": ["a"]}),
    ({"enum": ["a", "b", ""]}, {**STRING, "enum": ["a", "b"]}),
    ({"enum": ["a", None]}, {**STRING, "enum": ["a"], "nullable": True}),
    ({"enum": [1, 2], "description": "Size."}, {"type": "integer", "description": "Size. One of: 1, 2."}),
    ({"type": "number", "enum": [1, 2.5]}, {"type": "number", "description": "One of: 1, 2.5."}),
    ({"type": ["string", "null"]}, {**STRING, "nullable": True}),
    (
        {"anyOf": [STRING, {"type": "null"}], "description": "d"},
        {**STRING, "description": "d", "nullable": True},
    ),
    ({"oneOf": [STRING, {"type": "integer"}]}, {"anyOf": [STRING, {"type": "integer"}]}),
    (
        {"type": ["string", "integer"], "description": "d"},
        {"anyOf": [{**STRING, "description": "d"}, {"type": "integer", "description": "d"}]},
    ),
    (
        {"allOf": [{"properties": {"a": STRING}}, {"properties": {"b": STRING}}]},
        {"type": "object", "properties": {"a": STRING, "b": STRING}},
    ),
    ({"type": "object", "additionalProperties": STRING, "patternProperties": {"x": {}}}, {"type": "object"}),
    (
        {"type": "array", "items": STRING, "uniqueItems": True, "maxItems": 3},
        {"type": "array", "maxItems": 3, "items": STRING},
    ),
    (
        {"type": "array", "prefixItems": [STRING, {"type": "integer"}]},
        {"type": "array", "items": {"anyOf": [STRING, {"type": "integer"}]}},
    ),
    ({"type": "null"}, {**STRING, "nullable": True}),
    ({}, {"anyOf": [{"type": t} for t in ("string", "number", "boolean", "object")]}),
]


@pytest.mark.parametrize(("schema", "expected"), GEMINI)
def test_gemini_gets_only_what_it_knows(schema: Any, expected: Any) -> None:
    """[FN-24] Every place has one known type or a bare `anyOf`; unknown keywords are dropped."""
    assert gemini(schema) == expected
