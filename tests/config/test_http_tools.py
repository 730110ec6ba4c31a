"""`openapi` and `http` of a document: the options of `openapi_tools` and `http_tool`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.config.helpers import refusal, write
from tests.http.documents import document, operation, parameter
from tests.http.site import recording
from toolnexus import ConfigError, load
from toolnexus.config import Document
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ORDERS = document({"/orders/{id}": {"get": operation(parameter("id", "path", {"type": "integer"}))}})


def lookup() -> str:
    """Look something up."""
    return "found"


async def test_apis_and_requests_are_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CFG-32] With keys of the environment, beside the tools of the host."""
    monkeypatch.setenv("SHOP_KEY", "key-0123456")
    (tmp_path / "shop.json").write_text(json.dumps(ORDERS))
    async with recording() as site:
        monkeypatch.setenv("SHOP_URL", site.url)
        told: dict[str, Any] = {
            "model": "openai:gpt-5-mini",
            "builtins": False,
            "openapi": [
                {
                    "document": "shop.json",
                    "base_url": "${env:SHOP_URL}/v1?key=${SHOP_KEY}",
                    "headers": {"Authorization": "Bearer ${env:SHOP_KEY}"},
                    "filter": {"other*": False},
                    "timeout": 5,
                }
            ],
            "http": [
                {"name": "ping", "description": "Pings.", "url": "${SHOP_URL}/{who}", "resultMode": "json"}
            ],
        }
        for suffix in (".toml", ".yaml"):
            path = write(tmp_path, told, suffix)
            async with load(path, model=ScriptedModel([]), tools=[lookup]) as client:
                assert client.toolkit.names() == ["ping", "call", "lookup"]
                assert (await client.toolkit.execute("ping", {"who": "me"})).output == '"fine"'
                assert (await client.toolkit.execute("call", {"id": 5})).output == "fine"
            assert site.last.target == "/v1/orders/5?key=key-0123456"
            assert site.last.headers["authorization"] == "Bearer key-0123456"
            assert "key-0123456" not in repr(Document.read(path).options())


async def test_a_document_of_a_url_is_a_source_of_each_client(tmp_path: Path) -> None:
    """[CFG-32] Nothing is fetched by reading; two clients of one document do not share what is open."""
    async with recording() as site:
        read = Document.read(write(tmp_path, {"openapi": [{"url": site.url + "/api.json"}]}))
        assert site.asked == []
        left, right = (read.client(model=ScriptedModel([])) for _ in range(2))
        async with left, right:
            assert len(site.asked) == 2
            assert list(left.source_failures) == [site.url + "/api.json"]


def test_what_is_wrong_is_told_with_the_rest(tmp_path: Path) -> None:
    """[CFG-32] A line for each finding, with its place in the list; no key is in one."""
    broken = document({"/{a}": {"get": {}}, "/{b}": {"get": {}}}, servers=[{"url": "https://x.test"}])
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    ok = {"name": "a", "description": "x", "url": "http://x"}
    lines = refusal(
        write(
            tmp_path,
            {"openapi": [{"url": "http://x"}, {"document": "broken.json"}], "http": [{**ok, "url": ""}]},
        )
    )
    assert [line.partition(" the path")[0] for line in lines] == [
        "http[0].url: it must not be empty",
        f"openapi[1]: {tmp_path}/broken.json: paths['/{{a}}'].get:",
        f"openapi[1]: {tmp_path}/broken.json: paths['/{{b}}'].get:",
    ]
    rest: list[dict[str, Any]] = [
        {"openapi": [{}]},
        {"openapi": [{"document": "broken.json", "url": "http://x"}]},
        {"openapi": [{"url": "x.test"}]},
        {"openapi": [{"url": "http://x", "base_url": "nowhere"}]},
        {"openapi": [{"url": "http://x", "headers": {"A": "${oops oops}"}}]},
        {"http": [{**ok, "name": "a b"}]},
        {"openapi": [{"url": "http://x", "fliter": []}]},
        {"http": [{"name": "a", "url": "http://x"}]},
    ]
    said = [refusal(write(tmp_path, one))[0] for one in rest]
    assert said[0] == said[1] == "openapi[0]: give either 'document', the path of a file, or 'url'"
    assert said[2] == "openapi[0].url: it must begin with http:// or https://"
    assert said[3].startswith("openapi[0]: http://x: base_url must begin with http")
    assert "is no variable" in said[4]
    assert said[5].startswith("http[0]: tool name 'a b' is not allowed")
    assert said[6].startswith("openapi[0].fliter: unknown key; did you mean 'filter'?")
    assert said[7] == "http[0].description: missing"


def test_what_the_surroundings_lack_is_an_error_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CFG-32] A file that is not there, a variable that is not set."""
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    told = {"openapi": [{"document": "gone.yaml", "headers": {"A": "${NOT_SET_HERE}"}}]}
    read = Document.read(write(tmp_path, told))
    assert len(read.lacking()) == 2
    for tools in ({}, {"tools": [lookup]}):
        with pytest.raises(ConfigError, match="there is no file"):
            load(tmp_path / "toolnexus.toml", model=ScriptedModel([]), **tools)
    read.client(model=ScriptedModel([]), tools=[lookup]).close()
