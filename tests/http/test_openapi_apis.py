"""Whole documents, of the shapes that the examples of the OpenAPI initiative have."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from tests.http.site import Site, recording
from toolnexus import Tool, Toolkit, openapi_tools

pytestmark = pytest.mark.anyio

APIS = Path(__file__).parent / "apis"

CALLS: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "orchard": [
        ("listTrees", {"limit": 5}, "GET /v1/trees?limit=5"),
        ("listTrees", {}, "GET /v1/trees"),
        ("plantTrees", {"body": {"id": 1, "kind": "pear"}}, 'POST /v1/trees {"id": 1, "kind": "pear"}'),
        ("showTree", {"treeId": "a/b"}, "GET /v1/trees/a%2Fb"),
    ],
    "cellar": [
        ("findBottles", {"tags": ["red", "dry"], "limit": 2}, "GET /api/bottles?tags=red&tags=dry&limit=2"),
        (
            "addBottle",
            {"body": {"name": "Ahr", "year": None}},
            'POST /api/bottles {"name": "Ahr", "year": null}',
        ),
        ("find_bottle_by_id", {"id": 7}, "GET /api/bottles/7"),
        ("drinkBottle", {"id": 7}, "DELETE /api/bottles/7"),
    ],
    "archive": [
        ("list-sets", {}, "GET /archive/"),
        ("list-fields", {"set": "maps", "version": "v1"}, "GET /archive/maps/v1/fields"),
        (
            "search",
            {"set": "maps", "version": "v1", "body": {"criteria": "*:*", "rows": 3}},
            "POST /archive/maps/v1/records criteria=%2A%3A%2A&rows=3",
        ),
    ],
    "parcels": [
        ("getSender", {"sender": "ann"}, "GET /1.0/senders/ann"),
        ("getParcels", {"sender": "ann", "state": "open"}, "GET /1.0/senders/ann/parcels?state=open"),
        ("sendParcel", {"sender": "ann", "number": "4"}, "POST /1.0/senders/ann/parcels/4/send"),
    ],
    "alerts": [
        (
            "post_alerts",
            {"callbackUrl": "https://mine.test/a?b"},
            "POST /alerts?callbackUrl=https%3A%2F%2Fmine.test%2Fa%3Fb",
        ),
    ],
    "versions": [("listVersions", {}, "GET /"), ("showVersion", {}, "GET /v2")],
    "board": [
        ("get-board", {}, "GET /board"),
        ("get-square", {"row": 1, "column": 3}, "GET /board/1/3"),
        ("put-square", {"row": 1, "column": 3, "body": "X"}, 'PUT /board/1/3 "X"'),
    ],
    "members": [
        ("get_members", {}, "GET /members"),
        ("patch_members_id", {"id": "7", "body": {"born": None}}, 'PATCH /members/7 {"born": null}'),
    ],
    "hooks": [],
    "styles": [
        (
            "styled",
            {
                "simple": [1, 2],
                "label": ["a", "b"],
                "matrix": "m",
                "form": ["a", "b"],
                "joined": ["a", "b"],
                "spaces": ["a", "b"],
                "pipes": ["a", "b"],
                "deep": {"a": 1},
                "json": {"k": "v"},
                "X-List": ["a", "b"],
                "session": "s",
            },
            "GET /1,2/.a.b/;matrix=m?form=a&form=b&joined=a,b&spaces=a%20b&pipes=a%7Cb&deep%5Ba%5D=1"
            "&json=%7B%22k%22%3A%22v%22%7D",
        ),
        ("upload", {"body": {"name": "n", "file": "aGk="}}, "POST /files"),
        ("note", {"body": "words"}, "PUT /text words"),
    ],
}


def loaded(name: str, site: Site) -> Toolkit:
    text = (APIS / f"{name}.yaml").read_text("utf-8")
    text = text.replace("{home}", site.url).replace("{where}", urlsplit(site.url).netloc)
    base = None if "\nservers:" in text else site.url
    return Toolkit(cast("list[Tool]", openapi_tools(text, base_url=base)))


@pytest.mark.parametrize("name", CALLS)
async def test_a_whole_document_loads_and_every_tool_of_it_calls(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """[OA-31] 3.0 and 3.1; answers, links, callbacks, webhooks, examples and odd security get in no way."""
    caplog.set_level(logging.ERROR)
    async with asyncio.timeout(20), recording() as site:
        tools = loaded(name, site)
        assert set(tools.names()) == {tool for tool, _, _ in CALLS[name]}
        for tool, arguments, expected in CALLS[name]:
            result = await tools.execute(tool, arguments)
            assert (result.output, result.is_error) == ("fine", False)
            asked = site.last
            assert f"{asked.method} {asked.target} {asked.body.decode()}".strip() == expected
        if name == "board":
            refused = await tools.execute("get-square", {"row": 4, "column": 1})
            assert refused.is_error and len(site.asked) == len(CALLS[name])
    if name == "styles":
        asked = site.asked[0]
        assert (asked.headers["x-list"], asked.cookies) == ("a,b", {"session": "s"})
        assert site.parts == [("name", "n"), ("file", b"hi", "application/octet-stream", "file")]


async def test_a_document_of_webhooks_alone_has_no_tools(caplog: pytest.LogCaptureFixture) -> None:
    """[OA-31] Nobody can call them; a warning says so."""
    assert openapi_tools(APIS / "hooks.yaml") == []
    assert "it has webhooks only, which others call; there are no tools" in caplog.text
