"""Documents with something odd anywhere: a clear error or tools that work, never another exception."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.documents import body, document, operation, parameter
from toolnexus import ConfigError, ToolError, Toolkit, openapi_tools

ITEM = {"$ref": "#/components/schemas/Item"}
WHOLE = document(
    {
        "/a/{id}": {
            "parameters": [parameter("id", "path", {"type": "string"}, style="matrix", explode=True)],
            "servers": [{"url": "https://{v}.x.test", "variables": {"v": {"default": "a"}}}],
            "get": operation(
                parameter("q", "query", {"type": "object"}, style="deepObject"),
                parameter("X-A", "header", {"type": "array"}),
                parameter("c", "cookie", {"type": "string"}),
                {"name": "j", "in": "query", "content": {"application/json": {"schema": ITEM}}},
                responses={"200": {"content": {"application/json": {}}}},
                summary="Get it.",
                deprecated=True,
                security=[{"key": []}],
            ),
            "post": {"requestBody": body("application/json", ITEM), "operationId": "post"},
            "put": {
                "operationId": "put",
                "requestBody": body(
                    "multipart/form-data",
                    {
                        "properties": {
                            "f": {"type": "array", "items": {"format": "binary"}},
                            "t": {"type": "string"},
                        }
                    },
                    encoding={"t": {"contentType": "text/plain"}},
                ),
            },
            "patch": {
                "operationId": "patch",
                "requestBody": body(
                    "application/x-www-form-urlencoded",
                    {"properties": {"o": {"type": "object"}}},
                    encoding={"o": {"style": "deepObject", "explode": True, "allowReserved": True}},
                ),
            },
        }
    },
    components={
        "schemas": {
            "Item": {
                "type": "object",
                "required": ["a"],
                "properties": {
                    "a": {"type": "string", "readOnly": True},
                    "next": ITEM,
                    "m": {"allOf": [ITEM]},
                },
            }
        },
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    },
    servers=[{"url": "https://x.test/v1"}],
)
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1.5,
    "",
    "x",
    "#/components/schemas/Item",
    [],
    ["x"],
    [[]],
    {},
    {"x": {}},
    {"$ref": 5},
    {"$ref": "#/paths"},
)
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"id": "1", "q": {"a": [1, {"b": None}]}, "X-A": ["a"], "c": "d", "j": {"a": "b"}},
    {"id": "1", "body": {"f": ["AAAA"], "t": "x", "o": {"k": ["v"]}, "a": 1}},
    {"id": "1", "body": "text"},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items: Any = ()
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
    for key, inner in items:
        yield from places(inner, (*path, key))


PLACES = list(places(WHOLE))


@settings(max_examples=50, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(ODD)), min_size=1, max_size=3))
def test_odd_documents_are_refused_or_work(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    """[OA-30] Wherever it is: `ConfigError`, or declarations that are JSON and requests that can be made."""
    broken: Any = copy.deepcopy(WHOLE)
    for path, odd in changes:
        holder: Any = broken
        for step in path[:-1]:
            try:
                holder = holder[step]
            except (TypeError, LookupError):  # another change took it away
                break
        with suppress(TypeError, LookupError):
            holder[path[-1]] = copy.deepcopy(odd)
    try:
        tools: Any = openapi_tools(broken, headers={"X-Key": "key-0123456"})
    except ConfigError as error:
        assert str(error).startswith("the OpenAPI document: ")
        return
    json.dumps(Toolkit(tools).to_openai())
    for tool in tools:
        for arguments in ARGUMENTS:
            try:
                request = tool._request(
                    {k: v for k, v in arguments.items() if k in tool.input_schema["properties"]}
                )
            except ToolError:
                continue
            assert request.url.startswith("https://") and request.url.isascii()
