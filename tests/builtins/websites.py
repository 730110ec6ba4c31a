"""Web servers on this machine, and the two ways to fetch from them."""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.builtins.helpers import call
from toolnexus.core.tools import ToolResult
from toolnexus.tools.builtin.fetch import Page, fetch
from toolnexus.tools.builtin.options import OPTIONS, BuiltinOptions

importlib.import_module("toolnexus.tools.builtin.webfetch")  # so that no test measures it

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def site(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """A server whose every path is `handler`; gives its address without a slash at the end."""
    app = web.Application()
    app.router.add_route("*", r"/{path:[\s\S]*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        async with asyncio.timeout(20):
            yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_site(answer: bytes) -> AsyncGenerator[str]:
    """A server that says `answer` to whoever comes, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, asyncio.timeout(20):
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def always(
    body: bytes | str = b"", content_type: str = "text/plain", status: int = 200, **headers: str
) -> Handler:
    """Every request gets this answer; `_` in the name of a header stands for `-`."""
    data = body.encode() if isinstance(body, str) else body
    told = {"Content-Type": content_type, **{k.replace("_", "-"): v for k, v in headers.items()}}

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=data, status=status, headers=told)

    return handler


def streaming(
    chunks: Iterator[bytes], gone: asyncio.Event, *, pause: float = 0, length: int | None = None
) -> Handler:
    """A body in chunks; `gone` is set when the client leaves before its end."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.content_length = length
        try:
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
                await asyncio.sleep(pause)
        except (asyncio.CancelledError, ConnectionError):
            gone.set()
            raise
        return response

    return handler


def endless(chunk: bytes, sent: list[int]) -> Iterator[bytes]:
    """`chunk` again and again; `sent` counts the bytes."""
    while True:
        sent[0] += len(chunk)
        yield chunk


async def webfetch(url: str, **arguments: Any) -> ToolResult:
    """The tool, allowed to reach the servers of this module."""
    options = BuiltinOptions(webfetch_allow=("127.0.0.1",))
    return await call("webfetch", Path.cwd(), host={OPTIONS: options}, url=url, **arguments)


async def fetched(url: str, *, seconds: float = 10, **hosts: str) -> Page:
    """A request with these look-ups (`_` for `.`); `public.test` is allowed, whatever its address."""

    def lookup(host: str) -> list[str]:
        return [hosts[host.replace(".", "_")]]

    return await fetch(url, accept="*/*", seconds=seconds, allow=["public.test"], lookup=lookup)
