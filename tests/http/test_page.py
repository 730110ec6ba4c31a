"""docs/http.md: what it shows runs, what it lists is there."""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.http.site import recording
from toolnexus import Client, http_tool, load, openapi_tools
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "http.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with the document that the page names."""
    shutil.copy(ROOT / "examples" / "openapi" / "shop.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    monkeypatch.setenv("WEATHER_KEY", "key-0123456")
    monkeypatch.setenv("SHOP_KEY", "key-0123456")
    return tmp_path


async def test_the_programs_of_the_page_run(project: Path) -> None:
    """[HTTP-18] Against a server of ours in the place of theirs: each tool sends what the page says."""
    single, post, document, remote = blocks("python")
    async with recording() as site:

        def run(code: str) -> dict[str, Any]:
            names: dict[str, Any] = {}
            exec("from toolnexus import *\n" + re.sub(r"https://\w+\.example\.com", site.url, code), names)
            return names

        names = run(single) | run(post)
        async with Client(model=ScriptedModel([]), tools=[names["weather"], names["order"]]) as client:
            await client.toolkit.execute("weather", {"city": "a/b c?#", "day": "1"})
            assert site.last.target == "/v1/a%2Fb%20c%3F%23?lang=en&day=1"
            assert site.last.headers["authorization"] == "Bearer key-0123456"
            await client.toolkit.execute("order", {"shop": "s", "article": "tea", "amount": 1})
            assert (site.last.target, site.last.body) == ("/s/orders", b'{"article": "tea", "amount": 1}')
        names = run(document)
        async with Client(model=ScriptedModel([]), builtins=False, tools=names["tools"]) as client:
            assert client.toolkit.names() == ["listArticles", "order"]
            await client.toolkit.execute("listArticles", {"search": ["tea"]})
            assert (site.last.target, site.last.headers["x-shop-key"]) == (
                "/v1/articles?search=tea",
                "key-0123456",
            )
        names = run(remote)
        async with Client(model=ScriptedModel([]), tools=[names["shop"]]) as client:
            assert list(client.source_failures) == [f"{site.url}/openapi.json"]


def test_the_document_of_the_page_loads(project: Path) -> None:
    """[HTTP-18] And gives the tools that it says."""
    (text,) = blocks("toml")
    (project / "toolnexus.toml").write_text(text)
    with load(project / "toolnexus.toml", model=ScriptedModel([]), builtins=False) as client:
        assert client.toolkit.names() == ["weather", "listArticles", "order"]


def test_the_page_names_every_option() -> None:
    """[HTTP-18] Of both functions."""
    for function in (http_tool, openapi_tools):
        for name in inspect.signature(function).parameters:
            assert f"`{name}`" in PAGE or name in ("name", "description", "document")
