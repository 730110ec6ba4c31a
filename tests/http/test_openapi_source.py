"""`openapi_tools` of a URL: fetched when the client opens, and never more trusted than its host."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.builtins.websites import always, endless, site, streaming
from tests.cli.helpers import cli
from tests.http.documents import body, document, operation, parameter
from tests.http.site import Site, recording
from toolnexus import Agent, Client, ConfigError, SourceError, ToolSource, http_tool, openapi_tools
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

PATHS: dict[str, Any] = {
    "/orders/{number}": {"get": operation(parameter("number", "path", {"type": "integer"}))}
}


@asynccontextmanager
async def serving(told: Mapping[str, Any] | str) -> AsyncGenerator[Site]:
    """A server that gives this document under /api, and `fine` elsewhere."""
    text = told if isinstance(told, str) else json.dumps(told)

    async def handler(request: web.Request) -> web.StreamResponse:
        return await always(text if request.path == "/api" else "fine")(request)

    async with recording(handler) as found:
        yield found


def opened(*tools: Any, **options: Any) -> Client:
    return Client(model=ScriptedModel([]), builtins=False, tools=tools, **options)


async def test_the_document_is_fetched_when_the_client_opens() -> None:
    """[OA-14] Its servers are relative to its address; JSON and YAML; it may be opened again."""
    dump: Any = vars(yaml)["safe_dump"]
    whole = document(PATHS, servers=[{"url": "/v1"}])
    for text in (json.dumps(whole), dump(whole)):
        async with serving(text) as s:
            source = openapi_tools(s.url + "/api?version=1")
            assert isinstance(source, ToolSource) and list(source) == [source]
            assert (source.name, list(source.tools), s.asked) == (s.url + "/api", [], [])
            for tools in ([source], [*source]):
                async with opened(*tools) as client:
                    assert client.toolkit.names() == ["call"]
                    assert (await client.toolkit.execute("call", {"number": 7})).output == "fine"
                assert [asked.target for asked in s.asked[-2:]] == ["/api?version=1", "/v1/orders/7"]
                assert list(source.tools) == []


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("<html>", "an OpenAPI document is an object"),
        ('{"swagger": "2.0"}', "it is Swagger 2.0"),
        (document({"/{a}": {"get": operation()}}), "the path holds {a}"),
        (document({}), "there is no operation"),
    ],
)
async def test_a_broken_document_costs_only_its_tools(
    told: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """[OA-15] The client goes on without them; the reason is in the log and in `source_failures`."""
    async with serving(told) as s:
        other = http_tool(name="other", description="Other.", url=s.url)
        agent = Agent(name="a", tools=["call", "other"])
        async with opened(other, *openapi_tools(s.url + "/api"), agents=[agent]) as client:
            assert client.toolkit.names() == ["other", "task"]
            assert says in client.source_failures[s.url + "/api"] and says in caplog.text
            assert not (await client.toolkit.execute("other")).is_error
        source: Any = openapi_tools(s.url + "/api")
        with pytest.raises(SourceError, match="api"):
            await source.open(lambda: None)


async def test_a_server_that_does_not_give_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """[OA-15] Nobody there, a bad status, too long, too slow; without the keys that were sent."""
    monkeypatch.setattr("toolnexus.tools.http.exchange.MAX_BODY", 10_000)
    gone = asyncio.Event()

    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=401, text=f"not with {request.headers['X-Key']} {request.query_string}")

    async def reason(url: str, **options: Any) -> str:
        async with opened(openapi_tools(url, **options)) as client:
            (found,) = client.source_failures.values()
            return found

    assert "Connection refused" in await reason("http://127.0.0.1:9/api")
    async with site(echo) as url:
        found = await reason(url + "/api?api_key=secret-012345", headers={"X-Key": "key-0123456"})
        assert "HTTP 401: not with" in found and "0123456" not in found and "secret-012345" not in found
    async with site(streaming(endless(b"x" * 1000, [0]), gone)) as url:
        assert "more than 10000 bytes" in await reason(url)
    async with site(streaming(endless(b" ", [0]), gone, pause=1)) as url:
        assert "within 0.1 s" in await reason(url, timeout=0.1)


async def test_what_is_broken_in_a_document_from_elsewhere_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[OA-16] With a warning that names it; the other operations are there."""
    broken: dict[str, Any] = {
        "/x": {"post": {"operationId": "x", "requestBody": body("application/json", {"$ref": "#/gone"})}}
    }
    async with serving(document({**PATHS, **broken})) as s:
        async with opened(openapi_tools(s.url + "/api")) as client:
            assert client.toolkit.names() == ["call"] and client.source_failures == {}
    assert "$ref '#/gone' leads nowhere" in caplog.text
    async with serving(document(PATHS)) as s:
        with pytest.raises(ConfigError, match="did you mean 'call'"):
            async with opened(openapi_tools(s.url + "/api", filter=["cal"])):
                pass


async def test_a_document_from_elsewhere_does_not_say_where_keys_go() -> None:
    """[OA-17] Its servers count at its own origin only; else `base_url` leads, and keys go only there."""
    async with recording() as thief, recording() as own:
        async with serving(document(PATHS, servers=[{"url": thief.url}])) as s:
            source = openapi_tools(s.url + "/api", headers={"X-Key": "key-0123456"})
            async with opened(source) as client:
                (found,) = client.source_failures.values()
                assert (
                    f"is not where the document is from; if that is right, give base_url='{thief.url}'"
                    in found
                )
            source = openapi_tools(s.url + "/api", base_url=own.url, headers={"X-Key": "key-0123456"})
            async with opened(source) as client:
                await client.toolkit.execute("call", {"number": 1})
            assert "x-key" not in s.last.headers and own.last.headers["x-key"] == "key-0123456"
        near = {"/orders": {"servers": [{"url": thief.url}], "get": operation()}}
        async with serving(document(near)) as s, opened(openapi_tools(s.url + "/api")) as client:
            assert client.toolkit.names() == [] and s.url + "/api" in client.source_failures
    assert thief.asked == []


async def test_keys_of_a_source_are_masked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[OA-17] In what its operations say, in what other tools say, and in every log."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("THE_KEY", "key-0123456")

    def look() -> str:
        """Look."""
        return "found key-0123456"

    async with serving(document(PATHS)) as s:
        source = openapi_tools(s.url + "/api?token=${THE_KEY}", headers={"X-Key": "${THE_KEY}"})
        model = ScriptedModel([reply("", call("look"), call("call", number=1)), "end"])
        async with Client(model=model, builtins=False, tools=[look, *source]) as client:
            result = await client.ask("go")
    assert result.messages[2].tool_results[0].output == "found [redacted]"
    assert "0123456" not in caplog.text + repr(source)


def test_the_command_line_lists_the_tools_of_a_document(tmp_path: Path) -> None:
    """[OA-18] `--openapi` takes files and URLs; one that cannot be had is named, with exit code 3."""
    (tmp_path / "api.json").write_text(json.dumps(document(PATHS, servers=[{"url": "http://127.0.0.1:9"}])))
    away = "http://127.0.0.1:9/api"
    done = cli(tmp_path, "tools", "--openapi", "api.json", "--openapi", away, "--no-builtins")
    assert done.returncode == 3, done.stderr
    assert done.stdout.splitlines()[:2] == ["http Shop", "  call  GET /orders/{number}"]
    assert done.stderr.startswith(f"missing: source '{away}': ") and "Connection refused" in done.stderr


def test_importing_loads_no_third_party() -> None:
    """[OA-19] Nor does making tools of a mapping, or a source; YAML is loaded by a text in YAML."""
    program = (
        "import sys, toolnexus\n"
        "d = {'openapi': '3.1.0', 'paths': {'/x': {'get': {}}}}\n"
        "toolnexus.openapi_tools(d, base_url='http://x')\n"
        "toolnexus.openapi_tools('http://x/api')\n"
        "toolnexus.http_tool(name='a', description='b', url='http://x')\n"
        "print([m for m in ('aiohttp', 'yaml', 'jsonschema', 'pydantic', 'mcp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
