"""A server on this machine that writes down what it was asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.builtins.websites import Handler, always, site


@dataclass
class Asked:
    """One request as the server's own parser understood it."""

    method: str
    target: str
    """Path and query as they came."""
    headers: dict[str, str]
    """Names in lower case."""
    query: list[tuple[str, str]]
    cookies: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """As it came, without the query."""
        return self.target.partition("?")[0]

    @property
    def steps(self) -> list[str]:
        """The steps of the path, decoded one by one."""
        return [unquote(step) for step in self.path.split("/")[1:]]


@dataclass
class Site:
    """The address of a server and what it was asked so far."""

    url: str
    asked: list[Asked] = field(default_factory=list[Asked])
    parts: list[tuple[Any, ...]] = field(default_factory=list[Any])
    """Of multipart bodies: name and text, or name, bytes, content type and filename."""

    @property
    def last(self) -> Asked:
        return self.asked[-1]


@asynccontextmanager
async def recording(handler: Handler | None = None) -> AsyncGenerator[Site]:
    """A server that writes requests down and answers with `handler`, or with `fine`."""
    found: Site | None = None

    async def handle(request: web.Request) -> web.StreamResponse:
        assert found is not None
        multipart = request.content_type == "multipart/form-data"
        if multipart:  # files are gone with the request
            for name, value in (await request.post()).items():
                is_file = isinstance(value, web.FileField)
                found.parts.append(
                    (name, value.file.read(), value.content_type, value.filename)
                    if is_file
                    else (name, value)
                )
        body = b"" if multipart else await request.read()
        found.asked.append(
            Asked(
                request.method,
                request.raw_path,
                {n.lower(): ", ".join(request.headers.getall(n)) for n in request.headers},
                list(request.query.items()),
                dict(request.cookies),
                body,
            )
        )
        return await (handler or always("fine"))(request)

    async with site(handle) as url:
        found = Site(url)
        yield found
