"""How values of an OpenAPI operation are written, read back by a real server's own parser."""

from __future__ import annotations

import base64
import json
import re
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.documents import api, body, operation, parameter
from toolnexus.errors import ToolError
from toolnexus.tools.http.template import UrlTemplate

pytestmark = pytest.mark.anyio

COLORS, RGB = ["blue", "black"], {"R": 100, "G": 200}


@pytest.mark.parametrize(
    ("style", "explode", "string", "array", "mapping"),
    [
        ("simple", False, "blue", "blue,black", "R,100,G,200"),
        ("simple", True, "blue", "blue,black", "R=100,G=200"),
        ("label", False, ".blue", ".blue,black", ".R,100,G,200"),
        ("label", True, ".blue", ".blue.black", ".R=100.G=200"),
        ("matrix", False, ";color=blue", ";color=blue,black", ";color=R,100,G,200"),
        ("matrix", True, ";color=blue", ";color=blue;color=black", ";R=100;G=200"),
    ],
)
async def test_styles_of_the_path(style: str, explode: bool, string: str, array: str, mapping: str) -> None:
    """[OA-20] `simple`, `label` and `matrix`, with and without `explode`."""
    told = parameter("color", "path", style=style, explode=explode)
    async with api({"/x/{color}/y": {"get": operation(told)}}) as call:
        for value, written in (("blue", string), (COLORS, array), (RGB, mapping)):
            site = await call(color=value)
            assert site.last.path == f"/x/{written}/y"


@pytest.mark.parametrize(
    ("told", "string", "array", "mapping"),
    [
        ({}, "color=blue", "color=blue&color=black", "R=100&G=200"),
        ({"explode": False}, "color=blue", "color=blue,black", "color=R,100,G,200"),
        ({"style": "spaceDelimited"}, "color=blue", "color=blue%20black", "color=R%20100%20G%20200"),
        ({"style": "pipeDelimited"}, "color=blue", "color=blue%7Cblack", "color=R%7C100%7CG%7C200"),
        ({"style": "pipeDelimited", "explode": True}, "color=blue", "color=blue&color=black", "R=100&G=200"),
        (
            {"style": "deepObject"},
            "color=blue",
            "color=blue&color=black",
            "color%5BR%5D=100&color%5BG%5D=200",
        ),
    ],
)
async def test_styles_of_the_query(told: Any, string: str, array: str, mapping: str) -> None:
    """[OA-21] `form`, `spaceDelimited`, `pipeDelimited`, `deepObject`; what is empty or null is left out."""
    async with api({"/x": {"get": operation(parameter("color", "query", **told))}}) as call:
        for value, written in (("blue", string), (COLORS, array), (RGB, mapping)):
            site = await call(color=value)
            assert site.last.target == f"/x?{written}"
        nothings: list[Any] = [None, [], {}]
        for nothing in nothings:
            assert (await call(color=nothing)).last.target == "/x"
        assert (await call(color="")).last.target == "/x?color="


async def test_deep_objects_nest() -> None:
    """[OA-21] `deepObject` writes every level."""
    async with api({"/x": {"get": operation(parameter("f", "query", style="deepObject"))}}) as call:
        site = await call(f={"a": {"b": [1, True]}, "c&": "=", "d": None})
    assert site.last.query == [("f[a][b]", "1"), ("f[a][b]", "true"), ("f[c&]", "=")]


async def test_reserved_characters_stay_only_where_they_can() -> None:
    """[OA-21] `allowReserved` leaves what cannot end a value; `&`, `=`, `#`, `+` are always encoded."""
    async with api({"/x": {"get": operation(parameter("q", "query", allowReserved=True))}}) as call:
        site = await call(q="a/b:c?d&e=f#g+h i")
    assert site.last.target == "/x?q=a/b:c?d%26e%3Df%23g%2Bh%20i"
    assert site.last.query == [("q", "a/b:c?d&e=f#g+h i")]


async def test_content_is_one_json_text() -> None:
    """[OA-22] In each place a parameter can stand."""
    places = ("path", "query", "header", "cookie")
    told = [{"name": p, "in": p, "content": {"application/json": {"schema": True}}} for p in places]
    value = {"a": [1, "x y"], "b": None}
    async with api({"/x/{path}": {"get": operation(*told)}}) as call:
        site = await call(path=value, query=value, header=value, cookie=value)
    asked = site.last
    texts = [asked.steps[1], asked.query[0][1], asked.headers["header"], unquote(asked.cookies["cookie"])]
    assert [json.loads(text) for text in texts] == [value] * 4


async def test_headers_and_cookies() -> None:
    """[OA-23] Lists and objects in their styles; a line break goes into neither; the host's cookies stay."""
    told = [parameter("X-A", "header", explode=True), parameter("c", "cookie"), parameter("d", "cookie")]
    async with api({"/x": {"get": operation(*told)}}, headers={"cookie": "d=1; host=2"}) as call:
        tool = call.tools.get("call")
        assert tool is not None and list(tool.input_schema["properties"]) == ["X-A", "c"]
        assert (await call(c="3")).last.headers["cookie"] == "d=1; host=2; c=3"
    async with api({"/x": {"get": operation(*told)}}) as call:
        site = await call(**{"X-A": COLORS, "c": "a b;c=d", "d": ["1", "2"]})
        assert site.last.headers["x-a"] == "blue,black"
        assert site.last.headers["cookie"] == "c=a%20b%3Bc=d; d=1; d=2"
        site = await call(**{"X-A": RGB})
        assert site.last.headers["x-a"] == "R=100,G=200"
        for bad in ("a\r\nX-B: 1", "a\0", ["x", "\n"]):
            assert (await call.tried(**{"X-A": bad})).is_error


@pytest.mark.parametrize("value", [[1, "a"], "text", 5, None, {"a": {"b": []}}])
async def test_a_json_body_is_whatever_json_can_be(value: Any) -> None:
    """[OA-24] Objects, arrays, texts, numbers and null, under `body`, in the media type that was told."""
    for kind in ("application/json", "application/vnd.shop+json; charset=utf-8"):
        async with api({"/x": {"post": operation(requestBody=body(kind, True))}}) as call:
            site = await call(body=value)
            assert (json.loads(site.last.body), site.last.headers["content-type"]) == (value, kind)


async def test_a_body_that_is_optional_may_be_left_out() -> None:
    """[OA-24] And then nothing is said of its type; of several types the one that says most is sent."""
    content: dict[str, Any] = {
        "text/plain": {"schema": {}},
        "application/json": {"schema": {"type": "object"}},
    }
    async with api({"/x": {"post": operation(requestBody={"content": content})}}) as call:
        site = await call()
        assert (site.last.body, site.last.headers.get("content-type")) == (b"", None)
        site = await call(body={})
        assert (site.last.body, site.last.headers["content-type"]) == (b"{}", "application/json")


async def test_a_form_body() -> None:
    """[OA-25] Lists are repeated, objects JSON, unless `encoding` says another style."""
    kind, encoding = "application/x-www-form-urlencoded", {"card": {"style": "deepObject", "explode": True}}
    told = body(kind, {"type": "object"}, encoding=encoding)
    async with api({"/x": {"post": operation(requestBody=told)}}) as call:
        site = await call(body={"a": "x&y=z", "l": [1, 2], "o": {"k": "é"}, "card": {"n": 4}, "none": None})
    assert site.last.headers["content-type"] == kind
    fields = parse_qsl(site.last.body.decode(), keep_blank_values=True, strict_parsing=True)
    assert fields == [("a", "x&y=z"), ("l", "1"), ("l", "2"), ("o", '{"k":"é"}'), ("card[n]", "4")]


async def test_a_multipart_body() -> None:
    """[OA-26] Files come in base64 and go as bytes; objects are JSON; names and values stay in their part."""
    file = {"type": "string", "format": "binary", "description": "A photo."}
    members = {
        "note": {"type": "string"},
        "data": {"type": "object"},
        "photo": {"$ref": "#/components/schemas/File"},
        "more": {"type": "array", "items": {"contentMediaType": "image/png"}},
        'odd"\r\nname': {"type": "string"},
    }
    schema = {"type": "object", "properties": members}
    told = body("multipart/form-data", schema, encoding={"photo": {"contentType": "image/png, image/gif"}})
    async with api(
        {"/x": {"post": operation(requestBody=told)}}, {"components": {"schemas": {"File": file}}}
    ) as call:
        shown = call.tools.to_openai()[0]["function"]["parameters"]["properties"]["body"]["properties"]
        assert shown["photo"]["description"] == "A photo. (content in base64)"
        raw = bytes(range(256)) + b"\r\n--x--\r\n"
        packed = base64.b64encode(raw).decode()
        given = {
            "note": "a\r\n--b",
            "data": {"k": 1},
            "photo": packed,
            "more": [packed, packed],
            'odd"\r\nname': "v",
        }
        site = await call(body=given)
        assert (await call.tried(body={"photo": "no base64!"})).is_error
    assert site.parts == [
        ("note", "a\r\n--b"),
        ("data", b'{"k": 1}'),
        ("photo", raw, "image/png", "photo"),
        ("more", raw, "application/octet-stream", "more"),
        ("more", raw, "application/octet-stream", "more"),
        ("odd%22%0D%0Aname", "v"),
    ]


async def test_text_and_binary_bodies() -> None:
    """[OA-27] A text as it is, with whatever type; bytes in base64."""
    for kind in ("text/csv", "application/xml"):
        async with api({"/x": {"post": operation(requestBody=body(kind, {"type": "string"}))}}) as call:
            site = await call(body="a;é\n")
            assert (site.last.body.decode(), site.last.headers["content-type"]) == ("a;é\n", kind)
    for kind, schema in (("image/png", True), ("application/x-own", {"format": "binary"}), ("*/*", {})):
        async with api({"/x": {"put": operation(requestBody=body(kind, schema))}}) as call:
            site = await call(body=base64.b64encode(b"\0\xff").decode())
            assert site.last.body == b"\0\xff"
            assert (await call.tried(body="%%%")).is_error


async def test_the_types_of_a_good_answer_are_asked_for() -> None:
    """[OA-28] In `Accept`: those of the first 2xx response, or of `default`; what the host says wins."""
    types: dict[str, Any] = {"content": {"application/json": {}, "text/csv": {}}}
    answers: list[dict[str, Any]] = [{"404": {"content": {"a/b": {}}}, "200": types}, {"default": types}]
    for responses in answers:
        async with api({"/x": {"get": operation(responses=responses)}}) as call:
            assert (await call()).last.headers["accept"] == "application/json, text/csv"
        async with api({"/x": {"get": operation(responses=responses)}}, headers={"accept": "a/b"}) as call:
            assert (await call()).last.headers["accept"] == "a/b"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NASTY = st.one_of(TEXTS, st.text("/\\.%?#&=;,:@ +{}$\"'<>|~\0\r\né", max_size=12))
FAST = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)


@FAST
@given(NASTY, NASTY)
def test_a_placeholder_never_escapes_its_place(one: str, two: str) -> None:
    """[HTTP-02] Whatever the values, host, depth and query are those of the template, and both come back."""
    template = UrlTemplate("https://api.test:8443/v1/{one}/x-{two}/end?q={two}&k=1", "url")
    try:
        address = template.fill({"one": one, "two": two})
    except ToolError:
        pieces = [p.partition(";")[0].strip() for p in one.replace("\\", "/").split("/")]
        others = [p.partition(";")[0].strip() for p in f"x-{two}".replace("\\", "/").split("/")]
        assert not one or {".", ".."} & {*pieces, *others}
        return
    from yarl import URL

    url = URL(address, encoded=True)
    assert (url.scheme, url.host, url.port, url.fragment) == ("https", "api.test", 8443, "")
    assert [unquote(step) for step in url.raw_path.split("/")] == ["", "v1", one, f"x-{two}", "end"]
    assert parse_qsl(url.raw_query_string, keep_blank_values=True) == [("q", two), ("k", "1")]


def _stays(text: str) -> bool:
    """Whether a value of a path leads nowhere else; one that does is refused."""
    return not {".", ".."} & {step.partition(";")[0].strip() for step in re.split(r"[/\\]", text)}


VALUES = st.fixed_dictionaries(
    {
        "a": NASTY.filter(_stays),
        "b": st.lists(NASTY, min_size=1, max_size=3),
        "c": st.dictionaries(st.sampled_from(["x", "y&", "z=", "é"]), NASTY, min_size=1),
        "d": NASTY,
        "body": st.dictionaries(NASTY, NASTY, max_size=3),
    }
)


async def test_what_is_written_is_read_back_by_a_server() -> None:
    """[OA-29] Path, query, cookie and form, for any text: the server's own parser finds the same values."""
    told = [
        parameter("a", "path", style="matrix"),
        parameter("b", "query", {"type": "array"}),
        parameter("c", "query", {"type": "object"}, style="deepObject"),
        parameter("d", "cookie", {"type": "string"}),
    ]
    form = body("application/x-www-form-urlencoded", {"type": "object"})
    examples: list[dict[str, Any]] = []

    @FAST
    @given(VALUES)
    def collect(value: dict[str, Any]) -> None:
        examples.append(value)

    collect()
    async with api({"/x/{a}/y": {"post": operation(*told, requestBody=form)}}) as call:
        for value in examples:
            asked = (await call(**value)).last
            assert asked.steps == ["x", f";a={value['a']}", "y"]
            deep = [(f"c[{key}]", text) for key, text in value["c"].items()]
            assert asked.query == [*(("b", text) for text in value["b"]), *deep]
            assert unquote(asked.headers["cookie"].removeprefix("d=")) == value["d"]
            assert parse_qsl(asked.body.decode(), keep_blank_values=True) == list(value["body"].items())
