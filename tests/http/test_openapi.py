"""`openapi_tools`: documents, operations, arguments, what is refused."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.http.documents import api, body, document, operation, parameter
from toolnexus import Client, ConfigError, Toolkit, openapi_tools
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio

HOST = {"servers": [{"url": "https://shop.test/v1"}]}
PETS: dict[str, Any] = {
    "/pets": {"get": {"operationId": "list pets", "summary": "All pets.", "responses": {}}},
    "/pets/{petId}": {
        "parameters": [parameter("petId", "path", {"type": "integer"})],
        "get": {"responses": {}},
        "delete": {
            "operationId": "delete.pet",
            "description": "For ever.",
            "deprecated": True,
            "responses": {},
        },
    },
}


def names(paths: Any, **options: Any) -> list[str]:
    return [tool.name for tool in openapi_tools(document(paths, **HOST), **options)]


def schema_of(paths: Any, **more: Any) -> dict[str, Any]:
    """The schema of the only operation, as it is declared to an endpoint."""
    (tool,) = openapi_tools(document(paths, **HOST, **more))
    return Toolkit([tool]).to_openai()[0]["function"]["parameters"]


def refusal(paths: Any, **more: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        openapi_tools(document(paths, **{**HOST, **more}))
    return str(caught.value).splitlines()


def test_each_operation_is_a_tool() -> None:
    """[OA-01] Named by `operationId`, or by method and path; safe, unique, the same on every run."""
    tools = openapi_tools(document(PETS, **HOST))
    assert [tool.name for tool in tools] == ["list_pets", "get_pets_petId", "delete_pet"]
    assert [tool.description for tool in tools] == ["All pets.", "GET /pets/{petId}", "Deprecated. For ever."]
    assert [tool.idempotent for tool in tools] == [True, True, True]
    assert {(tool.source, tool.origin) for tool in tools} == {("http", "Shop")}
    assert tools[2].original_name == "delete.pet"
    twice = {path: {"get": {"operationId": "a b"}} for path in ("/x", "/y")}
    first, second = names(twice)
    assert (
        first != second
        and first.startswith("a_b_")
        and names(dict(reversed(twice.items()))) == [second, first]
    )
    assert len(names({"/x": {"get": {"operationId": "n" * 200}}})[0]) <= 64


def test_the_filter_is_that_of_all_sources() -> None:
    """[OA-02] Tool names or `operationId`s, globs, `{name: bool}`; a misspelt one names the nearest."""
    assert names(PETS, filter=["list_pets", "get_*"]) == ["list_pets", "get_pets_petId"]
    assert names(PETS, filter={"delete.pet": False}) == ["list_pets", "get_pets_petId"]
    assert names(PETS, filter=[]) == []
    with pytest.raises(ConfigError, match="did you mean 'list_pets'"):
        names(PETS, filter=["list_pet"])


def test_a_document_is_a_mapping_a_file_or_a_text(tmp_path: Path) -> None:
    """[OA-03] JSON or YAML, the same tools; YAML has the types of JSON."""
    choice = {"type": "string", "enum": ["no", "on", "012", "2020-01-31", "1:30"]}
    whole = document({"/x": {"get": operation(parameter("q", "query", choice))}}, **HOST)
    (tmp_path / "api.json").write_text(json.dumps(whole))
    dump: Any = vars(yaml)["safe_dump"]
    (tmp_path / "api.yaml").write_text(dump(whole).replace("'", ""))
    for given in (
        whole,
        tmp_path / "api.json",
        str(tmp_path / "api.yaml"),
        json.dumps(whole),
        (tmp_path / "api.yaml").read_text(),
    ):
        tools: Any = openapi_tools(given)
        (tool,) = tools
        assert tool.input_schema["properties"]["q"]["enum"] == choice["enum"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"swagger": "2.0"}, "it is Swagger 2.0; convert it to OpenAPI 3"),
        ({"openapi": "4.0.0"}, "documents of OpenAPI 3.0, 3.1 and 3.2 are read"),
        ({}, "openapi: None"),
        ("openapi: 3.1.0\npaths: ]", "does not parse: line 2"),
        ('{"openapi": NaN}', "NaN is not a JSON value"),
        ("- a\n- b", "is an object, not a list"),
        ("no/such/file.yaml", "cannot be read: No such file"),
        (5, "a mapping, a path, a text or a URL, not int"),
        ("openapi: 3.1.0\na: &a\n  b: *a\n", "holds itself"),
        (
            "openapi: 3.1.0\n"
            + "a: &a0 [x]\n"
            + "".join(f"b{n}: &a{n + 1} [{f'*a{n},' * 9}]\n" for n in range(9)),
            "2,000,000 values",
        ),
        ({"openapi": "3.1.0", "x": object()}, "object is none of its types"),
        ('{"openapi": "3.1.0", "x": ' + "[" * 100_000, "nested too deeply"),
        ({"openapi": "3.1.0", "paths": {}}, "paths: there is no operation"),
        ({"openapi": "3.1.0", "paths": []}, "paths: it must be an object, not a list"),
    ],
)
def test_what_is_no_document_is_said(given: Any, says: str) -> None:
    """[OA-04] A `ConfigError` that names the file and the line, in bounded time."""
    with pytest.raises(ConfigError) as caught:
        openapi_tools(given)
    assert says in str(caught.value)


def test_every_finding_is_told_at_once_with_its_place() -> None:
    """[OA-05] Of the operations that pass the filter, and each once."""
    broken: dict[str, Any] = {
        "/a/{id}": {"get": {"operationId": "a"}},
        "/b": {
            "get": {
                "operationId": "b",
                "parameters": [
                    {"in": "query"},
                    {"name": "x", "in": "querystring", "schema": {}},
                    parameter("y", "query", style="matrix"),
                    {"name": "z", "in": "query"},
                    {"$ref": "#/components/parameters/lost"},
                    parameter("w", "query"),
                    parameter("w", "query"),
                ],
            },
            "post": {"operationId": "c", "requestBody": {"content": {}}},
            "put": {"operationId": "d", "requestBody": body("application/json", {"$ref": "other.yaml#/X"})},
            "patch": {
                "operationId": "e",
                "requestBody": body("application/json", {"$ref": "#/components/schemas/Bad"}),
            },
        },
        "no-slash": {"get": {}},
        "/c": {"get": 5, "put": {"operationId": "f", "servers": [{"url": "https://{a}/"}]}},
    }
    schemas = {"Bad": {"properties": {"p": {"$ref": "#/components/schemas/Gone"}, "q": 5}}}
    lines = refusal(broken, components={"schemas": schemas})
    assert [line.removeprefix("the OpenAPI document: ") for line in lines] == [
        "paths.no-slash: a path begins with '/'",
        "paths['/c'].get: it must be an object, not a number",
        "paths['/a/{id}'].get: the path holds {id}, and no path parameter has this name",
        "paths['/b'].get.parameters[0]: a parameter needs a name",
        "paths['/b'].get.parameters[1]: parameter 'x' is in 'querystring'; allowed are path, query, header, "
        "cookie",
        "paths['/b'].get.parameters[2]: style 'matrix' does not go with query; allowed are form, "
        "spaceDelimited, pipeDelimited, deepObject",
        "paths['/b'].get.parameters[3]: parameter 'z' needs a schema, or content of one media type",
        "paths['/b'].get.parameters[4]: $ref '#/components/parameters/lost' leads nowhere",
        "paths['/b'].get.parameters[6]: the query parameter 'w' stands there twice",
        "paths['/b'].put.requestBody.content['application/json'].schema: $ref 'other.yaml#/X' leads out of "
        "the document; put what it means into components",
        "paths['/b'].post.requestBody: a request body needs content",
        "components.schemas.Bad.properties.p: $ref '#/components/schemas/Gone' leads nowhere",
        "components.schemas.Bad.properties.q: a schema must be an object, not a number",
        "paths['/c'].put.servers[0]: the variable 'a' of 'https://{a}/' has no default; give base_url=",
    ]
    whole = document({"/ok": {"get": {"operationId": "ok"}}, "/b": broken["/b"]}, **HOST)
    assert [tool.name for tool in openapi_tools(whole, filter=["ok"])] == ["ok"]


@pytest.mark.parametrize(
    ("servers", "options", "asked"),
    [
        ([{"url": "{home}/v1/"}, {"url": "https://second.test"}], {}, "/v1/x"),
        ([{"url": "{home}/{v}", "variables": {"v": {"default": "v2"}}}], {}, "/v2/x"),
        ([{"url": "https://elsewhere.test"}], {"base_url": "{home}/mine?region=eu"}, "/mine/x?region=eu"),
    ],
)
async def test_the_first_server_or_base_url_says_where(servers: Any, options: Any, asked: str) -> None:
    """[OA-06] Variables take their defaults; `base_url` comes before all servers, its query goes along."""
    from tests.http.site import recording

    async with recording() as site:
        told = json.loads(json.dumps(servers).replace("{home}", site.url))
        base = {key: value.replace("{home}", site.url) for key, value in options.items()}
        tools = openapi_tools(document({"/x": {"get": operation()}}, servers=told), **base)
        await Toolkit(tools).execute("call")
        assert site.last.target == asked
        near = {
            "/x": {
                "servers": [{"url": "https://far.test"}],
                "get": operation(servers=[{"url": site.url + "/op"}]),
            }
        }
        await Toolkit(openapi_tools(document(near, servers=told))).execute("call")
        assert site.last.target == "/op/x"


def test_without_a_host_base_url_is_asked_for() -> None:
    """[OA-06] A relative server of a document that is no URL, and none at all."""
    ops = {"/x": {"get": operation()}}
    assert "no server with a host is named ('/'); give base_url=" in refusal(ops, servers=None)[0]
    assert "servers[0]: no server with a host is named ('/v1')" in refusal(ops, servers=[{"url": "/v1"}])[0]
    for base in ("shop.test", "https://u:p@shop.test", "https://shop.test/{x}", "https://${HOST}/"):
        with pytest.raises(ConfigError, match="base_url"):
            openapi_tools(document(ops), base_url=base)


async def test_equal_names_stay_apart() -> None:
    """[OA-07] In path, query, header, cookie and body; each gets what was meant for it."""
    params = [parameter("id", place, {"type": "string"}) for place in ("path", "query", "header", "cookie")]
    op = operation(*params, parameter("body", "query"), requestBody=body("application/json", True))
    async with api({"/x/{id}": {"post": op}}) as call:
        tool = call.tools.get("call")
        assert tool is not None
        assert set(tool.input_schema["properties"]) == {
            *("path_id", "query_id", "header_id", "cookie_id", "query_body", "body")
        }
        site = await call(
            path_id="p", query_id="q", header_id="h", cookie_id="c", query_body="qb", body={"id": 1}
        )
    asked = site.last
    assert (asked.steps, asked.query) == (["x", "p"], [("id", "q"), ("body", "qb")])
    assert (asked.headers["id"], asked.cookies, json.loads(asked.body)) == ("h", {"id": "c"}, {"id": 1})


async def test_an_operation_wins_over_its_path() -> None:
    """[OA-08] Parameters of the path hold for all its operations; references are followed everywhere."""
    shared = {
        "size": parameter("size", "query", {"type": "string"}),
        "x": {"$ref": "#/components/parameters/size"},
    }
    bodies = {"b": body("application/json", {"$ref": "#/components/schemas/N"})}
    components = {"parameters": shared, "requestBodies": bodies, "schemas": {"N": {"type": "integer"}}}
    item = {
        "parameters": [{"$ref": "#/components/parameters/x"}, parameter("a", "query")],
        "post": operation(
            parameter("size", "query", {"type": "integer"}),
            requestBody={"$ref": "#/components/requestBodies/b"},
        ),
    }
    more = {"components": {**components, "pathItems": {"p": item}}}
    async with api({"/x": {"$ref": "#/components/pathItems/p"}}, more) as call:
        site = await call(size=5, a="1", body=7)
        assert (site.last.query, site.last.body) == ([("size", "5"), ("a", "1")], b"7")
        assert (await call.tried(size="large", body=1)).is_error
    loop = {"a": {"$ref": "#/components/parameters/b"}, "b": {"$ref": "#/components/parameters/a"}}
    lines = refusal(
        {"/x": {"get": {"parameters": [{"$ref": "#/components/parameters/a"}]}}},
        components={"parameters": loop},
    )
    assert "leads back to itself" in lines[0]


def test_schemas_are_those_of_what_is_sent() -> None:
    """[OA-09] Without what only the server writes; 3.0 and 3.1 mean the same; one may be called `$ref`."""
    old: dict[str, Any] = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "by": {"$ref": "#/components/schemas/Author"},
            "name": {"type": "string", "nullable": True, "example": "x"},
            "secret": {"type": "string", "writeOnly": True},
            "n": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "$ref": {"type": "string"},
        },
    }
    components = {"schemas": {"Author": {"type": "string", "readOnly": True}, "Pet": old}}
    pet = {"$ref": "#/components/schemas/Pet"}
    paths = {"/x": {"post": operation(requestBody=body("application/json", pet))}}
    shown = schema_of(paths, openapi="3.0.3", components=components)["properties"]["body"]
    assert shown["required"] == ["name"]
    properties = shown["properties"]
    assert set(properties) - {"$ref"} == {"name", "secret", "n"}
    assert properties["name"] == {"type": ["string", "null"]}
    assert properties["n"] == {"type": "number", "exclusiveMinimum": 0}


async def test_recursive_schemas_are_bounded_and_checked() -> None:
    """[OA-10] Valid for both styles and small, also where everything leads to everything."""
    tangle = {
        f"S{n}": {
            "type": "object",
            "properties": {
                **{f"to{m}": {"$ref": f"#/components/schemas/S{m}"} for m in range(8)},
                "n": {"type": "integer"},
            },
        }
        for n in range(8)
    }
    op = operation(requestBody=body("application/json", {"$ref": "#/components/schemas/S0"}))
    async with api({"/x": {"post": op}}, {"components": {"schemas": tangle}}) as call:
        declared = call.tools.to_openai()[0]["function"]["parameters"]
        assert declared == call.tools.to_anthropic()[0]["input_schema"]
        jsonschema.Draft202012Validator.check_schema(declared)
        assert len(json.dumps(declared)) < 60_000 and "$ref" not in json.dumps(declared)
        assert declared["properties"]["body"]["properties"]["n"] == {"type": "integer"}
        assert "expected integer" in (await call.tried(body={"to1": {"n": "x"}})).output
        site = await call(body={"to5": {"to6": {"to7": {"n": 1}}}})
        assert json.loads(site.last.body) == {"to5": {"to6": {"to7": {"n": 1}}}}


def test_deep_and_odd_schemas_break_nothing() -> None:
    """[OA-10] A schema nested a thousand deep is a finding; names of definitions never collide."""
    deep: dict[str, Any] = {}
    for _ in range(1_000):
        deep = {"type": "array", "items": deep}
    lines = refusal({"/x": {"get": operation(parameter("q", "query", deep))}})
    assert "nested too deeply" in lines[0]
    components = {
        "schemas": {"A b": {"type": "string"}},
        "parameters": {"A_b": parameter("q", "query", {"type": "integer"})},
    }
    both = [
        parameter("x", "query", {"$ref": "#/components/schemas/A b"}),
        parameter("y", "query", {"$ref": "#/components/parameters/A_b/schema"}),
        parameter("z", "query", {"$ref": "#/components/schemas/A%20b"}),
    ]
    shown = schema_of({"/x": {"get": operation(*both)}}, components=components)["properties"]
    assert [shown[name]["type"] for name in "xyz"] == ["string", "integer", "string"]


async def test_what_security_schemes_are_about_is_never_asked(caplog: pytest.LogCaptureFixture) -> None:
    """[OA-11] Nor what the host gives itself; what is missing is said once, with how many need it."""
    schemes: dict[str, Any] = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "query": {"type": "apiKey", "in": "query", "name": "token"},
        "sid": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "login": {"type": "oauth2", "flows": {}},
    }
    params = [
        *(parameter("x-key", "header"), parameter("token", "query"), parameter("sid", "cookie")),
        *(parameter("Authorization", "header"), parameter("Accept", "header"), parameter("Host", "header")),
        *(parameter("X-Team", "header"), parameter("region", "query"), parameter("q", "query")),
    ]
    more: dict[str, Any] = {
        "components": {"securitySchemes": schemes},
        "security": [{"key": [], "query": []}],
    }
    paths: dict[str, Any] = {
        "/x": {"get": operation(*params)},
        "/y": {"get": {"operationId": "login", "security": [{"login": []}, {"sid": []}]}},
        "/z": {"get": {"operationId": "free", "security": [{}]}},
    }
    async with api(paths, more) as call:
        tool = call.tools.get("call")
        assert tool is not None and list(tool.input_schema["properties"]) == ["X-Team", "region", "q"]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("toolnexus.openapi", logging.WARNING)
    for slot in ("header 'x-key'", "query 'token'", "header 'authorization'"):
        assert f"{slot} (1 operation)" in record.getMessage()
    caplog.clear()
    async with api(
        paths, more, headers={"X-KEY": "k-012345", "x-team": "a", "Cookie": "sid=1; more=2"}
    ) as call:
        tool = call.tools.get("call")
        assert tool is not None and list(tool.input_schema["properties"]) == ["region", "q"]
        site = await call(q="1")
        assert (site.last.headers["x-key"], site.last.headers["x-team"]) == ("k-012345", "a")
    assert "query 'token'" in caplog.text and "header" not in caplog.records[0].getMessage().partition(";")[0]


async def test_a_query_key_of_the_host_goes_with_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """[OA-11] From the query of `base_url`; a spread object cannot speak for it, nor for other parameters."""
    from tests.http.site import recording

    monkeypatch.setenv("SHOP_KEY", "key-0123456")
    spread = parameter("filter", "query", {"type": "object"}, style="form", explode=True)
    paths = {"/x": {"get": operation(spread, parameter("token", "query"), parameter("page", "query"))}}
    async with recording() as site:
        tools = Toolkit(openapi_tools(document(paths), base_url=site.url + "/v1?token=${SHOP_KEY}&region=eu"))
        assert not (await tools.execute("call", {"filter": {"color": "red"}, "page": 2})).is_error
        assert sorted(site.last.query) == [
            *(("color", "red"), ("page", "2"), ("region", "eu"), ("token", "key-0123456"))
        ]
        for name in ("token", "region", "page"):
            result = await tools.execute("call", {"filter": {name: "mine"}})
            assert result.is_error and f"must not hold '{name}'" in result.output
    assert len(site.asked) == 1


async def test_a_document_never_reads_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """[OA-12] `${NAME}` in its addresses and defaults is no variable of ours."""
    monkeypatch.setenv("SHOP_KEY", "key-0123456")
    for path in ("/x?a=${SHOP_KEY}", "/x/${SHOP_KEY}"):
        assert "the path holds {SHOP_KEY}" in refusal({path: {"get": operation()}})[0]
    lines = refusal({"/x": {"get": operation()}}, servers=[{"url": "https://x.test/?a=${SHOP_KEY}"}])
    assert "the variable 'SHOP_KEY'" in lines[0]
    async with api({"/x?token=a b&c": {"get": operation()}}) as call:
        assert (await call()).last.target == "/x?token=a%20b&c"


def test_a_big_document_loads_at_once() -> None:
    """[OA-13] Five hundred operations over three hundred schemas that all lead to each other."""
    schemas = {
        f"S{n}": {
            "type": "object",
            "properties": {
                "next": {"$ref": f"#/components/schemas/S{(n + 1) % 300}"},
                "other": {"oneOf": [{"$ref": f"#/components/schemas/S{n * k % 300}"} for k in (7, 11)]},
                **{f"field{k}": {"type": "string", "description": "some words about it"} for k in range(8)},
            },
        }
        for n in range(300)
    }
    paths = {
        f"/things{n}/{{id}}": {
            "parameters": [parameter("id", "path", {"type": "string"})],
            "get": {"operationId": f"get{n}"},
            "put": {
                "operationId": f"put{n}",
                "requestBody": body("application/json", {"$ref": f"#/components/schemas/S{n}"}),
            },
        }
        for n in range(250)
    }
    text = json.dumps(document(paths, components={"schemas": schemas}, **HOST))
    began = time.process_time()
    tools = list(openapi_tools(text))
    assert len(tools) == 500
    assert time.process_time() - began < 1


async def test_two_documents_can_live_in_one_client() -> None:
    """[OA-01] `named` gives a tool another name where two have the same."""
    first, second = (openapi_tools(document(PETS, **HOST)) for _ in range(2))
    tools = [*first, *(tool.named(f"other_{tool.name}") for tool in second)]
    async with Client(model=ScriptedModel([]), builtins=False, tools=tools) as client:
        assert client.toolkit.names()[:4] == ["list_pets", "get_pets_petId", "delete_pet", "other_list_pets"]
