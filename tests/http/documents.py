"""Small OpenAPI documents, and calls of their operations on a recording server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.http.site import Site, recording
from toolnexus import Toolkit, ToolResult, openapi_tools


def document(paths: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A document with these paths."""
    return {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": dict(paths), **more}


def operation(*parameters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"operationId": "call", "parameters": list(parameters), "responses": {}, **more}


def parameter(name: str, within: str, schema: Any = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": within, "schema": schema, **more}


def body(kind: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"required": True, "content": {kind: {"schema": schema, **more}}}


class Api:
    """The tools of a document, against a server that writes down what it is asked."""

    def __init__(self, site: Site, tools: Toolkit) -> None:
        self.site = site
        self.tools = tools

    async def tried(self, name: str = "call", /, **arguments: Any) -> ToolResult:
        async with asyncio.timeout(20):
            return await self.tools.execute(name, arguments)

    async def __call__(self, name: str = "call", /, **arguments: Any) -> Site:
        """The site after a call that succeeded."""
        result = await self.tried(name, **arguments)
        assert not result.is_error, result.output
        return self.site


@asynccontextmanager
async def api(
    paths: Mapping[str, Any], more: Mapping[str, Any] | None = None, **options: Any
) -> AsyncGenerator[Api]:
    """The operations of `paths`; `more` goes into the document, `options` to `openapi_tools`."""
    async with recording() as site:
        base = {"base_url": site.url} if "base_url" not in options else {}
        tools = openapi_tools(document(paths, **(more or {})), **base, **options)
        yield Api(site, Toolkit(tools))
