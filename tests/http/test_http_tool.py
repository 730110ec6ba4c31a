"""`http_tool`: where arguments go, who gets the keys, what comes back."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.builtins.websites import always, endless, raw_site, site, streaming
from tests.http.site import recording
from tests.media.files import pdf, png
from toolnexus import Agent, Client, ConfigError, HttpTool, ToolResult, http_tool
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

KEY = "sk-the-key-0123"
ELSEWHERE: tuple[Any, ...] = (
    "",
    ".",
    "..",
    "a/../b",
    "../../admin",
    "..\\x",
    "..;a=b",
    " .. ",
    None,
    [1],
    {},
)


def made(url: str, **options: Any) -> HttpTool:
    given: dict[str, Any] = {"name": "api", "description": "Calls it.", "url": url, **options}
    return http_tool(**given)


async def used(tool: HttpTool, **arguments: Any) -> ToolResult:
    """One call, as the client's toolkit makes it."""
    async with Client(model=ScriptedModel([]), builtins=False, tools=[tool]) as client, asyncio.timeout(20):
        return await client.toolkit.execute("api", arguments)


async def test_a_placeholder_is_percent_encoded_where_it_stands() -> None:
    """[HTTP-01] In the path and in the query, and all else of the address stays as it was written."""
    async with recording() as s:
        tool = made(s.url + "/v1/{name}/x%2Fy/ü?q={q}&fixed=a+b%20c")
        result = await used(tool, name="a/b c?#", q="1&2=3 #")
    assert (result.output, result.metadata["status"]) == ("fine", 200)
    assert s.last.target == "/v1/a%2Fb%20c%3F%23/x%2Fy/%C3%BC?q=1%262%3D3%20%23&fixed=a+b%20c"
    assert s.last.steps[1] == "a/b c?#"


@pytest.mark.parametrize(
    "value", ["", ".", "..", "a/../b", "../../admin", "..\\x", "..;a=b", " .. ", None, [1], {}]
)
async def test_a_value_that_would_lead_elsewhere_is_refused(value: Any) -> None:
    """[HTTP-02] Servers fold `..` encoded or not; an empty step would name the whole collection."""
    async with recording() as s:
        tool = made(s.url + "/pets/{id}", method="DELETE", input_schema={"properties": {"id": {}}})
        result = await used(tool, id=value)
    assert result.is_error and "'id'" in result.output
    assert s.asked == []


async def test_get_puts_the_rest_into_the_query_and_post_into_the_body() -> None:
    """[HTTP-03] `query` names what goes into the query, `body` how the rest is sent; None goes nowhere."""
    open_schema = {"type": "object"}
    values = {"a": "x y", "n": 1000.0, "b": True, "many": ["1", "&2"], "none": None}
    async with recording() as s:
        await used(made(s.url, input_schema=open_schema), **values)
        assert s.last.target == "/?a=x%20y&n=1000&b=true&many=1&many=%262"
        post = {"method": "post", "query": ["a"], "input_schema": open_schema}
        await used(made(s.url, **post), a="1", b={"c": [None]}, d="é")
        assert (s.last.target, json.loads(s.last.body)) == ("/?a=1", {"b": {"c": [None]}, "d": "é"})
        assert s.last.headers["content-type"] == "application/json"
        await used(made(s.url, **post, body="form"), b="&=", c=[1, 2])
        assert s.last.body == b"b=%26%3D&c=1&c=2"
        assert s.last.headers["content-type"] == "application/x-www-form-urlencoded"
        await used(made(s.url, **post, body="raw", headers={"Content-Type": "text/csv"}), body="a;ü")
        assert (s.last.body.decode(), s.last.headers["content-type"]) == ("a;ü", "text/csv")
        await used(made(s.url, **post), a="1")
        assert (s.last.body, "content-type" in s.last.headers) == (b"", False)


async def test_without_a_schema_the_placeholders_and_names_are_texts() -> None:
    """[HTTP-04] A placeholder is required, whatever the given schema says; unknown arguments are refused."""
    tool = made("http://x.test/{id}", query=["q"])
    assert tool.input_schema == {
        "type": "object",
        "properties": {"id": {"type": "string"}, "q": {"type": "string"}},
        "additionalProperties": False,
        "required": ["id"],
    }
    given = made("http://x.test/{id}", input_schema={"properties": {"id": {"type": "integer"}}})
    assert given.input_schema["required"] == ["id"]
    assert "id: required" in (await used(tool, q="1")).output
    assert "other: unknown" in (await used(tool, id="1", other="2")).output


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "ftp://x.test/"}, "must begin with http:// or https://"),
        ({"url": "/relative"}, "must begin with http:// or https://"),
        ({"url": "https://{tenant}.x.test/"}, "not in the host"),
        ({"url": "https://x.test{path}"}, "not in the host"),
        ({"url": "https://u:pass-word@x.test/"}, "user name or password"),
        ({"url": "https://x.test/a#b"}, "behind '#'"),
        ({"url": "https://x.test:port/"}, "no valid address"),
        ({"url": "https://x.test/{}"}, "needs a name"),
        ({"url": "https://x.test/{a"}, "a brace without its partner"),
        ({"url": "https://x.test/${A}/"}, "${NAME} may stand in values of the query"),
        ({"url": 5}, "must be a text"),
        ({"method": "FETCH"}, "allowed are 'GET'"),
        ({"body": "xml"}, "allowed are 'json', 'form', 'raw'"),
        ({"body": "form"}, "a GET request has none"),
        ({"result_mode": "txt"}, "did you mean 'text'"),
        ({"timeout": 0}, "more than 0"),
        ({"timeout": "5"}, "a number of seconds"),
        ({"query": "q"}, "query=['q']"),
        ({"query": [None]}, "it holds the names of arguments"),
        ({"query": [["q"]]}, "it holds the names of arguments"),
        ({"query": ["id"], "url": "https://x.test/{id}"}, "keep one"),
        ({"headers": {"X": "a\nb"}}, "control character"),
        ({"headers": {"X": 5}}, "must be texts"),
        ({"headers": {"X": "${oops oops}"}}, "is no variable"),
        ({"headers": {"X": "${command:pick}"}}, "only an editor fills in"),
        ({"description": ""}, "say what it does"),
        ({"name": "a b"}, "is not allowed"),
        ({"url": "https://x.test/{idd}", "input_schema": {"properties": {"id": {}}}}, "did you mean 'id'"),
        ({"query": ["q"], "input_schema": {"properties": {"id": {}}}}, "'q' of the query is no property"),
        ({"input_schema": []}, "give a JSON Schema"),
        ({"input_schema": {"default": {1, 2}}}, "is no JSON"),
        ({"input_schema": {"default": float("inf")}}, "is no JSON"),
        ({"query": ["q"], "input_schema": {"properties": {1: {}}}}, "'q' of the query is no property"),
        (
            {"method": "POST", "body": "raw", "input_schema": {"properties": {"body": {}, "z": {}}}},
            "only 'body' is sent",
        ),
    ],
)
def test_what_is_wrong_is_told_where_it_is_written(options: dict[str, Any], says: str) -> None:
    """[HTTP-05] A `ConfigError` that names the tool and the option; no value of a header, no password."""
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        made(options.pop("url", "https://x.test/"), **options)
    assert "pass-word" not in str(caught.value)


async def test_keys_are_looked_up_late_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[HTTP-06] A server that echoes them reaches neither transcript nor events, logs or errors with them."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.delenv("THE_KEY", raising=False)

    async def echo(request: web.Request) -> web.Response:
        told = {**request.headers, "q": request.query_string, "p": request.query.get("key", "")}
        return web.json_response(told, status=200 if "ok" in request.path else 500)

    async with recording(echo) as s:
        url = s.url + "/{how}?key=${OTHER_KEY}&api_key=literal-0123"
        tool = made(url, headers={"Authorization": "Bearer ${THE_KEY}", "X-Plain": "team"})
        model = ScriptedModel([reply("", call("api", how="ok"), call("api", how="bad")), "end"])
        async with Client(model=model, builtins=False, tools=[tool]) as client:
            monkeypatch.setenv("OTHER_KEY", "other key/0123")
            unset = await client.toolkit.execute("api", {"how": "ok"})
            monkeypatch.setenv("THE_KEY", KEY)
            async with client.stream("go") as stream:
                events = [json.dumps(event.to_json()) async for event in stream]
    assert unset.is_error and "'THE_KEY', which is not set" in unset.output
    assert s.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert dict(s.asked[0].query) == {"key": "other key/0123", "api_key": "literal-0123"}
    told = [*events, str(stream.result.messages), caplog.text, repr(tool), json.dumps(tool.input_schema)]
    for secret in (KEY, "other key/0123", "other%20key%2F0123", "literal-0123"):
        assert not any(secret in text for text in told)
    assert "team" in str(stream.result.messages) and "HTTP 500: " in str(stream.result.messages)


async def test_the_keys_of_a_tool_of_one_agent_are_masked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """[HTTP-06] Also in what another tool says, before the key was ever used."""
    monkeypatch.setenv("THE_KEY", KEY)

    def look() -> str:
        """Look."""
        return f"found {KEY}"

    agent = Agent(name="a", tools=[made("http://x.test/", headers={"X": "${THE_KEY}"})])
    model = ScriptedModel([reply("", call("look")), "end"])
    async with Client(model=model, builtins=False, tools=[look], agents=[agent]) as client:
        result = await client.ask("go")
    assert result.messages[2].tool_results[0].output == "found [redacted]"


async def test_a_bad_status_is_an_error_with_what_the_server_said() -> None:
    """[HTTP-07] Bounded; without a body the reason; of a binary body only what it is."""
    async with site(always("no such pet", status=404)) as url:
        result = await used(made(url))
        assert (result.output, result.is_error, result.metadata["status"]) == (
            "HTTP 404: no such pet",
            True,
            404,
        )
    async with site(always("x" * 100_000, status=500)) as url:
        assert len((await used(made(url))).output) < 4_100
    async with site(always(status=403)) as url:
        assert (await used(made(url))).output == "HTTP 403: Forbidden"
    async with site(always(png(2, 2), "image/png", 502)) as url:
        assert re.fullmatch(r"HTTP 502: \[image/png, \d+ bytes\]", (await used(made(url))).output)
    async with site(always(status=304)) as url:
        assert (await used(made(url))).is_error


async def test_result_modes() -> None:
    """[HTTP-08] `json` is one line of JSON, `status+text` has the status first, `text` says when empty."""
    async with site(always('{"a":\n [1, "ü"]}', "application/json", 201)) as url:
        assert (await used(made(url))).output == '{"a":\n [1, "ü"]}'
        assert (await used(made(url, result_mode="json"))).output == '{"a":[1,"ü"]}'
        assert (await used(made(url, result_mode="status+text"))).output == '201\n{"a":\n [1, "ü"]}'
    async with site(always("no json")) as url:
        assert (await used(made(url, result_mode="json"))).output == '"no json"'
    async with site(always(status=204)) as url:
        assert (await used(made(url))).output == "[HTTP 204, no content]"
        assert (await used(made(url, method="HEAD"))).output == "[HTTP 204, no content]"
    async with site(always("é".encode("latin-1"), "text/plain; charset=latin-1")) as url:
        assert (await used(made(url))).output == "é"


async def test_images_and_files_are_parts() -> None:
    """[HTTP-09] A model sees what it can look at; other binaries are kept in a file that the result names."""
    async with site(always(png(2, 3), "application/octet-stream")) as url:
        result = await used(made(url))
        assert [part.mime_type for part in result.parts] == ["image/png"]
    async with site(always(pdf(), "application/pdf")) as url:
        assert [part.mime_type for part in (await used(made(url))).parts] == ["application/pdf"]
    async with site(always(b"PK\3\4\0\0binary", "application/zip")) as url:
        async with Client(model=ScriptedModel([]), builtins=False, tools=[made(url)]) as client:
            result = await client.toolkit.execute("api")
            assert Path(result.metadata["mediaPaths"][0]).read_bytes() == b"PK\3\4\0\0binary"
            assert result.parts == ()


async def test_a_body_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """[HTTP-10] Bounded in bytes: a text is cut with a note, JSON and files are errors."""
    monkeypatch.setattr("toolnexus.tools.http.exchange.MAX_BODY", 100_000)
    gone, sent = asyncio.Event(), [0]
    async with site(streaming(endless(b"x" * 10_000, sent), gone)) as url:
        result = await used(made(url))
        assert not result.is_error and result.output.endswith("[cut after 100000 bytes: the answer goes on]")
        assert sent[0] < 20_000_000
        await gone.wait()
        assert (await used(made(url, result_mode="json"))).is_error
    async with site(streaming(endless(b"\0" * 10_000, sent), gone)) as url:
        assert "too many" in (await used(made(url))).output


async def test_no_answer_is_an_error_within_the_timeout() -> None:
    """[HTTP-11] Nobody there, a server that hangs or breaks off: an error that names host and reason."""
    gone = asyncio.Event()

    async def hang(request: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            gone.set()
            raise
        return web.Response()

    async with site(hang) as url:
        result = await used(made(url, timeout=0.1))
        assert result.output == "no whole answer from '127.0.0.1' within 0.1 s"
        await gone.wait()
    assert (
        "no answer from '127.0.0.1': Connection refused" in (await used(made("http://127.0.0.1:9/"))).output
    )
    async with raw_site(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf") as url:
        assert (await used(made(url))).is_error
    async with raw_site(b"nonsense\r\n\r\n") as url:
        assert (await used(made(url))).is_error


async def test_a_cancel_closes_the_socket() -> None:
    """[HTTP-12] In the middle of an answer, too."""
    gone, begun = asyncio.Event(), asyncio.Event()

    def chunks() -> Any:
        for n in range(1000):
            if n:
                begun.set()
            yield b"x"

    async with site(streaming(chunks(), gone, pause=0.01)) as url:
        async with Client(model=ScriptedModel([]), builtins=False, tools=[made(url)]) as client:
            task = asyncio.create_task(client.toolkit.execute("api"))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(5):
                await gone.wait()


def leading(target: Callable[[], str], status: int = 302) -> Any:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/end":
            return web.Response(text="here")
        return web.Response(status=status, headers={"Location": target()})

    return handler


async def test_keys_never_follow_a_redirect_to_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """[HTTP-13] Nor do cookies, query values and arguments; coming back does not bring them back."""
    keys = {"Authorization": f"Bearer {KEY}", "Cookie": "sid=0123456"}
    where = [""]
    async with recording(leading(lambda: where[0])) as other, recording(leading(lambda: other.url)) as home:
        where[0] = "/end"
        result = await used(made(home.url + "/?api_key=key-01234", headers=keys))
        assert result.output == "here"
        where[0] = home.url + "/end"
        assert (await used(made(home.url, headers=keys))).output == "here"
    assert home.asked[0].headers["authorization"] == f"Bearer {KEY}"
    for asked in (*other.asked, home.last):
        assert not {"authorization", "cookie"} & asked.headers.keys()
        assert asked.query == []


@pytest.mark.parametrize(
    ("status", "method", "sent"),
    [
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (301, "HEAD", "HEAD"),
    ],
)
async def test_a_redirect_on_the_same_host_is_followed(status: int, method: str, sent: str) -> None:
    """[HTTP-14] Method and body as HTTP has it, keys included."""
    body = {} if method == "HEAD" else {"a": "1"}
    async with recording(leading(lambda: "/end", status)) as s:
        tool = made(s.url, method=method, headers={"X-Key": KEY}, input_schema={"type": "object"})
        await used(tool, **body)
    assert (s.last.method, s.last.path, s.last.headers["x-key"]) == (sent, "/end", KEY)
    assert s.last.body == (b'{"a": "1"}' if sent in ("POST", "PUT") else b"")


async def test_what_a_redirect_may_not_do() -> None:
    """[HTTP-15] Carry a body to another host, reach a private address, go on for ever, leave HTTP."""
    async with recording() as other, site(leading(lambda: other.url, 307)) as home:
        result = await used(made(home, method="POST", input_schema={"type": "object"}), a="1")
        assert result.is_error and "HTTP 307" in result.output and other.asked == []
    for target, says in (
        ("http://10.0.0.1/", "private"),
        ("http://169.254.169.254/", "link-local"),
        ("file:///etc/passwd", "must begin with http"),
        ("http://u:p@127.0.0.1/", "user name"),
        ("/again", "more than 5 redirects"),
    ):
        async with site(leading(lambda target=target: target)) as home:
            result = await used(made(home))
            assert result.is_error and says in result.output, result.output


async def test_the_connections_of_a_client_are_used_again() -> None:
    """[HTTP-16] One pool for all its tools; outside of a client a call has connections of its own."""
    ports = set[Any]()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        return web.Response(text="fine")

    async with site(handler) as url:
        tools = [made(url, name="one"), made(url, name="two")]
        async with Client(model=ScriptedModel([]), builtins=False, tools=tools) as client:
            for name in ("one", "two", "one"):
                assert (await client.toolkit.execute(name)).output == "fine"
        assert len(ports) == 1
        from toolnexus import Toolkit

        assert (await Toolkit(tools).execute("one")).output == "fine"


@pytest.mark.parametrize(
    ("method", "repeats"),
    [("GET", True), ("HEAD", True), ("put", True), ("DELETE", True), ("POST", False), ("PATCH", False)],
)
def test_what_may_run_again_after_a_crash(method: str, repeats: bool) -> None:
    """[HTTP-17] `idempotent` as HTTP has it."""
    assert made("http://x.test/", method=method).idempotent is repeats


async def test_a_packed_body_is_unpacked_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """[HTTP-10] What is small on the wire may be large."""
    import zlib

    pack = zlib.compressobj(wbits=31)
    data = pack.compress(b"x" * 20_000_000) + pack.flush()
    async with site(always(data, "text/plain", Content_Encoding="gzip")) as url:
        result = await used(made(url))
    assert result.is_error or "[cut after" in result.output
